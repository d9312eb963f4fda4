//! Cost of transfers in bytes, beside that of plain TCP.

use serde::Serialize;

use super::{Kind, Samples, Table};
use crate::meter::Outcome;
use crate::scenario::Direction;
use crate::statistics::median;

/// IP bytes that the links carried for each byte of payload, medians over transfers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct WireCost {
    /// Bytes in the direction of the payload.
    pub one_way: f64,
    /// Bytes in both directions.
    pub both_ways: f64,
}

impl WireCost {
    pub(super) fn of<'a>(
        samples: impl Iterator<Item = &'a Samples>,
        way: Direction,
    ) -> Option<Self> {
        let outcomes = samples.flat_map(|samples| &samples.outcomes);
        let (one_way, both_ways): (Vec<_>, Vec<_>) =
            outcomes.filter_map(|outcome| costs(outcome, way)).unzip();
        Some(Self {
            one_way: median(one_way.into_iter())?,
            both_ways: median(both_ways.into_iter())?,
        })
    }

    /// By how much this is more than `base`: 0.01 is one part in a hundred.
    pub(super) fn above(self, base: Self) -> Self {
        Self {
            one_way: self.one_way / base.one_way - 1.0,
            both_ways: self.both_ways / base.both_ways - 1.0,
        }
    }
}

fn costs(outcome: &Outcome, way: Direction) -> Option<(f64, f64)> {
    let up: u64 = outcome.wire.iter().map(|link| link.up).sum();
    let down: u64 = outcome.wire.iter().map(|link| link.down).sum();
    let forth = match way {
        Direction::Put => up,
        Direction::Get => down,
    };
    let per_byte = |bytes: u64| bytes as f64 / outcome.bytes as f64;
    (forth > 0 && outcome.bytes > 0).then(|| (per_byte(forth), per_byte(up + down)))
}

/// Plain TCP's cost: all links and congestion controls together.
pub(super) fn of_tcp(table: &Table, direction: Direction) -> Option<WireCost> {
    let plain = table
        .iter()
        .filter(|((way, kind), _)| *way == direction && matches!(kind, Kind::Tcp { .. }));
    WireCost::of(plain.map(|(_, samples)| samples), direction)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulator::LinkBytes;

    fn samples(wire: &[LinkBytes]) -> Samples {
        Samples {
            outcomes: vec![Outcome {
                bytes: 1000,
                wire: wire.to_vec(),
                ..Outcome::default()
            }],
            failures: Vec::new(),
        }
    }

    #[test]
    fn all_links_count_each_way_for_itself() {
        let samples = samples(&[
            LinkBytes { up: 600, down: 10 },
            LinkBytes { up: 500, down: 90 },
        ]);
        let put = WireCost::of([&samples].into_iter(), Direction::Put).unwrap();
        assert_eq!((put.one_way, put.both_ways), (1.1, 1.2));
        let get = WireCost::of([&samples].into_iter(), Direction::Get).unwrap();
        assert_eq!((get.one_way, get.both_ways), (0.1, 1.2));
    }

    #[test]
    fn what_was_not_counted_costs_nothing_known() {
        assert_eq!(
            WireCost::of([&samples(&[])].into_iter(), Direction::Put),
            None
        );
    }

    #[test]
    fn a_cost_is_set_against_another() {
        let cost = |one_way, both_ways| WireCost { one_way, both_ways };
        let more = cost(1.5, 2.0).above(cost(1.2, 1.6));
        assert!((more.one_way - 0.25).abs() < 1e-9 && (more.both_ways - 0.25).abs() < 1e-9);
    }
}
