use std::time::Duration;

use hawser_types::ByteCount;

/// Time that packets spent in front of links and in their service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queueing {
    bytes: u64,
    /// Sum of bytes times nanoseconds.
    waited: u128,
}

impl Queueing {
    /// Counts a packet of `size` bytes that takes `waited` longer than the link's delay.
    pub(super) fn note(&mut self, size: ByteCount, waited: Duration) {
        self.bytes += size.as_u64();
        self.waited += u128::from(size.as_u64()) * waited.as_nanos();
    }

    pub(super) fn add(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.waited += other.waited;
    }

    /// Returns what came since `before`.
    pub fn since(self, before: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(before.bytes),
            waited: self.waited.saturating_sub(before.waited),
        }
    }

    /// Returns the mean of all bytes.
    pub fn mean(self) -> Duration {
        let nanos = self.waited.checked_div(u128::from(self.bytes));
        Duration::from_nanos(nanos.unwrap_or(0).try_into().unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_counts_the_same() {
        let mut all = Queueing::default();
        all.note(ByteCount::new(100), Duration::from_millis(40));
        let before = all;
        assert_eq!(all.since(before).mean(), Duration::ZERO);
        all.note(ByteCount::new(300), Duration::from_millis(20));
        assert_eq!(all.mean(), Duration::from_millis(25));
        assert_eq!(all.since(before).mean(), Duration::from_millis(20));
    }
}
