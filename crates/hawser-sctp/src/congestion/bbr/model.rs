use std::time::Duration;

use hawser_types::Instant;

use super::movement::Movement;
use crate::congestion::control::Acknowledged;

/// Model of the path: rate, delay, losses and burstiness of acknowledgements.
#[derive(Debug, Default)]
pub(super) struct Model {
    /// Maximum rate of this probe cycle and of the one before, in bytes per second.
    rates: [u64; 2],
    min_rtt: Option<(Duration, Instant)>,
    /// Lowest mean of a round since [`Self::min_rtt`] was renewed: the round-trip time without a
    /// queue where single samples vary, as over radio.
    typical_rtt: Option<Duration>,
    /// Lowest mean of any round.
    lowest_mean: Option<Duration>,
    /// Mean of the last round.
    mean_rtt: Duration,
    delivered: u64,
    /// Delivered bytes at the start of the round. The round ends when a packet sent after this
    /// point is acknowledged.
    round_end: u64,
    round_start: bool,
    round: Round,
    /// Share of bytes that the path loses while nothing is probed.
    background: f64,
    limited: bool,
    aggregation: Aggregation,
    movement: Movement,
    /// Every packet of the last round waited: [`Self::has_queue`] at its end.
    was_queued: bool,
}

/// Statistics of one round.
#[derive(Debug, Default)]
struct Round {
    delivered: u64,
    lost: u64,
    /// Maximum rate.
    rate: u64,
    /// Maximum of bytes delivered within one packet's round trip.
    carried: u64,
    /// Sum of the round-trip times measured, and their number.
    rtts: Duration,
    count: u32,
    /// The shortest of them.
    shortest: Duration,
}

impl Round {
    /// Returns the mean round-trip time; `None` where too few were measured.
    fn mean(&self) -> Option<Duration> {
        (self.count >= MIN_SAMPLES).then(|| self.rtts / self.count)
    }
}

/// Bytes acknowledged in bursts beyond the rate. Source: draft-ietf-ccwg-bbr §5.5.9.
#[derive(Debug, Default)]
struct Aggregation {
    since: Instant,
    acknowledged: u64,
    /// Maximum of the last rounds, and of those before.
    extra: [u64; 2],
    rounds: u32,
}

impl Model {
    pub(super) fn on_acknowledged(&mut self, ack: &Acknowledged, window: u64) {
        self.round_start = false;
        let bytes = ack.bytes.as_u64();
        self.round.delivered = self.round.delivered.saturating_add(bytes);
        if let Some(rtt) = ack.rtt.filter(|rtt| !rtt.is_zero()) {
            if self.min_rtt.is_none_or(|(lowest, _)| rtt <= lowest) {
                self.min_rtt = Some((rtt, ack.now));
            }
            self.round.rtts = self.round.rtts.saturating_add(rtt);
            if self.round.count == 0 || rtt < self.round.shortest {
                self.round.shortest = rtt;
            }
            self.round.count = self.round.count.saturating_add(1);
        }
        if let Some(sample) = &ack.sample {
            self.delivered = sample.delivered.as_u64();
            self.round_start = sample.delivered_before.as_u64() >= self.round_end;
            self.limited = sample.application_limited;
            let rate = sample.rate.bytes_per_second().min(MAX_RATE);
            let carried = self
                .delivered
                .saturating_sub(sample.delivered_before.as_u64());
            self.round.rate = self.round.rate.max(rate);
            self.round.carried = self.round.carried.max(carried);
            if !self.limited || rate > self.rate() {
                self.rates[0] = self.rates[0].max(rate);
            }
        }
        self.note_aggregation(ack.now, bytes, window);
    }

    pub(super) fn on_lost(&mut self, bytes: u64) {
        self.round.lost = self.round.lost.saturating_add(bytes);
    }

    /// Handles a packet on an idle path: earlier acknowledgements say nothing about bursts.
    pub(super) fn on_idle(&mut self, now: Instant) {
        self.aggregation.since = now;
        self.aggregation.acknowledged = 0;
    }

    /// Begins the next round, after the last one was evaluated. `steady`: the last round was not a
    /// probe.
    pub(super) fn begin_round(&mut self, now: Instant, steady: bool) {
        self.note_round_trips(now);
        let all = self.round.delivered.saturating_add(self.round.lost);
        if steady && all > 0 {
            let share = self.round.lost as f64 / all as f64;
            self.background += (share.min(MAX_BACKGROUND) - self.background) / 8.0;
        }
        self.was_queued = self.has_queue();
        self.round = Round::default();
        self.round_end = self.delivered;
        let aggregation = &mut self.aggregation;
        aggregation.rounds += 1;
        if aggregation.rounds >= AGGREGATION_ROUNDS {
            aggregation.rounds = 0;
            aggregation.extra = [0, aggregation.extra[0]];
        }
    }

    /// Notes that the path has just had the rate of the round that ends.
    pub(super) fn note_rate(&mut self, now: Instant) {
        if !self.limited {
            self.movement.note(now, self.round.rate);
        }
    }

    /// Tells whether the last acknowledgement ended a round.
    pub(super) fn is_round_start(&self) -> bool {
        self.round_start
    }

    /// Tells whether the round lost more than chance explains: more than two deviations and a
    /// packet above the expected loss, which is 2 % or the path's loss without a probe.
    pub(super) fn loses_too_much(&self, packet: u64) -> bool {
        self.loses_more_than(self.background.max(EXPECTED_LOSS), packet)
    }

    /// Tells whether the round lost more than the path may lose by chance, while nothing is known
    /// of that: without a queue, up to a tenth.
    pub(super) fn loses_too_much_at_first(&self, packet: u64) -> bool {
        let usual = if self.is_without_queue() {
            MAX_BACKGROUND
        } else {
            self.background.max(EXPECTED_LOSS)
        };
        self.loses_more_than(usual, packet)
    }

    fn loses_more_than(&self, share: f64, packet: u64) -> bool {
        let all = self.round.delivered.saturating_add(self.round.lost) / packet;
        let expected = all as f64 * share;
        let lost = (self.round.lost / packet) as f64;
        lost > expected + 2.0 * expected.sqrt() + 1.0
    }

    /// Returns the maximum of bytes delivered within one round trip of the round.
    pub(super) fn round_carried(&self) -> u64 {
        self.round.carried
    }

    /// Returns the maximum rate of the round.
    pub(super) fn round_rate(&self) -> u64 {
        self.round.rate
    }

    /// Returns the rate in bytes per second; 0 while unknown.
    pub(super) fn rate(&self) -> u64 {
        self.rates[0].max(self.rates[1])
    }

    /// Begins a new probe cycle.
    pub(super) fn next_cycle(&mut self) {
        if self.rates[0] > 0 {
            self.rates = [0, self.rates[0]];
        }
    }

    /// Returns the minimum round-trip time; zero while unknown.
    pub(super) fn min_rtt(&self) -> Duration {
        self.min_rtt.map_or(Duration::ZERO, |(rtt, _)| rtt)
    }

    /// Returns the round-trip time without a queue, never below the minimum; zero while unknown.
    pub(super) fn typical_rtt(&self) -> Duration {
        self.typical_rtt.unwrap_or_default().max(self.min_rtt())
    }

    /// Tells whether round-trip times are close to the lowest ever, so that no flow has a queue
    /// there. [`Self::typical_rtt`] adapts to the queues of others and does not show that.
    pub(super) fn is_without_queue(&self) -> bool {
        let lowest = self.lowest_mean.unwrap_or_default();
        self.mean_rtt <= lowest + lowest / 4
    }

    /// Tells whether every packet of the round that ends waited: its shortest round trip was longer
    /// than the path's own.
    pub(super) fn has_queue(&self) -> bool {
        let own = self.min_rtt();
        self.round.count >= QUEUE_SAMPLES && self.round.shortest > own + own / 4
    }

    /// Tells whether a path whose rate varies has become faster: the queue of the last round is
    /// gone in the one that ends, although as much was sent.
    pub(super) fn has_risen(&self) -> bool {
        self.is_moving() && self.was_queued && !self.has_queue()
    }

    /// Tells whether the path's rate varies a lot, as over radio.
    pub(super) fn is_moving(&self) -> bool {
        self.movement.is_wide()
    }

    /// Tells whether the mean round-trip time of the round that ends is at most so much of that of
    /// the one before.
    pub(super) fn has_shortened(&self, share: f64) -> bool {
        self.round
            .mean()
            .is_some_and(|mean| mean <= self.mean_rtt.mul_f64(share))
    }

    pub(super) fn is_min_rtt_old(&self, now: Instant) -> bool {
        self.min_rtt
            .is_some_and(|(_, at)| now.since(at) > MIN_RTT_LIFETIME)
    }

    pub(super) fn renew_min_rtt(&mut self, now: Instant, rtt: Duration) {
        self.min_rtt = Some((rtt, now));
        self.typical_rtt = None;
    }

    /// The path has become longer: shorter round trips say nothing about it any more.
    pub(super) fn on_longer_way(&mut self, now: Instant, shortest: Duration) {
        self.renew_min_rtt(now, shortest);
        self.lowest_mean = None;
        let round = &mut self.round;
        (round.rtts, round.count, round.shortest) = Default::default();
    }

    /// Tells whether the latest sample was limited by the application.
    pub(super) fn is_limited(&self) -> bool {
        self.limited
    }

    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Returns the bytes in flight needed beyond the bandwidth-delay product so that bursts leave
    /// no gaps; at most a tenth of a second at the rate.
    pub(super) fn aggregated(&self) -> u64 {
        let [now, before] = self.aggregation.extra;
        now.max(before).min(self.rate() / 10)
    }

    fn note_round_trips(&mut self, now: Instant) {
        let Some(mean) = self.round.mean() else {
            return;
        };
        let lower = |known: Option<Duration>| Some(known.map_or(mean, |known| known.min(mean)));
        self.mean_rtt = mean;
        self.typical_rtt = lower(self.typical_rtt);
        // Without a queue the delay shows by itself, so that the path need not be drained.
        if let Some(lowest) = self.lowest_mean
            && mean <= lowest + lowest / 16
            && let Some((_, seen)) = &mut self.min_rtt
        {
            *seen = now;
        }
        self.lowest_mean = lower(self.lowest_mean);
    }

    fn note_aggregation(&mut self, now: Instant, bytes: u64, window: u64) {
        let rate = self.rate();
        let state = &mut self.aggregation;
        let elapsed = now.since(state.since).as_secs_f64();
        let mut expected = (rate as f64 * elapsed) as u64;
        if state.acknowledged <= expected {
            (state.since, state.acknowledged, expected) = (now, 0, 0);
        }
        state.acknowledged = state.acknowledged.saturating_add(bytes);
        let extra = state.acknowledged.saturating_sub(expected).min(window);
        state.extra[0] = state.extra[0].max(extra);
    }
}

/// Upper bound of rates in bytes per second, for arithmetic alone.
const MAX_RATE: u64 = 1 << 40;
const MIN_RTT_LIFETIME: Duration = Duration::from_secs(10);
/// Minimum number of samples for the mean of a round.
const MIN_SAMPLES: u32 = 4;
/// Minimum number of samples of which the shortest tells of a queue. Source: RFC 9406 §4.2.
const QUEUE_SAMPLES: u32 = 8;
const AGGREGATION_ROUNDS: u32 = 5;
const EXPECTED_LOSS: f64 = 0.02;
const MAX_BACKGROUND: f64 = 0.1;

#[cfg(test)]
mod tests {
    use super::*;
    use hawser_types::ByteCount;

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(millis * 1_000_000)
    }

    /// Runs rounds whose samples are 20 ms apart on both sides of `mean`, for more than ten
    /// seconds.
    fn rounds(model: &mut Model, from: u64, mean: u64) -> u64 {
        for round in 0..120 {
            let now = from + round * 100;
            for rtt in [mean - 20, mean, mean, mean + 20] {
                let (rtt, bytes) = (Duration::from_millis(rtt), ByteCount::new(1000));
                let ack = Acknowledged {
                    now: at(now),
                    bytes,
                    flight_before: bytes,
                    flight: ByteCount::ZERO,
                    rtt: Some(rtt),
                    smoothed_rtt: rtt,
                    newest_sent: at(now),
                    may_grow: true,
                    sample: None,
                };
                model.on_acknowledged(&ack, 100_000);
            }
            model.begin_round(at(now), true);
        }
        from + 12_000
    }

    #[test]
    fn rounds_as_short_as_any_keep_the_shortest_round_trip() {
        let mut model = Model::default();
        let now = rounds(&mut model, 1_000, 60);
        model.renew_min_rtt(at(now), Duration::from_millis(30));
        let now = rounds(&mut model, now, 61);
        assert!(!model.is_min_rtt_old(at(now)) && model.is_without_queue());
        assert_eq!(model.min_rtt(), Duration::from_millis(30));
        assert_eq!(model.typical_rtt(), Duration::from_millis(61));
        let now = rounds(&mut model, now, 80);
        assert!(model.is_min_rtt_old(at(now)) && !model.is_without_queue());
    }
}
