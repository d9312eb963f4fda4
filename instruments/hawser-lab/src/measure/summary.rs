//! The figures of one direction.

use serde::Serialize;

use super::overhead::{WireCost, of_tcp};
use super::{BONDED, Kind, Samples, Table};
use crate::meter::Congestion;
use crate::scenario::{Direction, Scenario};

/// The figures of one direction, medians in Mbit/s.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Summary {
    /// Direction of the bytes.
    pub direction: Direction,
    /// Bytes of a transfer over all links.
    pub payload: u64,
    /// Each link alone, all at the same time, with its better congestion control.
    pub singles: Vec<Option<f64>>,
    /// Their sum; none unless every link was measured.
    pub sum: Option<f64>,
    /// The best single link.
    pub best_single: Option<f64>,
    /// MPTCP with its better congestion control.
    pub mptcp: Option<f64>,
    /// The first transfer on a fresh Hawser session.
    pub hawser_first: Option<f64>,
    /// A later one.
    pub hawser_warm: Option<f64>,
    /// Part of the first transfers that were bonded, where a server is discovered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_bonded: Option<f64>,
    /// The same of later ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warm_bonded: Option<f64>,
    /// IP bytes for each byte of payload: plain TCP on single links.
    pub tcp_wire: Option<WireCost>,
    /// The same of a first transfer; its handshakes and joins are in it.
    pub hawser_first_wire: Option<WireCost>,
    /// The same of a later one.
    pub hawser_warm_wire: Option<WireCost>,
    /// Cost of a later Hawser transfer beyond that of plain TCP; 0.01 is one part in a hundred.
    pub overhead: Option<WireCost>,
}

impl Summary {
    pub(super) fn of(scenario: &Scenario, table: &Table, direction: Direction) -> Self {
        let links = scenario.links.len();
        let figure = |kind: Kind| table.get(&(direction, kind)).and_then(Samples::median);
        let better = |kind: &dyn Fn(Congestion) -> Kind| {
            let figures = Congestion::ALL.into_iter().filter_map(|c| figure(kind(c)));
            figures.reduce(f64::max)
        };
        let singles: Vec<_> = (1..=links)
            .map(|link| better(&|congestion| Kind::Tcp { link, congestion }))
            .collect();
        let wire = |kind| WireCost::of(table.get(&(direction, kind)).into_iter(), direction);
        let (tcp_wire, hawser_warm_wire) = (of_tcp(table, direction), wire(Kind::HawserWarm));
        Self {
            direction,
            payload: scenario.payload.as_u64(),
            sum: singles.iter().copied().sum(),
            best_single: singles.iter().copied().flatten().reduce(f64::max),
            singles,
            mptcp: better(&|congestion| Kind::Mptcp { congestion }),
            hawser_first: figure(Kind::HawserFirst),
            hawser_warm: figure(Kind::HawserWarm),
            first_bonded: bonded(table, direction, Kind::HawserFirst),
            warm_bonded: bonded(table, direction, Kind::HawserWarm),
            tcp_wire,
            hawser_first_wire: wire(Kind::HawserFirst),
            hawser_warm_wire,
            overhead: hawser_warm_wire
                .zip(tcp_wire)
                .map(|(own, plain)| own.above(plain)),
        }
    }
}

/// Part of the transfers that were bonded; none where that was not looked at.
fn bonded(table: &Table, direction: Direction, kind: Kind) -> Option<f64> {
    let outcomes = &table.get(&(direction, kind))?.outcomes;
    let counts: Option<Vec<u64>> = outcomes
        .iter()
        .map(|outcome| outcome.hawser.get(BONDED).copied())
        .collect();
    let counts = counts.filter(|counts| !counts.is_empty())?;
    let bonded = counts.iter().filter(|count| **count > 0).count();
    Some(bonded as f64 / counts.len() as f64)
}
