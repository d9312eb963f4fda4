use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use crate::route::{Local, Route};

/// A pair of addresses that could carry data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) route: Route,
    /// `None` for a pair that does not answer.
    pub(super) rtt: Option<Duration>,
}

/// An address of either end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Local(Local),
    Remote(SocketAddr),
}

/// Selects the pairs that carry data, by their indices in `candidates`, fastest first: at most
/// max(m, n) of the m × n, none slower than `theta` times the fastest, and every address at least
/// once where these limits allow it.
///
/// Source: SCTP aggregation §3.2, steps ② to ⑥; ① is the table's heartbeats, ⑦ the state of each
/// path. Where the paper is open:
///
/// - A replacement itself counts when a pair is tested for redundancy. Otherwise two hosts with two
///   addresses each could never have all of them in two pairs.
/// - The fastest pair is replaced only where no other can be.
pub(super) fn select(candidates: &[Candidate], theta: f64) -> Vec<usize> {
    // ②
    let mut sorted: Vec<(Duration, usize)> = candidates
        .iter()
        .enumerate()
        .filter_map(|(place, candidate)| Some((candidate.rtt?, place)))
        .collect();
    sorted.sort();
    let Some(&(quickest, _)) = sorted.first() else {
        return Vec::new();
    };
    let limit = quickest.as_secs_f64() * theta.max(1.0);
    let within = |(rtt, _): &(Duration, usize)| rtt.as_secs_f64() <= limit;
    sorted.retain(within);
    // ③
    let ends = ends(candidates);
    let locals = ends.iter().filter(|end| matches!(end, End::Local(_)));
    let locals = locals.count();
    let most = locals.max(ends.len() - locals);
    let rest = sorted.split_off(most.min(sorted.len()));
    let mut table = Proposals {
        candidates,
        proposed: sorted,
        rest,
    };
    // ④, ⑤
    let missing = ends.into_iter().filter(|end| !table.has(*end));
    for end in missing.collect::<Vec<_>>() {
        if !table.has(end) {
            table.bring_in(end);
        }
    }
    // ⑥
    table.proposed.sort();
    table.proposed.into_iter().map(|(_, place)| place).collect()
}

/// The proposed pairs and the remaining ones, all within θ.
struct Proposals<'a> {
    candidates: &'a [Candidate],
    /// Fastest pair first.
    proposed: Vec<(Duration, usize)>,
    rest: Vec<(Duration, usize)>,
}

impl Proposals<'_> {
    fn has(&self, end: End) -> bool {
        let mut proposed = self.proposed.iter();
        proposed.any(|(_, place)| self.touches(*place, end))
    }

    /// Replaces the slowest redundant pair by the fastest remaining pair with this address.
    fn bring_in(&mut self, end: End) {
        let first_to_keep = [1, 0];
        for keep in first_to_keep {
            for left in 0..self.rest.len() {
                let newcomer = self.rest[left];
                if !self.touches(newcomer.1, end) {
                    continue;
                }
                let redundant = (keep..self.proposed.len()).rev().find(|place| {
                    // The slowest comes last, since replacements are inserted in order.
                    self.is_redundant(*place, newcomer.1)
                });
                if let Some(place) = redundant {
                    let out = self.proposed.remove(place);
                    self.rest[left] = out;
                    self.rest.sort();
                    let at = self.proposed.partition_point(|pair| *pair < newcomer);
                    self.proposed.insert(at, newcomer);
                    return;
                }
            }
        }
    }

    /// Tells whether both addresses of a proposed pair are in other proposals or in the
    /// replacement.
    fn is_redundant(&self, place: usize, newcomer: usize) -> bool {
        let route = self.candidates[self.proposed[place].1].route;
        [End::Local(route.local), End::Remote(route.remote)]
            .into_iter()
            .all(|end| {
                let others = self.proposed.iter().enumerate();
                self.touches(newcomer, end)
                    || others
                        .filter(|(other, _)| *other != place)
                        .any(|(_, (_, pair))| self.touches(*pair, end))
            })
    }

    fn touches(&self, candidate: usize, end: End) -> bool {
        let route = self.candidates[candidate].route;
        end == End::Local(route.local) || end == End::Remote(route.remote)
    }
}

fn ends(candidates: &[Candidate]) -> BTreeSet<End> {
    let both = |candidate: &Candidate| {
        let Route { local, remote } = candidate.route;
        [End::Local(local), End::Remote(remote)]
    };
    candidates.iter().flat_map(both).collect()
}

#[cfg(test)]
mod tests;
