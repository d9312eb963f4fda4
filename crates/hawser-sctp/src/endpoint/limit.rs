use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use hawser_types::Instant;

/// Rate limit of answers to strangers, in total and for each neighbourhood. A flood with one forged
/// source neither floods that source nor blocks all others.
pub(super) struct AnswerLimit {
    key: [u8; 32],
    total_limit: u32,
    total: Bucket,
    /// Buckets of neighbourhoods, chosen by hash: the memory is fixed.
    buckets: Vec<Bucket>,
}

/// A token bucket with the tokens of one second, stored as the time when it will be full.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    full_at: Instant,
}

impl AnswerLimit {
    /// Creates a limit. `key` is secret, so that no host can predict which neighbourhoods share a
    /// bucket. `places`: associations that there may be. An endpoint for one of them is behind a
    /// seal and hears no strangers, so that it needs no memory for their neighbourhoods.
    pub(super) fn new(key: [u8; 32], total_limit: u32, places: usize) -> Self {
        Self {
            key,
            total_limit,
            total: Bucket::default(),
            buckets: vec![Bucket::default(); places.clamp(1, MAX_BUCKETS)],
        }
    }

    /// Takes a token for an answer to this address; `false` if there is none.
    pub(super) fn take(&mut self, now: Instant, to: IpAddr) -> bool {
        let hash = blake3::keyed_hash(&self.key, &neighbourhood(to).to_be_bytes());
        let [high, low, ..] = *hash.as_bytes();
        let bucket = usize::from(u16::from_be_bytes([high, low])) % self.buckets.len();
        self.buckets[bucket].take(now, PER_NEIGHBOURHOOD) && self.total.take(now, self.total_limit)
    }
}

impl Bucket {
    fn take(&mut self, now: Instant, per_second: u32) -> bool {
        let second = Duration::from_secs(1);
        let full_at = self.full_at.max(now) + second / per_second;
        let is_there = full_at <= now + second;
        if is_there {
            self.full_at = full_at;
        }
        is_there
    }
}

impl fmt::Debug for AnswerLimit {
    /// Leaves out key and buckets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerLimit")
            .field("total", &self.total)
            .finish_non_exhaustive()
    }
}

/// Returns the neighbourhood of an address: an IPv4 /24, an IPv6 /48.
fn neighbourhood(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits() >> 8),
        IpAddr::V6(address) => address.to_bits() >> 80 << 80,
    }
}

/// Maximum number of buckets: 8 KiB.
const MAX_BUCKETS: usize = 1024;

/// Answers a second to one neighbourhood: at most 300 kbit/s caused by forged sources.
const PER_NEIGHBOURHOOD: u32 = 200;
