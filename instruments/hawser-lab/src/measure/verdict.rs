//! Bounds for Hawser's transfers in every scenario.

use std::time::Duration;

use super::{Summary, alike};
use crate::scenario::{Direction, Link, Scenario, promise};
use crate::verdict::{Asked, Verdict};

/// Returns all verdicts that are possible. Single links are measured without events, so links with
/// events are no measure of what can be carried meanwhile.
pub(super) fn of(scenario: &Scenario, summary: &Summary) -> Vec<Verdict> {
    let mut all = Vec::new();
    let transfers = [
        ("first", summary.hawser_first),
        ("warm", summary.hawser_warm),
    ];
    for (name, own) in transfers {
        let Some(own) = own else { continue };
        // What the links can carry in full-size TCP segments: asked where the sum is.
        let warm = asked_of_sum(scenario, summary).filter(|_| name == "warm");
        let warm = warm.map(|_| {
            let rate = scenario.total_rate(summary.direction).bits_per_second();
            let mbps = rate as f64 / 1e6 * super::TCP_SHARE;
            ("the links' rates", mbps, OF_RATES)
        });
        for (base, mbps, least) in bases(scenario, summary).into_iter().chain(warm) {
            let what = format!("{} {name}: of {base}", summary.direction.name());
            all.push(Verdict::new(what, own / mbps, Asked::AtLeast(least)));
        }
        if let Some(vpn) = vpn(scenario, summary).filter(|_| name == "first") {
            let what = format!("{} {name}: Mbit/s, a VPN's", summary.direction.name());
            all.push(Verdict::new(what, own, Asked::AtLeast(vpn)));
        }
    }
    all
}

/// What is asked of connections to a server that the client never met: all that it carries go over
/// all links.
pub(super) fn of_discovered(scenario: &Scenario, summary: &Summary) -> Vec<Verdict> {
    let first = ("first", summary.hawser_first, summary.first_bonded);
    let later = ("later", summary.hawser_warm, summary.warm_bonded);
    of_bonded(scenario, summary, &[first, later])
}

/// The same of those that the kernel places, of which the first has one link.
pub(super) fn of_captured(scenario: &Scenario, summary: &Summary) -> Vec<Verdict> {
    let later = ("later", summary.hawser_warm, summary.warm_bonded);
    of_bonded(scenario, summary, &[later])
}

/// Which transfers, their goodput in Mbit/s, and the part of them that was bonded.
type Bonded = (&'static str, Option<f64>, Option<f64>);

fn of_bonded(scenario: &Scenario, summary: &Summary, transfers: &[Bonded]) -> Vec<Verdict> {
    let way = summary.direction.name();
    let sum = comparable_sum(scenario, summary);
    let mut all = Vec::new();
    for (name, own, bonded) in transfers {
        let part = bonded.unwrap_or(0.0);
        let what = format!("{way} {name}: part that was bonded");
        all.push(Verdict::new(what, part, Asked::AtLeast(1.0)));
        if let Some(sum) = sum {
            let what = format!("{way} {name}: of the sum");
            let of_sum = own.unwrap_or(0.0) / sum;
            all.push(Verdict::new(
                what,
                of_sum,
                Asked::AtLeast(OF_SUM_DISCOVERED),
            ));
        }
    }
    all
}

/// A figure that a transfer is compared with: its name, Mbit/s, and the part of it that is asked.
type Base = (&'static str, f64, f64);

fn bases(scenario: &Scenario, summary: &Summary) -> Vec<Base> {
    let sum = comparable_sum(scenario, summary);
    let mut all = Vec::new();
    if let Some(best) = best_untouched(scenario, summary) {
        all.push(("the best link", best, OF_BEST));
    }
    let several = scenario.links.len() > 1;
    if let (Some(sum), Some(least), true) = (sum, asked_of_sum(scenario, summary), several) {
        all.push(("the sum", sum, least));
    }
    if let Some(sound) = sound_links(scenario, summary) {
        all.push(("the links without loss", sound, 1.0));
    }
    let many = alike(scenario, summary.direction) >= MANY;
    // More than the sixth of 4 MB for each link.
    let long = summary.payload >= summary.singles.len() as u64 * LONG;
    if let Some(one) = summary.best_single.filter(|_| many && long) {
        all.push((
            "one of these links",
            one,
            OF_EACH * scenario.links.len() as f64,
        ));
    }
    if let Some(mptcp) = summary.mptcp.filter(|_| several) {
        let leaves_room = sum.is_some_and(|sum| mptcp < ROOM * sum);
        all.push(("mptcp", mptcp, if leaves_room { AHEAD } else { 1.0 }));
    }
    all
}

/// Returns the rate of the first transfer by the strongest open competitor, with a payload that was
/// no smaller.
fn vpn(scenario: &Scenario, summary: &Summary) -> Option<f64> {
    let known = |(name, way, _): &&(&str, Direction, f64)| {
        *name == scenario.name && *way == summary.direction
    };
    let (.., mbps) = VPN_FIRST.iter().find(known)?;
    (summary.payload <= scenario.payload.as_u64()).then_some(*mbps)
}

/// The sum of single links, where nothing happens to any of them.
fn comparable_sum(scenario: &Scenario, summary: &Summary) -> Option<f64> {
    summary.sum.filter(|_| scenario.events.is_empty())
}

/// The best single link among those that nothing happens to.
fn best_untouched(scenario: &Scenario, summary: &Summary) -> Option<f64> {
    let touched = |link: usize| scenario.events.iter().any(|event| event.link == link);
    let untouched = summary.singles.iter().enumerate();
    let untouched = untouched.filter(|(link, _)| !touched(*link));
    untouched.filter_map(|(_, single)| *single).reduce(f64::max)
}

/// The part of the sum that is asked, which depends on how unlike the links are; nothing where they
/// are too unlike.
fn asked_of_sum(scenario: &Scenario, summary: &Summary) -> Option<f64> {
    let sum = comparable_sum(scenario, summary)?;
    let mut singles = summary.singles.iter().flatten();
    if singles.any(|single| *single * 1e3 < promise::LEAST_OF_SUM as f64 * sum) {
        return None;
    }
    let round_trips = scenario.links.iter().map(Link::round_trip);
    if round_trips.clone().max()? <= NO_DELAY {
        return Some(OF_SUM_WITHOUT_DELAY);
    }
    let least = promise::of_sum(round_trips.map(|round_trip| round_trip.max(NO_DELAY)))?;
    Some(least as f64 / 1e3)
}

/// Returns, where some links lose packets, the rate of the others when they are two at least.
fn sound_links(scenario: &Scenario, summary: &Summary) -> Option<f64> {
    let sound = |link: &Link| link.up.loss.mean.max(link.down.loss.mean) < FAULTY;
    let count = scenario.links.iter().filter(|link| sound(link)).count();
    if count < 2 || count == scenario.links.len() {
        return None;
    }
    comparable_sum(scenario, summary)?;
    let links = scenario.links.iter().zip(&summary.singles);
    links
        .filter(|(link, _)| sound(link))
        .map(|(_, single)| *single)
        .sum()
}

/// mqvpn 0.13.4, a VPN over multipath QUIC, in its lane that ends TCP: the first transfer on a
/// fresh tunnel, recorded once in a lab of the same links on the development machine.
const VPN_FIRST: [(&str, Direction, f64); 6] = [
    ("eq-50", Direction::Put, 92.9),
    ("eq-50", Direction::Get, 88.0),
    ("wifi-lte", Direction::Put, 46.2),
    ("het-rtt", Direction::Put, 36.2),
    ("lossy", Direction::Put, 45.2),
    ("lossy", Direction::Get, 38.9),
];
const OF_BEST: f64 = promise::OF_BEST as f64 / 1e3;
const OF_SUM_DISCOVERED: f64 = 0.95;
/// Links whose only delay is their queue.
const OF_SUM_WITHOUT_DELAY: f64 = 0.97;
const OF_RATES: f64 = 0.97;
/// Below this part of the sum MPTCP leaves room to be ahead of it.
const ROOM: f64 = 0.93;
const AHEAD: f64 = 1.05;
/// Loss of a faulty link.
const FAULTY: f64 = 0.01;
/// From this number on, equal links have to reach 5.5 sixths of their sum.
const MANY: usize = 3;
const OF_EACH: f64 = 5.5 / 6.0;
const LONG: u64 = 4_000_000 / 6;
/// Shorter round trips than this are the machine's.
const NO_DELAY: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests;
