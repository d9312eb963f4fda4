//! Calls of applications on streams.

use bytes::Bytes;
use hawser_types::{ByteCount, ChannelId, Instant, StreamGroup, StreamId};
use hawser_wire::{Command, MAX_OPEN_METADATA};

use super::Session;
use crate::error::{OpenError, PeerFault, StreamError};
use crate::event::Event;
use crate::read_outcome::ReadOutcome;
use crate::stream::{ReceiveStream, Stream};
use crate::unacknowledged::Dropped;

impl Session {
    /// Opens a stream. Its first chunk carries `metadata`, and data if some is written at once.
    pub fn open_stream(&mut self, now: Instant, metadata: Bytes) -> Result<StreamId, OpenError> {
        self.open_stream_for(now, StreamGroup::OWN, metadata)
    }

    /// As [`Session::open_stream`], on behalf of a group. Groups have equal shares of what either
    /// end sends, whatever number of streams they have; the peer learns the group's number.
    pub fn open_stream_for(
        &mut self,
        now: Instant,
        group: StreamGroup,
        metadata: Bytes,
    ) -> Result<StreamId, OpenError> {
        if !self.lifecycle.is_open() {
            return Err(OpenError::SessionClosed);
        }
        if metadata.len() > MAX_OPEN_METADATA {
            return Err(OpenError::MetadataTooLong(metadata.len()));
        }
        let (id, limit_moved) = self.streams.open(now, group, metadata)?;
        self.counters.streams_opened += 1;
        if limit_moved {
            self.channels.wake_quickest();
        }
        self.streams.enlist(now, id);
        self.schedule(now);
        Ok(id)
    }

    /// Returns what the peer said of a stream when it opened or accepted it; `None` until that has
    /// come.
    pub fn peer_metadata(&self, id: StreamId) -> Option<Bytes> {
        self.streams.get(id)?.peer_metadata().cloned()
    }

    /// Returns the channel that brought the peer's opening of a stream; `None` until that has come.
    pub fn opened_over(&self, id: StreamId) -> Option<ChannelId> {
        self.streams.get(id)?.opened_over()
    }

    /// Accepts a stream that the peer opened: `metadata` goes back in this direction's first
    /// chunk, of at most [`MAX_OPEN_METADATA`] bytes.
    pub fn accept_stream(
        &mut self,
        now: Instant,
        id: StreamId,
        metadata: Bytes,
    ) -> Result<(), StreamError> {
        let length = metadata.len();
        if length > MAX_OPEN_METADATA {
            return Err(StreamError::MetadataTooLong(length));
        }
        self.open_to_send(id)?.send_mut().open(metadata);
        self.streams.enlist(now, id);
        self.schedule(now);
        Ok(())
    }

    /// Takes as many of `bytes` as the stream's buffer has room for, without copying large ones;
    /// takes them off the front. 0: wait for [`Event::Writable`].
    pub fn write(
        &mut self,
        now: Instant,
        id: StreamId,
        bytes: &mut Bytes,
    ) -> Result<usize, StreamError> {
        let wanted = bytes.len();
        let written = self.open_to_send(id)?.send_mut().write(bytes)?;
        self.after_write(now, id, written, wanted);
        Ok(written)
    }

    /// As [`Session::write`], copying. Meant for short pieces, which are gathered into longer ones:
    /// a caller with a long one copies it outside its lock and calls [`Session::write`].
    pub fn write_slice(
        &mut self,
        now: Instant,
        id: StreamId,
        bytes: &[u8],
    ) -> Result<usize, StreamError> {
        let written = self.open_to_send(id)?.send_mut().write_slice(bytes)?;
        self.after_write(now, id, written, bytes.len());
        Ok(written)
    }

    /// Returns how many bytes a write would take now.
    pub fn write_room(&self, id: StreamId) -> usize {
        let stream = self.streams.get(id);
        stream.and_then(|it| it.send().room().ok()).unwrap_or(0)
    }

    /// Returns how many bytes the stream's buffer has room for. 0: wait for [`Event::Writable`].
    pub fn send_room(&mut self, id: StreamId) -> Result<usize, StreamError> {
        let send = self.open_to_send(id)?.send_mut();
        let room = send.room()?;
        if room == 0 {
            send.block_writer();
        }
        Ok(room)
    }

    /// Ends this direction of a stream behind what was written.
    pub fn finish(&mut self, now: Instant, id: StreamId) -> Result<(), StreamError> {
        let send = self.open_to_send(id)?.send_mut();
        send.open(Bytes::new());
        send.finish();
        self.streams.enlist(now, id);
        self.schedule(now);
        Ok(())
    }

    /// Ends both directions of a stream at once; the peer hears `code`.
    pub fn reset(&mut self, now: Instant, id: StreamId, code: u32) {
        if self.streams.contains(id) {
            self.command(&Command::Reset { stream: id, code });
            self.drop_stream(id);
            self.schedule(now);
        }
    }

    /// Reads up to `max` bytes of a stream: the next in order, or in unordered reading any that
    /// came.
    pub fn read(
        &mut self,
        now: Instant,
        id: StreamId,
        max: usize,
    ) -> Result<ReadOutcome, StreamError> {
        let taken = self.streams.receive(id, |receive| receive.read(max.max(1)));
        let Some((offset, bytes)) = taken.flatten() else {
            let stream = self.streams.open_mut(id)?;
            if let Some(code) = stream.receive().reset_code() {
                return Err(StreamError::Reset(code));
            }
            if stream.receive().is_read_out() {
                stream.set_read_out();
                self.retire_if_over(id);
                return Ok(ReadOutcome::End);
            }
            if self.is_closed() {
                return Err(StreamError::SessionClosed);
            }
            return Ok(ReadOutcome::Blocked);
        };
        if self.streams.update_credit(id) {
            self.channels.wake_quickest();
            self.prepare_streams();
            self.schedule(now);
        }
        Ok(ReadOutcome::Data(offset.value(), bytes))
    }

    /// Lets go of a stream: what was written still arrives, and the end after it. What the peer
    /// sends from now on has no reader, so that it resets the stream.
    pub fn abandon(&mut self, now: Instant, id: StreamId) {
        let Some(stream) = self.streams.get_mut(id) else {
            return;
        };
        if stream.abandon() {
            self.reset(now, id, 0);
            return;
        }
        self.retire_if_over(id);
        self.streams.enlist(now, id);
        self.schedule(now);
    }

    /// Reads the stream's bytes as they come from now on, each with its position.
    pub fn set_unordered(&mut self, id: StreamId) -> Result<(), StreamError> {
        let changed = self.streams.receive(id, ReceiveStream::set_unordered);
        changed.ok_or(StreamError::Unknown(id))?;
        Ok(())
    }

    /// True if everything written to the stream, and its end, is held by the peer; also for a
    /// stream that is over.
    pub fn is_acknowledged(&self, id: StreamId) -> bool {
        let stream = self.streams.get(id);
        stream.is_none_or(|stream| stream.send().is_acknowledged())
    }

    /// Lends at most `receive` to streams beyond their own 64 KiB from now on, lets at most `send`
    /// be unacknowledged, and half as much wait in the streams to be sent; memory above the bound
    /// is given back as streams end and the peer acknowledges. What came and was not read may take
    /// a quarter more than `receive`, or 1 MiB more: the newest streams beyond that are reset.
    /// Datagrams that came and were not taken may have an eighth of `receive`, from 256 KiB to
    /// 8 MiB.
    pub fn set_memory(&mut self, now: Instant, receive: ByteCount, send: ByteCount) {
        self.streams.set_memory(receive, send);
        self.datagrams.set_share(receive);
        let more = send > self.config.send_memory;
        self.config.send_memory = send;
        if more {
            self.schedule(now);
        }
    }

    /// Lends nothing more to streams, and lets no more than `send` be unacknowledged, until the
    /// next [`Session::set_memory`]. Returns what is lent, together with datagrams that were not
    /// taken, and what is unacknowledged.
    pub fn stop_lending(&mut self, send: ByteCount) -> (ByteCount, ByteCount) {
        self.streams.stop_lending();
        self.config.send_memory = send;
        let unacknowledged = ByteCount::new(self.unacknowledged.bytes());
        (self.streams.lent() + self.datagrams.held(), unacknowledged)
    }

    /// Forgets a stream when nothing more can happen to it.
    pub(super) fn retire_if_over(&mut self, id: StreamId) {
        if self.streams.get(id).is_some_and(Stream::is_over) {
            self.remove_stream(id);
        }
    }

    /// Takes note that the peer reset a stream, perhaps before its first chunk came.
    pub(super) fn on_reset(&mut self, id: StreamId, code: u32) -> Result<(), PeerFault> {
        if id == StreamId::COMMANDS {
            return Ok(());
        }
        if self.streams.contains(id) {
            self.drop_stream(id);
            self.events.push(Event::Reset(id, code));
        } else if !self.streams.is_mine(id) {
            let ended = self.streams.on_reset_unopened(id);
            ended.map_err(PeerFault::Misbehaved)?;
        }
        Ok(())
    }

    /// Lends the peer's next streams what they may begin with.
    pub(super) fn prepare_streams(&mut self) {
        let may = self.lifecycle.is_open() && self.commands.said_hello();
        if may && self.streams.prepare() {
            self.channels.wake_quickest();
        }
    }

    /// Tells the peer the limit of a stream with the next record.
    pub(super) fn owe_credit(&mut self, id: StreamId) {
        self.streams.owe_credit(id);
        self.channels.wake_quickest();
    }

    /// Ends a stream without regard to data in flight.
    fn drop_stream(&mut self, id: StreamId) {
        self.unacknowledged.drop_chunks(id, Dropped::All);
        self.counters.streams_reset += 1;
        self.remove_stream(id);
    }

    fn remove_stream(&mut self, id: StreamId) {
        if let Some(mut stream) = self.streams.remove(id) {
            self.datagrams.on_taken(stream.datagrams_mut().cost());
            // A channel that takes nothing would keep a limit for each stream there ever was.
            for channel in self.channels.iter_mut() {
                channel.drop_credit_copy(id);
            }
        }
    }

    fn open_to_send(&mut self, id: StreamId) -> Result<&mut Stream, StreamError> {
        if self.is_closed() {
            return Err(StreamError::SessionClosed);
        }
        self.streams.open_mut(id)
    }

    fn after_write(&mut self, now: Instant, id: StreamId, written: usize, wanted: usize) {
        if written < wanted
            && let Some(stream) = self.streams.get_mut(id)
        {
            stream.send_mut().block_writer();
        }
        if written > 0 {
            self.streams.enlist(now, id);
            self.schedule(now);
        }
    }
}
