//! From records to streams.

use bytes::Bytes;
use hawser_types::{ChannelId, Instant, StreamId};
use hawser_wire::{ChunkHeader, Command, Frame, FrameIterator, RECORD_HEADER_LENGTH, StateFrame};

use super::{Session, Side, State};
use crate::ledger::ChunkKey;
use crate::reassembly::Inserted;
use crate::seal::TAG_LENGTH;
use crate::stream::{SendStream, Stream};
use crate::{Event, Misbehaviour, PeerFault};

impl Session {
    /// Takes in the opened body of a record that came on a channel. An error is the peer's fault:
    /// the session can't go on.
    pub fn handle_record(
        &mut self,
        now: Instant,
        id: ChannelId,
        mut body: Bytes,
    ) -> Result<(), PeerFault> {
        let Some(channel) = self.channels.get_mut(&id) else {
            return Ok(());
        };
        let link = channel.spec.link;
        let mut is_numbered = true;
        if channel.spec.is_association() {
            is_numbered = self.on_record_number(id, &mut body)?;
        } else {
            channel.inbound.records += 1;
            let wire = RECORD_HEADER_LENGTH + body.len() + TAG_LENGTH;
            self.account(link).received += wire as u64;
        }
        for frame in FrameIterator::new(body) {
            match frame? {
                Frame::State(state) => self.on_state(now, id, state)?,
                Frame::Datagram(stream, payload) => self.on_datagram(stream, &payload),
                Frame::Chunk(..) if !is_numbered => {
                    let fault = Misbehaviour::ChunkWithoutNumber(id);
                    return Err(PeerFault::Misbehaved(fault));
                }
                Frame::Chunk(header, payload) => {
                    if let Some(channel) = self.channels.get_mut(&id) {
                        channel.payload_received += payload.len() as u64;
                        if channel.inbound.on_chunk(now, payload.len()) {
                            self.wake(id);
                        }
                    }
                    self.on_chunk(now, header, payload)?;
                }
            }
        }
        self.schedule(now);
        Ok(())
    }

    fn on_state(
        &mut self,
        now: Instant,
        transport: ChannelId,
        state: StateFrame,
    ) -> Result<(), PeerFault> {
        match state {
            StateFrame::Ack { channel, records } => self.on_ack(now, channel, records),
            StateFrame::Credit { stream, limit } => {
                if let Some(known) = self.streams.get_mut(&stream) {
                    known.send.on_credit(limit);
                    self.enlist(now, stream);
                } else if self.is_mine(stream) {
                    self.ahead.on_credit(self.next_stream, stream, limit);
                }
                Ok(())
            }
            StateFrame::Path(report) => {
                self.on_report(now, transport, &report);
                Ok(())
            }
            // The driver deals with joins; a heartbeat has done its work by arriving.
            StateFrame::Join { .. } | StateFrame::Heartbeat => Ok(()),
        }
    }

    fn on_ack(&mut self, now: Instant, id: ChannelId, records: u64) -> Result<(), PeerFault> {
        // An acknowledgement for a channel that is gone comes too late: its chunks went again.
        let Some(channel) = self.channels.get_mut(&id) else {
            return Ok(());
        };
        if records > channel.records_sent {
            return Err(PeerFault::Misbehaved(Misbehaviour::AckOfUnsent));
        }
        if records > channel.records_acknowledged {
            channel.last_session_ack = now;
        }
        channel.records_acknowledged = channel.records_acknowledged.max(records);
        while let Some(channel) = self.channels.get_mut(&id) {
            let Some(sent) = channel
                .sent
                .front()
                .copied()
                .filter(|sent| sent.record < records)
            else {
                break;
            };
            channel.sent.pop_front();
            channel.in_flight = channel.in_flight.saturating_sub(u64::from(sent.length));
            let link = channel.spec.link;
            self.book_held(link, sent);
            self.on_chunk_held(now, sent.chunk);
        }
        self.check_close(now);
        Ok(())
    }

    /// The peer holds a chunk, by whichever channel it came.
    fn on_chunk_held(&mut self, now: Instant, key: ChunkKey) {
        let Some(chunk) = self.ledger.remove(key) else {
            return;
        };
        let id = chunk.header.stream;
        if id == StreamId::COMMANDS {
            let length = chunk.length as u64;
            self.commands.outstanding = self.commands.outstanding.saturating_sub(length);
            return;
        }
        let opening = chunk.header.flags.open && self.is_mine(id);
        if opening && self.streams.get(&id).is_some_and(|s| s.receive.has_moved()) {
            // Credit may have overtaken the opening, and be lost: the peer did not know the stream.
            self.owe_credit(id);
        }
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.send.on_acknowledged();
            if stream.send.is_acknowledged() {
                self.events.push_back(Event::Acknowledged(id));
                if stream.abandoned && stream.receive.reassembly.ready_bytes() > 0 {
                    self.reset(now, id, 0);
                }
                self.retire_if_over(id);
            }
        }
    }

    fn on_chunk(
        &mut self,
        now: Instant,
        header: ChunkHeader,
        payload: Bytes,
    ) -> Result<(), PeerFault> {
        if header.stream == StreamId::COMMANDS {
            return self.on_command_chunk(now, &header, payload);
        }
        if self.state == State::Closed || !self.ensure_stream(now, header.stream)? {
            self.counters.duplicates_received += 1;
            return Ok(());
        }
        let mine = self.is_mine(header.stream);
        let Some(stream) = self.streams.get_mut(&header.stream) else {
            return Ok(());
        };
        // A small payload would keep the whole buffer that it came in alive.
        let payload = match payload.len() {
            0..COPY_BELOW => Bytes::copy_from_slice(&payload),
            _ => payload,
        };
        let id = header.stream;
        if stream.abandoned && !payload.is_empty() && stream.send.is_acknowledged() {
            self.reset(now, id, 0);
            return Ok(());
        }
        let was_complete = stream.receive.reassembly.is_complete();
        match stream.receive.on_chunk(&header, payload) {
            Ok(Inserted::Duplicate) => self.counters.duplicates_received += 1,
            Ok(Inserted::New) => {
                if header.flags.open && stream.peer_metadata.is_none() {
                    stream.peer_metadata = Some(Bytes::copy_from_slice(&header.metadata));
                    self.events.push_back(match mine {
                        true => Event::StreamAccepted(id),
                        false => Event::StreamOpened(id),
                    });
                }
                let reassembly = &stream.receive.reassembly;
                if reassembly.ready_bytes() > 0 || reassembly.is_complete() && !was_complete {
                    self.events.push_back(Event::Readable(id));
                }
            }
            Err(fault) => return Err(PeerFault::Misbehaved(fault)),
        }
        if stream.abandoned && stream.receive.reassembly.is_complete() {
            stream.read_out = true;
        }
        self.retire_if_over(id);
        Ok(())
    }

    /// Makes sure that the stream of a chunk is there. `false`: it is over already.
    fn ensure_stream(&mut self, now: Instant, id: StreamId) -> Result<bool, PeerFault> {
        if self.streams.contains_key(&id) {
            return Ok(true);
        }
        let (side, number) = self.place_of(id);
        if self.ended[side].contains(number) {
            return Ok(false);
        }
        if self.is_mine(id) {
            return Err(PeerFault::Misbehaved(Misbehaviour::NotOpened(id)));
        }
        self.check_gaps(id)?;
        if self.open_streams[side] >= self.config.max_streams {
            // The two ends count a stream as over at different moments: an honest peer may come
            // too early.
            self.refuse_stream(id)?;
            return Ok(false);
        }
        let receive = self.take_prepared(id);
        let send = SendStream::new(now, None);
        self.add_stream(id, Stream::new(now, send, receive));
        self.prepare_streams();
        Ok(true)
    }

    /// Streams end in any order, but the gaps between those that are over can't be more than those
    /// that are open and those that are still on their way.
    pub(super) fn check_gaps(&self, id: StreamId) -> Result<(), PeerFault> {
        let (side, _) = self.place_of(id);
        if self.ended[side].range_count() as u64 > self.config.max_streams * 2 + MAX_GAPS {
            return Err(PeerFault::Misbehaved(Misbehaviour::TooManyStreams(id)));
        }
        Ok(())
    }

    fn refuse_stream(&mut self, id: StreamId) -> Result<(), PeerFault> {
        let (side, number) = self.place_of(id);
        self.ended[side].insert(number..number + 1);
        self.drop_prepared(id);
        self.counters.streams_reset += 1;
        if self.commands.queue.len() > MAX_COMMANDS_QUEUED {
            return Err(PeerFault::Misbehaved(Misbehaviour::TooManyStreams(id)));
        }
        self.queue_command(&Command::Reset {
            stream: id,
            code: crate::CODE_LIMIT_REACHED,
        });
        Ok(())
    }

    /// Whether this side opens streams with this number.
    pub(super) fn is_mine(&self, id: StreamId) -> bool {
        id.is_client_opened() == (self.side == Side::Client)
    }

    /// Credit for a stream goes out with the next record.
    pub(super) fn owe_credit(&mut self, id: StreamId) {
        self.credit_due.insert(id);
        self.wake_quickest();
    }

    /// The channel over which small things arrive first has something to send.
    pub(super) fn wake_quickest(&mut self) {
        if let Some(quickest) = self.quickest() {
            self.wake(quickest);
        }
    }
}

/// Smaller payloads are copied out of the receive buffer.
const COPY_BELOW: usize = 16 * 1024;
const MAX_GAPS: u64 = 1024;
/// More answers than this wait only for a peer that asks and does not listen.
const MAX_COMMANDS_QUEUED: usize = 1 << 20;
