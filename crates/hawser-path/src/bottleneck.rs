//! Which links share a bottleneck.

mod flow;

use std::collections::BTreeMap;
use std::time::Duration;

use hawser_types::{Instant, LinkIndex};

use flow::{Flow, Summary};

/// Finds links whose packets queue in the same place.
///
/// For each link, statistics of its delay are kept over intervals of 350 ms: how skewed its
/// distribution is, how much it varies, how often it crosses its mean, and how much is lost. Links
/// that are congested and alike in all of these are candidates. Since links which this program
/// fills in the same way are alike without sharing anything, candidates must also move together:
/// the means of the same intervals are correlated, and the steps from one to the next.
///
/// Delays may be round-trip times or one-way delays with any constant offset. Memory is bounded:
/// some kilobytes for each link, until [`Bottlenecks::remove`].
///
/// Source: RFC 8382 §2 and §3 for the statistics, the grouping and their thresholds; the
/// correlation is ours, after Katabi, Bazzi and Yang (*A Passive Approach for Detecting Shared
/// Bottlenecks*, ICCCN 2001), who first asked whether flows share by what their packets have in
/// common in time.
#[derive(Clone, Debug, Default)]
pub struct Bottlenecks {
    flows: BTreeMap<LinkIndex, Flow>,
}

/// Links that share a bottleneck, and how sure that is.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Two links or more, in ascending order.
    pub links: Vec<LinkIndex>,
    /// The least correlation of a link's delay with that of the group's first, from 0.5 to 1.
    pub confidence: f64,
}

impl Bottlenecks {
    /// Takes in one delay of a link.
    pub fn on_delay(&mut self, now: Instant, link: LinkIndex, delay: Duration) {
        let flow = self.flows.entry(link).or_default();
        flow.on_delay(interval(now), delay.as_secs_f64());
    }

    /// Takes in how many segments a link has delivered and lost since the last call.
    pub fn on_segments(&mut self, now: Instant, link: LinkIndex, delivered: u64, lost: u64) {
        let flow = self.flows.entry(link).or_default();
        flow.on_segments(interval(now), delivered, lost);
    }

    /// Forgets a link.
    pub fn remove(&mut self, link: LinkIndex) {
        self.flows.remove(&link);
    }

    /// The groups of links that share a bottleneck now. A link alone is in none.
    ///
    /// Takes time that grows with the square of the number of links: ask about once an
    /// [`INTERVAL`], not for every packet.
    pub fn groups(&mut self, now: Instant) -> Vec<Group> {
        let current = interval(now);
        let mut congested: Vec<(LinkIndex, Summary)> = Vec::new();
        for (link, flow) in &mut self.flows {
            flow.close_before(current);
            if let Some(summary) = flow.judge(current) {
                congested.push((*link, summary));
            }
        }
        let mut groups: Vec<(Group, Summary)> = Vec::new();
        for (link, summary) in congested {
            let joined = groups.iter_mut().find_map(|(group, first)| {
                let correlation = self.correlation(group.links[0], link);
                let fits = first.is_like(&summary) && correlation >= MIN_CORRELATION;
                fits.then_some((group, correlation))
            });
            match joined {
                Some((group, correlation)) => {
                    group.links.push(link);
                    group.confidence = group.confidence.min(correlation);
                }
                None => {
                    let links = vec![link];
                    let confidence = 1.0;
                    groups.push((Group { links, confidence }, summary));
                }
            }
        }
        let groups = groups.into_iter().map(|(group, _)| group);
        groups.filter(|group| group.links.len() > 1).collect()
    }

    /// How alike two links' delays move, from −1 to 1; 0 where they have too little in common.
    fn correlation(&self, a: LinkIndex, b: LinkIndex) -> f64 {
        match (self.flows.get(&a), self.flows.get(&b)) {
            (Some(a), Some(b)) => a.correlation(b),
            _ => 0.0,
        }
    }
}

/// The number of the interval that `now` lies in: the same for all links, so that theirs compare.
fn interval(now: Instant) -> u64 {
    now.as_nanos() / INTERVAL.as_nanos() as u64
}

/// The base interval T (RFC 8382 §2.1, whose value for media this is).
pub const INTERVAL: Duration = Duration::from_millis(350);
/// Queues that stand for a second or more make few independent values of fifty intervals, so that
/// chance alone goes far; a test below counts how often it comes this far and passes the rest too.
const MIN_CORRELATION: f64 = 0.5;

#[cfg(test)]
mod tests;
