use std::time::Duration;

use hawser_types::{ByteCount, Instant, Rate};

use crate::delivery::LimitClock;
use crate::{Delay, DeliveryRate, KernelSample, Loss, OneWayDelay, Silence};

/// Keeps what is known of the path below one channel.
///
/// Memory is constant. Every estimate comes with how far it can be trusted; each type says what
/// its number means.
#[derive(Clone, Debug, Default)]
pub struct PathEstimator {
    latest: KernelSample,
    rate: Rate,
    silence: Silence,
    /// Data that could go over this channel waits on this host.
    waiting: bool,
    clock: LimitClock,
    delivery: DeliveryRate,
    delay: Delay,
    one_way: OneWayDelay,
    loss: Loss,
    last_ack: Instant,
}

impl PathEstimator {
    /// Takes in what the kernel says now.
    pub fn on_sample(&mut self, now: Instant, sample: KernelSample) {
        self.silence.on_sample(
            now,
            sample.unacknowledged > ByteCount::ZERO,
            sample.in_network(),
            sample.since_ack,
        );
        let limit = self.clock.limit(&sample, self.waiting);
        let news = if self.brings_news(now, &sample) {
            sample.delivery_rate
        } else {
            Rate::ZERO
        };
        self.update_delay(now, &sample);
        self.update_rate(news, sample.app_limited);
        self.delivery.on_sample(now, news, sample.rtt, limit);
        if let Some(delivered) = sample.delivered {
            let queue = self.delay.standing_queue();
            self.loss
                .on_counters(delivered, sample.retransmissions, queue);
        }
        self.latest = sample;
    }

    /// Whether data waits on this host that could go over this channel: what tells a silent
    /// application from a scheduler that prefers other channels.
    pub fn on_demand(&mut self, waiting: bool) {
        self.waiting = waiting;
    }

    /// A message came that the peer stamped with its clock when it was sent.
    pub fn on_stamps(&mut self, sent: Instant, received: Instant) {
        self.one_way.on_stamps(sent, received);
    }

    /// Bytes were written to the channel; an acknowledgement can be expected from now on.
    pub fn on_written(&mut self, now: Instant) {
        self.silence.on_written(now);
    }

    /// The kernel's latest words.
    pub fn latest(&self) -> &KernelSample {
        &self.latest
    }

    /// Smoothed round-trip time; zero until the first sample.
    pub fn rtt(&self) -> Duration {
        self.latest.rtt
    }

    /// The round-trip time of the empty path, as far as it is known.
    pub fn min_rtt(&self) -> Option<Duration> {
        self.delay.min_rtt()
    }

    /// The rate at which the path delivers; zero while unknown. Samples that the application
    /// limited raise it but never lower it.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// The most that the path has lately delivered, and who was the limit.
    pub fn delivery(&self) -> &DeliveryRate {
        &self.delivery
    }

    /// The path's length, and the queues on it.
    pub fn delay(&self) -> &Delay {
        &self.delay
    }

    /// Returns the changes of the delay from the peer to here.
    pub fn one_way(&self) -> &OneWayDelay {
        &self.one_way
    }

    /// Returns the losses of the path, and their causes.
    pub fn loss(&self) -> &Loss {
        &self.loss
    }

    /// The record of this path's silences.
    pub fn silence(&self) -> &Silence {
        &self.silence
    }

    /// The record of this path's silences, to tell it of a false alarm.
    pub fn silence_mut(&mut self) -> &mut Silence {
        &mut self.silence
    }

    /// Whether anything was acknowledged since the last sample; else its rate is that one's, and
    /// says nothing a second time.
    fn brings_news(&self, now: Instant, sample: &KernelSample) -> bool {
        match (self.latest.delivered, sample.delivered) {
            (None, Some(_)) => true,
            (Some(before), Some(delivered)) => delivered != before,
            (_, None) => now - sample.since_ack > self.last_ack + KERNEL_TICK,
        }
    }

    fn update_delay(&mut self, now: Instant, sample: &KernelSample) {
        if let Some(lowest) = sample.min_rtt
            && self.latest.min_rtt != sample.min_rtt
        {
            self.delay.on_lowest(now, lowest);
        }
        // Without a new acknowledgement the round-trip time is an old one.
        let ack = now - sample.since_ack;
        if ack > self.last_ack + KERNEL_TICK {
            self.last_ack = ack;
            let loaded = self.is_loaded(sample);
            self.delay.on_sample(now, sample.rtt, loaded);
        }
    }

    /// True if so much is in flight that a queue of our own may be part of the round-trip time.
    fn is_loaded(&self, sample: &KernelSample) -> bool {
        let length = self.delay.min_rtt().unwrap_or(sample.rtt);
        let rate = self.delivery.rate();
        let half = (rate * length).as_u64() / 2;
        let few = match rate {
            Rate::ZERO => FEW_BYTES,
            rate => (rate * NO_QUEUE).as_u64().clamp(PACKET, FEW_BYTES),
        };
        sample.unacknowledged.as_u64() > half.max(few)
    }

    /// Takes in a new rate sample, zero where there is none. `held_down`: by the application.
    fn update_rate(&mut self, sample: Rate, held_down: bool) {
        let old = self.rate.bytes_per_second();
        let new = sample.bytes_per_second();
        if new == 0 || (held_down && new < old) {
            return;
        }
        let smoothed = if old == 0 || new > old {
            new
        } else {
            old - (old - new) / 8
        };
        self.rate = Rate::from_bytes_per_second(smoothed);
    }
}

/// The kernel counts the time since an acknowledgement in ticks of up to this long.
const KERNEL_TICK: Duration = Duration::from_millis(4);
/// Data that takes less time than this is no queue.
const NO_QUEUE: Duration = Duration::from_millis(20);
/// One alone waits behind nothing of ours.
const PACKET: u64 = 1500;
/// A few segments fill no path whose rate is unknown, or high.
const FEW_BYTES: u64 = 6000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limit;

    fn sample(rate: u64, app_limited: bool) -> KernelSample {
        let delivery_rate = Rate::from_bytes_per_second(rate);
        KernelSample {
            delivery_rate,
            app_limited,
            ..KernelSample::default()
        }
    }

    #[test]
    fn a_sample_limited_by_the_application_never_lowers_the_rate() {
        let mut path = PathEstimator::default();
        let at = |n: u64| Instant::ZERO + ms(n * 10);
        path.on_sample(at(1), sample(800, false));
        path.on_sample(at(2), sample(100, true));
        assert_eq!(path.rate().bytes_per_second(), 800);
        path.on_sample(at(3), sample(0, false));
        path.on_sample(at(4), sample(400, false));
        assert_eq!(path.rate().bytes_per_second(), 750);
        path.on_sample(at(5), sample(900, true));
        assert_eq!(path.rate().bytes_per_second(), 900);
    }

    /// While a link is silent each look at its connection finds the same rate sample.
    #[test]
    fn a_rate_sample_counts_once() {
        let mut path = PathEstimator::default();
        let at = |n: u64| Instant::ZERO + ms(1000 + n * 10);
        let sample = |rate: u64, delivered: u64| KernelSample {
            delivered: Some(delivered),
            ..sample(rate, false)
        };
        path.on_sample(at(0), sample(8_000_000, 10));
        for n in 1..300 {
            path.on_sample(at(n), sample(8_000, 11));
        }
        assert_eq!(path.rate().bytes_per_second(), 7_001_000);
        let confidence = path.delivery().confidence(at(300));
        assert!(confidence < 0.5, "{confidence}");
    }

    const fn ms(value: u64) -> Duration {
        Duration::from_millis(value)
    }

    /// A link of 1 MB/s and 20 ms with a queue that holds `queue` milliseconds.
    fn busy(queue: u64) -> KernelSample {
        let window = ByteCount::new(1000 * (20 + queue));
        KernelSample {
            rtt: ms(20 + queue),
            rtt_variation: ms(2),
            min_rtt: Some(ms(20)),
            delivery_rate: Rate::from_bytes_per_second(1_000_000),
            congestion_window: window,
            unacknowledged: window + ByteCount::new(30_000),
            not_sent: Some(ByteCount::new(30_000)),
            ..KernelSample::default()
        }
    }

    #[test]
    fn a_busy_link_gives_every_estimate_and_an_idle_moment_takes_none_away() {
        let mut path = PathEstimator::default();
        let at = |n: u64| Instant::ZERO + ms(1000 + n * 20);
        for n in 0..100 {
            path.on_sample(at(n), busy(40));
        }
        let mbyte = |rate: Rate| (rate.bytes_per_second() as f64 / 1e5).round() / 10.0;
        let last = at(99);
        for n in 100..200 {
            let idle = KernelSample {
                delivery_rate: Rate::from_bytes_per_second(9000),
                app_limited: true,
                unacknowledged: ByteCount::ZERO,
                not_sent: Some(ByteCount::ZERO),
                since_ack: at(n).since(last),
                ..busy(40)
            };
            path.on_sample(at(n), idle);
        }
        assert_eq!(mbyte(path.delivery().rate()), 1.0);
        assert_eq!(path.delivery().limit(), Limit::Application);
        assert_eq!(path.min_rtt(), Some(ms(20)));
        assert_eq!(path.delay().standing_queue(), ms(40));
        assert!(path.delivery().confidence(at(199)) > 0.5);
    }

    #[test]
    fn a_few_segments_are_a_load_where_each_takes_long() {
        let mut path = PathEstimator::default();
        let at = |n: u64| Instant::ZERO + ms(1000 + n * 20);
        for n in 0..1000 {
            let few = KernelSample {
                rtt: ms(if n == 0 { 40 } else { 100 }),
                min_rtt: Some(ms(40)),
                delivery_rate: Rate::from_bits_per_second(600_000),
                unacknowledged: ByteCount::new(5000),
                not_sent: Some(ByteCount::ZERO),
                ..KernelSample::default()
            };
            path.on_sample(at(n), few);
        }
        assert_eq!(path.min_rtt(), Some(ms(40)));
        assert_eq!(path.delay().standing_queue(), ms(60));
    }

    #[test]
    fn an_old_round_trip_time_of_an_idle_path_is_not_taken_for_its_length() {
        let mut path = PathEstimator::default();
        let at = |n: u64| Instant::ZERO + ms(1000 + n * 20);
        path.on_sample(at(0), busy(40));
        for n in 1..1500 {
            let idle = KernelSample {
                unacknowledged: ByteCount::ZERO,
                not_sent: Some(ByteCount::ZERO),
                since_ack: at(n).since(at(0)),
                ..busy(40)
            };
            path.on_sample(at(n), idle);
        }
        assert_eq!(path.min_rtt(), Some(ms(20)));
    }
}
