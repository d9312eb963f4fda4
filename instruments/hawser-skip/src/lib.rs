//! For tests only: reports of tests that cannot run on this machine; network namespaces, with name
//! servers, for tests that need their own interfaces, in which TCP segments are captured and sent
//! by hand; folders whose logs outlive a test that fails; and ports that are kept closed.
//!
//! - [`skip`] (this file): a test that lacks something passes, and says so in a line that
//!   `cargo xtask test` lists.
//! - [`namespace::in_namespace`]: runs a test as root of a network of its own, or reports it as
//!   skipped; [`name_server`]: a server of names in it.
//! - [`wire`]: segments that are captured (`wire/segment.rs`), and sent as no kernel would
//!   (`wire/by_hand.rs`).
//! - [`TestFolder`]: a folder for one test, which keeps the logs of its programs if it fails.
//! - [`replay`]: the files of a fuzzer's corpus.
//! - [`ClosedPort`]: a port at which nothing listens, for as long as it lives.
//!
//! A test that needs interfaces puts its body into [`namespace::in_namespace`]; one that needs a
//! program calls [`skip`] with the reason where that is missing.
#![forbid(unsafe_code)]

mod closed_port;
mod corpus;
mod folder;
pub mod name_server;
pub mod namespace;
pub mod wire;

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::Path;

pub use closed_port::ClosedPort;
pub use corpus::replay;
pub use folder::TestFolder;

/// Reports that `test`, as `crate::test`, passes without having tested anything, and why.
///
/// One line goes to the file that the environment variable `HAWSER_SKIP_LOG` names, where
/// `cargo xtask test` counts it; without the variable, to standard error.
///
/// # Panics
///
/// Panics if the file cannot be written: the test would count as passed.
pub fn skip(test: &str, reason: &str) {
    let line = format!("SKIPPED: {test}: {reason}\n");
    match std::env::var_os("HAWSER_SKIP_LOG") {
        Some(log) => append(log.as_ref(), &line).expect("what is skipped can be written down"),
        None => eprint!("{line}"),
    }
}

/// One small write in append mode, so that lines of concurrent tests do not mix.
fn append(log: &Path, line: &str) -> io::Result<()> {
    let mut log = OpenOptions::new().create(true).append(true).open(log)?;
    log.write_all(line.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_several_tests_stand_below_one_another() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("skipped.log");
        append(&log, "SKIPPED: a::b: no c here\n").unwrap();
        append(&log, "SKIPPED: d::e: no f here\n").unwrap();
        let text = std::fs::read_to_string(&log).unwrap();
        assert_eq!(text, "SKIPPED: a::b: no c here\nSKIPPED: d::e: no f here\n");
        assert!(append(folder.path(), "").is_err());
    }
}
