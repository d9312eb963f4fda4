use std::ops::Range;

use hawser_types::{ByteCount, Instant};
use smallvec::SmallVec;

/// A TCP segment on its way, with the IP header that carries it.
///
/// Sequence numbers count bytes of payload from 0; a SYN takes none, and connections end by reset
/// only.
#[derive(Clone, Debug)]
pub struct Packet {
    pub(crate) kind: Kind,
    /// The number of the first byte of payload.
    pub(crate) sequence: u64,
    /// Bytes of payload.
    pub(crate) length: u32,
    /// Every byte below this has arrived.
    pub(crate) acknowledged: u64,
    /// The bytes that may be sent beyond `acknowledged`.
    pub(crate) window: u64,
    /// What has arrived beyond `acknowledged`: the latest first, three at most.
    pub(crate) selective: SmallVec<[Range<u64>; 3]>,
    /// What this acknowledges was there already.
    pub(crate) duplicate: bool,
    /// When it was sent (RFC 7323's TSval).
    pub(crate) stamp: Instant,
    /// The stamp of what it answers (TSecr).
    pub(crate) echo: Option<Instant>,
}

/// What a packet is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Syn,
    SynAck,
    /// Payload, an acknowledgement, or both.
    Ordinary,
    Reset,
}

impl Packet {
    /// What a host says that knows no such connection.
    pub(crate) fn reset(now: Instant) -> Self {
        Self {
            kind: Kind::Reset,
            sequence: 0,
            length: 0,
            acknowledged: 0,
            window: 0,
            selective: SmallVec::new(),
            duplicate: false,
            stamp: now,
            echo: None,
        }
    }

    /// Whether it asks for a connection.
    pub(crate) fn is_greeting(&self) -> bool {
        self.kind == Kind::Syn
    }

    /// Whether it ends one.
    pub(crate) fn is_reset(&self) -> bool {
        self.kind == Kind::Reset
    }

    /// Its size on the link: IP, TCP with its options, and payload.
    pub fn size(&self) -> ByteCount {
        let header = match self.kind {
            Kind::Syn | Kind::SynAck => SYN_HEADER,
            Kind::Reset => RESET_HEADER,
            Kind::Ordinary => {
                // Without the time stamp option there is nothing to echo.
                let stamp = if self.echo.is_some() { 0 } else { STAMP };
                let selective = match self.selective.len() as u64 {
                    0 => 0,
                    ranges => 4 + 8 * ranges,
                };
                HEADER - stamp + selective
            }
        };
        ByteCount::new(header + u64::from(self.length))
    }
}

/// IPv4, TCP and its time stamp option.
pub(crate) const HEADER: u64 = BARE_HEADER + STAMP;
/// IPv4 and TCP without options.
pub(crate) const BARE_HEADER: u64 = 20 + 20;
const STAMP: u64 = 12;
const SYN_HEADER: u64 = 60;
const RESET_HEADER: u64 = 40;
/// The payload of a full segment on a link with an MTU of 1500.
pub(crate) const SEGMENT: u32 = 1500 - HEADER as u32;
