use hawser_types::{ChannelId, Instant};

use super::scheduler::usable;
use super::{ChunkPolicy, ChunkScheduler, ChunkUnit, Decision, Reason};
use crate::PathView;

/// Channels take turns by a load computed from throughput and money, with the user's weights.
///
/// The paper computes, for weights w_t + w_c = 1 of each interface:
///
/// 1. relation = w_t · ln(1 / throughput) + w_c · ln(cost)
/// 2. if any is negative, relation + 2 · |lowest relation|
/// 3. index = relation / highest relation; *lower is better*
/// 4. load = ⌈index / lowest index⌉ segments in each round
///
/// Taken literally this does not do what its text says: the load of step 4 is largest for the
/// *worst*
/// interface; the shift of step 2 leaves loads of 1 and 2 at most where rates are 10 : 1; units
/// decide how much the shift distorts; a free link has a cost of zero, whose logarithm is not
/// finite; and a relation of exactly zero divides by zero in step 4.
///
/// Here step 1 stands, with cost = 1 + price, so that a free link costs 1 and its logarithm
/// vanishes. Steps 2 and 3 are there to make positive numbers of logarithms. Taking the logarithm
/// back does so without any distortion: index = e^relation, still lower is better. Step 4 becomes
/// load = ⌊highest index / index⌉, at least one: the best interface gets the most. For w_c = 0
/// loads are as rates are, which is eq. 1 of PATTHEL.
///
/// A round gives each channel its load times one segment; loads are computed when it begins. Chunks
/// are longer than segments, so that turns are kept by bytes, and what a channel took too much is
/// taken off its next rounds.
///
/// Source: BATCP §3.5 eq. 1 to 4.
#[derive(Debug, Default)]
pub(super) struct LoadIndex {
    shares: Vec<Share>,
}

/// A channel's part of the round.
#[derive(Clone, Copy, Debug)]
struct Share {
    channel: ChannelId,
    /// Bytes for each round.
    load: f64,
    /// Bytes that may still be sent; below zero when the path overdrew.
    left: f64,
}

impl ChunkScheduler for LoadIndex {
    fn select(&mut self, _now: Instant, unit: ChunkUnit, paths: &[PathView]) -> Decision {
        let Some((turn, place)) = self.turn(paths) else {
            return Decision::Wait(None, Reason::AllBusy);
        };
        if !turn.ready {
            return Decision::Wait(None, Reason::NotItsTurn);
        }
        self.shares[place].left -= unit.size.min(turn.chunk).as_u64().max(1) as f64;
        Decision::Channel(turn.channel, Reason::Turn)
    }

    fn policy(&self) -> ChunkPolicy {
        ChunkPolicy::LoadIndex
    }
}

impl LoadIndex {
    /// The channel whose turn it is, and its place among the shares: the one that has most of its
    /// load left.
    fn turn<'a>(&mut self, paths: &'a [PathView]) -> Option<(&'a PathView, usize)> {
        if let Some(turn) = self.with_most_left(paths) {
            return Some(turn);
        }
        self.begin_round(paths);
        self.with_most_left(paths)
    }

    /// `None` when every channel has used up its load, or one is new.
    fn with_most_left<'a>(&self, paths: &'a [PathView]) -> Option<(&'a PathView, usize)> {
        let mut most: Option<(&PathView, usize, f64)> = None;
        for path in usable(paths) {
            let mut places = self.shares.iter();
            let place = places.position(|share| share.channel == path.channel)?;
            let Share { load, left, .. } = self.shares[place];
            if left >= 1.0 && most.is_none_or(|(_, _, of_best)| left / load > of_best) {
                most = Some((path, place, left / load));
            }
        }
        most.map(|(path, place, _)| (path, place))
    }

    /// Computes loads afresh, and adds them until one channel has something left.
    fn begin_round(&mut self, paths: &[PathView]) {
        self.shares
            .retain(|share| paths.iter().any(|path| path.channel == share.channel));
        let highest = usable(paths).map(index).fold(0.0, f64::max);
        let mut rounds = f64::INFINITY;
        for path in usable(paths) {
            let load = (highest / index(path)).round().max(1.0) * SEGMENT;
            let share = self.share_of(path.channel);
            share.load = load;
            rounds = rounds.min(((1.0 - share.left) / load).ceil().max(0.0));
        }
        for path in usable(paths) {
            let share = self.share_of(path.channel);
            share.left += rounds * share.load;
        }
    }

    fn share_of(&mut self, channel: ChannelId) -> &mut Share {
        let place = self.shares.iter().position(|of| of.channel == channel);
        let place = place.unwrap_or_else(|| {
            self.shares.push(Share {
                channel,
                load: SEGMENT,
                left: 0.0,
            });
            self.shares.len() - 1
        });
        &mut self.shares[place]
    }
}

/// e^relation: lower is better.
fn index(path: &PathView) -> f64 {
    let for_price = path.price_weight.clamp(0.0, 1.0);
    let for_throughput = 1.0 - for_price;
    let rate = path.rate.bytes_per_second();
    let rate = if rate == 0 { UNKNOWN_RATE } else { rate as f64 };
    let cost = 1.0 + path.price.max(0.0);
    let relation = for_throughput * (1.0 / rate).ln() + for_price * cost.ln();
    relation.exp()
}

const SEGMENT: f64 = 1448.0;
/// A channel whose rate is not known yet counts like one of 1 Mbit/s.
const UNKNOWN_RATE: f64 = 125_000.0;

#[cfg(test)]
mod tests {
    use hawser_types::{ByteCount, Rate};

    use super::*;

    fn path(channel: u32, kbit: u64, price: f64, price_weight: f64) -> PathView {
        PathView {
            channel: ChannelId::new(channel),
            ready: true,
            rate: Rate::from_bits_per_second(kbit * 1000),
            price,
            price_weight,
            chunk: ByteCount::new(1448),
            ..PathView::default()
        }
    }

    /// How many of 1100 chunks go to the first channel.
    fn to_first(paths: &[PathView]) -> usize {
        let mut policy = LoadIndex::default();
        let unit = ChunkUnit {
            size: ByteCount::new(1448),
            ..ChunkUnit::default()
        };
        let first = |_: &usize| match policy.select(Instant::ZERO, unit, paths) {
            Decision::Channel(channel, _) => channel == paths[0].channel,
            other => panic!("{other:?}"),
        };
        (0..1100).filter(first).count()
    }

    /// The literal loads would be 1 : 2 or less, and to the slower link's favour.
    #[test]
    fn rates_of_ten_to_one_make_loads_of_ten_to_one() {
        assert_eq!(
            to_first(&[path(1, 10_000, 0.0, 0.0), path(2, 1000, 0.0, 0.0)]),
            1000
        );
    }

    /// The paper's ADSL and HSPA links (§4): ⌊633 / 355⌉ = 2 segments to 1.
    #[test]
    fn the_papers_links_share_by_their_rates() {
        let chosen = to_first(&[path(1, 633, 0.0, 0.0), path(2, 355, 0.0, 0.0)]);
        assert!((733..=734).contains(&chosen), "{chosen}");
    }

    /// The paper's example (§3.5): a 4G interface whose cost weighs 0.9, a WLAN whose throughput
    /// does. More has to go over the WLAN, though the other is faster. Weights that differ between
    /// interfaces compare numbers of different units: the paper's own doing, kept.
    #[test]
    fn a_dear_link_gets_less_although_it_is_faster() {
        let wlan = path(1, 20_000, 0.0, 0.1);
        let mobile = path(2, 40_000, 9.0, 0.9);
        assert!(to_first(&[wlan, mobile]) > 1000);
        // With equal weights: √(40 / 1) to √(20 / 10) is 4.5 : 1 for the free one.
        let [free, dear] = [path(1, 40_000, 0.0, 0.5), path(2, 20_000, 9.0, 0.5)];
        let chosen = to_first(&[free, dear]);
        assert!((850..950).contains(&chosen), "{chosen}");
    }

    #[test]
    fn turns_are_kept_by_bytes_when_chunks_differ() {
        let mut paths = [path(1, 10_000, 0.0, 0.0), path(2, 10_000, 0.0, 0.0)];
        paths[0].chunk = ByteCount::new(4 * 1448);
        let mut policy = LoadIndex::default();
        let mut bytes = [0; 2];
        for _ in 0..1000 {
            let unit = ChunkUnit {
                size: ByteCount::new(1 << 20),
                ..ChunkUnit::default()
            };
            if let Decision::Channel(channel, _) = policy.select(Instant::ZERO, unit, &paths) {
                let n = (channel.value() - 1) as usize;
                bytes[n] += paths[n].chunk.as_u64();
            }
        }
        let [a, b] = bytes.map(|bytes| bytes as f64);
        assert!((a / b - 1.0).abs() < 0.05, "{bytes:?}");
    }
}
