use std::time::Duration;

use hawser_types::Instant;

/// The best of what was seen within a window of time, in constant memory.
///
/// Keeps a few candidates, each better than all that came after it, so that the next best is at
/// hand when the best has grown too old. When there are more candidates than places the newest
/// share one: the result may then be a little worse than the true extreme, never better.
#[derive(Clone, Debug)]
pub(crate) struct Extreme<T> {
    candidates: [Option<(Instant, T)>; PLACES],
}

impl<T: Copy> Extreme<T> {
    /// Takes in `value`. `better`: whether its first argument beats its second.
    pub(crate) fn push(&mut self, now: Instant, value: T, better: impl Fn(T, T) -> bool) {
        let keep = self
            .candidates
            .iter()
            .take_while(|c| c.is_some_and(|(_, old)| better(old, value)))
            .count();
        let place = keep.min(PLACES - 1);
        self.candidates[place] = Some((now, value));
        self.candidates[place + 1..].fill(None);
    }

    /// Forgets what is older than `window`; the last that is left stays however old it is.
    pub(crate) fn expire(&mut self, now: Instant, window: Duration) {
        while let [Some((at, _)), Some(_), ..] = self.candidates
            && now.since(at) > window
        {
            self.candidates.rotate_left(1);
            self.candidates[PLACES - 1] = None;
        }
    }

    /// The best, and when it was seen.
    pub(crate) fn best(&self) -> Option<(Instant, T)> {
        self.candidates[0]
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.candidates.fill(None);
    }
}

impl<T: Copy> Default for Extreme<T> {
    fn default() -> Self {
        Self {
            candidates: [None; PLACES],
        }
    }
}

const PLACES: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn more(a: u32, b: u32) -> bool {
        a > b
    }

    #[test]
    fn the_next_best_takes_over_when_the_best_has_grown_old() {
        let mut most = Extreme::default();
        for (n, value) in [9, 5, 7, 3].into_iter().enumerate() {
            most.push(at(n as u64 * 10), value, more);
        }
        assert_eq!(most.best(), Some((at(0), 9)));
        most.expire(at(35), Duration::from_millis(30));
        assert_eq!(most.best(), Some((at(20), 7)));
        most.expire(at(900), Duration::from_millis(30));
        assert_eq!(most.best(), Some((at(30), 3)));
    }

    #[test]
    fn more_candidates_than_places_lose_none_of_the_best() {
        let mut most = Extreme::default();
        for n in 0..50 {
            most.push(at(n), 100 - n as u32, more);
        }
        assert_eq!(most.best(), Some((at(0), 100)));
        most.expire(at(49), Duration::from_millis(10));
        assert_eq!(most.best(), Some((at(49), 51)));
    }
}
