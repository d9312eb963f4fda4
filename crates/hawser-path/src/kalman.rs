use std::time::Duration;

use hawser_types::{ByteCount, Instant, Rate};

/// Throughput from round-trip times, through a Kalman filter.
///
/// What was under way for one round trip, over that round trip, is one measurement of the
/// throughput. Spikes of the round-trip time make single measurements jump; the filter softens
/// them and says how far its estimate can be trusted.
///
/// The paper gives no model. This one works on the natural logarithm of the rate, so that the same
/// noise suits 100 kbit/s and 1 Gbit/s, and no estimate is ever negative:
///
/// - state: x = ln(rate), a random walk whose variance grows by 0.05 each second, which lets
///   a rate change by a fifth in one second and by a factor of two in ten;
/// - measurement: z = ln(window / rtt); since the window is known exactly, its noise is that of the
///   round-trip time, whose mean deviation the kernel knows: r = (variation / rtt)², at least
///   0.01;
/// - an innovation of more than three standard deviations is taken for as noisy as makes it three,
///   so that the further off it is the less it counts. Four of these in a row on the
///   same side are no spikes but a new rate, and the filter begins afresh from it.
///
/// Source: BATCP §3.5 (BAT-7); R. E. Kalman, *A New Approach to Linear Filtering and Prediction
/// Problems*, 1960.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct KalmanThroughput {
    state: Option<State>,
    /// Innovations in a row beyond the gate; negative when they were too low.
    surprises: i8,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct State {
    log_rate: f64,
    variance: f64,
    at: Instant,
}

impl KalmanThroughput {
    /// Takes in one round trip: `window` bytes were under way for `rtt`, whose mean deviation is
    /// `variation`. Feed it once for each round trip; an empty window or round trip says nothing.
    pub fn on_round_trip(
        &mut self,
        now: Instant,
        window: ByteCount,
        rtt: Duration,
        variation: Duration,
    ) {
        let Some((measured, noise)) = measurement(window, rtt, variation) else {
            return;
        };
        let Some(old) = self.state else {
            self.begin(now, measured, noise);
            return;
        };
        let variance = old.variance_at(now);
        let spread = (variance + noise).sqrt();
        let innovation = measured - old.log_rate;
        if innovation.abs() <= GATE * spread {
            self.surprises = 0;
        } else if self.surprise(innovation) >= MAX_SURPRISES {
            self.begin(now, measured, noise);
            return;
        }
        let total = (variance + noise).max((innovation / GATE).powi(2));
        let gain = variance / total;
        self.state = Some(State {
            log_rate: old.log_rate + gain * innovation,
            variance: (1.0 - gain) * variance,
            at: now,
        });
    }

    /// The estimate; zero before the first round trip.
    pub fn rate(&self) -> Rate {
        self.state.map_or(Rate::ZERO, |state| {
            Rate::from_bytes_per_second(state.log_rate.exp().round() as u64)
        })
    }

    /// The variance of the natural logarithm of the rate at `now`, ever growing without new round
    /// trips: 0.01 is a standard deviation of about 10 %. `None` before the first.
    pub fn variance(&self, now: Instant) -> Option<f64> {
        self.state.map(|state| state.variance_at(now))
    }

    /// How far the estimate can be trusted, from 0 (there is none) to 1: 0.5 when its standard
    /// deviation is 32 %, 0.91 when it is 10 %.
    pub fn confidence(&self, now: Instant) -> f64 {
        self.variance(now)
            .map_or(0.0, |variance| 1.0 / (1.0 + variance / HALF_TRUSTED))
    }

    fn begin(&mut self, now: Instant, measured: f64, noise: f64) {
        self.surprises = 0;
        self.state = Some(State {
            log_rate: measured,
            variance: noise,
            at: now,
        });
    }

    /// Counts one more measurement that fits ill; how many in a row were off to the same side.
    fn surprise(&mut self, innovation: f64) -> i8 {
        let side = if innovation < 0.0 { -1 } else { 1 };
        let same = self.surprises.signum() == side;
        self.surprises = if same { self.surprises + side } else { side };
        self.surprises.abs()
    }
}

impl State {
    fn variance_at(&self, now: Instant) -> f64 {
        self.variance + DRIFT * now.since(self.at).as_secs_f64()
    }
}

/// The logarithm of the rate that one round trip shows, and the variance of that.
fn measurement(window: ByteCount, rtt: Duration, variation: Duration) -> Option<(f64, f64)> {
    if window == ByteCount::ZERO || rtt.is_zero() {
        return None;
    }
    let seconds = rtt.as_secs_f64();
    let relative = variation.as_secs_f64() / seconds;
    let log_rate = (window.as_u64() as f64 / seconds).ln();
    Some((log_rate, (relative * relative).max(MIN_NOISE)))
}

/// Variance that the logarithm of a rate gains in each second.
const DRIFT: f64 = 0.05;
/// A tenth either way: the window is counted in segments and acknowledgements come in bursts, even
/// where round trips are steady.
const MIN_NOISE: f64 = 0.01;
/// Standard deviations beyond which an innovation is taken for a spike.
const GATE: f64 = 3.0;
/// Spikes in a row that are a new rate.
const MAX_SURPRISES: i8 = 4;
/// The variance at which confidence is one half.
const HALF_TRUSTED: f64 = 0.1;

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(value: u64) -> Duration {
        Duration::from_millis(value)
    }

    fn kbit(filter: &KalmanThroughput) -> f64 {
        filter.rate().bits_per_second() as f64 / 1e3
    }

    /// Feeds round trips of `window` bytes with these times, one after the other.
    fn feed(filter: &mut KalmanThroughput, from: u64, window: u64, rtts: &[u64]) -> Instant {
        let mut now = Instant::ZERO + ms(from);
        for rtt in rtts {
            now += ms(*rtt);
            filter.on_round_trip(now, ByteCount::new(window), ms(*rtt), ms(*rtt / 8));
        }
        now
    }

    /// The rates of the paper's links (§4): ADSL at 633 kbit/s, HSPA at 355 kbit/s. The round trips
    /// are those of the window at that rate, with spikes to twice and half of it.
    #[test]
    fn spikes_around_the_papers_links_leave_the_estimate_within_a_tenth() {
        for (rate, window, rtt) in [(633.0, 15_825, 200), (355.0, 17_750, 400)] {
            let spiky: Vec<u64> = (0..40)
                .map(|n| match n % 10 {
                    3 => rtt * 2,
                    7 => rtt / 2,
                    n => rtt + rtt / 20 * (n % 3) - rtt / 20,
                })
                .collect();
            let mut filter = KalmanThroughput::default();
            feed(&mut filter, 0, window, &spiky);
            let off = (kbit(&filter) - rate).abs() / rate;
            assert!(off < 0.1, "{} of {rate} kbit/s", kbit(&filter));
        }
    }

    #[test]
    fn one_spike_hardly_moves_it_and_a_lasting_change_is_followed() {
        let mut filter = KalmanThroughput::default();
        let now = feed(&mut filter, 0, 100_000, &[100; 20]);
        assert_eq!(kbit(&filter).round(), 8000.0);
        let mut spiked = filter;
        spiked.on_round_trip(now + ms(800), ByteCount::new(100_000), ms(800), ms(12));
        let (before, after) = (kbit(&filter), kbit(&spiked));
        assert!(after > 0.7 * before, "{before} to {after}");
        feed(&mut filter, 2000, 100_000, &[400; 8]);
        assert!((kbit(&filter) - 2000.0).abs() < 100.0, "{}", kbit(&filter));
    }

    #[test]
    fn confidence_grows_with_round_trips_and_fades_without() {
        let mut filter = KalmanThroughput::default();
        assert_eq!(filter.confidence(Instant::ZERO), 0.0);
        assert_eq!(filter.variance(Instant::ZERO), None);
        let first = feed(&mut filter, 0, 50_000, &[50]);
        let at_first = filter.confidence(first);
        let last = feed(&mut filter, 50, 50_000, &[50; 10]);
        let at_last = filter.confidence(last);
        assert!(at_last > at_first, "{at_first} {at_last}");
        assert!(filter.confidence(last + ms(10_000)) < 0.2);
    }

    /// In the steady state the variance solves P² = q(P + r): a check against the closed form.
    #[test]
    fn the_variance_settles_where_theory_says() {
        let mut filter = KalmanThroughput::default();
        let now = feed(&mut filter, 0, 50_000, &[100; 400]);
        let (q, r) = (DRIFT * 0.1, 0.12_f64.powi(2));
        let prior = (q + (q * q + 4.0 * q * r).sqrt()) / 2.0;
        let posterior = prior * r / (prior + r);
        let variance = filter.variance(now).unwrap();
        assert!(
            (variance - posterior).abs() < 1e-9,
            "{variance} {posterior}"
        );
    }

    #[test]
    fn empty_windows_and_round_trips_say_nothing() {
        let mut filter = KalmanThroughput::default();
        filter.on_round_trip(Instant::ZERO, ByteCount::ZERO, ms(10), ms(1));
        filter.on_round_trip(Instant::ZERO, ByteCount::new(10), Duration::ZERO, ms(1));
        assert_eq!(filter, KalmanThroughput::default());
        assert_eq!(filter.rate(), Rate::ZERO);
    }
}
