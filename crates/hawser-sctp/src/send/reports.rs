//! Loss detection by missing reports over the whole association, as SCTP was first specified: for
//! experiments.
//!
//! Source: RFC 2960 §7.2, with RFC 4460 §2.8 (which SACKs report a chunk missing) and §2.26 (one
//! reduction for the data in flight: here on each path, since by the paper each has its own window
//! and threshold, §3.3).

use hawser_types::{ByteCount, Instant};
use smallvec::SmallVec;

use super::Outbound;
use super::window::{Status, Transmission};
use crate::LossRule;
use crate::congestion::Lost;
use crate::path::Paths;

impl Outbound {
    /// Tells whether windows may grow with a SACK. `advanced`: it has moved the cumulative TSN.
    pub(super) fn may_grow(&self, advanced: bool) -> bool {
        self.losses == LossRule::PerPath || advanced
    }

    /// Counts a missing report for every unacknowledged chunk before `newest`, the last chunk that
    /// the SACK newly acknowledged. A chunk sent once with enough reports is lost.
    pub(super) fn count_reports(
        &mut self,
        now: Instant,
        advanced: bool,
        newest: Option<u64>,
        paths: &mut Paths,
    ) {
        let (LossRule::Reports { missing }, Some(newest)) = (self.losses, newest) else {
            return;
        };
        let recovers = advanced && newest < self.recovery;
        let end = match self.window.last_acknowledged() {
            Some(last) if recovers => last,
            _ => newest,
        };
        for chunk in self.window.first()..end {
            let Some(record) = self.window.get_mut(chunk) else {
                continue;
            };
            if record.status == Status::Wait && record.send_count == 1 {
                record.reports += 1;
                if record.reports >= missing {
                    self.on_missing(now, chunk, paths);
                }
            }
        }
    }

    /// Marks a chunk as lost. Of the chunks in flight together on a path, the first one reduces the
    /// window.
    fn on_missing(&mut self, now: Instant, chunk: u64, paths: &mut Paths) {
        let Some(record) = self.window.get(chunk) else {
            return;
        };
        let (size, in_flight): (_, SmallVec<[Transmission; 2]>) =
            (record.size(), record.in_flight.clone());
        for transmission in in_flight {
            let Some(path) = paths.path_mut(transmission.path) else {
                continue;
            };
            let sent_at = path.flight.sent_at(transmission.packet);
            path.flight.forget(transmission.packet, size);
            self.window.on_lost(now, chunk, transmission);
            if let Some(newest_sent) = sent_at {
                let bytes = ByteCount::new(size);
                path.on_lost(&Lost {
                    now,
                    bytes,
                    newest_sent,
                });
            }
        }
        if chunk >= self.recovery {
            self.recovery = self.window.end();
        }
    }
}
