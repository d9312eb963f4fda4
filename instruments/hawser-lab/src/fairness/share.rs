//! Two on one link, once.

use std::io;
use std::path::Path;
use std::time::Duration;

use hawser_types::{Instant, Rate};
use serde::Serialize;

use super::options::Options;
use crate::contender::{Contender, Equipment};
use crate::emulator::Watch;
use crate::measure::{Bench, Programs, StepError};
use crate::meter::Congestion;
use crate::scenario::{Direction, Scenario};
use crate::topology::Lab;

/// A contender that shares the link with plain TCP.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair<'a> {
    pub(super) scenario: &'a Scenario,
    pub(super) options: &'a Options,
    pub(super) programs: &'a Programs,
    pub(super) contender: Contender,
    pub(super) beside: Congestion,
    pub(super) direction: Direction,
}

/// Rates of both on the link while both were there, in IP bytes that reached its other end.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Share {
    /// Plain TCP's.
    pub(super) tcp_mbps: f64,
    /// All others' in the transfers' direction.
    pub(super) own_mbps: f64,
    /// Jain's index of these two: 1 when they are equal, 0.5 when one has everything.
    pub(super) jain: f64,
    /// Part of the link's rate that the other one took when plain TCP had ended.
    pub(super) taken_after: f64,
    /// Part of their rates that the other links carried meanwhile, together; none when there are no
    /// others.
    pub(super) others: Option<f64>,
}

impl Pair<'_> {
    /// Plain TCP goes first, the other one joins it, and stays when it ends.
    pub(super) fn measure(&self, place: &Path) -> Result<Share, StepError> {
        std::fs::create_dir_all(place)?;
        let bench = Bench::new(Lab::shaped(self.scenario)?, place)?;
        let session = self.contender.session(&bench, self.programs)?;
        let equipment = Equipment {
            bench: &bench,
            session: session.as_ref(),
            link: self.options.link - 1,
        };
        let span = Duration::from_secs(self.options.seconds);
        let bytes = self.rate() * LEAD + self.rate() * (span / 2);
        let tcp = equipment.order(Contender::Tcp(self.beside), self.direction, bytes);
        // More than it can carry until the end, so that it never ends by itself.
        let limit = LEAD + span * LIMIT;
        let plenty = self.scenario.total_rate(self.direction) * ((limit + AFTER) * 2);
        let own = equipment.order(self.contender, self.direction, plenty);
        let broken = |what: &str| io::Error::other(what.to_owned());
        let emulator = bench.lab().emulator();
        let emulator = emulator.ok_or_else(|| broken("the links are not emulated"))?;
        emulator.watch(tcp.server.port());
        let (joined, ended) = std::thread::scope(|scope| {
            let tcp = scope.spawn(|| {
                let outcome = bench.transfer(&tcp, limit, &[]);
                outcome.map(|_| emulator.now())
            });
            std::thread::sleep(LEAD);
            let mut own = bench.start_transfer(&own)?;
            let joined = emulator.now();
            let ended = tcp.join();
            let ended = ended.map_err(|_| broken("the transfer's thread failed"))??;
            std::thread::sleep(AFTER);
            own.check_alive()?;
            Ok::<_, StepError>((joined, ended))
        })?;
        let watch = emulator.end_watch();
        let watch = watch.ok_or_else(|| broken("another watch has replaced this one"))?;
        Ok(self.share(&watch, joined, ended))
    }

    fn share(&self, watch: &Watch, joined: Instant, ended: Instant) -> Share {
        let both = joined + SETTLING..ended - SETTLING / 4;
        let after = ended + SETTLING / 2..ended + AFTER;
        let carried = |link, time| watch.rates(link, self.direction, time);
        let link = self.options.link - 1;
        let others = (0..self.scenario.links.len()).filter(|other| *other != link);
        let (mut elsewhere, mut possible) = (0.0, 0.0);
        for other in others {
            elsewhere += carried(other, both.clone()).sum();
            possible += self.line_rate(other);
        }
        let rates = carried(link, both);
        Share {
            tcp_mbps: rates.watched * 8e-6,
            own_mbps: rates.others * 8e-6,
            jain: jain(rates.watched, rates.others),
            taken_after: carried(link, after).sum() / self.line_rate(link),
            others: (possible > 0.0).then(|| elsewhere / possible),
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

/// Jain's index of two.
fn jain(a: f64, b: f64) -> f64 {
    let squares = 2.0 * (a * a + b * b);
    if squares > 0.0 {
        (a + b) * (a + b) / squares
    } else {
        0.0
    }
}

/// Time for which plain TCP has the link alone.
const LEAD: Duration = Duration::from_secs(2);
/// Until both have found their rates.
const SETTLING: Duration = Duration::from_secs(2);
/// Time for which the other one is watched when plain TCP has ended.
const AFTER: Duration = Duration::from_secs(4);
/// Most time that plain TCP may take, as a multiple of its need at an equal share.
const LIMIT: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_is_one_for_equals_and_a_half_when_one_has_all() {
        assert_eq!(jain(3.0, 3.0), 1.0);
        assert_eq!(jain(0.0, 3.0), 0.5);
        assert!((jain(2.0, 3.0) - 25.0 / 26.0).abs() < 1e-12);
    }
}
