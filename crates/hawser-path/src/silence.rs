use std::time::Duration;

use hawser_types::{ByteCount, Instant};

/// How long a path has been silent against expectation, and how long it was silent when nothing
/// was wrong.
///
/// Silence is counted only while something waits for an acknowledgement; it begins with the
/// first unacknowledged byte or the last acknowledgement, whichever is later.
#[derive(Clone, Debug, Default)]
pub struct Silence {
    waiting_since: Option<Instant>,
    last_ack: Option<Instant>,
    longest: Duration,
    false_alarms: u32,
    /// Time at which the oldest byte in flight has been there for a round trip, as of the latest
    /// sample.
    due: Instant,
    shortest: Duration,
    flow: Flow,
}

/// How evenly acknowledgements come while so much is in flight that they never stop.
#[derive(Clone, Debug, Default)]
struct Flow {
    /// Time since when enough has been in flight at every sample.
    since: Option<Instant>,
    /// Time for which the channel has been watched in that state.
    watched: Duration,
    /// The longest pause between two acknowledgements meanwhile that was not to be expected.
    longest: Duration,
    /// When the latest of these ended that would pass for silences elsewhere, the oldest first.
    pauses: [Option<Instant>; 3],
}

/// Explanation of a silence on a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expectation {
    /// Smoothed round-trip time.
    pub rtt: Duration,
    /// Mean deviation of the round-trip time.
    pub variation: Duration,
    /// The same of this channel alone. One that carries much knows it better than those that carry
    /// something now and then.
    pub own_variation: Duration,
    /// Time that the path takes to carry all data in flight on it.
    pub drain: Duration,
    /// How much longer than the silence's beginning a round trip of the oldest byte lasts that is
    /// in flight: nothing on a path that was kept full, and up to a whole round trip after a pause.
    pub due: Duration,
}

impl Silence {
    /// No shorter silence makes a path suspect, whatever is expected of it.
    pub const SHORTEST: Duration = FLOW_MARGIN;

    /// Bytes were written; if nothing was waiting before, the wait begins.
    pub fn on_written(&mut self, now: Instant) {
        self.waiting_since.get_or_insert(now);
    }

    /// The oldest byte in flight was written at `oldest`, and no round trip is over before
    /// `shortest`: a pause that ends within that says nothing. To be called before each sample.
    pub fn on_round_trip(&mut self, oldest: Instant, shortest: Duration) {
        self.due = oldest + shortest;
        self.shortest = shortest;
    }

    /// The kernel says how many bytes are in the network unacknowledged, whether any wait for an
    /// acknowledgement at all, and when the last one came.
    pub fn on_sample(
        &mut self,
        now: Instant,
        waiting: bool,
        in_network: ByteCount,
        since_ack: Duration,
    ) {
        let ack = now - since_ack;
        if let (Some(since), true) = (
            self.waiting_since,
            self.last_ack.is_none_or(|old| ack > old),
        ) {
            let began = self.last_ack.map_or(since, |old| old.max(since));
            // The kernel counts in milliseconds: less than that is no silence at all.
            let pause = ack.since(began);
            self.longest = self.longest.max(pause);
            if self.flows_at(began) {
                let unexpected = ack.since(began.max(self.due));
                self.flow.watched += pause;
                self.flow.longest = self.flow.longest.max(unexpected);
                if unexpected > FLOW_MARGIN.max(self.shortest / 2) {
                    let [_, second, third] = self.flow.pauses;
                    self.flow.pauses = [second, third, Some(ack)];
                }
            }
        }
        let enough = if self.is_flowing() {
            STILL_FLOWING
        } else {
            FLOWING
        };
        self.flow.since = (in_network >= enough).then(|| self.flow.since.unwrap_or(now));
        self.last_ack = Some(self.last_ack.map_or(ack, |old| old.max(ack)));
        if !waiting {
            self.waiting_since = None;
        } else {
            self.waiting_since.get_or_insert(now);
        }
    }

    /// Time without an acknowledgement that was expected; zero when none is.
    pub fn current(&self, now: Instant) -> Duration {
        self.began()
            .map_or(Duration::ZERO, |began| now.since(began))
    }

    /// Returns the time when the present silence began; `None` while nothing is expected.
    pub fn began(&self) -> Option<Instant> {
        self.waiting_since
            .map(|since| self.last_ack.map_or(since, |ack| ack.max(since)))
    }

    /// Returns the time of the last acknowledgement.
    pub fn last_heard(&self) -> Option<Instant> {
        self.last_ack
    }

    /// The longest silence that ended by itself.
    pub fn longest(&self) -> Duration {
        self.longest
    }

    /// A silence that was taken for a failure ended by itself: be slower to believe the next one.
    pub fn on_false_alarm(&mut self) {
        self.false_alarms = (self.false_alarms + 1).min(MAX_DOUBLINGS);
    }

    /// Returns what is left of a round trip of the oldest byte in flight, written at `oldest`, from
    /// the beginning of the present silence on: [`Expectation::due`].
    pub fn due(&self, oldest: Instant, rtt: Duration) -> Duration {
        let began = self.began().unwrap_or(oldest);
        (oldest + rtt).since(began).min(rtt)
    }

    /// The silence that makes a path suspect: what its round trips and its rate explain, plus a
    /// margin that doubles with every false alarm.
    ///
    /// Where much is in flight, acknowledgements come all the time. On a path that has shown how
    /// evenly, a pause that is longer than any before is telling long before a round trip is over.
    pub fn suspect_after(&self, expected: Expectation) -> Duration {
        let alarms = 1 << self.false_alarms;
        // While what is in flight drains, acknowledgements keep coming; half of that time without
        // any is more than unlucky turns in the queue.
        let patient = expected.rtt.max((expected.drain / 2).min(MAX_DRAIN))
            + expected.variation * 4
            + SUSPECT_MARGIN * alarms;
        let began = self.began().is_some_and(|began| self.flows_at(began));
        if !began || self.flow.watched < WATCHED_LONG {
            return patient;
        }
        let margin = FLOW_MARGIN.max(self.flow.longest * 2) * alarms;
        patient.min(expected.due + margin.max(expected.own_variation * 4))
    }

    /// True if so much is in flight that acknowledgements should come all the time.
    pub fn is_flowing(&self) -> bool {
        self.flow.since.is_some()
    }

    /// Whether the path stands still time and again, and goes on by itself, while acknowledgements
    /// should come all the time: it serves in turns.
    pub fn goes_in_turns(&self, now: Instant) -> bool {
        self.flow.pauses[0].is_some_and(|third| now.since(third) < TURNS)
    }

    /// Whether they should at that time: they begin a round trip after the first of what is so
    /// much.
    fn flows_at(&self, at: Instant) -> bool {
        self.flow
            .since
            .is_some_and(|since| since + self.shortest <= at)
    }

    /// The silence that makes a path dead.
    pub fn dead_after(&self, expected: Expectation) -> Duration {
        MIN_DEAD
            .max(self.longest * 3)
            .max(expected.rtt * 4)
            .max(expected.drain)
            .min(MAX_DEAD)
    }
}

/// Beyond what round trips explain: the peer's delayed acknowledgement (40 ms) and a scheduler's
/// hiccup.
const SUSPECT_MARGIN: Duration = Duration::from_millis(100);
/// Where acknowledgements come all the time, only the hiccup is left.
const FLOW_MARGIN: Duration = Duration::from_millis(100);
/// So much in flight that delayed acknowledgements and lost packets stop no stream of them: eight
/// segments.
const FLOWING: ByteCount = ByteCount::new(8 * 1448);
/// On a slow path that is about a window, and the number wavers: it has ended below five, which is
/// more than bbr leaves in flight when it probes for the length of the path.
const STILL_FLOWING: ByteCount = ByteCount::new(5 * 1448);
/// Before that much of a path was seen, its pauses say little.
const WATCHED_LONG: Duration = Duration::from_secs(1);
/// Three pauses within it are no accident.
const TURNS: Duration = Duration::from_secs(15);
/// No queue that others can live with is longer.
const MAX_DRAIN: Duration = Duration::from_secs(2);
const MAX_DOUBLINGS: u32 = 3;
const MIN_DEAD: Duration = Duration::from_secs(1);
const MAX_DEAD: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;

    const fn ms(value: u64) -> Duration {
        Duration::from_millis(value)
    }

    fn at(value: u64) -> Instant {
        Instant::ZERO + ms(value)
    }

    fn rtt(rtt: u64, variation: u64) -> Expectation {
        Expectation {
            rtt: ms(rtt),
            variation: ms(variation),
            ..Expectation::default()
        }
    }

    /// A path that carries much, with an acknowledgement every `pause` for `span`.
    fn busy(silence: &mut Silence, span: Range<u64>, pause: usize) {
        silence.on_written(at(span.start));
        for now in span.step_by(pause) {
            silence.on_sample(at(now), true, ByteCount::new(60_000), ms(0));
        }
    }

    #[test]
    fn an_idle_path_is_never_silent() {
        let mut silence = Silence::default();
        silence.on_sample(at(1000), false, ByteCount::ZERO, ms(900));
        assert_eq!(silence.current(at(9000)), Duration::ZERO);
    }

    #[test]
    fn silence_begins_with_the_first_byte_after_idleness() {
        let mut silence = Silence::default();
        silence.on_sample(at(100), false, ByteCount::ZERO, ms(0));
        silence.on_written(at(5000));
        silence.on_sample(at(5050), true, ByteCount::ZERO, ms(4950));
        assert_eq!(silence.current(at(5200)), ms(200));
    }

    #[test]
    fn a_round_trip_is_due_from_when_the_oldest_byte_was_written() {
        let mut silence = Silence::default();
        assert_eq!(silence.due(at(50), ms(200)), ms(200));
        busy(&mut silence, 0..1000, 10);
        assert_eq!(silence.due(at(800), ms(200)), ms(10));
        assert_eq!(silence.due(at(100), ms(200)), ms(0));
        assert_eq!(silence.due(at(995), ms(200)), ms(200));
    }

    #[test]
    fn a_silence_that_ended_by_itself_is_remembered() {
        let mut silence = Silence::default();
        silence.on_written(at(0));
        silence.on_sample(at(20), true, ByteCount::ZERO, ms(0));
        silence.on_sample(at(500), true, ByteCount::ZERO, ms(60));
        assert_eq!(silence.longest(), ms(420));
        assert_eq!(silence.dead_after(rtt(10, 0)), ms(1260));
    }

    #[test]
    fn false_alarms_double_the_margin_up_to_a_bound() {
        let mut silence = Silence::default();
        assert_eq!(silence.suspect_after(rtt(20, 5)), ms(140));
        (0..9).for_each(|_| silence.on_false_alarm());
        assert_eq!(silence.suspect_after(rtt(20, 5)), ms(40 + 800));
    }

    #[test]
    fn a_full_queue_on_a_slow_path_explains_a_long_silence() {
        let silence = Silence::default();
        let mut expected = rtt(100, 0);
        expected.drain = ms(4000);
        assert_eq!(silence.suspect_after(expected), ms(2100));
        assert_eq!(silence.dead_after(expected), ms(4000));
    }

    #[test]
    fn on_a_path_that_was_kept_full_a_short_silence_is_telling() {
        let mut silence = Silence::default();
        busy(&mut silence, 0..900, 10);
        assert_eq!(silence.suspect_after(rtt(200, 5)), ms(320));
        busy(&mut silence, 900..2010, 10);
        assert_eq!(silence.suspect_after(rtt(200, 5)), ms(100));
        let after_a_pause = Expectation {
            due: ms(150),
            ..rtt(200, 5)
        };
        assert_eq!(silence.suspect_after(after_a_pause), ms(250));
        // The little that is in flight may well be acknowledged together.
        silence.on_sample(at(2000), true, ByteCount::new(3000), ms(0));
        assert_eq!(silence.suspect_after(rtt(200, 5)), ms(320));
    }

    #[test]
    fn on_a_path_that_pauses_by_itself_a_silence_is_telling_when_it_is_twice_as_long() {
        let mut silence = Silence::default();
        busy(&mut silence, 0..2000, 90);
        assert_eq!(silence.suspect_after(rtt(200, 5)), ms(180));
        silence.on_false_alarm();
        assert_eq!(silence.suspect_after(rtt(200, 5)), ms(360));
        silence.on_false_alarm();
        assert_eq!(silence.suspect_after(rtt(200, 5)), ms(620));
    }

    #[test]
    fn three_pauses_in_quick_succession_are_turns() {
        let mut silence = Silence::default();
        busy(&mut silence, 0..1000, 90);
        busy(&mut silence, 1000..1401, 200);
        assert!(!silence.goes_in_turns(at(1401)));
        busy(&mut silence, 1401..1602, 200);
        assert!(silence.goes_in_turns(at(1700)));
        assert!(!silence.goes_in_turns(at(17_000)));
    }

    #[test]
    fn what_a_round_trip_explains_says_nothing_of_how_evenly_acknowledgements_come() {
        let mut silence = Silence::default();
        silence.on_written(at(0));
        // A window goes out at once with each round trip, and is acknowledged at once.
        for now in (200..=2000).step_by(200) {
            silence.on_round_trip(at(now - 200), ms(200));
            silence.on_sample(at(now), true, ByteCount::new(60_000), ms(0));
        }
        busy(&mut silence, 2000..3200, 10);
        assert_eq!(silence.suspect_after(rtt(200, 5)), ms(100));
    }

    #[test]
    fn acknowledgements_flow_a_round_trip_after_enough_is_under_way() {
        let mut silence = Silence::default();
        busy(&mut silence, 0..2000, 10);
        silence.on_round_trip(at(1990), ms(200));
        let probe = ByteCount::new(4 * 1448);
        silence.on_sample(at(2000), true, probe, ms(0));
        silence.on_sample(at(2010), true, ByteCount::new(60_000), ms(0));
        assert_eq!(silence.suspect_after(rtt(200, 5)), ms(320));
        silence.on_sample(at(2210), true, ByteCount::new(60_000), ms(0));
        assert_eq!(silence.suspect_after(rtt(200, 5)), ms(100));
    }

    #[test]
    fn a_window_of_some_segments_that_wavers_is_still_a_flow() {
        let mut silence = Silence::default();
        busy(&mut silence, 0..2000, 10);
        silence.on_sample(at(2000), true, ByteCount::new(5 * 1448), ms(0));
        assert_eq!(silence.suspect_after(rtt(200, 5)), ms(100));
        silence.on_sample(at(2010), true, ByteCount::new(4 * 1448), ms(0));
        assert_eq!(silence.suspect_after(rtt(200, 5)), ms(320));
        silence.on_sample(at(2020), true, ByteCount::new(7 * 1448), ms(0));
        assert_eq!(silence.suspect_after(rtt(200, 5)), ms(320));
    }
}
