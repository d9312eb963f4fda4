//! What applications do with streams.

use bytes::Bytes;
use hawser_types::{ByteCount, Instant, StreamId};
use hawser_wire::{Command, MAX_OPEN_METADATA};

use super::{ReadOutcome, Session, State};
use crate::stream::{ReceiveStream, SendStream, Stream};
use crate::{Event, OpenError, PeerFault, StreamError};

impl Session {
    /// Opens a stream. Its first chunk carries `metadata`, and data if some is written at once.
    pub fn open_stream(&mut self, now: Instant, metadata: Bytes) -> Result<StreamId, OpenError> {
        if self.state != State::Open {
            return Err(OpenError::SessionClosed);
        }
        if metadata.len() > MAX_OPEN_METADATA {
            return Err(OpenError::MetadataTooLong(metadata.len()));
        }
        let id = self.next_stream;
        let (side, _) = self.place_of(id);
        if self.open_streams[side] >= self.peer_max_streams {
            return Err(OpenError::TooManyStreams(self.peer_max_streams));
        }
        self.next_stream = StreamId::new(id.value() + 2);
        let mut receive = ReceiveStream::new(id);
        if receive.grow_at_opening(&mut self.pool) {
            self.owe_credit(id);
        }
        let mut send = SendStream::new(now, Some(metadata.clone()));
        if let Some(limit) = self.ahead.take_limit(id) {
            send.on_credit(limit);
        }
        let mut stream = Stream::new(now, send, receive);
        stream.own_metadata = metadata;
        self.add_stream(id, stream);
        self.enlist(now, id);
        self.schedule(now);
        Ok(id)
    }

    /// What the peer said of a stream when it opened or accepted it; `None` until that has come.
    pub fn peer_metadata(&self, id: StreamId) -> Option<Bytes> {
        self.streams.get(&id)?.peer_metadata.clone()
    }

    /// Accepts a stream that the peer opened: `metadata` goes back in this direction's first
    /// chunk.
    pub fn accept_stream(
        &mut self,
        now: Instant,
        id: StreamId,
        metadata: Bytes,
    ) -> Result<(), StreamError> {
        self.open_send(id)?.send.open(metadata);
        self.enlist(now, id);
        self.schedule(now);
        Ok(())
    }

    /// Takes as many of `bytes` as the stream's buffer has room for, without copying large ones;
    /// what was taken is cut off the front. 0: wait for [`Event::Writable`].
    pub fn write(
        &mut self,
        now: Instant,
        id: StreamId,
        bytes: &mut Bytes,
    ) -> Result<usize, StreamError> {
        let wanted = bytes.len();
        let send = &mut self.open_send(id)?.send;
        send.open(Bytes::new());
        let written = send.write(bytes)?;
        self.after_write(now, id, written, wanted);
        Ok(written)
    }

    /// As [`Session::write`], copying.
    pub fn write_slice(
        &mut self,
        now: Instant,
        id: StreamId,
        bytes: &[u8],
    ) -> Result<usize, StreamError> {
        self.open_send(id)?.send.open(Bytes::new());
        let stream = self.streams.get_mut(&id).ok_or(StreamError::Unknown(id))?;
        let written = stream.send.write_slice(bytes, &mut self.copies)?;
        self.after_write(now, id, written, bytes.len());
        Ok(written)
    }

    /// Ends this direction of a stream behind what was written.
    pub fn finish(&mut self, now: Instant, id: StreamId) -> Result<(), StreamError> {
        let send = &mut self.open_send(id)?.send;
        send.open(Bytes::new());
        send.finish();
        self.enlist(now, id);
        self.schedule(now);
        Ok(())
    }

    /// Ends both directions of a stream at once; the peer hears `code`.
    pub fn reset(&mut self, now: Instant, id: StreamId, code: u32) {
        if self.streams.contains_key(&id) {
            self.queue_command(&Command::Reset { stream: id, code });
            self.drop_stream(id);
            self.schedule(now);
        }
    }

    /// Up to `max` bytes of a stream: the next in order, or in unordered reading any that came.
    pub fn read(
        &mut self,
        now: Instant,
        id: StreamId,
        max: usize,
    ) -> Result<ReadOutcome, StreamError> {
        let stream = self.streams.get_mut(&id).ok_or(StreamError::Unknown(id))?;
        let Some((offset, bytes)) = stream.receive.read(max.max(1)) else {
            if stream.receive.reassembly.is_read_out() {
                stream.read_out = true;
                self.retire_if_over(id);
                return Ok(ReadOutcome::End);
            }
            if self.state == State::Closed {
                return Err(StreamError::SessionClosed);
            }
            return Ok(ReadOutcome::Blocked);
        };
        // Once everything is there, more credit would be of no use.
        if !stream.receive.reassembly.is_complete() && stream.receive.update_credit(&mut self.pool)
        {
            self.owe_credit(id);
            self.prepare_streams();
            self.schedule(now);
        }
        Ok(ReadOutcome::Data(offset.value(), bytes))
    }

    /// The application lets go of a stream: what was written still arrives, and the end after it;
    /// what the peer sends from now on has no reader, so that it resets the stream.
    pub fn abandon(&mut self, now: Instant, id: StreamId) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        stream.send.open(Bytes::new());
        stream.send.finish();
        stream.abandoned = true;
        let unread = stream.receive.reassembly.ready_bytes() > 0;
        stream.read_out |= stream.receive.reassembly.is_complete();
        if unread && !stream.read_out && stream.send.is_acknowledged() {
            self.reset(now, id, 0);
            return;
        }
        self.retire_if_over(id);
        self.enlist(now, id);
        self.schedule(now);
    }

    /// From now on the stream's bytes are read as they come, each with its position.
    pub fn set_unordered(&mut self, id: StreamId) -> Result<(), StreamError> {
        let stream = self.streams.get_mut(&id).ok_or(StreamError::Unknown(id))?;
        stream.receive.reassembly.set_unordered();
        Ok(())
    }

    /// Whether everything written to the stream, and its end, is held by the peer. True for a
    /// stream that is over.
    pub fn is_acknowledged(&self, id: StreamId) -> bool {
        self.streams
            .get(&id)
            .is_none_or(|stream| stream.send.is_acknowledged())
    }

    /// From now on at most `receive` is lent to streams beyond their own 64 KiB, and at most `send`
    /// is unacknowledged. Gives how much of either is in use; what is above the bound goes as
    /// streams end and the peer acknowledges.
    pub fn set_memory(
        &mut self,
        now: Instant,
        receive: ByteCount,
        send: ByteCount,
    ) -> (ByteCount, ByteCount) {
        self.pool.set_capacity(receive);
        let more = send > self.config.send_memory;
        self.config.send_memory = send;
        if more {
            self.schedule(now);
        }
        let lent = ByteCount::new(self.pool.lent());
        (lent, ByteCount::new(self.ledger.bytes()))
    }

    /// Which set a stream's number belongs to, and its place in it.
    pub(super) fn place_of(&self, id: StreamId) -> (usize, u64) {
        // Stream 0 is not in the set of the client's streams, which begin with 2.
        let side = usize::from(!id.is_client_opened());
        (
            side,
            (id.value() / 2).saturating_sub(u64::from(id.is_client_opened())),
        )
    }

    pub(super) fn add_stream(&mut self, id: StreamId, stream: Stream) {
        let (side, _) = self.place_of(id);
        self.open_streams[side] += 1;
        self.counters.streams_opened += 1;
        self.streams.insert(id, stream);
    }

    /// Forgets a stream when nothing more can happen to it.
    pub(super) fn retire_if_over(&mut self, id: StreamId) {
        let over = self
            .streams
            .get(&id)
            .is_some_and(|stream| stream.read_out && stream.send.is_acknowledged());
        if over {
            self.remove_stream(id);
        }
    }

    /// Ends a stream without regard to what is under way.
    pub(super) fn drop_stream(&mut self, id: StreamId) {
        self.ledger.retain(|chunk| chunk.header.stream != id);
        self.counters.streams_reset += 1;
        self.remove_stream(id);
    }

    fn remove_stream(&mut self, id: StreamId) {
        if let Some(mut stream) = self.streams.remove(&id) {
            stream.receive.close(&mut self.pool);
            self.forget_datagrams(&stream.datagrams);
            // A channel that takes nothing would keep a limit for each stream there ever was.
            self.credit_due.remove(&id);
            for channel in self.channels.values_mut() {
                channel.credit_copies.remove(&id);
            }
            let (side, number) = self.place_of(id);
            self.open_streams[side] = self.open_streams[side].saturating_sub(1);
            self.ended[side].insert(number..number + 1);
        }
    }

    /// The peer reset a stream, perhaps before its first chunk came.
    pub(super) fn on_reset(&mut self, id: StreamId, code: u32) -> Result<(), PeerFault> {
        if self.streams.contains_key(&id) {
            self.drop_stream(id);
            self.events.push_back(Event::Reset(id, code));
        } else if !self.is_mine(id) {
            self.check_gaps(id)?;
            let (side, number) = self.place_of(id);
            self.ended[side].insert(number..number + 1);
            self.drop_prepared(id);
        }
        Ok(())
    }

    fn open_send(&mut self, id: StreamId) -> Result<&mut Stream, StreamError> {
        if self.state == State::Closed {
            return Err(StreamError::SessionClosed);
        }
        self.streams.get_mut(&id).ok_or(StreamError::Unknown(id))
    }

    fn after_write(&mut self, now: Instant, id: StreamId, written: usize, wanted: usize) {
        if written < wanted
            && let Some(stream) = self.streams.get_mut(&id)
        {
            stream.send.write_blocked = true;
        }
        if written > 0 {
            self.enlist(now, id);
            self.schedule(now);
        }
    }
}
