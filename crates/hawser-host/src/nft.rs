//! nftables tables, managed by running `nft`.

use std::io::{self, Read as _, Write as _};
use std::process::{Command, Stdio};

/// Why a run of `nft` failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NftError {
    /// `nft` is missing.
    #[error("cannot run nft, which the package nftables has: {0}")]
    Missing(io::Error),
    /// The guard that should run `nft` has ended.
    #[error("cannot tell the guard: {0}")]
    NoGuard(io::Error),
    /// `nft` refuses.
    #[error("nft refuses: {0}")]
    Refused(String),
}

/// Checks whether `nft` would accept the script.
pub(crate) fn check(script: &str) -> Result<(), NftError> {
    run(&["-c", "-f", "-"], script).map(drop)
}

/// Executes the script as a whole, or none of it.
pub(crate) fn apply(script: &str) -> Result<(), NftError> {
    run(&["-f", "-"], script).map(drop)
}

/// Returns the table `inet NAME` as text, without the elements of its sets; `None` if missing.
pub(crate) fn list(name: &str) -> Result<Option<String>, NftError> {
    match run(&["-t", "list", "table", "inet", name], "") {
        Ok(text) => Ok(Some(text)),
        Err(NftError::Refused(said)) if said.contains(NO_SUCH_TABLE) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the packet count of the counter NAME of the table `inet TABLE`.
pub(crate) fn counted(table: &str, name: &str) -> Result<u64, NftError> {
    let text = run(&["list", "counter", "inet", table, name], "")?;
    let mut words = text.split_whitespace().skip_while(|it| *it != "packets");
    let count = words.nth(1).and_then(|it| it.parse().ok());
    count.ok_or_else(|| NftError::Refused(first_line(&text)))
}

/// Returns all tables as JSON, without the elements of their sets.
pub(crate) fn list_all() -> Result<String, NftError> {
    run(&["-j", "-t", "list", "ruleset"], "")
}

/// Names other programs' chains that drop forwarded packets unless they have a rule for them, as
/// Docker's do. A packet passes only if every chain accepts it, so Hawser's rules cannot help.
pub(crate) fn dropping_chains() -> Result<Vec<String>, NftError> {
    Ok(forward_drops(&run(&["list", "chains"], "")?))
}

/// Reads the list of chains.
fn forward_drops(listed: &str) -> Vec<String> {
    let (mut table, mut chain, mut found) = ("", "", Vec::new());
    for line in listed.lines().map(str::trim) {
        let name = |kind: &str| line.strip_prefix(kind)?.strip_suffix(" {");
        if let Some(name) = name("table ") {
            table = name;
        } else if let Some(name) = name("chain ") {
            chain = name;
        } else if line.contains(" hook forward ") && line.ends_with("policy drop;") {
            found.push(format!("{table} {chain}"));
        }
    }
    // Hawser's own tables accept what they are for.
    found.retain(|name| !name.starts_with("inet hawser_"));
    found
}

/// Runs `nft` and returns its output.
fn run(arguments: &[&str], input: &str) -> Result<String, NftError> {
    let mut nft = Command::new(NFT)
        .args(arguments)
        .env("LC_ALL", "C")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(NftError::Missing)?;
    // `nft` reads all input before it prints anything.
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

/// Name of the nftables program.
pub(crate) const NFT: &str = "nft";
/// The kernel's error, in the words of the C library.
const NO_SUCH_TABLE: &str = "No such file or directory";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_of_others_that_drop_what_is_forwarded_are_found() {
        let listed = "table ip filter {\n\tchain INPUT {\n\
                      \t\ttype filter hook input priority filter; policy drop;\n\t}\n\
                      \tchain FORWARD {\n\
                      \t\ttype filter hook forward priority filter; policy drop;\n\t}\n\
                      \tchain DOCKER-USER {\n\t}\n}\n\
                      table inet libvirt {\n\tchain forward {\n\
                      \t\ttype filter hook forward priority filter; policy accept;\n\t}\n}\n\
                      table inet hawser_kill_switch {\n\tchain passing {\n\
                      \t\ttype filter hook forward priority 100; policy drop;\n\t}\n}\n";
        assert_eq!(forward_drops(listed), ["ip filter FORWARD"]);
        assert_eq!(forward_drops(""), [""; 0]);
    }
}
