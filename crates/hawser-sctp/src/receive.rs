//! The receiving half: what has arrived, in what order it is delivered, what is acknowledged.

mod acknowledger;
mod arrivals;
mod assembly;
mod fragments;
#[cfg(test)]
mod tests;

use bytes::Bytes;
use hawser_types::Instant;
use hawser_wire::sctp::{Data, DataOrder, ForwardTsn, Sack, StreamNumber, Tsn};
use smallvec::SmallVec;

use crate::AssociationConfig;
use crate::error::Misbehaviour;
use acknowledger::{Acknowledger, Holes};
use arrivals::{Arrivals, Novelty};
use assembly::Assembly;
use fragments::Head;

/// A message that has arrived, or a piece of one that is too long to wait for its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// The stream that it came on.
    pub stream: StreamNumber,
    /// What its sender says that it is.
    pub protocol: u32,
    /// It was delivered as soon as it was whole.
    pub unordered: bool,
    /// The same in all pieces of a message, and another in other messages that are being delivered.
    pub message: u32,
    /// Whether the message ends here.
    pub end: End,
    parts: SmallVec<[Bytes; 1]>,
    /// What it was charged with while it was kept, in bytes.
    charge: usize,
}

/// How a [`Received`] ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With its message.
    Whole,
    /// Another piece follows: so much was waiting for its end that nothing more had room.
    More,
    /// There is nothing in it: the sender has given up the rest of what began as [`End::More`].
    GivenUp,
}

impl Received {
    /// Bytes of payload.
    pub fn length(&self) -> usize {
        self.parts.iter().map(Bytes::len).sum()
    }

    /// The payload in one piece; copied where it came in several.
    pub fn payload(&self) -> Bytes {
        match &self.parts[..] {
            [only] => only.clone(),
            parts => parts.concat().into(),
        }
    }

    /// The payload as it came, one after the other.
    pub fn parts(&self) -> &[Bytes] {
        &self.parts
    }

    fn of(head: Head) -> Self {
        Self {
            stream: head.stream,
            protocol: head.protocol,
            unordered: head.unordered,
            message: head.number,
            end: End::Whole,
            parts: SmallVec::new(),
            charge: 0,
        }
    }

    fn given_up(head: Head) -> Self {
        Self {
            end: End::GivenUp,
            ..Self::of(head)
        }
    }

    /// Makes room for so many parts.
    fn reserve(&mut self, parts: usize) {
        self.parts.reserve_exact(parts);
    }

    fn push(&mut self, part: Bytes) {
        self.charge += charge(&part);
        self.parts.push(part);
    }
}

/// The receiving half of an association.
///
/// What it keeps is bounded whatever the peer sends: every part is charged with its payload and
/// [`PART_OVERHEAD`]; beyond the receive buffer only holes are filled, up to twice the buffer, and what
/// all the rest waits for, up to four times. The others are dropped as if the network had lost them.
/// Nothing that was acknowledged is ever dropped.
#[derive(Debug)]
pub(crate) struct Inbound {
    streams: u16,
    interleaving: bool,
    partial: bool,
    capacity: usize,
    arrivals: Arrivals,
    assembly: Assembly,
    acknowledger: Acknowledger,
    /// Runs of arrivals at the end of the last packet.
    holes: u32,
    /// A stream that does not exist, on which the peer has sent.
    unknown_stream: Option<StreamNumber>,
}

impl Inbound {
    /// `initial`: the TSN that comes first. `streams`: how many the peer may send on. `interleaving`:
    /// parts come as I-DATA. `partial`: the peer may give up messages.
    pub(crate) fn new(
        config: &AssociationConfig,
        initial: Tsn,
        streams: u16,
        interleaving: bool,
        partial: bool,
    ) -> Self {
        // The window has 32 bits.
        let capacity = config.receive_buffer.as_u64().min(u32::MAX.into());
        Self {
            streams,
            interleaving,
            partial,
            capacity: capacity as usize,
            arrivals: Arrivals::new(initial),
            assembly: Assembly::new(capacity as usize, interleaving),
            acknowledger: Acknowledger::new(config.sack_delay, capacity as u32),
            holes: 0,
            unknown_stream: None,
        }
    }

    /// A part of a message has come.
    pub(crate) fn on_data(&mut self, now: Instant, mut data: Data) -> Result<(), Misbehaviour> {
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
            return Ok(());
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
            // It is acknowledged, reported and passed over. Source: RFC 9260 §6.5.
            self.unknown_stream = Some(data.stream);
            return Ok(());
        }
        if data.payload.len() < COPIED_BELOW || self.assembly.held() > self.capacity / FREE_PART {
            data.payload = Bytes::copy_from_slice(&data.payload);
        }
        self.assembly.insert(position, data)
    }

    /// The peer has given up messages.
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
        // One that says nothing new shows that the peer has missed a SACK.
        self.acknowledger.on_arrival(now);
        if forward.cumulative.is_after(self.arrivals.cumulative()) {
            let through = self.arrivals.position(forward.cumulative);
            self.arrivals.advance_to(forward.cumulative);
            self.assembly.forward(through, forward, self.streams);
        }
        Ok(())
    }

    /// The last chunk of a packet with DATA has been read.
    pub(crate) fn on_packet_end(&mut self, now: Instant) {
        let holes = Holes {
            before: self.holes,
            now: self.arrivals.runs(),
        };
        self.holes = holes.now;
        self.acknowledger.on_packet_end(now, holes);
    }

    /// A SACK, if one is due; `bundled`: or useful, since a packet leaves anyway, and does not take much
    /// of the packet's room.
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

    /// When a SACK will be due.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.acknowledger.poll_timeout()
    }

    /// The next message in its turn.
    pub(crate) fn receive(&mut self) -> Option<Received> {
        let received = self.assembly.receive()?;
        let window = self.window();
        self.acknowledger.on_window(window, self.capacity as u32);
        Some(received)
    }

    /// Whether there is something to receive.
    pub(crate) fn is_readable(&self) -> bool {
        self.assembly.is_readable()
    }

    /// A stream that the peer has sent on though there is none with that number: an ERROR is due.
    pub(crate) fn poll_unknown_stream(&mut self) -> Option<StreamNumber> {
        self.unknown_stream.take()
    }

    /// How many bytes more the peer may send; 0 rather than a few.
    pub(crate) fn window(&self) -> u32 {
        let room = self.capacity.saturating_sub(self.assembly.held());
        if room < SMALLEST_WINDOW {
            0
        } else {
            room as u32
        }
    }

    /// Everything up to this TSN has arrived.
    pub(crate) fn cumulative(&self) -> Tsn {
        self.arrivals.cumulative()
    }

    /// Whether the part can be kept.
    fn has_room(&self, data: &Data) -> bool {
        let held = self.assembly.held() + charge(&data.payload);
        // What lies below something that was taken was within the window then; only the charges may
        // be more than the peer has counted.
        let fills = self.arrivals.is_inside(data.tsn) && held <= 2 * self.capacity;
        // The part that everything else waits for; of a peer that keeps to the rules, it makes something
        // readable.
        let is_next = self.arrivals.cumulative().advance(1) == data.tsn;
        let is_awaited = is_next && !self.is_readable() && held <= 4 * self.capacity;
        held <= self.capacity || fills || is_awaited
    }
}

/// What a part of a message is charged with while it is kept.
fn charge(payload: &Bytes) -> usize {
    payload.len() + PART_OVERHEAD
}

/// What keeping a part takes beside its payload: the entry of a table, an allocation.
const PART_OVERHEAD: usize = 160;

/// A slice keeps the datagram that it is cut from: what is shorter is copied, so that a small part
/// never keeps much more than it is charged with.
const COPIED_BELOW: usize = 512;

/// Datagrams that come at once may share up to 16 KiB of memory, all of which each of them keeps. While
/// this part of the buffer is held and no more, that is no more than one and a half times the buffer;
/// beyond it everything is copied.
const FREE_PART: usize = 16;

/// Gap blocks of a SACK, so that it fits the smallest packet with all its duplicates.
const MAX_GAPS: usize = 256;

/// Gap blocks that take a twentieth of a packet.
const FEW_GAPS: u32 = 16;

/// A window of less than two packets is called 0.
const SMALLEST_WINDOW: usize = 3000;
