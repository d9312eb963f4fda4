use std::time::Duration;

use hawser_types::{ByteCount, LinkIndex, Rate};

/// Figures of one link now. Counters run from any beginning and never fall.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkReport {
    /// The link.
    pub link: LinkIndex,
    /// Payload that the peer has acknowledged on it, each byte counted once over all links.
    pub delivered: ByteCount,
    /// Payload that other links had to carry as well, since this one was late with it.
    pub sent_again: ByteCount,
    /// Time for which data that had come lay waiting for data on this link.
    pub blocked: Duration,
    /// The part of that in which the other links stood idle: what may be in flight was used up.
    pub stalled: Duration,
    /// Rate that the link can deliver, as far as is known.
    pub rate: Rate,
    /// Smoothed round-trip time.
    pub rtt: Duration,
    /// The share of segments that it loses, from 0 to 1.
    pub loss: f64,
    /// There was more to send than links took. Without demand nothing can be said of goodput.
    pub demand: bool,
    /// Links with the same number share a bottleneck.
    pub bottleneck: Option<u8>,
}
