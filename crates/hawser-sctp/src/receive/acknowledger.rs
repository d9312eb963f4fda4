use std::time::Duration;

use hawser_types::Instant;
use hawser_wire::sctp::Tsn;

/// When a SACK is due.
#[derive(Debug)]
pub(super) struct Acknowledger {
    delay: Duration,
    /// Packets with DATA since the last SACK.
    packets: u32,
    due: Option<Instant>,
    /// The packet that is being read asks for a SACK at its end.
    hurries: bool,
    /// The window has opened: the peer may be waiting for that.
    opened: bool,
    duplicates: Vec<Tsn>,
    /// The window as the last SACK said it.
    advertised: u32,
}

impl Acknowledger {
    pub(super) fn new(delay: Duration, window: u32) -> Self {
        Self {
            delay,
            packets: 0,
            due: None,
            hurries: false,
            opened: false,
            duplicates: Vec::new(),
            advertised: window,
        }
    }

    /// Something to be acknowledged has come.
    pub(super) fn on_arrival(&mut self, now: Instant) {
        self.due.get_or_insert(now + self.delay);
    }

    /// A SACK is wanted as soon as the packet has been read.
    pub(super) fn hurry(&mut self) {
        self.hurries = true;
    }

    /// It came again: the peer should know, since it has sent in vain.
    pub(super) fn on_duplicate(&mut self, tsn: Tsn) {
        self.hurry();
        if self.duplicates.len() < MAX_DUPLICATES {
            self.duplicates.push(tsn);
        }
    }

    /// A packet with DATA has been read. With few holes a sender that knows one path waits for each
    /// SACK to tell loss from reordering; where paths of different delay come together, there are
    /// hundreds of holes that mean nothing, and every SACK names them all.
    pub(super) fn on_packet_end(&mut self, now: Instant, holes: Holes) {
        self.packets += 1;
        let is_news = (holes.before > 0 || holes.now > 0) && holes.now <= FEW_HOLES;
        let enough = PACKETS_PER_SACK.max(holes.now / HOLES_PER_PACKET);
        if self.hurries || is_news || self.packets >= enough {
            self.due = Some(now);
        }
        self.hurries = false;
    }

    /// The reader has taken something. Small steps are not told, lest the peer fills each of them with
    /// a small chunk. Source: RFC 9260 §6.2, RFC 1122 §4.2.3.3.
    pub(super) fn on_window(&mut self, window: u32, capacity: u32) {
        let more = window.saturating_sub(self.advertised);
        let was_closed = self.advertised < capacity / 16;
        self.opened |= more >= capacity / 2 || was_closed && more >= capacity / 8;
    }

    /// Whether a SACK is due; `early`: or will be.
    pub(super) fn is_due(&self, now: Instant, early: bool) -> bool {
        self.opened || self.due.is_some_and(|due| early || due <= now)
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        if self.opened {
            return Some(Instant::ZERO);
        }
        self.due
    }

    /// A SACK leaves with this window: what came twice goes with it.
    pub(super) fn on_sack(&mut self, window: u32) -> Vec<Tsn> {
        self.packets = 0;
        self.due = None;
        self.opened = false;
        self.advertised = window;
        std::mem::take(&mut self.duplicates)
    }
}

/// How many holes there are in what has arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holes {
    /// At the last SACK or packet.
    pub(super) before: u32,
    pub(super) now: u32,
}

/// Source: RFC 9260 §6.2.
const PACKETS_PER_SACK: u32 = 2;

/// As many as a burst of losses makes on one path.
const FEW_HOLES: u32 = 4;

/// With so many more holes, SACKs wait for one more packet: their bytes stay under a tenth of what
/// they acknowledge.
const HOLES_PER_PACKET: u32 = 32;

/// More are known to have come again only as less news.
const MAX_DUPLICATES: usize = 32;
