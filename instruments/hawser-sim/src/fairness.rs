//! One bulk transfer of Hawser beside plain TCP of others on the same link.

use std::time::Duration;

use hawser_scenario::{Congestion, Direction, Scenario};
use hawser_types::Rate;
use serde::Serialize;

use crate::arrivals::Arrivals;
use crate::bond::{Bond, BondConfig};
use crate::bulk::{self, Bulk};
use crate::experiment::{self, Options};

/// How one link was shared. Rates are in kbit/s of payload over [`SPAN`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct FairnessReport {
    /// The scenario's name; what happens in it is left out.
    pub scenario: String,
    /// Which way everything went.
    pub direction: Direction,
    /// The link, from 1.
    pub link: usize,
    /// The congestion control of Hawser's channels; `None`: each one's own choice.
    pub own: Option<Congestion>,
    /// That of the others.
    pub rival: Congestion,
    /// Hawser's goodput.
    pub hawser: u64,
    /// The others', the least first.
    pub rivals: Vec<u64>,
    /// Jain's index over all of them, in thousandths: (Σx)² / (n Σx²), 1000 when all have the same.
    pub jain: u64,
    /// The same with one plain TCP in Hawser's place, of its congestion control, or the others'
    /// where it chooses.
    pub plain_jain: u64,
}

impl FairnessReport {
    /// Hawser's goodput in thousandths of an equal share.
    pub fn share(&self) -> u64 {
        let all = self.hawser + self.rivals.iter().sum::<u64>();
        let parties = self.rivals.len() as u64 + 1;
        self.hawser * 1000 * parties / all.max(1)
    }
}

/// Runs one transfer of Hawser and `count` plain ones over a link. `None` for a link that is not
/// there.
pub fn run(
    scenario: &Scenario,
    direction: Direction,
    link: usize,
    rivals: (Congestion, usize),
    options: &Options,
) -> Option<FairnessReport> {
    let mut alone = scenario.clone();
    alone.events.clear();
    alone.links = vec![scenario.links.get(link)?.clone()];
    let (rival, count) = rivals;
    let BondConfig {
        congestion: own, ..
    } = options.bond;

    let mut bond = experiment::ready_bond(&alone, options);
    for _ in 0..count {
        bond.add_rival(0, rival, direction);
    }
    let endless = Bulk::endless(&alone, direction, BEGINS + SPAN);
    let outcome = bulk::run(&mut bond, &endless);
    let hawser = steady(&outcome.arrivals);
    let rates = rates(&bond);

    let mut plain = experiment::ready_bond(&alone, options);
    let parties = std::iter::repeat_n(rival, count);
    for congestion in [own.unwrap_or(rival)].into_iter().chain(parties) {
        plain.add_rival(0, congestion, direction);
    }
    plain.rest(BEGINS + SPAN);

    Some(FairnessReport {
        scenario: scenario.name.clone(),
        direction,
        link: link + 1,
        own,
        rival,
        hawser,
        jain: jain(rates.iter().copied().chain([hawser])),
        rivals: rates,
        plain_jain: jain(self::rates(&plain).into_iter()),
    })
}

fn rates(bond: &Bond) -> Vec<u64> {
    let mut rates: Vec<u64> = bond.rivals().map(steady).collect();
    rates.sort_unstable();
    rates
}

fn steady(arrivals: &Arrivals) -> u64 {
    let bytes = arrivals.until(BEGINS + SPAN) - arrivals.until(BEGINS);
    Rate::over(bytes, SPAN).bits_per_second() / 1000
}

fn jain(rates: impl Iterator<Item = u64> + Clone) -> u64 {
    let count = rates.clone().count() as u128;
    let sum: u128 = rates.clone().map(u128::from).sum();
    let squares: u128 = rates.map(|rate| u128::from(rate) * u128::from(rate)).sum();
    (sum * sum * 1000).checked_div(count * squares).unwrap_or(0) as u64
}

/// All begin together; what comes before this does not count.
const BEGINS: Duration = Duration::from_secs(10);
/// Over this much time after that, goodput is taken.
pub const SPAN: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jains_index_is_one_for_equals_and_one_over_n_for_a_winner() {
        assert_eq!(jain([5, 5, 5].into_iter()), 1000);
        assert_eq!(jain([9, 0, 0].into_iter()), 333);
        // Jain, Chiu and Hawe 1984: (1 + 3)² / (2 · 10).
        assert_eq!(jain([1, 3].into_iter()), 800);
        assert_eq!(jain([0, 0].into_iter()), 0);
    }
}
