//! Messages received from the peer, and how promptly they are read and answered.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::Ipv4Addr;

use bytes::{Bytes, BytesMut};
use hawser_types::{ChannelId, StreamId};
use hawser_wire::{
    ChunkHeader, Command, CommandDecoder, Enrolment, Frame, FrameIterator, StateFrame,
};
use parking_lot::{Mutex, MutexGuard};

use crate::step::Manners;

/// What a hostile session has heard, over all of its channels.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    said: Mutex<Said>,
}

/// What the peer has said so far.
#[derive(Debug, Default)]
pub(crate) struct Said {
    pub(crate) manners: Manners,
    /// Channel numbers that may be used.
    pub(crate) grants: VecDeque<ChannelId>,
    pub(crate) greeted: bool,
    pub(crate) enrolment: Option<Enrolment>,
    pub(crate) enrolled: bool,
    /// Code of the peer's CLOSE.
    pub(crate) closed: Option<u32>,
    /// Streams that the peer has reset, so far.
    pub(crate) resets: usize,
    /// Those of them with the highest numbers.
    pub(crate) reset: BTreeSet<StreamId>,
    /// Datagrams that came beside streams.
    pub(crate) datagrams: u64,
    /// What the newest stream that was accepted with metadata was accepted with.
    pub(crate) accepted: Option<(StreamId, Bytes)>,
    /// Where the packets that came by tunnels are from: some of them.
    pub(crate) packets_from: BTreeSet<Ipv4Addr>,
    /// Where the gateway takes associations.
    pub(crate) datagram_port: Option<u16>,
    /// Bytes received on each stream; one with a chunk is here.
    pub(crate) streams: BTreeMap<StreamId, u64>,
    /// What the peer itself sent wrong.
    pub(crate) complaint: Option<String>,
    commands: Commands,
}

/// The peer's command stream, whose chunks come over several channels.
#[derive(Debug, Default)]
struct Commands {
    waiting: BTreeMap<u64, Bytes>,
    next: u64,
    decoder: CommandDecoder,
}

impl Heard {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Said> {
        self.said.lock()
    }

    pub(crate) fn manners(&self) -> Manners {
        self.lock().manners
    }

    /// Notes a fault of the peer; the first one counts.
    pub(crate) fn complain(&self, problem: String) {
        self.lock().complaint.get_or_insert(problem);
    }

    /// Takes in a record; frames to answer with go to `answer`. True if it had a chunk.
    pub(crate) fn on_record(&self, body: Bytes, answer: &mut BytesMut) -> Result<bool, String> {
        let mut said = self.lock();
        let mut has_chunk = false;
        for frame in FrameIterator::new(body) {
            match frame.map_err(|error| error.to_string())? {
                Frame::Chunk(header, payload) => {
                    has_chunk = true;
                    said.on_chunk(&header, payload, answer)?;
                }
                Frame::Datagram(_, payload) => said.on_datagram(&payload),
                _ => {}
            }
        }
        Ok(has_chunk)
    }
}

impl Said {
    fn on_chunk(
        &mut self,
        header: &ChunkHeader,
        payload: Bytes,
        answer: &mut BytesMut,
    ) -> Result<(), String> {
        if header.stream == StreamId::COMMANDS {
            self.commands.push(header.offset.value(), payload);
            while let Some(command) = self.commands.next_command()? {
                self.on_command(command);
            }
            return Ok(());
        }
        if !header.metadata.is_empty() {
            self.accepted = Some((header.stream, header.metadata.clone()));
        }
        let received = self.streams.entry(header.stream).or_default();
        *received += payload.len() as u64;
        if self.manners.credit > 0 {
            let (stream, limit) = (header.stream, *received + self.manners.credit);
            StateFrame::Credit { stream, limit }.encode(answer);
        }
        Ok(())
    }

    fn on_datagram(&mut self, payload: &[u8]) {
        self.datagrams += 1;
        // As if it were a packet of IPv4.
        let source = payload
            .get(12..16)
            .and_then(|it| <[u8; 4]>::try_from(it).ok());
        if let Some(source) = source
            && self.packets_from.len() < MOST_SOURCES
        {
            self.packets_from.insert(source.into());
        }
    }

    fn on_command(&mut self, command: Command) {
        match command {
            Command::Hello(_) => self.greeted = true,
            Command::Grant(grant) => {
                let first = grant.first.value();
                let all = first..first.saturating_add(grant.count);
                self.grants.extend(all.map(ChannelId::new));
            }
            Command::Reset { stream, .. } => {
                self.resets += 1;
                self.streams.remove(&stream);
                self.reset.insert(stream);
                if self.reset.len() > MOST_RESET {
                    self.reset.pop_first();
                }
            }
            Command::DatagramPort { port } => self.datagram_port = Some(port),
            Command::Close { code } => self.closed = Some(code),
            Command::Enrol(enrolment) => self.enrolment = Some(enrolment),
            Command::Enrolled => self.enrolled = true,
            _ => {}
        }
    }
}

impl Commands {
    fn push(&mut self, offset: u64, bytes: Bytes) {
        if offset >= self.next {
            self.waiting.insert(offset, bytes);
        }
    }

    fn next_command(&mut self) -> Result<Option<Command>, String> {
        loop {
            let command = self.decoder.next_command();
            if let Some(command) = command.map_err(|error| error.to_string())? {
                return Ok(Some(command));
            }
            let Some(bytes) = self.waiting.remove(&self.next) else {
                return Ok(None);
            };
            self.next += bytes.len() as u64;
            self.decoder.push(&bytes);
        }
    }
}

/// A tunnel hears from few hosts.
const MOST_SOURCES: usize = 64;
/// Numbers of streams that are kept once they were reset: a trial may be long.
const MOST_RESET: usize = 1024;
