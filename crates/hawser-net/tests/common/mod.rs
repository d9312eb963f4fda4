//! A client and a gateway on loopback, with real sockets and real TLS, and forwarders between them
//! that simulate network faults.
#![allow(dead_code, unused_imports, reason = "each test binary uses its part")]

mod forwarder;
mod pair;
mod pattern;

pub(crate) use forwarder::{Forwarder, Kind, Pipe, Way};
pub(crate) use pair::{Door, Pair, PairOptions, channels, echo_checked, link};
pub(crate) use pattern::{Checked, read_checked, write_pattern};

use std::future::Future;
use std::time::Duration;

/// No step of a test takes this long unless it hangs.
pub(crate) const LONG: Duration = Duration::from_secs(120);

/// Runs `work`, and fails if it hangs.
pub(crate) async fn in_time<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, work).await.expect("it hangs")
}

/// Waits until `condition` holds.
pub(crate) async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let waiting = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    if tokio::time::timeout(LONG, waiting).await.is_err() {
        panic!("in vain: {what}");
    }
}
