//! Comparison of the transports: how close `auto` gets to the better one.

use hawser_scenario::{Direction, Scenario};
use hawser_wire::TransportChoice;
use serde::Serialize;

use crate::experiment::{self, Options};

/// One scenario in one direction over each transport. Goodputs are in kbit/s; `None`: it took too
/// long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct TransportReport {
    /// The scenario's name.
    pub scenario: String,
    /// Which way the payload went.
    pub direction: Direction,
    /// The transfers of a session, in order.
    pub transfers: Vec<Goodputs>,
}

/// Goodputs of one transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Goodputs {
    /// Over TCP channels.
    pub tcp: Option<u64>,
    /// Over an association.
    pub sctp: Option<u64>,
    /// Over what the session chose.
    pub auto: Option<u64>,
}

impl Goodputs {
    /// What `auto` reaches of the better one, in thousandths; `None` where neither ended.
    pub fn of_better(&self) -> Option<u64> {
        let better = self.tcp.max(self.sctp).filter(|better| *better > 0)?;
        Some(self.auto.unwrap_or(0) * 1000 / better)
    }
}

/// Simulates a scenario in one direction over each transport.
pub fn run(scenario: &Scenario, direction: Direction, options: &Options) -> TransportReport {
    let over = |transport| {
        let mut options = options.clone();
        options.bond.transport = transport;
        experiment::run(scenario, direction, &options).transfers
    };
    let tcp = over(TransportChoice::Tcp);
    let sctp = over(TransportChoice::Sctp);
    let auto = over(TransportChoice::Auto);
    let at = |list: &[experiment::Transfer], n: usize| list.get(n).and_then(|it| it.goodput);
    let transfers = (0..options.transfers).map(|n| Goodputs {
        tcp: at(&tcp, n),
        sctp: at(&sctp, n),
        auto: at(&auto, n),
    });
    TransportReport {
        scenario: scenario.name.clone(),
        direction,
        transfers: transfers.collect(),
    }
}

/// Means of runs of one scenario in one direction; `None` without a run. A transfer that took too
/// long in one run has none.
pub fn mean(runs: &[TransportReport]) -> Option<TransportReport> {
    let first = runs.first()?;
    let at = |n: usize, of: fn(&Goodputs) -> Option<u64>| {
        let all = runs.iter().map(|run| run.transfers.get(n).and_then(of));
        let sum: u64 = all.sum::<Option<u64>>()?;
        Some(sum / runs.len() as u64)
    };
    let transfers = (0..first.transfers.len()).map(|n| Goodputs {
        tcp: at(n, |it| it.tcp),
        sctp: at(n, |it| it.sctp),
        auto: at(n, |it| it.auto),
    });
    Some(TransportReport {
        transfers: transfers.collect(),
        ..first.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_has_what_every_run_has() {
        let run = |tcp, auto| TransportReport {
            scenario: "any".to_owned(),
            direction: Direction::Put,
            transfers: vec![Goodputs {
                tcp: Some(tcp),
                sctp: Some(100),
                auto,
            }],
        };
        let both = mean(&[run(100, Some(90)), run(300, None)]).unwrap();
        let expected = Goodputs {
            tcp: Some(200),
            sctp: Some(100),
            auto: None,
        };
        assert_eq!(both.transfers, [expected]);
        assert_eq!(mean(&[]), None);
    }
}
