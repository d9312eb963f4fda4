use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use hawser_types::Instant;

/// How many strangers are answered: in all, and of each neighbourhood, so that a flood under one name
/// neither reaches who has that name nor shuts out all others.
pub(super) struct AnswerLimit {
    key: [u8; 32],
    in_all: u32,
    all: Bucket,
    /// Neighbourhoods share places by chance: the memory is fixed.
    places: Vec<Bucket>,
}

/// Tokens that come back at a rate, up to those of a second. Kept as the time when all will be back.
#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    full_at: Instant,
}

impl AnswerLimit {
    /// `key`: nobody else knows which neighbourhoods share a place.
    pub(super) fn new(key: [u8; 32], in_all: u32) -> Self {
        Self {
            key,
            in_all,
            all: Bucket::default(),
            places: vec![Bucket::default(); PLACES],
        }
    }

    /// Whether one more answer may go there; it is counted.
    pub(super) fn take(&mut self, now: Instant, to: IpAddr) -> bool {
        let hash = blake3::keyed_hash(&self.key, &neighbourhood(to).to_be_bytes());
        let [high, low, ..] = *hash.as_bytes();
        let place = usize::from(u16::from_be_bytes([high, low])) % PLACES;
        self.places[place].take(now, PER_PLACE) && self.all.take(now, self.in_all)
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
    /// Without key and places.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerLimit")
            .field("all", &self.all)
            .finish_non_exhaustive()
    }
}

/// Addresses that count as one: an IPv4 /24, an IPv6 /48.
fn neighbourhood(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits() >> 8),
        IpAddr::V6(address) => address.to_bits() >> 80 << 80,
    }
}

const PLACES: usize = 1024;

/// Answers a second to one neighbourhood: at most 300 kbit/s that somebody else asked for in its name.
const PER_PLACE: u32 = 200;
