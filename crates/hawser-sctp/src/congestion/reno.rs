use hawser_types::{ByteCount, Instant, Rate};

use super::control::{Acknowledged, CongestionControl, Lost, MAX_WINDOW};

/// SCTP's own congestion control: slow start, then one packet more in each round trip; half with
/// each loss.
///
/// Source: RFC 9260 §7.2.
#[derive(Debug)]
pub(crate) struct Reno {
    packet: u64,
    /// Minimum window after a reduction, in packets.
    fewest: u64,
    window: u64,
    threshold: u64,
    /// Bytes acknowledged towards the next increase by a packet.
    partial: u64,
    /// Time of the last reduction. Losses sent before it cause no other.
    recovery: Option<Instant>,
    /// Window and threshold before the last reduction.
    before: Option<(u64, u64)>,
}

impl Reno {
    /// Creates the control of RFC 9260.
    pub(crate) fn new(packet: ByteCount) -> Self {
        Self::with(packet, initial_window, FEWEST_PACKETS)
    }

    /// Creates the control of RFC 2960.
    pub(crate) fn first(packet: ByteCount) -> Self {
        Self::with(packet, |packet| 2 * packet, 2)
    }

    fn with(packet: ByteCount, initial: fn(u64) -> u64, fewest: u64) -> Self {
        let packet = packet.as_u64().max(1);
        Self {
            packet,
            fewest,
            window: initial(packet),
            threshold: u64::MAX,
            partial: 0,
            recovery: None,
            before: None,
        }
    }

    fn halve(&mut self) {
        self.before = Some((self.window, self.threshold));
        self.threshold = (self.window / 2).max(self.fewest * self.packet);
        self.window = self.threshold;
        self.partial = 0;
    }
}

impl CongestionControl for Reno {
    fn window(&self) -> ByteCount {
        ByteCount::new(self.window)
    }

    fn pacing(&self) -> Option<Rate> {
        None
    }

    fn on_sent(&mut self, _: Instant, _: ByteCount, _: ByteCount) {}

    fn on_acknowledged(&mut self, acknowledged: &Acknowledged) {
        let recovers = self
            .recovery
            .is_some_and(|since| acknowledged.newest_sent <= since);
        // A window with room for less than a packet is fully used.
        let used = acknowledged.flight_before.as_u64() + self.packet > self.window;
        let bytes = acknowledged.bytes.as_u64();
        // RFC 9260 grows the window only when the cumulative TSN moves. With several paths, it
        // stands still for a hole on any of them; so acknowledgements of this path count instead,
        // except where an experiment asks for the original rule.
        let grows = acknowledged.may_grow;
        if self.window <= self.threshold {
            if used && !recovers && grows {
                self.window += bytes.min(self.packet);
            }
        } else {
            let step = self.window;
            self.partial = self.partial.saturating_add(bytes);
            if self.partial >= step && used && grows {
                self.partial = (self.partial - step).min(step);
                self.window += self.packet;
            }
            self.partial = self.partial.min(step);
        }
        self.window = self.window.min(MAX_WINDOW);
        if acknowledged.flight.as_u64() == 0 {
            self.partial = 0;
        }
    }

    fn on_lost(&mut self, lost: &Lost) {
        if self.recovery.is_none_or(|since| lost.newest_sent > since) {
            self.halve();
            self.recovery = Some(lost.now);
        }
    }

    fn on_timeout(&mut self, now: Instant) {
        // One reduction for all data in flight, however often it is retransmitted (RFC 5681 §3.1).
        if self.window > self.packet {
            self.halve();
        }
        self.window = self.packet;
        self.recovery = Some(now);
    }

    fn on_spurious(&mut self, _: Instant) {
        if let Some((window, threshold)) = self.before.take() {
            self.window = self.window.max(window);
            self.threshold = threshold;
        }
    }

    fn on_idle(&mut self, timeouts: u32) {
        // Knowledge about the path gets old (§7.2.1).
        let halved = self.window.checked_shr(timeouts).unwrap_or(0);
        let least = initial_window(self.packet).min(self.window);
        self.threshold = self.threshold.max(self.window);
        self.window = halved.max(least);
    }

    fn on_packet_size(&mut self, size: ByteCount) {
        self.packet = size.as_u64().max(1);
        self.window = self.window.max(self.packet);
    }
}

fn initial_window(packet: u64) -> u64 {
    (4 * packet).min((2 * packet).max(4404))
}

/// Minimum window in packets, so that later packets reveal a loss.
const FEWEST_PACKETS: u64 = 4;
