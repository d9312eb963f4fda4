//! Links that share a bottleneck, as far as the data that this side sends shows it.

use std::collections::BTreeMap;
use std::time::Duration;

use hawser_path::{BOTTLENECK_INTERVAL, Bottlenecks, KernelSample};
use hawser_types::{Instant, LinkIndex};
use hawser_wire::ChannelRole;

use crate::channel::Channel;
use crate::channels::Channels;

/// Pairs of links whose delays move together.
#[derive(Debug, Default)]
pub(super) struct SharedBottlenecks {
    detector: Bottlenecks,
    /// Links that were looked at, and when the peer last told of each one's queue.
    told: BTreeMap<LinkIndex, Option<Instant>>,
    looked_at: Option<Instant>,
    /// Times that two links were found together, less the times that they were not since.
    together: BTreeMap<[LinkIndex; 2], u32>,
    joined: Vec<[LinkIndex; 2]>,
}

impl SharedBottlenecks {
    /// Takes in a sample of the kernel, which the channel has taken in already. `before`: the one
    /// before it.
    pub(crate) fn on_sample(&mut self, now: Instant, channel: &Channel, before: &KernelSample) {
        let sample = channel.path().latest();
        if !speaks_for_its_link(channel) || sample.unacknowledged.as_u64() == 0 {
            return;
        }
        let link = channel.link();
        let told = *self.told.entry(link).or_default();
        // Round trips include the queues of the way back: the peer's reports are better.
        if told.is_none_or(|at| now.since(at) > TOLD_LATELY) {
            let queue = channel.path().delay().standing_queue();
            self.detector.on_delay(now, link, queue);
        }
        if let (Some(delivered), Some(earlier)) = (sample.delivered, before.delivered) {
            let lost = sample.retransmissions;
            let lost = lost.saturating_sub(before.retransmissions);
            let delivered = delivered.saturating_sub(earlier);
            self.detector.on_segments(now, link, delivered, lost);
        }
    }

    /// Takes in what the peer says of the delay that queues add to a channel.
    pub(super) fn on_queue(&mut self, now: Instant, channel: &Channel, queue: Duration) {
        if speaks_for_its_link(channel) {
            let link = channel.link();
            self.told.insert(link, Some(now));
            self.detector.on_delay(now, link, queue);
        }
    }

    /// Finds out now and then which links share a bottleneck, and tells their channels.
    pub(super) fn find(&mut self, now: Instant, channels: &mut Channels) {
        if !self.look(now) {
            return;
        }
        self.keep(|link| channels.of_link(link).next().is_some());
        for channel in channels.iter_mut() {
            let number = self.number(channel.link());
            channel.standing_mut().set_bottleneck(number);
        }
    }

    /// Looks for groups once in each interval. True if it did. Pairs are joined that are found time
    /// and again, and parted when they were not as often.
    fn look(&mut self, now: Instant) -> bool {
        if self
            .looked_at
            .is_some_and(|at| now.since(at) < BOTTLENECK_INTERVAL)
        {
            return false;
        }
        self.looked_at = Some(now);
        let groups = self.detector.groups(now);
        let found: Vec<_> = groups
            .iter()
            .filter(|group| group.confidence >= MIN_CONFIDENCE)
            .flat_map(|group| group.links[1..].iter().map(|link| [group.links[0], *link]))
            .collect();
        for pair in &found {
            let count = self.together.entry(*pair).or_default();
            *count = (*count + 1).min(SURE);
            if *count == SURE && !self.joined.contains(pair) {
                self.joined.push(*pair);
            }
        }
        self.together.retain(|pair, count| {
            *count -= u32::from(!found.contains(pair));
            *count > 0
        });
        let together = &self.together;
        self.joined.retain(|pair| together.contains_key(pair));
        true
    }

    /// Forgets links that have no channel any more.
    fn keep(&mut self, is_there: impl Fn(LinkIndex) -> bool) {
        let detector = &mut self.detector;
        self.told.retain(|link, _| {
            let stays = is_there(*link);
            if !stays {
                detector.remove(*link);
            }
            stays
        });
        let stay = |pair: &[LinkIndex; 2]| pair.iter().all(|link| is_there(*link));
        self.together.retain(|pair, _| stay(pair));
        self.joined.retain(stay);
    }

    /// Returns the number of a link's group: the place of the first pair that leads to it.
    fn number(&self, link: LinkIndex) -> Option<u8> {
        let first = |link| self.joined.iter().find(|pair| pair[1] == link);
        let leader = first(link).map_or(link, |pair| pair[0]);
        let number = self.joined.iter().position(|pair| pair[0] == leader)?;
        u8::try_from(number).ok()
    }
}

/// True if the delay of a channel says something of its link. Bulk is what fills a link. On one
/// that is too slow the delay follows each segment: then links have in common only how this side
/// hands segments out.
fn speaks_for_its_link(channel: &Channel) -> bool {
    let carried = channel.path().rate() * BOTTLENECK_INTERVAL;
    channel.role() == ChannelRole::Bulk
        && !channel.is_association()
        && !channel.is_suspect()
        && carried.as_u64() >= MIN_CARRIED
}

/// In an interval: ten segments.
const MIN_CARRIED: u64 = 14_480;
/// Reports come each 100 ms while something is carried.
const TOLD_LATELY: Duration = Duration::from_secs(1);
/// Two links that this side fills together move together by chance as far as 0.5 …
const MIN_CONFIDENCE: f64 = 0.7;
/// … and no more than once or twice: two seconds of finding them are asked for.
const SURE: u32 = 6;
