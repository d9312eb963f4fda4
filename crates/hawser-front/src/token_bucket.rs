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
        // A rate of zero is one token in a thousand years.
        let never = Duration::from_secs(1000 * 365 * 86_400);
        let token = Duration::from_secs(1).checked_div(rate).unwrap_or(never);
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
