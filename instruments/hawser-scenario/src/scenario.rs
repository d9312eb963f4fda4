use std::time::Duration;

use hawser_types::{ByteCount, Rate};

use crate::{Direction, Link, Workload};

/// A set of links, the payload of one transfer over all of them, and the events during it.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// The file's name without its ending.
    pub name: String,
    /// One line for `hawser-lab list`.
    pub summary: String,
    /// Payload of one transfer over all links.
    pub payload: ByteCount,
    /// Directions measured by default.
    pub directions: Vec<Direction>,
    /// Seed of the random numbers of loss, jitter and service.
    pub seed: u64,
    /// The links, in order: link 1 is `l1`.
    pub links: Vec<Link>,
    /// Events during a transfer, in order of time.
    pub events: Vec<Event>,
    /// Link that all others share in front of the server; `None` for one without limits.
    pub server: Option<Link>,
    /// Connections that begin and end, for experiments that use them.
    pub workload: Option<Workload>,
}

/// One of the scenarios of a file with a sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The key that differs, as in the file; empty without a sweep.
    pub key: String,
    /// Value of that key.
    pub value: String,
    /// The scenario with that value.
    pub scenario: Scenario,
}

/// An event on a link during a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Time since the transfer began.
    pub at: Duration,
    /// Index of the link, from 0.
    pub link: usize,
    /// Effect on the link.
    pub action: Action,
}

/// Effect of an event on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Every packet is dropped silently, both ways.
    BlackHole,
    /// The black hole ends.
    Pass,
    /// The client's interface loses its carrier.
    CarrierDown,
    /// The carrier is back.
    CarrierUp,
    /// The client's address on the link is replaced by another of the same subnet.
    AddressChange,
}

impl Scenario {
    /// Returns the sum of the links' mean rates in one direction.
    pub fn total_rate(&self, direction: Direction) -> Rate {
        self.links.iter().map(|l| l.line(direction).rate).sum()
    }

    /// Returns the part of the payload that loads link `index` alone for as long as the whole loads
    /// all links, so that start-up costs weigh the same on both.
    pub fn single_payload(&self, index: usize, direction: Direction) -> ByteCount {
        let all = self.total_rate(direction).bytes_per_second();
        let Some(link) = self.links.get(index) else {
            return self.payload;
        };
        let own = link.line(direction).rate.bytes_per_second();
        let bytes = u128::from(self.payload.as_u64()) * u128::from(own);
        let share = u64::try_from(bytes / u128::from(all.max(1))).unwrap_or(u64::MAX);
        ByteCount::new(share).max(MIN_SINGLE_PAYLOAD)
    }
}

/// Minimum payload: a smaller transfer measures connection setup rather than a link.
const MIN_SINGLE_PAYLOAD: ByteCount = ByteCount::from_kib(64);
/// Maximum number of links; more are a mistake in the file.
pub const MAX_LINKS: usize = 16;
