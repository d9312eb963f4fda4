//! Stream 0: commands of the session, numbered and repeated like data, exempt from credit.

use bytes::{Bytes, BytesMut};
use hawser_types::{SegmentNumber, StreamId, StreamOffset};
use hawser_wire::{ChunkFlags, ChunkHeader, Command, CommandDecoder, Hello, Malformed};

use crate::Payload;
use crate::error::Misbehaviour;
use crate::reassembly::Reassembly;

/// Both directions of the command stream, and what the two ends said in their hellos.
#[derive(Debug)]
pub(crate) struct CommandStream {
    /// Encoded commands that no chunk was cut from.
    queue: BytesMut,
    sent: u64,
    /// Bytes that the peer has not acknowledged.
    outstanding: u64,
    inbound: Reassembly,
    decoder: CommandDecoder,
    /// This side's hello was queued.
    said_hello: bool,
    /// The peer's hello, once it has come.
    peer: Option<PeerHello>,
}

#[derive(Clone, Copy, Debug)]
struct PeerHello {
    accepts_plain: bool,
    takes_datagrams: bool,
    ends_halves: bool,
    follows_scheduler: bool,
    knows_signals: bool,
}

impl CommandStream {
    /// An empty stream.
    pub(crate) fn new() -> Self {
        Self {
            queue: BytesMut::new(),
            sent: 0,
            outstanding: 0,
            inbound: Reassembly::new(StreamId::COMMANDS),
            decoder: CommandDecoder::default(),
            said_hello: false,
            peer: None,
        }
    }

    /// Queues a command.
    pub(crate) fn push(&mut self, command: &Command) {
        command.encode(&mut self.queue);
    }

    /// Queues a command, or refuses to when too many wait. Only a peer that causes commands and
    /// does not listen lets so many wait.
    pub(crate) fn push_bounded(&mut self, command: &Command) -> bool {
        let has_room = self.queue.len() <= MAX_QUEUED;
        if has_room {
            self.push(command);
        }
        has_room
    }

    /// Queues this side's hello ahead of all that was queued before.
    pub(crate) fn push_hello(&mut self, hello: Hello) {
        let queued = std::mem::take(&mut self.queue);
        self.push(&Command::Hello(hello));
        self.queue.extend_from_slice(&queued);
    }

    /// Notes that this side says hello. True the first time.
    pub(crate) fn say_hello(&mut self) -> bool {
        !std::mem::replace(&mut self.said_hello, true)
    }

    /// True if this side has said hello.
    pub(crate) fn said_hello(&self) -> bool {
        self.said_hello
    }

    /// Takes in the peer's hello, which comes once.
    pub(crate) fn on_hello(&mut self, hello: &Hello) -> Result<(), Misbehaviour> {
        let peer = PeerHello {
            accepts_plain: hello.accepts_plain,
            takes_datagrams: hello.takes_datagrams,
            ends_halves: hello.ends_halves,
            follows_scheduler: hello.follows_scheduler,
            knows_signals: hello.knows_signals,
        };
        match self.peer.replace(peer) {
            Some(_) => Err(Misbehaviour::Repeated),
            None => Ok(()),
        }
    }

    /// True if the peer's hello came.
    pub(crate) fn is_greeted(&self) -> bool {
        self.peer.is_some()
    }

    /// True if the peer takes records that are not sealed.
    pub(crate) fn peer_accepts_plain(&self) -> bool {
        self.peer.is_some_and(|peer| peer.accepts_plain)
    }

    /// True if the peer takes datagrams; `None` until it has said so.
    pub(crate) fn peer_takes_datagrams(&self) -> Option<bool> {
        self.peer.map(|peer| peer.takes_datagrams)
    }

    /// True if the peer knows directions of streams that end early; `None` until it has said so.
    pub(crate) fn peer_ends_halves(&self) -> Option<bool> {
        self.peer.map(|peer| peer.ends_halves)
    }

    /// True if the peer places chunks as this side's user wants; `None` until it has said so.
    pub(crate) fn peer_follows_scheduler(&self) -> Option<bool> {
        self.peer.map(|peer| peer.follows_scheduler)
    }

    /// True if the peer has said that it understands rules of links whose signal fades.
    pub(crate) fn peer_knows_signals(&self) -> bool {
        self.peer.is_some_and(|peer| peer.knows_signals)
    }

    /// Takes the peer for one of an older version.
    #[cfg(test)]
    pub(crate) fn forget_halves(&mut self) {
        if let Some(peer) = &mut self.peer {
            peer.ends_halves = false;
        }
    }

    /// True if every command is in a chunk.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns how many bytes the next chunk could have; `None` when nothing may be sent now.
    pub(crate) fn sendable(&self) -> Option<u64> {
        let queued = self.queue.len() as u64;
        (queued > 0 && self.outstanding < MAX_OUTSTANDING).then_some(queued)
    }

    /// Cuts the next chunk. Returns its header, the segment number left out, its payload and
    /// length.
    pub(crate) fn cut(&mut self) -> (ChunkHeader, Payload, usize) {
        let length = self.queue.len().min(MAX_CHUNK);
        let bytes: Bytes = self.queue.split_to(length).freeze();
        let header = ChunkHeader {
            stream: StreamId::COMMANDS,
            segment: SegmentNumber::default(),
            offset: StreamOffset::new(self.sent),
            flags: ChunkFlags::default(),
            metadata: Bytes::new(),
        };
        self.sent += length as u64;
        self.outstanding += length as u64;
        (header, Payload::from_iter([bytes]), length)
    }

    /// Notes that the peer holds a chunk of so many bytes.
    pub(crate) fn on_held(&mut self, length: usize) {
        self.outstanding = self.outstanding.saturating_sub(length as u64);
    }

    /// Takes in a chunk of the peer's commands.
    pub(crate) fn on_chunk(
        &mut self,
        header: &ChunkHeader,
        payload: &[u8],
    ) -> Result<(), Misbehaviour> {
        // Commands are few and small: a copy frees the buffer that they came in.
        let payload = Bytes::copy_from_slice(payload);
        self.inbound.insert(header.offset, payload, false)?;
        if self.inbound.held_charge() > MAX_HELD {
            return Err(Misbehaviour::CreditExceeded(header.stream));
        }
        Ok(())
    }

    /// Takes out the next command of the peer.
    pub(crate) fn next_command(&mut self) -> Result<Option<Command>, Malformed> {
        loop {
            if let Some(command) = self.decoder.next_command()? {
                return Ok(Some(command));
            }
            let Some((_, bytes, _)) = self.inbound.pop(usize::MAX) else {
                return Ok(None);
            };
            self.decoder.push(&bytes);
        }
    }
}

/// Commands are exempt from credit, so this bounds them.
const MAX_OUTSTANDING: u64 = 64 * 1024;
const MAX_CHUNK: usize = 1200;
/// Commands of the peer that came out of order, at most.
const MAX_HELD: u64 = 128 * 1024;
/// Commands that wait for acknowledgements, at most.
const MAX_QUEUED: usize = 256 * 1024;
