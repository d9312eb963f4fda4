use std::time::Duration;

use hawser_types::{ByteCount, LinkIndex, Rate};

use super::Class;

/// Expected need of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Demand {
    /// Its kind.
    pub class: Class,
    /// Bytes that it will send, in all.
    pub up: ByteCount,
    /// Bytes that it will receive, in all.
    pub down: ByteCount,
}

/// Bytes that the connections on a link have still to carry, as an estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Load {
    /// Connections that are open and move data, or have just begun.
    pub connections: u32,
    /// Bytes still to be sent.
    pub up: ByteCount,
    /// Bytes still to be received.
    pub down: ByteCount,
}

/// One link that a connection may take at one moment, as far as a policy may know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LinkView {
    /// The link.
    pub link: LinkIndex,
    /// Rate that it can send; zero while unknown.
    pub up: Rate,
    /// Rate that it can receive; zero while unknown.
    pub down: Rate,
    /// Its round-trip time as it is now, queues included; zero while unknown.
    pub latency: Duration,
    /// Load of the connections that it carries already.
    pub load: Load,
}

impl LinkView {
    /// How long the link has to carry what is on it and `demand` besides, the slower direction of
    /// the two.
    ///
    /// A rate that is not known counts as [`FALLBACK_RATE`].
    pub fn time_to_finish(&self, demand: &Demand) -> Duration {
        let up = time(self.load.up + demand.up, self.up);
        let down = time(self.load.down + demand.down, self.down);
        up.max(down)
    }

    /// How long a short connection takes when it shares the link with those that are on it already:
    /// two round trips, to connect and to be answered, and its share of the rate.
    pub fn time_to_answer(&self, demand: &Demand) -> Duration {
        let share = u64::from(self.load.connections.min(MAX_SHARING)) + 1;
        let shared = |bytes: ByteCount| ByteCount::new(bytes.as_u64().saturating_mul(share));
        let up = time(shared(demand.up), self.up);
        let down = time(shared(demand.down), self.down);
        self.latency.saturating_mul(2).saturating_add(up.max(down))
    }
}

/// Returns the bytes that a connection has still to carry one way, estimated from the `demand` of
/// such connections and from the bytes that it has `moved`.
///
/// Beyond its demand as much as it has carried already: sizes are heavy-tailed, so a connection
/// that has run for long goes on for long.
pub fn remaining(demand: ByteCount, moved: ByteCount) -> ByteCount {
    if moved < demand {
        demand - moved
    } else {
        moved
    }
}

/// Time that the bytes take at the rate, of which no more than [`MAX_LOAD`] count.
pub(super) fn time(bytes: ByteCount, rate: Rate) -> Duration {
    let time = known(rate).time_for(bytes.min(MAX_LOAD));
    time.unwrap_or_default()
}

/// A rate that is not known counts as [`FALLBACK_RATE`].
pub(super) fn known(rate: Rate) -> Rate {
    match rate {
        Rate::ZERO => FALLBACK_RATE,
        rate => rate,
    }
}

/// Counts for a link whose rate is not known: 10 Mbit/s, an ordinary link.
pub const FALLBACK_RATE: Rate = Rate::from_bits_per_second(10_000_000);
/// More than this on one link makes no difference any more; times of it fit 64 bits of nanoseconds
/// even in the kernel.
pub const MAX_LOAD: ByteCount = ByteCount::new(8_000_000_000);
/// More connections than this on one link make no difference to a short one any more.
pub const MAX_SHARING: u32 = 10_000;
