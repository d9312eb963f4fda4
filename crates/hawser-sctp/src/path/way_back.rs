use std::time::Duration;

use hawser_types::{Instant, PathId};
use smallvec::SmallVec;

/// Notices when the shortest round trip of a path counts no more, since acknowledgements come back
/// another way.
///
/// The peer acknowledges over whichever path is quickest while data comes over it. When data leaves
/// that path, as at a handover, all others' round trips become longer at once. Without this, that
/// looks like a queue for as long as the shortest round trip is remembered.
#[derive(Debug, Default)]
pub(super) struct WayBack {
    /// Ways that acknowledgements have come, at most [`MAX_WAYS`].
    ways: SmallVec<[ReturnPath; 2]>,
    /// How many have come other ways since the last one by the quickest.
    others: u32,
}

/// Round trips whose acknowledgements came over one path.
#[derive(Clone, Copy, Debug)]
struct ReturnPath {
    /// The path; `None` for an unknown route.
    over: Option<PathId>,
    /// The shortest of them.
    shortest: Duration,
    /// When the last one came.
    last: Instant,
}

impl WayBack {
    /// Handles a round trip whose acknowledgement came over the path `over`. Returns the shortest
    /// one by the ways back that are left, once the quickest way was not used for `gone_after`.
    /// `rests`: for how long no data has left over that way.
    pub(super) fn on_sample(
        &mut self,
        now: Instant,
        rtt: Duration,
        over: Option<PathId>,
        rests: Duration,
        gone_after: Duration,
    ) -> Option<Duration> {
        self.note(now, rtt, over);
        let quickest = self.quickest()?;
        if quickest.over == over {
            self.others = 0;
            return None;
        }
        self.others += 1;
        if self.others < MIN_SAMPLES || now.since(quickest.last).min(rests) <= gone_after {
            return None;
        }
        self.others = 0;
        self.ways.retain(|way| way.over != quickest.over);
        Some(self.quickest()?.shortest)
    }

    /// Paths are gone: nothing comes back over them.
    pub(super) fn forget(&mut self, gone: &[PathId]) {
        self.ways
            .retain(|way| way.over.is_none_or(|over| !gone.contains(&over)));
    }

    /// The path over which the acknowledgements with the shortest round trips come, if it is known.
    pub(super) fn quickest_over(&self) -> Option<PathId> {
        self.quickest()?.over
    }

    fn note(&mut self, now: Instant, rtt: Duration, over: Option<PathId>) {
        if let Some(way) = self.ways.iter_mut().find(|way| way.over == over) {
            way.shortest = way.shortest.min(rtt);
            way.last = now;
            return;
        }
        if self.ways.len() == MAX_WAYS {
            let oldest = self.ways.iter().map(|way| way.last).min();
            self.ways.retain(|way| Some(way.last) != oldest);
        }
        self.ways.push(ReturnPath {
            over,
            shortest: rtt,
            last: now,
        });
    }

    fn quickest(&self) -> Option<ReturnPath> {
        self.ways.iter().min_by_key(|way| way.shortest).copied()
    }
}

/// Others meanwhile: a path that rests says nothing.
const MIN_SAMPLES: u32 = 4;
const MAX_WAYS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    const NEAR: Option<PathId> = Some(PathId::new(0));
    const FAR: Option<PathId> = Some(PathId::new(1));

    /// Round trips each 20 ms by these ways; returns what was told, with its time.
    fn told(way: &mut WayBack, samples: &[(u64, Option<PathId>)]) -> Vec<(u64, u64)> {
        let gone_after = Duration::from_millis(200);
        let samples = samples.iter().zip((20..).step_by(20));
        let told = samples.filter_map(|((rtt, over), at)| {
            let (now, rtt) = (
                Instant::from_nanos(at * 1_000_000),
                Duration::from_millis(*rtt),
            );
            let shortest = way.on_sample(now, rtt, *over, Duration::MAX, gone_after)?;
            Some((at, shortest.as_millis() as u64))
        });
        told.collect()
    }

    #[test]
    fn the_shortest_round_trip_is_that_of_the_ways_still_used() {
        let mut samples = vec![(100, NEAR); 5];
        samples.extend([(150, FAR), (145, FAR)]);
        samples.extend([(140, FAR); 20]);
        let mut way = WayBack::default();
        assert_eq!(told(&mut way, &samples), [(320, 140)], "once, after 200 ms");
        // A round trip from before the present queue counts.
        let mut samples = vec![(130, FAR), (100, NEAR)];
        samples.extend([(160, FAR); 12]);
        assert_eq!(told(&mut WayBack::default(), &samples), [(260, 130)]);
        // The quickest way is used once more, and then not again.
        let mut samples = vec![(100, NEAR)];
        samples.extend([(160, FAR); 12]);
        assert_eq!(told(&mut way, &samples), [(240, 140)]);
    }

    #[test]
    fn a_way_that_is_used_from_time_to_time_counts() {
        let mut samples = Vec::new();
        for _ in 0..20 {
            samples.push((100, NEAR));
            samples.extend([(140, FAR); 9]);
        }
        assert_eq!(told(&mut WayBack::default(), &samples), []);
        // At most `MAX_WAYS` are remembered.
        let mut way = WayBack::default();
        for (number, at) in (0..1000).zip(0..) {
            let over = Some(PathId::new(number));
            let second = Duration::from_secs(1);
            way.on_sample(Instant::from_nanos(at), second, over, second, second);
        }
        assert_eq!(way.ways.len(), MAX_WAYS);
        // A silence on all ways does not count as one of the quickest way.
        let mut way = WayBack::default();
        told(&mut way, &[(100, NEAR); 5]);
        let later = Instant::from_nanos(60_000_000_000);
        let (rtt, never) = (Duration::from_millis(140), Duration::MAX);
        assert_eq!(way.on_sample(later, rtt, FAR, never, rtt), None);
    }

    #[test]
    fn while_data_leaves_by_a_way_acknowledgements_may_come_back_by_it() {
        let (mut way, rtt) = (WayBack::default(), Duration::from_millis(100));
        let mut ask = |at: u64, over, rests| {
            let now = Instant::from_nanos(at * 1_000_000);
            way.on_sample(now, rtt + Duration::from_millis(at), over, rests, rtt)
        };
        ask(0, NEAR, Duration::ZERO);
        for at in 1..1000 {
            assert_eq!(ask(at, FAR, rtt), None);
        }
        let shortest = Some(rtt + Duration::from_millis(1));
        assert_eq!(ask(1000, FAR, rtt * 2), shortest);
    }
}
