//! Announcements of bonding in TCP handshakes: runs the programs in the kernel that make and read
//! them, at the client and at the server.
//!
//! The protocol, §16, defines the bytes; `docs/design/handshake.md` explains the design.

pub(crate) mod announcing;
pub(crate) mod answering;
mod diverting;

use std::collections::BTreeMap;

use hawser_capture::{CaptureError, DiscoveryCounts};
use hawser_link::links::Link;

/// Adds the counters of the programs in the kernel to a list, each name prefixed with `prefix`.
fn list_counts(
    list: &mut BTreeMap<String, u64>,
    prefix: &str,
    counts: Result<DiscoveryCounts, CaptureError>,
) {
    let counts = match counts {
        Ok(counts) => counts,
        Err(error) => return tracing::debug!(%error, "can't read the handshake counters"),
    };
    for (name, count) in [
        ("asked", counts.asked),
        ("answered", counts.answered),
        ("unanswered", counts.unanswered),
        ("diverted", counts.diverted),
        ("no-room", counts.no_room),
        ("lost-events", counts.lost_events),
    ] {
        list.insert(format!("{prefix}-{name}"), count);
    }
}

/// Returns the number of links for the TCP option: the usable ones, at least one.
fn interfaces<'a>(links: impl IntoIterator<Item = &'a Link>) -> u8 {
    let usable = links.into_iter().filter(|it| it.why_unusable().is_none());
    u8::try_from(usable.count())
        .unwrap_or(u8::MAX)
        .clamp(1, MOST)
}

/// Largest number of links that the paper's form of the option can express.
const MOST: u8 = 99;

#[cfg(test)]
mod tests {
    use hawser_types::LinkIndex;

    use super::*;

    #[test]
    fn links_that_can_not_be_used_do_not_count_and_there_is_one_at_least() {
        let link = |up| Link {
            up,
            enabled: true,
            addresses: vec!["192.0.2.1".parse().unwrap()],
            ..Link::new(LinkIndex::new(2), "up1")
        };
        assert_eq!(interfaces(&[]), 1);
        assert_eq!(interfaces(&[link(true), link(false), link(true)]), 2);
        assert_eq!(interfaces(&vec![link(true); 300]), 99);
        let loopback = Link::loopback("127.0.0.1".parse().unwrap());
        assert_eq!(interfaces(&[loopback, link(true), link(true)]), 2);
    }
}
