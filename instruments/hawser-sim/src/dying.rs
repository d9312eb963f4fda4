//! Nearly dead links that still answer, beside a healthy one: the losses of a transfer, short
//! requests and a call. The cells are those of [`hawser_scenario::dying`].

use std::convert::Infallible;
use std::time::Duration;

use hawser_scenario::Scenario;
use hawser_scenario::dying::{
    Cell, DIES_AT, Dies, DyingReport, ENDS, Figures, LIMIT, RATE, REQUEST, REST, Stage, Transfer,
    Work,
};
use hawser_scenario::figures::percentile;
use hawser_types::{ByteCount, Instant};

use crate::bond::{Bond, BondConfig};
use crate::bulk::{self, Bulk, Observer, Outcome};
use crate::experiment::{self, Options};

/// Runs cells; the healthy link alone once for all that share it.
pub fn run(cells: &[Cell], observer: Option<Observer>) -> Vec<DyingReport> {
    let mut references: Vec<(Cell, Figures)> = Vec::new();
    let mut reports = Vec::new();
    // What tells the references apart.
    let key = |cell: &Cell| (cell.dies, cell.transport, cell.direction, cell.work);
    for cell in cells {
        let mut known = references.iter();
        let known = known.find(|(other, _)| key(cell) == key(other));
        let healthy = match known {
            Some((_, figures)) => figures.clone(),
            None => {
                let figures = work(cell, 0, None);
                references.push((*cell, figures.clone()));
                figures
            }
        };
        reports.push(DyingReport {
            cell: *cell,
            all: work(cell, cell.dying, observer),
            healthy,
        });
    }
    reports
}

fn work(cell: &Cell, dying: usize, observer: Option<Observer>) -> Figures {
    let scenario = cell.scenario(dying);
    let config = BondConfig {
        transport: cell.transport,
        ..BondConfig::default()
    };
    let options = Options::new(scenario.seed, config);
    let mut run = Run {
        cell,
        dying,
        observer,
        bond: match cell.dies {
            Dies::Before => fresh_bond(&scenario, &options),
            Dies::During | Dies::Between => experiment::ready_bond(&scenario, &options),
        },
    };
    let Ok(figures) = cell.perform(&mut run);
    figures
}

/// A bond as soon as the healthy link's channels stand.
fn fresh_bond(scenario: &Scenario, options: &Options) -> Bond {
    let mut bond = Bond::new(scenario, options.seed, options.bond.clone());
    while bond.channels() < 2 && bond.now().since(Instant::ZERO) < LIMIT {
        bond.rest(STEP);
    }
    bond.rest(REST);
    bond
}

struct Run<'a> {
    cell: &'a Cell,
    dying: usize,
    observer: Option<Observer>,
    bond: Bond,
}

impl Stage for Run<'_> {
    type Error = Infallible;

    fn rest(&mut self, span: Duration) {
        self.bond.rest(span);
    }

    fn die(&mut self) -> Result<(), Infallible> {
        self.die_after(Duration::ZERO);
        Ok(())
    }

    fn transfer(&mut self, bytes: ByteCount) -> Result<Transfer, Infallible> {
        let outcome = self.bulk(bytes, LIMIT);
        let took = outcome.took;
        Ok(Transfer {
            goodput: took.map_or(0, |took| experiment::kilobits(bytes, took)),
            silence: outcome.arrivals.gap(Duration::ZERO),
            p99: slow_tick(&outcome),
        })
    }

    fn long_transfer(&mut self) -> Result<Transfer, Infallible> {
        self.die_after(DIES_AT);
        let outcome = self.bulk(RATE * (ENDS * 4), ENDS);
        let arrivals = &outcome.arrivals;
        let came = arrivals.until(ENDS) - arrivals.until(DIES_AT);
        let silent = ENDS.saturating_sub(arrivals.last().unwrap_or_default());
        Ok(Transfer {
            goodput: experiment::kilobits(came, ENDS - DIES_AT),
            silence: arrivals.gap(DIES_AT).max(silent),
            p99: slow_tick(&outcome),
        })
    }

    fn request(&mut self) -> Result<Duration, Infallible> {
        let bulk = Bulk::new(self.cell.direction, REQUEST, LIMIT);
        Ok(bulk::run(&mut self.bond, &bulk).took.unwrap_or(LIMIT))
    }
}

impl Run<'_> {
    fn bulk(&mut self, bytes: ByteCount, limit: Duration) -> Outcome {
        let bulk = Bulk {
            ticks: self.cell.work == Work::Call,
            asks_at_rest: true,
            observer: self.observer,
            ..Bulk::new(self.cell.direction, bytes, limit)
        };
        bulk::run(&mut self.bond, &bulk)
    }

    fn die_after(&mut self, span: Duration) {
        let at = self.bond.now() + span;
        for number in 1..=self.dying {
            self.bond.change(number, at, &self.cell.dying_link());
        }
    }
}

/// What the slower way of a call took at the 99th percentile.
fn slow_tick(outcome: &Outcome) -> Option<Duration> {
    let slow = outcome.ticks.iter().filter_map(|it| percentile(it, 99));
    slow.max()
}

const STEP: Duration = Duration::from_millis(20);
