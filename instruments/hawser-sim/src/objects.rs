//! Small transfers on an established session, compared with plain TCP on the best link.

use std::time::Duration;

use hawser_scenario::figures::percentile;
use hawser_scenario::{Congestion, Direction, Scenario};
use hawser_types::ByteCount;
use serde::Serialize;

use crate::bulk::{self, Bulk};
use crate::experiment::{self, Options};
use crate::plain;

/// Transfers of one size, one after another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ObjectReport {
    /// The scenario's name.
    pub scenario: String,
    /// Which way the objects went.
    pub direction: Direction,
    /// Bytes in each.
    pub size: u64,
    /// Over the session.
    pub hawser: Spread,
    /// Over fresh connections of plain TCP, on the link and with the congestion control that gave
    /// the least median.
    pub plain: Spread,
}

/// Times in microseconds; `None`: one of the transfers never ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Spread {
    /// Half took longer.
    pub median: Option<u64>,
    /// One in a hundred took longer, by nearest rank.
    pub p99: Option<u64>,
}

/// Transfers `count` objects.
pub fn run(
    scenario: &Scenario,
    direction: Direction,
    size: ByteCount,
    count: u64,
    options: &Options,
) -> ObjectReport {
    let plain = (0..scenario.links.len())
        .flat_map(|link| Congestion::ALL.map(|congestion| (link, congestion)))
        .map(|(link, congestion)| {
            let transfer = |number| plain::Transfer {
                congestion,
                direction,
                bytes: size,
                seed: options.seed.wrapping_add(number),
                events: Vec::new(),
                limit: LIMIT,
            };
            let link = &scenario.links[link];
            Spread::of((0..count).map(|number| plain::run(link, &transfer(number))))
        })
        .min_by_key(|spread| spread.median.unwrap_or(u64::MAX));
    let mut bond = experiment::ready_bond(scenario, options);
    let hawser = Spread::of((0..count).map(|number| {
        let bulk = Bulk::new(direction, size, LIMIT);
        let outcome = bulk::run(&mut bond, &bulk);
        // Not in step with any timer.
        bond.rest(PAUSE + Duration::from_micros(number * 7919 % 30_000));
        outcome.took
    }));
    ObjectReport {
        scenario: scenario.name.clone(),
        direction,
        size: size.as_u64(),
        hawser,
        plain: plain.unwrap_or(Spread::of(std::iter::empty())),
    }
}

impl Spread {
    pub(crate) fn of(times: impl Iterator<Item = Option<Duration>>) -> Self {
        let mut times: Vec<u64> = times
            .map(|took| took.map_or(u64::MAX, |took| took.as_micros() as u64))
            .collect();
        times.sort_unstable();
        let at = |share| percentile(&times, share).filter(|micros| *micros < u64::MAX);
        Self {
            median: at(50),
            p99: at(99),
        }
    }
}

const LIMIT: Duration = Duration::from_secs(300);
const PAUSE: Duration = Duration::from_millis(20);
