//! How long a link usually falls silent.

use std::time::Duration;

use hawser_path::Silence;
use hawser_types::Instant;

/// How long a link falls silent at a time and comes back by itself, over all of its channels, since
/// each new one starts without a memory.
///
/// A link that serves in turns is worth waiting for: what waits in its queue comes late, not never,
/// and a new connection takes longer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pauses {
    /// Since when the link was silent, if it lost a channel by that and has got none since.
    since: Option<Instant>,
    longest: Duration,
}

impl Pauses {
    /// A channel of the link is gone, with this record of its silences.
    pub(crate) fn on_lost(&mut self, now: Instant, silence: &Silence) {
        self.note(silence.longest());
        let began = silence.began().filter(|at| now.since(*at) > LEAST);
        self.since = self.since.or(began);
    }

    /// A new connection over the link stands.
    pub(crate) fn on_added(&mut self, now: Instant) {
        if let Some(since) = self.since.take() {
            self.note(now.since(since));
        }
    }

    /// Returns when the link was last heard, if it lost a channel by silence and has got none
    /// since.
    pub(crate) fn since(&self) -> Option<Instant> {
        self.since
    }

    /// Returns the longest silence that counts as a usual one; zero where none was seen.
    pub(crate) fn patience(&self) -> Duration {
        self.longest * 3 / 2
    }

    fn note(&mut self, pause: Duration) {
        if pause <= LONGEST {
            self.longest = self.longest.max(pause);
        }
    }
}

/// A channel that goes after less was not lost by silence.
const LEAST: Duration = Duration::from_millis(500);
/// A longer silence is no pause but an outage.
const LONGEST: Duration = Duration::from_secs(4);

#[cfg(test)]
mod tests {
    use hawser_types::ByteCount;

    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn silent_from(millis: u64) -> Silence {
        let mut silence = Silence::default();
        silence.on_sample(at(millis), true, ByteCount::new(1000), Duration::ZERO);
        silence
    }

    #[test]
    fn a_pause_lasts_until_a_new_connection_stands() {
        let mut pauses = Pauses::default();
        assert_eq!(pauses.patience(), Duration::ZERO);
        pauses.on_lost(at(2000), &silent_from(1000));
        pauses.on_lost(at(2100), &silent_from(1050));
        pauses.on_added(at(3000));
        pauses.on_added(at(9000));
        assert_eq!(pauses.patience(), Duration::from_secs(3));
    }

    #[test]
    fn an_outage_or_a_channel_that_was_closed_is_no_pause() {
        let mut pauses = Pauses::default();
        pauses.on_lost(at(2000), &silent_from(1000));
        pauses.on_added(at(60_000));
        pauses.on_lost(at(60_000), &silent_from(59_900));
        pauses.on_added(at(62_000));
        assert_eq!(pauses.patience(), Duration::ZERO);
    }

    #[test]
    fn what_a_lost_channel_has_outlived_is_remembered() {
        let mut pauses = Pauses::default();
        let mut silence = silent_from(1000);
        silence.on_sample(at(1800), true, ByteCount::new(1000), Duration::ZERO);
        pauses.on_lost(at(1850), &silence);
        assert_eq!(pauses.patience(), Duration::from_millis(1200));
    }
}
