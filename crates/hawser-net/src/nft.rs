//! Tables of nftables, by its own program.

use std::io::{self, Read as _, Write as _};
use std::process::{Command, Stdio};

/// Why `nft` has not done what it was to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NftError {
    /// It is missing.
    #[error("cannot run nft, which the package nftables has: {0}")]
    Missing(io::Error),
    /// The guard that was to do it is gone.
    #[error("cannot tell the guard: {0}")]
    NoGuard(io::Error),
    /// It refuses.
    #[error("nft refuses: {0}")]
    Refused(String),
}

/// Asks `nft` whether it would take the script.
pub(crate) fn check(script: &str) -> Result<(), NftError> {
    run(&["-c", "-f", "-"], script).map(drop)
}

/// Executes the script as a whole, or nothing of it.
pub(crate) fn apply(script: &str) -> Result<(), NftError> {
    run(&["-f", "-"], script).map(drop)
}

/// The table `inet NAME` as text, without the elements of its sets; `None`: there is none.
pub(crate) fn list(name: &str) -> Result<Option<String>, NftError> {
    match run(&["-t", "list", "table", "inet", name], "") {
        Ok(text) => Ok(Some(text)),
        Err(NftError::Refused(said)) if said.contains(NO_SUCH_TABLE) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns what `nft` prints.
fn run(arguments: &[&str], input: &str) -> Result<String, NftError> {
    let mut nft = Command::new(NFT)
        .args(arguments)
        .env("LC_ALL", "C")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(NftError::Missing)?;
    // It reads all of it before it says anything.
    let given = nft
        .stdin
        .take()
        .map(|mut it| it.write_all(input.as_bytes()));
    let (mut printed, mut said) = (String::new(), String::new());
    let read = nft
        .stdout
        .take()
        .map(|mut it| it.read_to_string(&mut printed));
    if let Some(errors) = &mut nft.stderr {
        let _ = errors.read_to_string(&mut said);
    }
    let is_done = nft.wait().is_ok_and(|status| status.success());
    match (is_done, given, read) {
        (true, Some(Ok(())), Some(Ok(_))) => Ok(printed),
        _ => Err(NftError::Refused(first_line(&said))),
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().trim().to_owned()
}

/// The program that knows nftables.
pub(crate) const NFT: &str = "nft";
/// The kernel's answer, in the words of the C library.
const NO_SUCH_TABLE: &str = "No such file or directory";
