//! Limit of costly operations that a peer may cause.

use std::time::Duration;

use hawser_types::Instant;

/// Token bucket for operations caused by a peer that cost keys, memory or connections: eight in a
/// row, then one every three seconds.
///
/// Stored as the time when the bucket is full.
#[derive(Debug, Default)]
pub struct Allowance {
    full_at: Instant,
}

impl Allowance {
    /// Takes a token.
    ///
    /// # Errors
    /// The time until the next token.
    pub fn take(&mut self, now: Instant) -> Result<(), Duration> {
        let full_at = self.full_at.max(now) + REFILL;
        let latest = now + REFILL * BURST;
        if full_at > latest {
            return Err(full_at.since(latest));
        }
        self.full_at = full_at;
        Ok(())
    }
}

/// Tokens in a full bucket.
const BURST: u32 = 8;
/// Time in which one token is added.
const REFILL: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_taken_in_a_short_row_and_then_one_at_a_time() {
        let mut allowance = Allowance::default();
        let now = Instant::ZERO + Duration::from_secs(100);
        for _ in 0..BURST {
            assert_eq!(allowance.take(now), Ok(()));
        }
        assert_eq!(allowance.take(now), Err(REFILL));
        assert_eq!(allowance.take(now + REFILL / 2), Err(REFILL / 2));
        assert_eq!(allowance.take(now + REFILL), Ok(()));
        assert_eq!(allowance.take(now + REFILL), Err(REFILL));
        let taken = (0..).take_while(|_| allowance.take(now + REFILL * 1000).is_ok());
        assert_eq!(taken.count(), BURST as usize);
    }
}
