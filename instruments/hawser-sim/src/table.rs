//! Reports as text.

mod association;
mod mptcp;
mod transports;

use std::fmt::{self, Display};

use hawser_scenario::dying::Shown;
use hawser_scenario::promise::{FIRST_BYTE, FULL_RATE};

use crate::experiment::{Single, Transfer, TransferReport};
use crate::failover::FailoverReport;
use crate::fairness::{self, FairnessReport};
use crate::hunt::{self, Finding};
use crate::objects::ObjectReport;

pub use association::{Comparisons, DelayTable};
pub use mptcp::BesideMptcp;
pub use transports::Transports;

/// Reports, one a line, with a heading.
#[derive(Debug)]
pub struct Table<'a>(pub &'a [TransferReport]);

impl Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<20} {:<4} {:>9} {:>9} {:>9} {:>9} {:>6} {:>6} {:>6} {:>8} {:>8} {:>8} {:>6}",
            "scenario",
            "",
            "sum",
            "best",
            "first",
            "warm",
            "/sum",
            "/sum",
            "gap",
            "waiting",
            "twice",
            "again",
            "ticks"
        )?;
        for report in self.0 {
            let first = report.transfers.first();
            let warm = report.transfers.get(1);
            let all = |count: fn(&Transfer) -> u64| report.transfers.iter().map(count).max();
            writeln!(
                f,
                "{:<20} {:<4} {:>9} {:>9} {:>9} {:>9} {:>6} {:>6} {:>6} {:>8} {:>8} {:>8} {:>6}",
                report.scenario,
                report.direction.name(),
                Shown(report.sum()),
                Shown(report.best()),
                Shown(first.and_then(|t| t.goodput)),
                Shown(warm.and_then(|t| t.goodput)),
                Shown(first.and_then(|t| t.of_sum)),
                Shown(warm.and_then(|t| t.of_sum)),
                Shown(all(|t| t.gap)),
                Shown(all(|t| t.waiting / 1000)),
                Shown(all(|t| t.duplicated / 1000)),
                Shown(all(|t| t.again / 1000)),
                Shown(report.transfers.iter().filter_map(|t| t.added_delay).max()),
            )?;
            for (index, Single { cubic, bbr }) in report.singles.iter().enumerate() {
                let (cubic, bbr) = (Shown(*cubic), Shown(*bbr));
                writeln!(f, "    link {}: cubic {cubic} bbr {bbr}", index + 1)?;
            }
        }
        writeln!(
            f,
            "goodput in kbit/s, ratios in thousandths, gap in ms, waiting, twice and again in kB, ticks: ms added at p99; the most of any transfer"
        )
    }
}

/// Transfers of objects, one size a line.
#[derive(Debug)]
pub struct Objects<'a>(pub &'a [ObjectReport]);

impl Display for Objects<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<20} {:<4} {:>8} {:>9} {:>9} {:>9} {:>9}",
            "scenario", "", "bytes", "median", "TCP", "p99", "TCP"
        )?;
        for report in self.0 {
            writeln!(
                f,
                "{:<20} {:<4} {:>8} {:>9} {:>9} {:>9} {:>9}",
                report.scenario,
                report.direction.name(),
                report.size,
                Shown(report.hawser.median),
                Shown(report.plain.median),
                Shown(report.hawser.p99),
                Shown(report.plain.p99),
            )?;
        }
        writeln!(f, "times in us; TCP: a fresh connection on the best link")
    }
}

/// Failures of links, one a line.
#[derive(Debug)]
pub struct Failovers<'a>(pub &'a [FailoverReport]);

impl Display for Failovers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<20} {:<4} {:>4} {:<10} {:>6} {:>8} {:>8} {:>8} {:>6} {:>6} {:>6} {:>6}  broken",
            "scenario",
            "",
            "link",
            "failure",
            "gap",
            "allowed",
            "full",
            "without",
            "back",
            "again",
            "share",
            "twice"
        )?;
        for report in self.0 {
            let load = report.load.as_ref();
            let broken = match (report.is_gap_broken(), report.is_return_broken()) {
                (false, false) => "",
                (true, false) => "  gap",
                (false, true) => "  return",
                (true, true) => "  gap, return",
            };
            writeln!(
                f,
                "{:<20} {:<4} {:>4} {:<10} {:>6} {:>8} {:>8} {:>8} {:>6} {:>6} {:>6} {:>6}{broken}",
                report.scenario,
                report.direction.name(),
                report.link,
                report.failure.name(),
                Shown(report.gap),
                report.allowed,
                Shown(load.map(|load| load.full)),
                Shown(load.and_then(|load| load.without)),
                Shown(load.and_then(|load| load.back)),
                Shown(load.map(|load| load.again / 1000)),
                Shown(load.map(|load| load.again_share)),
                Shown(load.map(|load| load.twice / 1000)),
            )?;
        }
        writeln!(
            f,
            "gap and back in ms, full and without in kbit/s, again and twice in kB, share: again in thousandths\n\
             allowed: {} ms and the shortest round trip that is left; back: {} ms",
            FIRST_BYTE.as_millis(),
            FULL_RATE.as_millis()
        )
    }
}

/// How links were shared, one pairing a line.
#[derive(Debug)]
pub struct Fairness<'a>(pub &'a [FairnessReport]);

impl Display for Fairness<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<20} {:<4} {:>4} {:<6} {:<9} {:>8} {:>8} {:>8} {:>6} {:>6} {:>6}",
            "scenario",
            "",
            "link",
            "own",
            "others",
            "hawser",
            "least",
            "most",
            "share",
            "Jain",
            "TCP"
        )?;
        for report in self.0 {
            let others = format!("{} {}", report.rivals.len(), report.rival);
            writeln!(
                f,
                "{:<20} {:<4} {:>4} {:<6} {:<9} {:>8} {:>8} {:>8} {:>6} {:>6} {:>6}",
                report.scenario,
                report.direction.name(),
                report.link,
                report.own.map_or("auto", |own| own.name()),
                others,
                report.hawser,
                Shown(report.rivals.first().copied()),
                Shown(report.rivals.last().copied()),
                report.share(),
                report.jain,
                report.plain_jain,
            )?;
        }
        writeln!(
            f,
            "goodput in kbit/s over {} s; share: Hawser's in thousandths of an equal one; Jain's index in thousandths;\n\
             TCP: Jain's index with a plain TCP in Hawser's place",
            fairness::SPAN.as_secs()
        )
    }
}

/// What a hunt found, one set a line.
#[derive(Debug)]
pub struct Findings<'a>(pub &'a [Finding]);

impl Display for Findings<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<8} {:>5} {:<8} {:<40} {:>6} {:>9} {:>9}  links",
            "seed", "kept", "promise", "figures", "again", "goodput", "sum"
        )?;
        for finding in self.0 {
            let (scenario, direction) = hunt::draw(finding.seed);
            let transfers = &finding.report.transfers;
            let again = transfers.iter().map(|transfer| transfer.again / 1000).max();
            let slowest = transfers.iter().map(|transfer| transfer.goodput).min();
            for kept in finding.outcomes.iter().take(1) {
                writeln!(
                    f,
                    "{:<8} {:>5} {:<8} {:<40} {:>6} {:>9} {:>9}  {} {}",
                    finding.seed,
                    kept.share,
                    kept.promise.name(),
                    kept.figures,
                    Shown(again),
                    Shown(slowest.flatten()),
                    Shown(finding.report.sum()),
                    direction.name(),
                    hunt::describe(&scenario, direction),
                )?;
            }
        }
        writeln!(
            f,
            "kept is what was reached of the promise, in thousandths; below 1000 it is broken"
        )
    }
}
