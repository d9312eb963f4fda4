use std::time::Duration;

use hawser_types::{ByteCount, Instant, Rate};

/// Bounds second copies: 256 kbit/s at any time, and one byte in fifty of what is sent besides.
///
/// As for an association's duplicates (`hawser-sctp/src/send/duplicate.rs`).
#[derive(Clone, Copy, Debug)]
pub(super) struct CopyBudget {
    left: ByteCount,
    at: Instant,
    /// Bytes sent that have not earned a whole byte yet.
    sent: u64,
}

impl CopyBudget {
    /// Tells whether a copy of `size` is within the budget.
    pub(super) fn allows(&mut self, now: Instant, size: ByteCount) -> bool {
        let earned = RATE * now.since(self.at).min(LONGEST);
        if earned > ByteCount::ZERO {
            self.at = now;
            self.earn(earned);
        }
        self.left >= size
    }

    pub(super) fn spend(&mut self, size: ByteCount) {
        self.left -= size;
    }

    pub(super) fn on_sent(&mut self, size: ByteCount) {
        self.sent += size.as_u64();
        let earned = self.sent / ONE_IN;
        self.sent %= ONE_IN;
        self.earn(ByteCount::new(earned));
    }

    fn earn(&mut self, bytes: ByteCount) {
        self.left = (self.left + bytes).min(MOST);
    }
}

impl Default for CopyBudget {
    fn default() -> Self {
        Self {
            left: MOST,
            at: Instant::ZERO,
            sent: 0,
        }
    }
}

const RATE: Rate = Rate::from_bits_per_second(256_000);
const ONE_IN: u64 = 50;
const MOST: ByteCount = ByteCount::from_kib(32);
const LONGEST: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_bounded_by_time_and_by_what_is_sent() {
        let mut budget = CopyBudget::default();
        let size = ByteCount::new(1024);
        let mut copies = 0;
        while budget.allows(Instant::ZERO, size) {
            budget.spend(size);
            copies += 1;
        }
        assert_eq!(copies, 32);
        budget.on_sent(ByteCount::new(50 * 1024));
        assert!(budget.allows(Instant::ZERO, size));
        budget.spend(size);
        // 32 kB in each second.
        let soon = Instant::ZERO + Duration::from_millis(31);
        assert!(!budget.allows(soon, size));
        assert!(budget.allows(soon + Duration::from_millis(2), size));
    }
}
