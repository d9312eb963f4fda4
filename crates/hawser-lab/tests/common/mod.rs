//! What tests on the real kernel have in common.

use std::io::Write;
use std::process::Command;

use hawser_lab::netns::NetNs;

/// Whether labs can be made here; where not, `test` is recorded as skipped.
pub(crate) fn can_make_labs(test: &str) -> bool {
    // Root only: a user namespace can be entered by a process with one thread alone.
    if let Err(reason) = NetNs::create() {
        skip(test, &format!("no network namespace here: {reason}"));
        return false;
    }
    if let Err(reason) = Command::new("ip").arg("-V").output() {
        skip(test, &format!("no `ip` program: {reason}"));
        return false;
    }
    true
}

fn skip(test: &str, reason: &str) {
    let line = format!("SKIPPED: lab::{test}: {reason}\n");
    eprint!("{line}");
    if let Some(log) = std::env::var_os("HAWSER_SKIP_LOG") {
        let file = std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(log);
        file.unwrap().write_all(line.as_bytes()).unwrap();
    }
}
