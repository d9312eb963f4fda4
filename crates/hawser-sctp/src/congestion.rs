//! Congestion control: one trait, one file for each way.

mod bbr;
#[cfg(test)]
mod bench;
mod coupled;
mod cubic;
mod reno;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use hawser_types::{ByteCount, Instant, Rate};

use crate::Control;
use bbr::Bbr;
pub(crate) use coupled::Coupling;
use cubic::Cubic;
use reno::Reno;

/// A new path's control, for packets of `packet` bytes.
pub(crate) fn new(control: Control, packet: ByteCount) -> Box<dyn CongestionControl> {
    match control {
        Control::Reno => Box::new(Reno::new(packet)),
        Control::FirstReno => Box::new(Reno::first(packet)),
        Control::Cubic => Box::new(Cubic::new(packet)),
        Control::Bbr => Box::new(Bbr::new(packet)),
    }
}

/// How a path's window moves: told what happened on the path, asked how much may be under way.
pub(crate) trait CongestionControl: fmt::Debug + Send {
    /// How much may be under way.
    fn window(&self) -> ByteCount;

    /// Bytes leave no faster than this; `None` where only the window counts.
    fn pacing(&self) -> Option<Rate>;

    /// A packet leaves. `flight`: what was under way before it.
    fn on_sent(&mut self, now: Instant, size: ByteCount, flight: ByteCount);

    /// An acknowledgement has come; once for each packet that brought any news of this path, after the
    /// losses that it showed.
    fn on_acknowledged(&mut self, acknowledged: &Acknowledged);

    /// Chunks were found lost that were sent after the last window reduction, or before: whether a
    /// new reduction is due is for the control to say by `newest_sent`.
    fn on_lost(&mut self, lost: &Lost);

    /// Nothing came back for a whole retransmission time-out: all that was under way is taken for lost.
    fn on_timeout(&mut self, now: Instant);

    /// Losses of the last reduction were none: the chunks had been late.
    fn on_spurious(&mut self, _now: Instant) {}

    /// Nothing was under way for this many retransmission time-outs; something leaves now.
    fn on_idle(&mut self, _timeouts: u32) {}

    /// The path's largest packet has changed, or is known for the first time.
    fn on_packet_size(&mut self, _size: ByteCount) {}

    /// The path shares a bottleneck with others from now on; with `None` it is alone again.
    fn couple(&mut self, _coupling: Option<Coupling>) {}
}

/// News of a path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acknowledged {
    pub(crate) now: Instant,
    /// Newly acknowledged, cumulatively or by gap blocks.
    pub(crate) bytes: ByteCount,
    /// Under way before, and now.
    pub(crate) flight_before: ByteCount,
    pub(crate) flight: ByteCount,
    /// The round-trip time of what was sent once; `None` where nothing fresh was acknowledged.
    pub(crate) rtt: Option<Duration>,
    pub(crate) smoothed_rtt: Duration,
    /// When the latest of them was sent.
    pub(crate) newest_sent: Instant,
    /// Whether a window may grow with it.
    pub(crate) may_grow: bool,
    /// How fast the path delivered; `None` where it can't be told.
    pub(crate) sample: Option<RateSample>,
}

/// A measurement of how fast a path delivers. Source: draft-ietf-ccwg-bbr §4.1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RateSample {
    pub(crate) rate: Rate,
    /// Bytes of this path delivered by now, and when the packet measured by had been sent.
    pub(crate) delivered: ByteCount,
    pub(crate) delivered_before: ByteCount,
    /// The sender had nothing more to send.
    pub(crate) application_limited: bool,
}

/// Losses of a path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lost {
    pub(crate) now: Instant,
    pub(crate) bytes: ByteCount,
    /// When the latest of them was sent: one that left before the last reduction asks for no other.
    pub(crate) newest_sent: Instant,
}

/// The window of a new path that is not bound to SCTP's. Source: RFC 6928 §2.
fn initial_window(packet: u64) -> u64 {
    (10 * packet).min((2 * packet).max(14_600))
}

/// So many bytes in each round trip; `None` while that is unknown.
fn pace(bytes: f64, rtt: Duration) -> Option<Rate> {
    let rate = bytes / rtt.as_secs_f64();
    (rate.is_finite() && rate >= 1.0).then(|| Rate::from_bytes_per_second(rate as u64))
}

/// More is under way on no path: a bound for arithmetic alone.
const MAX_WINDOW: u64 = 1 << 32;
