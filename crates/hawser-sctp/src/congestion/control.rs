use std::fmt;
use std::time::Duration;

use hawser_types::{ByteCount, Instant, Rate};

/// The congestion control of a path. It is told what happens on the path, and limits the bytes in
/// flight.
pub(crate) trait CongestionControl: fmt::Debug + Send {
    /// Returns the congestion window.
    fn window(&self) -> ByteCount;

    /// Returns the pacing rate; `None` where only the window counts.
    fn pacing(&self) -> Option<Rate>;

    /// Returns the bytes in flight that fill the path and a short queue: a quarter of a round trip,
    /// or what bursts of acknowledgements need. `None` while that is not known, or never is.
    fn short_queue(&self) -> Option<ByteCount> {
        None
    }

    /// Handles a packet that leaves. `flight`: bytes in flight before it.
    fn on_sent(&mut self, now: Instant, size: ByteCount, flight: ByteCount);

    /// Handles an acknowledgement, once for each packet with news about this path, after its
    /// losses.
    fn on_acknowledged(&mut self, acknowledged: &Acknowledged);

    /// Handles lost chunks. The implementation compares [`Lost::newest_sent`] with the last window
    /// reduction to decide whether another one is due.
    fn on_lost(&mut self, lost: &Lost);

    /// Handles a retransmission time-out: everything in flight counts as lost.
    fn on_timeout(&mut self, now: Instant);

    /// Handles that the losses behind the last reduction were spurious: the chunks were late.
    fn on_spurious(&mut self, _now: Instant) {}

    /// Handles the end of an idle period of this many retransmission time-outs.
    fn on_idle(&mut self, _timeouts: u32) {}

    /// Handles that the path has become longer: its shortest round trip is this one from now on.
    fn on_longer_way(&mut self, _now: Instant, _shortest: Duration) {}

    /// Handles a change of the path's maximum packet size.
    fn on_packet_size(&mut self, _size: ByteCount) {}
}

/// An acknowledgement, as it concerns one path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acknowledged {
    pub(crate) now: Instant,
    /// Bytes newly acknowledged, cumulatively or by gap blocks.
    pub(crate) bytes: ByteCount,
    /// Bytes in flight before the acknowledgement.
    pub(crate) flight_before: ByteCount,
    /// Bytes in flight now.
    pub(crate) flight: ByteCount,
    /// Round-trip time of a chunk that was sent once; `None` where no such chunk was acknowledged.
    pub(crate) rtt: Option<Duration>,
    pub(crate) smoothed_rtt: Duration,
    /// Send time of the latest packet acknowledged.
    pub(crate) newest_sent: Instant,
    /// The window may grow.
    pub(crate) may_grow: bool,
    /// Delivery rate sample; `None` where the rate cannot be told.
    pub(crate) sample: Option<RateSample>,
}

/// A delivery rate sample of a path. Source: draft-ietf-ccwg-bbr §4.1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RateSample {
    pub(crate) rate: Rate,
    /// Bytes delivered on this path by now.
    pub(crate) delivered: ByteCount,
    /// Bytes delivered when the measured packet was sent.
    pub(crate) delivered_before: ByteCount,
    /// The sender had nothing more to send.
    pub(crate) application_limited: bool,
}

/// Losses of a path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lost {
    pub(crate) now: Instant,
    pub(crate) bytes: ByteCount,
    /// Send time of the latest lost packet. A packet sent before the last reduction causes no
    /// other.
    pub(crate) newest_sent: Instant,
}

/// Returns the initial window of a path that is not limited to SCTP's. Source: RFC 6928 §2.
pub(super) fn initial_window(packet: u64) -> u64 {
    (10 * packet).min((2 * packet).max(14_600))
}

/// Returns the rate of `bytes` per round trip; `None` while the round-trip time is unknown.
pub(super) fn pace(bytes: f64, rtt: Duration) -> Option<Rate> {
    let rate = bytes / rtt.as_secs_f64();
    (rate.is_finite() && rate >= 1.0).then(|| Rate::from_bytes_per_second(rate as u64))
}

/// Upper bound of any window, for arithmetic alone.
pub(super) const MAX_WINDOW: u64 = 1 << 32;
