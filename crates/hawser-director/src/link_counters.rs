use std::time::Duration;

use hawser_types::{ByteCount, Instant};

use super::estimates::Estimates;

/// Counters of a link's interface, from which the link's rates are derived.
///
/// Sent bytes count only if far ends acknowledge nearly all of them, because datagrams may be lost
/// behind the interface. The kernel's program reports its datagrams up to half a second late, so
/// sent bytes are judged at the next reading.
#[derive(Debug, Default)]
pub(crate) struct LinkCounters {
    /// Latest reading, whose sent bytes are not judged yet.
    latest: Option<Latest>,
    /// Bytes sent without acknowledgement that were reported since the latest reading.
    unacknowledged: ByteCount,
    /// For sent and received bytes: the counter when a session began to keep the link busy, or when
    /// a rate was last derived from it.
    shared: [Option<(Instant, ByteCount)>; 2],
}

/// One reading of an interface's counters. Pairs are for sending and receiving.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) at: Instant,
    pub(crate) total: [ByteCount; 2],
    /// True if a connection was continuously active on the link since the last reading.
    pub(crate) busy: [bool; 2],
    /// True if a session keeps the link busy.
    pub(crate) is_shared: bool,
}

#[derive(Clone, Copy, Debug)]
struct Latest {
    reading: Reading,
    /// Bytes sent since the previous reading.
    sent: ByteCount,
    /// Bytes sent without acknowledgement that were reported since the previous reading.
    unacknowledged: ByteCount,
}

impl LinkCounters {
    /// Adds bytes that were sent over the link without acknowledgement.
    pub(crate) fn on_unacknowledged(&mut self, sent: ByteCount) {
        self.unacknowledged += sent;
    }

    /// Records the next reading.
    pub(crate) fn on_reading(&mut self, estimates: &mut Estimates, reading: Reading) {
        let Reading {
            at, total, busy, ..
        } = reading;
        estimates.on_received(at, total[1], busy[1]);
        self.on_shared(estimates, RECEIVED, reading, true);
        let unacknowledged = std::mem::take(&mut self.unacknowledged);
        let before = self.latest.map_or(total[0], |it| it.reading.total[0]);
        let latest = Latest {
            reading,
            sent: total[0] - before,
            unacknowledged,
        };
        if let Some(earlier) = self.latest.replace(latest) {
            let unacknowledged = earlier.unacknowledged + unacknowledged;
            let most = earlier.sent.as_u64() / UNACKNOWLEDGED_PART;
            let arrives = unacknowledged.as_u64() <= most;
            let Reading {
                at, total, busy, ..
            } = earlier.reading;
            estimates.on_sent(at, total[0], busy[0] && arrives);
            self.on_shared(estimates, SENT, earlier.reading, arrives);
        }
    }

    /// Derives a lower bound of the rates while a session keeps the link busy: the session may wait
    /// for its far end.
    fn on_shared(&mut self, estimates: &mut Estimates, way: usize, now: Reading, arrives: bool) {
        let (at, total) = (now.at, now.total[way]);
        let Some((since, before)) = self.shared[way].filter(|_| now.is_shared && arrives) else {
            self.shared[way] = now.is_shared.then_some((at, total));
            return;
        };
        let span = at.since(since);
        if span >= SHARED_SPAN {
            let mut moved = [ByteCount::ZERO; 2];
            moved[way] = total - before;
            estimates.on_transfer(at, moved, span);
            self.shared[way] = Some((at, total));
        }
    }
}

const SENT: usize = 0;
const RECEIVED: usize = 1;
/// If unacknowledged bytes exceed this fraction (1/8) of sent bytes, the reading is ignored.
const UNACKNOWLEDGED_PART: u64 = 8;
/// Long enough that a burst out of a queue does not pass for a rate.
const SHARED_SPAN: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulates readings half a second apart, each with 250,000 bytes sent, of which
    /// `unacknowledged` had no acknowledgement. Returns the measured rate, in kbit/s.
    fn sent(unacknowledged: u64, busy: bool, is_shared: bool) -> u64 {
        let (mut counters, mut estimates) = (LinkCounters::default(), Estimates::default());
        for turn in 1..=20 {
            counters.on_unacknowledged(ByteCount::new(unacknowledged));
            let reading = Reading {
                at: Instant::ZERO + turn * Duration::from_millis(500),
                total: [ByteCount::new(u64::from(turn) * 250_000), ByteCount::ZERO],
                busy: [busy; 2],
                is_shared,
            };
            counters.on_reading(&mut estimates, reading);
        }
        let [seen, _] = estimates.seen();
        seen.map_or(0, |rate| rate.bits_per_second() / 1000)
    }

    #[test]
    fn what_an_interface_sends_is_a_rate_where_nearly_all_of_it_is_acknowledged() {
        for (busy, is_shared) in [(true, false), (false, true)] {
            assert_eq!(sent(0, busy, is_shared), 4_000);
            assert_eq!(sent(10_000, busy, is_shared), 4_000);
            assert_eq!(sent(200_000, busy, is_shared), 0);
        }
        assert_eq!(sent(0, false, false), 0);
    }
}
