//! The promise for a link set, and the result.

use std::time::Duration;

use hawser_scenario::promise::{self, ADDED_DELAY, FULL_RATE};
use hawser_scenario::{Direction, Line, Link, Scenario, Service};
use hawser_types::ByteCount;

use super::promise::{Kept, Promise};
use crate::experiment::TransferReport;
use crate::failover::FailoverReport;
use crate::objects::ObjectReport;

pub(super) fn bulk(scenario: &Scenario, report: &TransferReport) -> Vec<Kept> {
    let sum = sum_promise(scenario, report);
    let mut outcomes = Vec::new();
    for (index, transfer) in report.transfers.iter().enumerate() {
        let which = ["first", "warm"].get(index).unwrap_or(&"later");
        // A transfer that never ended has kept nothing.
        let mut add = |promise, got: Option<u64>, least: u64| {
            let got = got.unwrap_or(0);
            outcomes.push(Kept {
                promise,
                share: got * 1000 / least,
                figures: format!("{which}: {got} of {least}"),
            });
        };
        // Where no link alone ends, there is nothing to compare with.
        if report.best().is_some() {
            add(Promise::Best, transfer.of_best, promise::OF_BEST);
        }
        if let Some(least) = sum {
            add(Promise::Sum, transfer.of_sum, least);
        }
    }
    outcomes
}

/// Which part of the sum is promised for a link set, in thousandths, if any.
fn sum_promise(scenario: &Scenario, report: &TransferReport) -> Option<u64> {
    if !scenario.events.is_empty() {
        return None;
    }
    let sum = report.sum()?;
    let all_matter = report.singles.iter().all(|single| {
        single
            .best()
            .is_some_and(|best| best * 1000 >= sum * promise::LEAST_OF_SUM)
    });
    let least = promise::of_sum(scenario.links.iter().map(Link::round_trip));
    least.filter(|_| all_matter)
}

pub(super) fn objects(report: &ObjectReport) -> Option<Kept> {
    // Where TCP alone does not get through either, nothing is promised.
    let plain = report.plain.median?;
    let share = report
        .hawser
        .median
        .map_or(0, |hawser| plain * 1000 / hawser.max(1));
    let hawser = report.hawser.median.unwrap_or(0);
    let size = report.size / 1000;
    Some(Kept {
        promise: Promise::Objects,
        share,
        figures: format!("{size} kB in {hawser} us, TCP {plain} us"),
    })
}

pub(super) fn is_good_for_delay(scenario: &Scenario) -> bool {
    let best = shortest(scenario.links.iter());
    let calm = |line: &Line| line.service == Service::Steady && line.loss.mean < 0.002;
    scenario.events.is_empty() && best.is_some_and(|link| calm(&link.up) && calm(&link.down))
}

pub(super) fn delay(
    scenario: &Scenario,
    direction: Direction,
    report: &TransferReport,
) -> Option<Kept> {
    let best = shortest(scenario.links.iter())?;
    let jitter = best.up.jitter.max(best.down.jitter);
    let allowed = ADDED_DELAY + jitter + packets(best.line(direction), 2);
    let added = report.transfers.first()?.added_delay?;
    Some(within(Promise::Delay, added, allowed))
}

pub(super) fn is_good_for_failures(scenario: &Scenario) -> bool {
    let calm = |line: &Line| line.service == Service::Steady && line.loss.mean == 0.0;
    let mut links = scenario.links.iter();
    let all_calm = links.all(|link| calm(&link.up) && calm(&link.down));
    all_calm && scenario.links.len() > 1 && scenario.events.is_empty()
}

pub(super) fn failure(scenario: &Scenario, report: &FailoverReport) -> Vec<Kept> {
    let links = scenario.links.iter().enumerate();
    let left = links.filter(|(index, _)| index + 1 != report.link);
    let Some(best) = shortest(left.map(|(_, link)| link)) else {
        return Vec::new();
    };
    let allowed = Duration::from_millis(report.allowed) + packets(best.line(report.direction), 4);
    let gap = report.gap.unwrap_or(u64::MAX / 1000);
    let mut outcomes = vec![within(Promise::Gap, gap, allowed)];
    if let Some(load) = &report.load {
        let back = load.back.unwrap_or(u64::MAX / 1000);
        outcomes.push(within(Promise::Return, back, FULL_RATE));
    }
    for kept in &mut outcomes {
        let (name, link) = (report.failure.name(), report.link);
        kept.figures += &format!(", {name} of link {link}");
    }
    outcomes
}

fn within(promise: Promise, millis: u64, allowed: Duration) -> Kept {
    let allowed = allowed.as_millis() as u64;
    Kept {
        promise,
        share: (allowed * 1000).checked_div(millis).unwrap_or(u64::MAX),
        figures: format!("{millis} ms of {allowed}"),
    }
}

fn shortest<'a>(links: impl Iterator<Item = &'a Link>) -> Option<&'a Link> {
    links.min_by_key(|link| link.round_trip())
}

/// How long a line needs for so many full packets.
fn packets(line: &Line, count: u64) -> Duration {
    let span = line.rate.time_for(ByteCount::new(1500 * count));
    span.unwrap_or_default()
}
