//! The `ip` program, run in batches inside a namespace.

use std::io::{self, Write};
use std::process::Stdio;

use crate::netns::NetNs;

/// Commands that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IpError {
    /// There is no `ip` program.
    #[error("the program `ip` is missing: install the package iproute2 (or iproute)")]
    Missing,
    /// It cannot be run.
    #[error("cannot run `ip`: {0}")]
    Run(#[from] io::Error),
    /// It refused a command.
    #[error("ip refused: {0}")]
    Refused(String),
}

/// Runs each line as arguments of `ip`, in order, until one fails.
pub fn batch(namespace: &NetNs, lines: &[String]) -> Result<(), IpError> {
    let mut child = namespace
        .command("ip")
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => IpError::Missing,
            _ => IpError::Run(error),
        })?;
    if let Some(mut stdin) = child.stdin.take() {
        // A refusal closes the pipe early; the reason then stands on its standard error.
        let _ = stdin.write_all((lines.join("\n") + "\n").as_bytes());
    }
    let output = child.wait_with_output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr)
        .trim()
        .replace('\n', "; ");
    Err(IpError::Refused(match refused_line(&said, lines) {
        Some(line) => format!("`ip {line}`: {said}"),
        None => said,
    }))
}

/// The line that the message `Command failed -:3` points at.
fn refused_line<'a>(said: &str, lines: &'a [String]) -> Option<&'a str> {
    let (_, number) = said.rsplit_once("-:")?;
    let number: usize = number.trim().parse().ok()?;
    lines.get(number.checked_sub(1)?).map(String::as_str)
}
