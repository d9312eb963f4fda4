use std::collections::VecDeque;
use std::time::Duration;

use hawser_types::{ByteCount, ChannelId, Instant, LinkIndex, Rate};
use hawser_wire::PathReport;

use crate::snapshot::PeerView;

/// Notices between the two ends on channels: which are silent, what queues, what came.
///
/// Source: DBAS §II.C, estimates of a route with the peer's help.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    /// Notices to send on this channel, about others.
    due: VecDeque<Notice>,
    reported: Reported,
    /// The channel as the peer last saw it.
    peer: Option<PeerView>,
}

/// A message about a channel or a link, which goes over other links' channels too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notice {
    /// State of the channel, as this side sees it.
    Report(ChannelId),
    /// Number of its records that came.
    Ack(ChannelId),
    /// Size of the segments that do not arrive over a link.
    SegmentsLost(LinkIndex),
}

/// The latest report on a channel: its time, and what the channel had carried by then.
#[derive(Clone, Copy, Debug, Default)]
struct Reported {
    at: Instant,
    carried: u64,
    received: u64,
}

impl Notices {
    /// Sends a notice with the next record. True unless it is due already.
    pub(crate) fn push(&mut self, notice: Notice) -> bool {
        let is_new = !self.due.contains(&notice);
        if is_new {
            self.due.push_back(notice);
        }
        is_new
    }

    /// True if a notice is due.
    pub(crate) fn is_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// True if a notice is due that has to go in a record of its own: a full segment would be lost.
    pub(crate) fn is_due_alone(&self) -> bool {
        let is_short = |notice: &Notice| matches!(notice, Notice::SegmentsLost(_));
        self.due.iter().any(is_short)
    }

    /// Takes out the oldest notice that is due.
    pub(crate) fn pop(&mut self) -> Option<Notice> {
        self.due.pop_front()
    }

    /// Returns the channel as the peer last saw it; `None` until it has said so.
    pub(crate) fn peer(&self) -> Option<PeerView> {
        self.peer
    }

    /// Takes in a report of the peer. False if a newer one came before.
    pub(crate) fn on_report(&mut self, report: &PathReport) -> bool {
        let stamp = stamp_of(report);
        if self.peer.is_some_and(|known| known.stamp >= stamp) {
            return false;
        }
        self.peer = Some(PeerView {
            stamp,
            silent: report.silent,
            queue: report.queue.map(Duration::from_micros),
            rate: Rate::from_bytes_per_second(report.rate),
        });
        true
    }

    /// True if it is time for a report on this channel. `carried`: payload that went over it, both
    /// ways.
    pub(super) fn wants_report(&self, now: Instant, carried: u64) -> bool {
        let Reported {
            at, carried: known, ..
        } = self.reported;
        now.since(at) >= REPORT_EVERY && carried - known >= REPORT_AFTER
    }

    /// Notes that the channel is reported on now. Returns the rate at which payload came since the
    /// report before.
    pub(super) fn on_reported(&mut self, now: Instant, carried: u64, received: u64) -> Rate {
        let reported = Reported {
            at: now,
            carried,
            received,
        };
        let before = std::mem::replace(&mut self.reported, reported);
        match before.at {
            Instant::ZERO => Rate::ZERO,
            at => Rate::over(ByteCount::new(received - before.received), now.since(at)),
        }
    }
}

/// Returns the time of a report, by the peer's clock.
pub(crate) fn stamp_of(report: &PathReport) -> Instant {
    Instant::from_nanos(report.stamp.saturating_mul(1000))
}

/// Least time between two reports on a channel that carries something.
const REPORT_EVERY: Duration = Duration::from_millis(100);
/// Least payload between two reports. A report is some twenty bytes, and should take a thousandth
/// of a slow link at most.
const REPORT_AFTER: u64 = 20_000;
