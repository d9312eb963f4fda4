use std::time::Duration;

use hawser_types::{ByteCount, Instant};

/// Bytes that one connection has sent and received, and whether it still does.
///
/// Its owner reports by [`Activity::on_moved`] what the connection has moved so far.
#[derive(Clone, Copy, Debug)]
pub struct Activity {
    moved: [ByteCount; 2],
    last: Instant,
    /// Time of the latest report.
    told: Instant,
    /// The present burst, or the one before the pause; `None` once it was taken.
    burst: Option<Burst>,
    /// Bytes moved at the latest [`Activity::was_busy`], and the directions in which any were new.
    asked: [ByteCount; 2],
    moves: [bool; 2],
}

/// Bytes moved without a pause.
#[derive(Clone, Copy, Debug)]
struct Burst {
    /// Time when it began, or sooner.
    since: Instant,
    /// Bytes moved before.
    before: [ByteCount; 2],
}

impl Activity {
    /// A connection that begins.
    pub fn new(now: Instant) -> Self {
        Self {
            moved: [ByteCount::ZERO; 2],
            last: now,
            told: now,
            burst: None,
            asked: [ByteCount::ZERO; 2],
            moves: [false; 2],
        }
    }

    /// It began at this time already, which is heard of only now.
    pub fn on_begun(&mut self, at: Instant) {
        self.told = self.told.min(at);
    }

    /// It has moved so much in all, sent and received.
    pub fn on_moved(&mut self, now: Instant, moved: [ByteCount; 2]) {
        self.on_moved_since(self.told, now, moved);
    }

    /// The same where what is new was moved after `since`. For one that is told of less often than
    /// it is asked.
    pub fn on_moved_since(&mut self, since: Instant, now: Instant, moved: [ByteCount; 2]) {
        if moved != self.moved {
            let before = self.moved;
            self.burst.get_or_insert(Burst { since, before });
            self.moved = moved;
            self.last = now;
        }
        self.told = now;
    }

    /// Takes the bytes moved without a pause, sent and received, and how long that took at most. To
    /// be called when the connection pauses or ends; once for each burst.
    pub fn take_burst(&mut self) -> Option<([ByteCount; 2], Duration)> {
        let burst = self.burst.take()?;
        let moved = [0, 1].map(|way| self.moved[way] - burst.before[way]);
        Some((moved, self.last.since(burst.since)))
    }

    /// Returns the bytes that it has moved in all, sent and received.
    pub fn moved(&self) -> [ByteCount; 2] {
        self.moved
    }

    /// Whether it has moved nothing for so long that it waits for its application rather than for
    /// its link: two seconds, or eight round trips of the link as it is loaded, if that is more. In
    /// a long queue what moves nothing is what has most to move.
    pub fn is_idle(&self, now: Instant, latency: Duration) -> bool {
        now.since(self.last) >= IDLE_AFTER.max(latency.saturating_mul(IDLE_ROUND_TRIPS))
    }

    /// Whether it moved both since this was last asked and in the time before that: sent, received.
    pub fn was_busy(&mut self) -> [bool; 2] {
        let asked = std::mem::replace(&mut self.asked, self.moved);
        let moves = [0, 1].map(|way| self.moved[way] > asked[way]);
        let before = std::mem::replace(&mut self.moves, moves);
        [0, 1].map(|way| moves[way] && before[way])
    }
}

const IDLE_AFTER: Duration = Duration::from_secs(2);
const IDLE_ROUND_TRIPS: u32 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    fn bytes(up: u64, down: u64) -> [ByteCount; 2] {
        [up, down].map(ByteCount::new)
    }

    #[test]
    fn what_moves_nothing_is_idle_later_where_the_link_is_slow_to_answer() {
        let mut activity = Activity::new(at(0));
        let (short, long) = (Duration::from_millis(50), Duration::from_millis(900));
        activity.on_moved(at(500), bytes(100, 0));
        // Nothing new.
        activity.on_moved(at(1000), bytes(100, 0));
        assert!(!activity.is_idle(at(2499), short));
        assert!(activity.is_idle(at(2500), short));
        assert!(!activity.is_idle(at(7699), long));
        assert!(activity.is_idle(at(7700), long));
        activity.on_moved(at(7700), bytes(100, 1));
        assert!(!activity.is_idle(at(7700), short));
        assert!(!activity.is_idle(at(7700), Duration::MAX));
    }

    #[test]
    fn what_is_moved_without_a_pause_is_a_burst_and_is_told_once() {
        let mut activity = Activity::new(at(0));
        assert_eq!(activity.take_burst(), None);
        activity.on_moved(at(100), bytes(0, 0));
        activity.on_moved(at(150), bytes(10, 1000));
        activity.on_moved(at(1100), bytes(10, 5000));
        activity.on_moved(at(4000), bytes(10, 5000));
        let second = Duration::from_millis(1000);
        assert_eq!(activity.take_burst(), Some((bytes(10, 5000), second)));
        assert_eq!(activity.take_burst(), None);
        activity.on_moved(at(4500), bytes(20, 5600));
        let half = Duration::from_millis(500);
        assert_eq!(activity.take_burst(), Some((bytes(10, 600), half)));
    }

    #[test]
    fn busy_is_what_moves_twice_in_a_row() {
        let mut activity = Activity::new(at(0));
        activity.on_moved(at(100), bytes(10, 10));
        assert_eq!(activity.was_busy(), [false, false]);
        activity.on_moved(at(200), bytes(10, 20));
        assert_eq!(activity.was_busy(), [false, true]);
        assert_eq!(activity.was_busy(), [false, false]);
        assert_eq!(activity.moved(), bytes(10, 20));
    }
}
