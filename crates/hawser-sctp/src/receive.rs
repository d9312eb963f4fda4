//! The receiving half: arrivals, reassembly, delivery and acknowledgement.

mod acknowledger;
mod arrivals;
mod assembly;
mod fragments;
mod message;
#[cfg(test)]
mod tests;

use bytes::Bytes;
use hawser_types::{Instant, PathId};
use hawser_wire::sctp::{Data, DataOrder, ForwardTsn, Sack, StreamNumber, Tsn};

use crate::AssociationConfig;
use crate::error::Misbehaviour;
use acknowledger::{Acknowledger, Holes};
use arrivals::{Arrivals, Novelty};
use assembly::Assembly;
use message::charge;

pub use message::{Carrier, End, Received};

/// The receiving half of an association.
///
/// Its memory is bounded whatever the peer sends: every part is charged with its payload and
/// [`PART_OVERHEAD`](message::PART_OVERHEAD). Beyond the receive buffer only parts that fill holes
/// are kept, up to twice the buffer, and the part that blocks all others, up to four times. Other
/// parts are dropped as if the network had lost them. Acknowledged data is never dropped.
#[derive(Debug)]
pub(crate) struct Inbound {
    streams: u16,
    interleaving: bool,
    partial: bool,
    capacity: usize,
    arrivals: Arrivals,
    assembly: Assembly,
    acknowledger: Acknowledger,
    /// Number of runs beyond the cumulative TSN after the last packet.
    holes: u32,
    /// A nonexistent stream that the peer has sent on.
    unknown_stream: Option<StreamNumber>,
}

impl Inbound {
    /// Creates the receiving half. `initial`: the peer's first TSN. `streams`: number of streams
    /// that the peer may send on. `interleaving`: parts arrive as I-DATA. `partial`: the peer may
    /// abandon messages.
    pub(crate) fn new(
        config: &AssociationConfig,
        initial: Tsn,
        streams: u16,
        interleaving: bool,
        partial: bool,
    ) -> Self {
        // The advertised window has 32 bits.
        let capacity = config.receive_buffer.as_u64().min(u32::MAX.into());
        Self {
            streams,
            interleaving,
            partial,
            capacity: capacity as usize,
            arrivals: Arrivals::new(initial),
            assembly: Assembly::new(
                capacity as usize,
                interleaving,
                config.agreed_placed_stream(interleaving, partial),
            ),
            acknowledger: Acknowledger::new(config.sack_delay, capacity as u32),
            holes: 0,
            unknown_stream: None,
        }
    }

    /// Returns the memory taken by data that was not taken yet.
    pub(crate) fn held(&self) -> u64 {
        self.assembly.held() as u64
    }

    /// Requests a SACK though nothing has come: the last one may be lost.
    pub(crate) fn acknowledge_again(&mut self, now: Instant) {
        self.acknowledger.acknowledge_at(now);
    }

    /// Handles a part of a message that came over this path.
    pub(crate) fn on_data(
        &mut self,
        now: Instant,
        mut data: Data,
        path: Option<PathId>,
    ) -> Result<(), Misbehaviour> {
        if matches!(data.order, DataOrder::Interleaved { .. }) != self.interleaving {
            return Err(Misbehaviour::WrongDataKind);
        }
        if data.payload.is_empty() {
            return Err(Misbehaviour::EmptyData);
        }
        self.acknowledger.on_arrival(now);
        let novelty = self.arrivals.novelty(data.tsn);
        if novelty == Novelty::Known {
            self.acknowledger.on_duplicate(data.tsn);
            return self.on_known(data, path);
        }
        if novelty == Novelty::TooFar || !self.has_room(&data) {
            self.acknowledger.hurry();
            return Ok(());
        }
        if data.immediate {
            self.acknowledger.hurry();
        }
        let position = self.arrivals.position(data.tsn);
        self.arrivals.insert(data.tsn);
        if data.stream.value() >= self.streams {
            // It is acknowledged, reported and discarded. Source: RFC 9260 §6.5.
            self.unknown_stream = Some(data.stream);
            return Ok(());
        }
        if data.payload.len() < COPIED_BELOW || self.assembly.held() > self.capacity / FREE_PART {
            data.payload = Bytes::copy_from_slice(&data.payload);
        }
        self.assembly.insert(position, data, path)
    }

    /// Handles a part whose TSN has come or was passed over. A placed message that comes after the
    /// peer has given it up is handed on all the same, once.
    fn on_known(&mut self, mut data: Data, path: Option<PathId>) -> Result<(), Misbehaviour> {
        if !self.assembly.is_placed(&data) || !self.has_room(&data) {
            return Ok(());
        }
        let Some(position) = self.arrivals.take_passed_over(data.tsn) else {
            return Ok(());
        };
        data.payload = Bytes::copy_from_slice(&data.payload);
        self.assembly.insert(position, data, path)
    }

    /// Handles messages that the peer has abandoned.
    pub(crate) fn on_forward_tsn(
        &mut self,
        now: Instant,
        forward: &ForwardTsn,
    ) -> Result<(), Misbehaviour> {
        if !self.partial {
            return Err(Misbehaviour::ForwardedUnasked);
        }
        if forward.interleaved != self.interleaving {
            return Err(Misbehaviour::WrongDataKind);
        }
        // A repeated FORWARD-TSN shows that the peer has missed a SACK.
        self.acknowledger.on_arrival(now);
        if forward.cumulative.is_after(self.arrivals.cumulative()) {
            let through = self.arrivals.position(forward.cumulative);
            self.arrivals.advance_to(forward.cumulative);
            self.assembly.forward(through, forward, self.streams);
        }
        Ok(())
    }

    /// Handles the end of a packet with DATA.
    pub(crate) fn on_packet_end(&mut self, now: Instant) {
        let holes = Holes {
            before: self.holes,
            now: self.arrivals.runs(),
        };
        self.holes = holes.now;
        self.acknowledger.on_packet_end(now, holes);
    }

    /// Returns a SACK if one is due. `bundled`: another packet leaves anyway, so that a small SACK
    /// may leave early.
    pub(crate) fn poll_sack(&mut self, now: Instant, bundled: bool) -> Option<Sack> {
        let early = bundled && self.arrivals.runs() <= FEW_GAPS;
        if !self.acknowledger.is_due(now, early) {
            return None;
        }
        let window = self.window();
        Some(Sack {
            cumulative: self.arrivals.cumulative(),
            window,
            gaps: self.arrivals.newest_gaps(MAX_GAPS),
            duplicates: self.acknowledger.on_sack(window),
        })
    }

    /// Returns when a SACK will be due.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.acknowledger.poll_timeout()
    }

    /// Returns the next message that can be delivered.
    pub(crate) fn receive(&mut self) -> Option<Received> {
        let received = self.assembly.receive()?;
        let window = self.window();
        self.acknowledger.on_window(window, self.capacity as u32);
        Some(received)
    }

    /// Tells whether there is a message that the peer has placed.
    pub(crate) fn has_placed(&self) -> bool {
        self.assembly.has_placed()
    }

    /// Returns the next message that the peer has placed.
    pub(crate) fn receive_placed(&mut self) -> Option<Received> {
        let received = self.assembly.receive_placed()?;
        let window = self.window();
        self.acknowledger.on_window(window, self.capacity as u32);
        Some(received)
    }

    /// Tells whether a message can be received.
    pub(crate) fn is_readable(&self) -> bool {
        self.assembly.is_readable()
    }

    /// Returns a nonexistent stream that the peer has sent on: an ERROR is due.
    pub(crate) fn poll_unknown_stream(&mut self) -> Option<StreamNumber> {
        self.unknown_stream.take()
    }

    /// Returns the receive window; 0 rather than a few bytes.
    pub(crate) fn window(&self) -> u32 {
        let room = self.capacity.saturating_sub(self.assembly.held());
        if room < SMALLEST_WINDOW {
            0
        } else {
            room as u32
        }
    }

    /// Returns the cumulative TSN.
    pub(crate) fn cumulative(&self) -> Tsn {
        self.arrivals.cumulative()
    }

    /// Tells whether the part can be kept.
    fn has_room(&self, data: &Data) -> bool {
        let held = self.assembly.held() + charge(&data.payload);
        // A part below the highest TSN taken was within the window then; only the overhead charges
        // may exceed what the peer has counted.
        let fills = self.arrivals.is_inside(data.tsn) && held <= 2 * self.capacity;
        // The part that blocks all others; if the peer follows the rules, it makes something
        // readable.
        let is_next = self.arrivals.cumulative().advance(1) == data.tsn;
        let is_awaited = is_next && !self.is_readable() && held <= 4 * self.capacity;
        held <= self.capacity || fills || is_awaited
    }
}

/// Payload length below which a part is copied: a slice keeps its whole datagram in memory, so a
/// small part would keep far more than its charge.
const COPIED_BELOW: usize = 512;

/// Fraction of the buffer (1/16) up to which parts are not copied. Datagrams received together may
/// share up to 16 KiB of memory, which each of them keeps; with this limit that is at most one and
/// a half times the buffer.
const FREE_PART: usize = 16;

/// Maximum gap blocks of a SACK, so that it fits the smallest packet with all its duplicates.
const MAX_GAPS: usize = 256;

/// Number of gap blocks that take a twentieth of a packet.
const FEW_GAPS: u32 = 16;

/// Smallest window that is advertised: about two packets.
const SMALLEST_WINDOW: usize = 3000;
