use std::time::Duration;

use hawser_types::{ByteCount, Instant, Rate};

use crate::Silence;

/// What the kernel says of one TCP connection at one moment (`TCP_INFO`, `SIOCOUTQ`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelSample {
    /// Smoothed round-trip time; zero before the first measurement.
    pub rtt: Duration,
    /// Mean deviation of the round-trip time.
    pub rtt_variation: Duration,
    /// The lowest round-trip time the kernel remembers.
    pub min_rtt: Option<Duration>,
    /// The latest rate sample.
    pub delivery_rate: Rate,
    /// The rate sample was limited by the application, not by the path.
    pub app_limited: bool,
    /// Congestion window.
    pub congestion_window: ByteCount,
    /// Bytes that were written to the channel and that the peer's kernel has not acknowledged,
    /// those that the kernel has not sent yet included.
    pub unacknowledged: ByteCount,
    /// Time since the last acknowledgement came.
    pub since_ack: Duration,
    /// Segments sent again, in total.
    pub retransmissions: u64,
}

/// Keeps what is known of the path below one channel.
#[derive(Clone, Debug, Default)]
pub struct PathEstimator {
    latest: KernelSample,
    rate: Rate,
    min_rtt: Option<Duration>,
    silence: Silence,
}

impl PathEstimator {
    /// Takes in what the kernel says now.
    pub fn on_sample(&mut self, now: Instant, sample: KernelSample) {
        self.silence.on_sample(
            now,
            sample.unacknowledged > ByteCount::ZERO,
            sample.since_ack,
        );
        self.latest = sample;
        self.min_rtt = match (self.min_rtt, sample.min_rtt) {
            (Some(old), Some(new)) => Some(old.min(new)),
            (old, new) => old.or(new),
        };
        self.update_rate(sample);
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

    /// The lowest round-trip time seen.
    pub fn min_rtt(&self) -> Option<Duration> {
        self.min_rtt
    }

    /// The rate at which the path delivers; zero while unknown. Samples that the application
    /// limited raise it but never lower it.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// The record of this path's silences.
    pub fn silence(&self) -> &Silence {
        &self.silence
    }

    /// The record of this path's silences, to tell it of a false alarm.
    pub fn silence_mut(&mut self) -> &mut Silence {
        &mut self.silence
    }

    fn update_rate(&mut self, sample: KernelSample) {
        let old = self.rate.bytes_per_second();
        let new = sample.delivery_rate.bytes_per_second();
        if new == 0 || (sample.app_limited && new < old) {
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

#[cfg(test)]
mod tests {
    use super::*;

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
        path.on_sample(Instant::ZERO, sample(800, false));
        path.on_sample(Instant::ZERO, sample(100, true));
        assert_eq!(path.rate().bytes_per_second(), 800);
        path.on_sample(Instant::ZERO, sample(0, false));
        path.on_sample(Instant::ZERO, sample(400, false));
        assert_eq!(path.rate().bytes_per_second(), 750);
        path.on_sample(Instant::ZERO, sample(900, true));
        assert_eq!(path.rate().bytes_per_second(), 900);
    }
}
