use std::time::Duration;

use hawser_types::Instant;
use hawser_wire::sctp::Tsn;

/// Decides when a SACK is due.
#[derive(Debug)]
pub(super) struct Acknowledger {
    delay: Duration,
    /// Number of packets with DATA since the last SACK.
    packets: u32,
    due: Option<Instant>,
    /// The packet being read needs a SACK at its end.
    hurries: bool,
    /// The window has opened, and the peer may wait for that.
    opened: bool,
    duplicates: Vec<Tsn>,
    /// Window in the last SACK.
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

    /// Handles the arrival of something to be acknowledged.
    pub(super) fn on_arrival(&mut self, now: Instant) {
        self.due.get_or_insert(now + self.delay);
    }

    /// Requests a SACK at this time.
    pub(super) fn acknowledge_at(&mut self, now: Instant) {
        self.due = Some(now);
    }

    /// Requests a SACK at the end of the packet.
    pub(super) fn hurry(&mut self) {
        self.hurries = true;
    }

    /// Handles a duplicate, which the peer should know about.
    pub(super) fn on_duplicate(&mut self, tsn: Tsn) {
        self.hurry();
        if self.duplicates.len() < MAX_DUPLICATES {
            self.duplicates.push(tsn);
        }
    }

    /// Handles the end of a packet with DATA. With few holes, a sender over one path needs every
    /// SACK to tell loss from reordering. Where paths of different delay come together, hundreds of
    /// holes are normal, and every SACK lists them all.
    pub(super) fn on_packet_end(&mut self, now: Instant, holes: Holes) {
        self.packets += 1;
        let is_news = (holes.before > 0 || holes.now > 0) && holes.now <= FEW_HOLES;
        let enough = PACKETS_PER_SACK.max(holes.now / HOLES_PER_PACKET);
        if self.hurries || is_news || self.packets >= enough {
            self.due = Some(now);
        }
        self.hurries = false;
    }

    /// Handles data taken by the reader. Small increases of the window are not announced, to avoid
    /// silly windows. Source: RFC 9260 §6.2, RFC 1122 §4.2.3.3.
    pub(super) fn on_window(&mut self, window: u32, capacity: u32) {
        let more = window.saturating_sub(self.advertised);
        let was_closed = self.advertised < capacity / 16;
        self.opened |= more >= capacity / 2 || was_closed && more >= capacity / 8;
    }

    /// Tells whether a SACK is due; `early`: or will be.
    pub(super) fn is_due(&self, now: Instant, early: bool) -> bool {
        self.opened || self.due.is_some_and(|due| early || due <= now)
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        if self.opened {
            return Some(Instant::ZERO);
        }
        self.due
    }

    /// Handles a SACK that leaves with this window; returns its duplicates.
    pub(super) fn on_sack(&mut self, window: u32) -> Vec<Tsn> {
        self.packets = 0;
        self.due = None;
        self.opened = false;
        self.advertised = window;
        std::mem::take(&mut self.duplicates)
    }
}

/// Number of holes in the received TSNs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holes {
    /// After the packet before.
    pub(super) before: u32,
    pub(super) now: u32,
}

/// Source: RFC 9260 §6.2.
const PACKETS_PER_SACK: u32 = 2;

/// Number of holes that a burst of losses on one path may make.
const FEW_HOLES: u32 = 4;

/// Number of holes for which a SACK waits for one more packet: SACKs then stay below a tenth of the
/// data they acknowledge.
const HOLES_PER_PACKET: u32 = 32;

/// Maximum number of duplicates that a SACK reports.
const MAX_DUPLICATES: usize = 32;
