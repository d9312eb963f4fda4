use std::time::Duration;

use hawser_types::Instant;

/// How long others had to wait for the packets of one path.
///
/// This wait is the difference of one-way delays in the only unit that matters, and needs no clock
/// of the sender.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lateness {
    /// Longest wait of the current span and of the one before.
    longest: [Duration; 2],
    span_began: Instant,
    mean: Duration,
    deviation: Duration,
    is_known: bool,
}

impl Lateness {
    /// Takes in how long others waited for a packet; zero where none did.
    pub(super) fn on_packet(&mut self, now: Instant, waited: Duration) {
        let passed = now.since(self.span_began);
        if passed >= SPAN {
            let before = if passed < 2 * SPAN {
                self.longest[0]
            } else {
                Duration::ZERO
            };
            self.longest = [Duration::ZERO, before];
            self.span_began = now;
        }
        self.longest[0] = self.longest[0].max(waited);
        if waited.is_zero() {
            return;
        }
        if self.is_known {
            let off = waited.abs_diff(self.mean);
            self.deviation = self.deviation * 15 / 16 + off / 16;
            self.mean = self.mean * 15 / 16 + waited / 16;
        } else {
            (self.mean, self.deviation) = (waited, waited / 4);
            self.is_known = true;
        }
    }

    /// The longest wait lately; `None` before there was one.
    pub(super) fn longest(&self) -> Option<Duration> {
        let [this, before] = self.longest;
        self.is_known.then(|| this.max(before))
    }

    /// Mean deviation of waits.
    pub(super) const fn jitter(&self) -> Duration {
        self.deviation
    }
}

/// A wait is remembered for one to two of these.
const SPAN: Duration = Duration::from_secs(4);
