use std::time::Duration;

use hawser_types::{Instant, Rate};

use crate::KernelSample;
use crate::window::Extreme;

/// Limit of a connection's rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Limit {
    /// The path or its congestion control: the rate says what the path can do.
    #[default]
    Path,
    /// The application had nothing to send.
    Application,
    /// The peer's receive window was closed.
    Receiver,
    /// Data waited on this host, and was given to the kernel too late or to another channel.
    Scheduler,
}

/// Tells from the kernel's clocks what limited a connection between two looks at it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LimitClock {
    busy: Duration,
    receiver: Duration,
    send_buffer: Duration,
}

impl LimitClock {
    /// Returns the limit since the last call. `waiting`: data that could go over this channel waits
    /// on this host.
    pub(crate) fn limit(&mut self, sample: &KernelSample, waiting: bool) -> Limit {
        let now = Self {
            busy: sample.busy.unwrap_or_default(),
            receiver: sample.receiver_limited.unwrap_or_default(),
            send_buffer: sample.send_buffer_limited.unwrap_or_default(),
        };
        let before = std::mem::replace(self, now);
        let busy = now.busy.saturating_sub(before.busy);
        let most_of_it = |clock: Duration| !busy.is_zero() && clock * 2 > busy;
        if most_of_it(now.receiver.saturating_sub(before.receiver)) {
            Limit::Receiver
        } else if most_of_it(now.send_buffer.saturating_sub(before.send_buffer)) {
            // The kernel runs this clock while its queue is empty and the writer has not come
            // back although there is room: the writer is this program.
            Limit::Scheduler
        } else if !sample.app_limited {
            Limit::Path
        } else if waiting {
            Limit::Scheduler
        } else {
            Limit::Application
        }
    }
}

/// The rate at which a path delivers: the most that was seen within the last round trips.
///
/// A rate that the path did not limit counts only above the known rate, as a proof that the path
/// can do that much. Otherwise it is ignored, and earlier measurements do not age meanwhile.
///
/// Source: the bandwidth filter of BBR (Cardwell and others, ACM Queue 14(5), 2016), which has the
/// same window of ten round trips; `tcp_rate.c` of Linux for the samples.
#[derive(Clone, Debug, Default)]
pub struct DeliveryRate {
    most: Extreme<Rate>,
    limit: Limit,
    /// Samples that the path limited, with those of past windows fading.
    weight: f64,
    last_proof: Option<Instant>,
}

impl DeliveryRate {
    /// Takes in the kernel's latest rate sample, taken while `limit` held.
    pub fn on_sample(&mut self, now: Instant, rate: Rate, rtt: Duration, limit: Limit) {
        self.limit = limit;
        if rate == Rate::ZERO {
            return;
        }
        let proves = limit == Limit::Path;
        if !proves && rate <= self.rate() {
            return;
        }
        self.most.push(now, rate, |a, b| a > b);
        if proves {
            self.weight = self.weight * FADE + 1.0;
            self.last_proof = Some(now);
            self.most.expire(now, window(rtt));
        }
    }

    /// Bytes that the path is known to deliver in each second; zero while unknown.
    pub fn rate(&self) -> Rate {
        self.most.best().map_or(Rate::ZERO, |(_, rate)| rate)
    }

    /// Returns the limit at the last sample.
    pub const fn limit(&self) -> Limit {
        self.limit
    }

    /// Returns the confidence that the rate is the path's capacity, from 0 to 1. It grows with the
    /// samples that the path itself limited, to 0.5 with three of them, and halves in each ten
    /// seconds without one.
    pub fn confidence(&self, now: Instant) -> f64 {
        self.last_proof.map_or(0.0, |at| {
            let age = now.since(at).as_secs_f64() / HALF_LIFE.as_secs_f64();
            self.weight / (self.weight + FEW) * (-age).exp2()
        })
    }
}

fn window(rtt: Duration) -> Duration {
    (rtt * WINDOW_ROUND_TRIPS).clamp(MIN_WINDOW, MAX_WINDOW)
}

const WINDOW_ROUND_TRIPS: u32 = 10;
/// Below this, one late tick of ours would empty the window.
const MIN_WINDOW: Duration = Duration::from_millis(200);
const MAX_WINDOW: Duration = Duration::from_secs(10);
/// Part of a sample's weight that is left after each later one: about thirty count.
const FADE: f64 = 0.97;
const FEW: f64 = 3.0;
const HALF_LIFE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(50);

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn rate(mbit: u64) -> Rate {
        Rate::from_bits_per_second(mbit * 1_000_000)
    }

    #[test]
    fn the_highest_rate_of_ten_round_trips_counts() {
        let mut delivery = DeliveryRate::default();
        delivery.on_sample(at(0), rate(40), RTT, Limit::Path);
        delivery.on_sample(at(100), rate(30), RTT, Limit::Path);
        assert_eq!(delivery.rate(), rate(40));
        delivery.on_sample(at(590), rate(25), RTT, Limit::Path);
        assert_eq!(delivery.rate(), rate(30));
        delivery.on_sample(at(650), rate(25), RTT, Limit::Path);
        assert_eq!(delivery.rate(), rate(25));
    }

    #[test]
    fn rates_that_the_path_did_not_limit_never_lower_it() {
        for limit in [Limit::Application, Limit::Receiver, Limit::Scheduler] {
            let mut delivery = DeliveryRate::default();
            delivery.on_sample(at(0), rate(40), RTT, Limit::Path);
            for n in 1..500 {
                delivery.on_sample(at(n * 20), rate(1), RTT, limit);
            }
            assert_eq!(delivery.rate(), rate(40), "{limit:?}");
            delivery.on_sample(at(10_020), rate(50), RTT, limit);
            assert_eq!(delivery.rate(), rate(50), "{limit:?}");
            assert_eq!(delivery.limit(), limit);
        }
    }

    #[test]
    fn confidence_comes_from_samples_that_the_path_limited() {
        let mut delivery = DeliveryRate::default();
        delivery.on_sample(at(0), rate(40), RTT, Limit::Application);
        assert_eq!(delivery.confidence(at(0)), 0.0);
        for n in 1..=3 {
            delivery.on_sample(at(n), rate(40), RTT, Limit::Path);
        }
        let fresh = delivery.confidence(at(3));
        assert!((0.45..0.55).contains(&fresh), "{fresh}");
        let old = delivery.confidence(at(10_003));
        assert!((old - fresh / 2.0).abs() < 1e-9, "{fresh} {old}");
    }

    fn clocks(busy: u64, receiver: u64, send_buffer: u64, app_limited: bool) -> KernelSample {
        KernelSample {
            busy: Some(Duration::from_millis(busy)),
            receiver_limited: Some(Duration::from_millis(receiver)),
            send_buffer_limited: Some(Duration::from_millis(send_buffer)),
            app_limited,
            ..KernelSample::default()
        }
    }

    #[test]
    fn the_kernels_clocks_tell_who_was_the_limit() {
        let mut clock = LimitClock::default();
        assert_eq!(clock.limit(&clocks(20, 0, 0, false), false), Limit::Path);
        assert_eq!(
            clock.limit(&clocks(40, 15, 0, false), true),
            Limit::Receiver
        );
        assert_eq!(clock.limit(&clocks(60, 15, 0, false), true), Limit::Path);
        assert_eq!(
            clock.limit(&clocks(80, 15, 11, false), true),
            Limit::Scheduler
        );
        assert_eq!(
            clock.limit(&clocks(90, 15, 11, true), false),
            Limit::Application
        );
        assert_eq!(
            clock.limit(&clocks(90, 15, 11, true), true),
            Limit::Scheduler
        );
    }

    #[test]
    fn without_the_clocks_the_flag_alone_decides() {
        let mut clock = LimitClock::default();
        let limited = KernelSample {
            app_limited: true,
            ..KernelSample::default()
        };
        assert_eq!(clock.limit(&limited, false), Limit::Application);
        assert_eq!(clock.limit(&KernelSample::default(), true), Limit::Path);
    }
}
