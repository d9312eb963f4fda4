//! What is asked of Hawser in every scenario, and whether it is reached.

use serde::Serialize;

use super::Summary;
use crate::scenario::Scenario;

/// One figure of one scenario and direction beside what is asked of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Verdict {
    /// Which transfers: the first on a session or later ones.
    pub of: Transfer,
    /// What they are compared with.
    pub base: Base,
    /// Their goodput as a part of that one's.
    pub ratio: f64,
    /// The least that is asked.
    pub asked: f64,
}

/// Which of Hawser's transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transfer {
    /// The first one of a session.
    First,
    /// A later one.
    Warm,
}

/// What a transfer is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Base {
    /// The sum of plain TCP over each link alone.
    Sum,
    /// The kernel's MPTCP.
    Mptcp,
}

impl Verdict {
    /// Whether the figure is good enough.
    pub fn passes(&self) -> bool {
        self.ratio >= self.asked
    }
}

/// All that can be judged. In a scenario with events single links, which do not suffer from them,
/// are no measure of what can be carried.
pub(super) fn of(scenario: &Scenario, summary: &Summary) -> Vec<Verdict> {
    let sum = summary.sum.filter(|_| scenario.events.is_empty());
    let from_sum = match (scenario.links.len(), scenario.name.as_str()) {
        (1, _) => ONE_LINK,
        (_, "het-rtt") => HET_RTT,
        _ => MANY_LINKS,
    };
    // Where MPTCP is near what can be had there is no room to be ahead of it.
    let mptcp_is_near = sum
        .zip(summary.mptcp)
        .is_some_and(|(sum, mptcp)| mptcp >= NEAR * sum);
    let from_mptcp = if mptcp_is_near { BESIDE } else { AHEAD };
    let mptcp = summary.mptcp.filter(|_| scenario.links.len() > 1);
    let mut all = Vec::new();
    for (of, own) in [
        (Transfer::First, summary.hawser_first),
        (Transfer::Warm, summary.hawser_warm),
    ] {
        for (base, figure, asked) in [(Base::Sum, sum, from_sum), (Base::Mptcp, mptcp, from_mptcp)]
        {
            if let (Some(own), Some(figure)) = (own, figure) {
                all.push(Verdict {
                    of,
                    base,
                    ratio: own / figure,
                    asked,
                });
            }
        }
    }
    all
}

const MANY_LINKS: f64 = 0.96;
/// Equal rates, but delays of which one is twenty times the other.
const HET_RTT: f64 = 0.93;
const ONE_LINK: f64 = 0.99;
const NEAR: f64 = 0.97;
const BESIDE: f64 = 0.99;
const AHEAD: f64 = 1.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Direction, no_files};

    fn scenario(name: &str, links: usize, more: &str) -> Scenario {
        let link = "[[link]]\nrate = \"10Mbit/s\"\n".repeat(links);
        let text = format!("payload = \"1MB\"\n{link}{more}");
        Scenario::parse(name, &text, &no_files).unwrap()
    }

    fn summary(sum: f64, mptcp: f64, hawser: f64) -> Summary {
        Summary {
            direction: Direction::Put,
            singles: Vec::new(),
            sum: Some(sum),
            best_single: None,
            mptcp: Some(mptcp),
            hawser_first: None,
            hawser_warm: Some(hawser),
            tcp_wire: None,
            hawser_first_wire: None,
            hawser_warm_wire: None,
            overhead: None,
            verdicts: Vec::new(),
        }
    }

    fn asked(verdicts: &[Verdict]) -> Vec<(Base, f64, bool)> {
        let all = verdicts.iter();
        all.map(|v| (v.base, v.asked, v.passes())).collect()
    }

    #[test]
    fn hawser_has_to_be_ahead_of_an_mptcp_that_leaves_room() {
        let found = of(&scenario("eq", 2, ""), &summary(100.0, 96.9, 96.5));
        assert_eq!(
            asked(&found),
            [(Base::Sum, 0.96, true), (Base::Mptcp, 1.0, false)]
        );
    }

    #[test]
    fn beside_an_mptcp_that_leaves_none_it_may_be_a_little_less() {
        let found = of(&scenario("het-rtt", 2, ""), &summary(100.0, 97.0, 96.5));
        assert_eq!(
            asked(&found),
            [(Base::Sum, 0.93, true), (Base::Mptcp, 0.99, true)]
        );
    }

    #[test]
    fn one_link_is_set_against_plain_tcp_alone() {
        let found = of(&scenario("one", 1, ""), &summary(10.0, 9.0, 9.8));
        assert_eq!(asked(&found), [(Base::Sum, 0.99, false)]);
    }

    #[test]
    fn with_events_only_mptcp_is_a_measure() {
        let event = "[[event]]\nat = \"1s\"\nlink = 1\naction = \"black-hole\"\n";
        let found = of(&scenario("hole", 2, event), &summary(20.0, 10.0, 12.0));
        assert_eq!(asked(&found), [(Base::Mptcp, 1.0, true)]);
    }
}
