//! Two on one link, once.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use hawser_types::{ByteCount, Rate};
use serde::Serialize;

use super::Options;
use crate::carrier::{Carrier, Ways};
use crate::emulator::LinkBytes;
use crate::measure::{Bench, StepError, TCP_SHARE};
use crate::meter::{BIN, Congestion, Outcome};
use crate::scenario::{Direction, Scenario};
use crate::topology::Lab;

/// Who shares the link with plain TCP.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) options: &'a Options,
    pub(super) carrier: Carrier,
    pub(super) beside: Congestion,
    pub(super) direction: Direction,
}

/// What each had of the link while both were there. Rates count IP packets.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Share {
    /// Plain TCP's.
    pub(super) tcp_mbps: f64,
    /// What else the link carried in the transfers' direction.
    pub(super) own_mbps: f64,
    /// Of these two: 1 when they are the same, 0.5 when one has all.
    pub(super) jain: f64,
    /// How much of the link's rate the other one took when plain TCP had ended.
    pub(super) taken_after: f64,
    /// How much of their rates the other links carried meanwhile, together; nothing when there is none.
    pub(super) others: Option<f64>,
}

/// What every link had carried by some time, again and again.
type Record = Vec<(Instant, Vec<LinkBytes>)>;

impl Pair<'_> {
    /// Plain TCP goes first, the other one joins it, and stays when it ends.
    pub(super) fn measure(&self, place: &Path) -> Result<Share, StepError> {
        std::fs::create_dir_all(place)?;
        let bench = Bench::new(Lab::shaped(self.scenario)?, place)?;
        let session = self.carrier.session(&bench, &self.options.hawser)?;
        let ways = Ways {
            bench: &bench,
            session: session.as_ref(),
            link: self.options.link - 1,
        };
        let span = self.options.span;
        let bytes = self.rate() * LEAD + self.rate() * (span / 2);
        let tcp = ways.order(Carrier::Tcp(self.beside), self.direction, bytes);
        // More than it can carry until the end, so that it never ends by itself.
        let limit = LEAD + span * LIMIT;
        let plenty = self.scenario.total_rate(self.direction) * ((limit + AFTER) * 2);
        let own = ways.order(self.carrier, self.direction, plenty);
        let start = Instant::now();
        let (joined, outcome, record) = std::thread::scope(|scope| {
            let tcp = scope.spawn(|| {
                let outcome = bench.transfer(&tcp, limit, &[]);
                (outcome, Instant::now())
            });
            std::thread::sleep(LEAD);
            let mut own = bench.start_transfer(&own)?;
            let joined = Instant::now();
            let mut record = Record::new();
            let mut rest = AFTER;
            while !tcp.is_finished() || !rest.is_zero() {
                if tcp.is_finished() {
                    rest = rest.saturating_sub(STEP);
                }
                record.push((Instant::now(), bench.lab().carried()));
                std::thread::sleep(STEP);
            }
            own.check_alive()?;
            let broken = || io::Error::other("the transfer's thread failed");
            let (outcome, ended) = tcp.join().map_err(|_| broken())?;
            Ok::<_, StepError>((joined, outcome.map(|outcome| (outcome, ended))?, record))
        })?;
        let (outcome, ended) = outcome;
        let both = (joined + SETTLING, ended - SETTLING / 4);
        Ok(self.share(&outcome, start, &record, both, ended))
    }

    fn share(
        &self,
        tcp: &Outcome,
        start: Instant,
        record: &Record,
        both: (Instant, Instant),
        ended: Instant,
    ) -> Share {
        let began = start + Duration::from_secs_f64(tcp.connect_seconds);
        let tcp_rate = timeline_rate(tcp, began, both) / TCP_SHARE;
        let link = self.options.link - 1;
        let others = (0..self.scenario.links.len()).filter(|other| *other != link);
        let (mut carried, mut possible) = (0.0, 0.0);
        for other in others {
            carried += self.carried(record, other, both);
            possible += self.line_rate(other);
        }
        let own_rate = (self.carried(record, link, both) - tcp_rate).max(0.0);
        let after = (ended + SETTLING / 2, ended + AFTER);
        Share {
            tcp_mbps: tcp_rate * 8e-6,
            own_mbps: own_rate * 8e-6,
            jain: jain(tcp_rate, own_rate),
            taken_after: self.carried(record, link, after) / self.line_rate(link),
            others: (possible > 0.0).then(|| carried / possible),
        }
    }

    /// Bytes a second that a link carried in the transfers' direction.
    fn carried(&self, record: &Record, link: usize, (from, until): (Instant, Instant)) -> f64 {
        let within: Vec<_> = record
            .iter()
            .filter(|(at, _)| *at >= from && *at <= until)
            .collect();
        let (Some((first, before)), Some((last, after))) = (within.first(), within.last()) else {
            return 0.0;
        };
        let (Some(before), Some(after)) = (before.get(link), after.get(link)) else {
            return 0.0;
        };
        let carried = after.since(*before);
        let bytes = match self.direction {
            Direction::Put => carried.up,
            Direction::Get => carried.down,
        };
        let seconds = last.duration_since(*first).as_secs_f64();
        if seconds > 0.0 {
            bytes as f64 / seconds
        } else {
            0.0
        }
    }

    fn rate(&self) -> Rate {
        let link = &self.scenario.links[self.options.link - 1];
        link.line(self.direction).rate
    }

    fn line_rate(&self, link: usize) -> f64 {
        let line = self.scenario.links[link].line(self.direction);
        line.rate.bytes_per_second() as f64
    }
}

/// Bytes of payload a second that came in this time, by the receiver's timeline that began at `began`.
fn timeline_rate(outcome: &Outcome, began: Instant, (from, until): (Instant, Instant)) -> f64 {
    let bin = |at: Instant| {
        let bins = at.saturating_duration_since(began).as_millis() / BIN.as_millis();
        usize::try_from(bins).unwrap_or(usize::MAX)
    };
    let last = bin(until).min(outcome.timeline.len());
    let bins = outcome.timeline.get(bin(from)..last).unwrap_or_default();
    let seconds = bins.len() as f64 * BIN.as_secs_f64();
    let bytes: ByteCount = bins.iter().copied().map(ByteCount::new).sum();
    if seconds > 0.0 {
        bytes.as_u64() as f64 / seconds
    } else {
        0.0
    }
}

/// Jain's index of two.
fn jain(a: f64, b: f64) -> f64 {
    let squares = 2.0 * (a * a + b * b);
    if squares > 0.0 {
        (a + b) * (a + b) / squares
    } else {
        0.0
    }
}

/// How long plain TCP has the link alone.
const LEAD: Duration = Duration::from_secs(2);
/// Until both have found their rates.
const SETTLING: Duration = Duration::from_secs(2);
/// How long the other one is watched when plain TCP has ended.
const AFTER: Duration = Duration::from_secs(4);
/// So many times what it needs at an equal share is what plain TCP may take.
const LIMIT: u32 = 8;
const STEP: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_is_one_for_equals_and_a_half_when_one_has_all() {
        assert_eq!(jain(3.0, 3.0), 1.0);
        assert_eq!(jain(0.0, 3.0), 0.5);
        assert!((jain(2.0, 3.0) - 25.0 / 26.0).abs() < 1e-12);
    }

    #[test]
    fn a_rate_is_that_of_the_bins_in_its_time() {
        let began = Instant::now();
        let outcome = Outcome {
            timeline: [vec![0; 20], vec![100; 20], vec![0; 20]].concat(),
            ..Outcome::default()
        };
        let at = |ms| began + Duration::from_millis(ms);
        assert_eq!(timeline_rate(&outcome, began, (at(1000), at(2000))), 2000.0);
        assert_eq!(timeline_rate(&outcome, began, (at(500), at(1500))), 1000.0);
        assert_eq!(timeline_rate(&outcome, began, (at(9000), at(9900))), 0.0);
    }
}
