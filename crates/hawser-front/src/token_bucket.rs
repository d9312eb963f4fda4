//! A rate limiter.

use std::time::Duration;

use tokio::time::Instant;

/// Tokens that are refilled at a rate, up to a number. Stored as the time at which the bucket will
/// be full, so no refill has to be counted.
#[derive(Debug)]
pub(crate) struct TokenBucket {
    full_at: Instant,
}

impl TokenBucket {
    /// Creates a full bucket.
    pub(crate) fn new(now: Instant) -> Self {
        Self { full_at: now }
    }

    /// Takes one token; false if the bucket is empty.
    pub(crate) fn take(&mut self, rate: u32, burst: u32, now: Instant) -> bool {
        let token = token_time(rate);
        let full_at = self.full_at.max(now) + token;
        if full_at > now + token.saturating_mul(burst) {
            return false;
        }
        self.full_at = full_at;
        true
    }

    pub(crate) fn is_full(&self, now: Instant) -> bool {
        self.full_at <= now
    }
}

/// Returns the time to refill one token; a rate of zero is one in a thousand years.
fn token_time(rate: u32) -> Duration {
    Duration::from_secs(1)
        .checked_div(rate)
        .unwrap_or(Duration::from_secs(1000 * 365 * 86_400))
}
