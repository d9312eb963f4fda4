//! A driver's reports on an association, and the session's answers.

use std::time::Duration;

use hawser_path::KernelSample;
use hawser_sched::tally::Placed;
use hawser_types::{ByteCount, LinkIndex, Rate};

/// State of an association at one moment.
#[derive(Clone, Copy, Debug)]
pub struct AssociationSample<'a> {
    /// Paths of the association.
    pub paths: &'a [PathSample],
    /// Placements of the association on links since the last sample, and their reasons.
    pub placed: &'a [Placed],
    /// Payload of messages that the association took and that are neither acknowledged nor given
    /// up, those that wait included.
    pub unacknowledged: ByteCount,
    /// Part of `unacknowledged` that no packet has carried yet.
    pub queued: ByteCount,
    /// Time since the peer last acknowledged anything; since the beginning where it has not.
    pub since_ack: Duration,
    /// Payload that the association sent over two paths at once so far, as
    /// [`Outgoing::duplicate`](crate::Outgoing::duplicate) asked, as far as the session's budget
    /// pays for it.
    pub duplicated: ByteCount,
    /// Payload of all copies that the association sent so far of what was in flight.
    pub copied: ByteCount,
    /// No path carries the packet that the peer waits for, since routes have changed.
    pub is_stuck: bool,
}

/// One path of an association.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathSample {
    /// The client's link below the path; [`LinkIndex::ALL`] where that is not known.
    pub link: LinkIndex,
    /// The path answers.
    pub is_active: bool,
    /// The path is silent against expectation.
    pub is_suspect: bool,
    /// Smoothed round-trip time; `None` before the first sample.
    pub rtt: Option<Duration>,
    /// Minimum round-trip time of the last one to two minutes; `None` before the first sample.
    pub min_rtt: Option<Duration>,
    /// Delivery rate; zero while unknown.
    pub rate: Rate,
    /// Congestion window.
    pub window: ByteCount,
    /// Bytes in flight.
    pub in_flight: ByteCount,
    /// Bytes of datagrams sent over the path since it began.
    pub sent: ByteCount,
    /// Bytes of datagrams received over the path since it began.
    pub received: ByteCount,
    /// Packets sent over the path since it began.
    pub packets: u64,
    /// Packets with data that counted as lost because later ones arrived, since the path began.
    pub overtaken: u64,
}

/// Data that waits behind the records which an association has. An association is given no more
/// than leaves at once, so this is what its choice of paths depends on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamBacklog {
    /// Bytes of the streams whose turn comes next.
    pub bytes: ByteCount,
    /// An application writes as fast as it may, so that `bytes` is not all.
    pub more: bool,
}

impl PathSample {
    /// True if the path answers and is not silent.
    pub(crate) const fn is_sound(&self) -> bool {
        self.is_active && !self.is_suspect
    }
}

impl AssociationSample<'_> {
    /// Returns the association as one connection: its paths together.
    pub(crate) fn as_one_connection(&self) -> KernelSample {
        let any = self.paths.iter().any(PathSample::is_sound);
        let used = || {
            let paths = self.paths.iter();
            paths.filter(move |path| !any || path.is_sound())
        };
        let rtt = used().filter_map(|path| path.rtt).min();
        let rtt = rtt.unwrap_or_default();
        // Data on the longest path is acknowledged last, which explains a silence.
        let busy = used().filter(|path| path.in_flight > ByteCount::ZERO);
        let longest = busy.filter_map(|path| path.rtt).max();
        KernelSample {
            rtt,
            rtt_variation: longest.unwrap_or_default().saturating_sub(rtt) / 4,
            delivery_rate: used().map(|path| path.rate).sum(),
            congestion_window: ByteCount::new(used().map(|path| path.window.as_u64()).sum()),
            unacknowledged: self.unacknowledged,
            not_sent: Some(self.queued.min(self.unacknowledged)),
            since_ack: self.since_ack,
            ..KernelSample::default()
        }
    }
}
