//! Helpers for tests on the real kernel.

use hawser_lab::netns::NetNs;
use hawser_skip::namespace::no_ip;

/// Whether labs can be made here; where not, `test` is recorded as skipped.
pub(crate) fn can_make_labs(test: &str) -> bool {
    // Root only: a user namespace can be entered by a process with one thread alone.
    if let Err(reason) = NetNs::create() {
        skip(test, &format!("no network namespace here: {reason}"));
        return false;
    }
    if let Some(reason) = no_ip() {
        skip(test, &reason);
        return false;
    }
    true
}

fn skip(test: &str, reason: &str) {
    hawser_skip::skip(&format!("lab::{test}"), reason);
}
