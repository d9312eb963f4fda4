use std::time::Duration;

use hawser_types::Instant;

/// How much of what is sent over a link has to be sent again, over all the connections on it.
///
/// In segments, of which older ones count less: by half in ten minutes, and by 1/e for each 5000
/// that come after them. Counts all retransmissions of TCP, needless ones too. The other direction
/// is unknown: a receiver cannot tell lost segments from late ones.
///
/// Source: DBAS §II.B.2 (passive estimation of interfaces).
#[derive(Clone, Copy, Debug, Default)]
pub struct LinkLoss {
    delivered: f64,
    again: f64,
    /// When the two were last brought up to date.
    at: Instant,
}

/// Segments of one connection since its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Segments {
    /// Sent, and received by the far end.
    pub delivered: u64,
    /// Sent once more.
    pub again: u64,
}

impl LinkLoss {
    /// A connection on the link has come so far: from the counts in `before` to those in `now`.
    pub fn on_segments(&mut self, at: Instant, before: Segments, now: Segments) {
        let delivered = now.delivered.saturating_sub(before.delivered) as f64;
        let again = now.again.saturating_sub(before.again) as f64;
        if delivered + again == 0.0 {
            return;
        }
        let keep = self.fading(at) * (-(delivered + again) / MEMORY).exp();
        self.delivered = self.delivered * keep + delivered;
        self.again = self.again * keep + again;
        self.at = self.at.max(at);
    }

    /// The share of segments that had to be sent again, from 0 to 1; `None` while nothing was sent.
    pub fn rate(&self) -> Option<f64> {
        let all = self.delivered + self.again;
        (all > 0.0).then(|| self.again / all)
    }

    /// How much is to be thought of that, from 0 to 1: 0.5 with 200 segments just now.
    pub fn confidence(&self, now: Instant) -> f64 {
        let all = (self.delivered + self.again) * self.fading(now);
        all / (all + ENOUGH)
    }

    /// Returns the factor by which the counts have faded since their last update.
    fn fading(&self, now: Instant) -> f64 {
        let age = now.since(self.at).as_secs_f64();
        (-age / HALF_LIFE.as_secs_f64()).exp2()
    }
}

/// Segments after which one counts 1/e.
const MEMORY: f64 = 5000.0;
/// As the confidence in rates.
const HALF_LIFE: Duration = Duration::from_secs(600);
/// Segments that it takes to say anything about a rate of a per cent.
const ENOUGH: f64 = 200.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    const fn segments(delivered: u64, again: u64) -> Segments {
        Segments { delivered, again }
    }

    #[test]
    fn what_all_connections_send_again_is_the_loss_of_their_link() {
        let mut loss = LinkLoss::default();
        assert_eq!((loss.rate(), loss.confidence(at(1))), (None, 0.0));
        // Two connections beside one another, each with its own counts.
        loss.on_segments(at(1), segments(0, 0), segments(90, 10));
        loss.on_segments(at(1), segments(500, 7), segments(600, 7));
        let rate = loss.rate().unwrap();
        assert!((rate - 0.05).abs() < 0.002, "{rate}");
        assert!((loss.confidence(at(1)) - 0.5).abs() < 0.01);
    }

    #[test]
    fn what_was_long_ago_counts_less() {
        let mut loss = LinkLoss::default();
        loss.on_segments(at(0), segments(0, 0), segments(1000, 1000));
        let before = loss.confidence(at(0));
        assert!(loss.confidence(at(600)) < before && loss.rate() == Some(0.5));
        loss.on_segments(at(6000), segments(0, 0), segments(1000, 0));
        assert!(loss.rate().unwrap() < 0.002);
        // So does what was many segments ago.
        for _ in 0..20 {
            loss.on_segments(at(6000), segments(0, 0), segments(900, 100));
        }
        assert!((loss.rate().unwrap() - 0.1).abs() < 0.01);
    }

    #[test]
    fn counts_that_go_back_and_clocks_that_do_are_nothing() {
        let mut loss = LinkLoss::default();
        loss.on_segments(at(9), segments(0, 0), segments(100, 1));
        let before = loss.rate();
        loss.on_segments(at(5), segments(100, 1), segments(3, 0));
        assert_eq!(loss.rate(), before);
        assert!(loss.confidence(at(5)) <= 1.0);
    }
}
