//! From records to streams.

use std::time::Duration;

use bytes::Bytes;
use hawser_types::{ChannelId, Instant, LinkIndex, StreamId};
use hawser_wire::{
    ChunkHeader, Command, Frame, FrameIterator, PathReport, RECORD_HEADER_LENGTH, StateFrame,
};

use super::Session;
use crate::channel::{Notice, Sent, stamp_of};
use crate::error::{Misbehaviour, PeerFault};
use crate::event::Event;
use crate::read_buffers::ReadBuffer;
use crate::reassembly::Inserted;
use crate::seal::TAG_LENGTH;
use crate::streams::Found;
use crate::unacknowledged::ChunkKey;

impl Session {
    /// Takes in the opened body of a record that came on a channel, in memory of its own. Small
    /// payloads are copied out of it. An error is the peer's fault: the session can't go on.
    pub fn handle_record(
        &mut self,
        now: Instant,
        id: ChannelId,
        body: Bytes,
    ) -> Result<(), PeerFault> {
        self.take_record(now, id, body, None)
    }

    /// As [`Session::handle_record`], for a body that is a slice of a buffer.
    ///
    /// A payload that waits for its reader keeps the whole buffer alive. So the session copies the
    /// payloads that take less than an eighth of their buffer, and counts the buffer of the others
    /// once while any is left. All are copied while much is kept that nothing uses.
    pub fn handle_record_in(
        &mut self,
        now: Instant,
        id: ChannelId,
        body: Bytes,
        buffer: ReadBuffer,
    ) -> Result<(), PeerFault> {
        self.take_record(now, id, body, Some(buffer))
    }

    fn take_record(
        &mut self,
        now: Instant,
        id: ChannelId,
        mut body: Bytes,
        buffer: Option<ReadBuffer>,
    ) -> Result<(), PeerFault> {
        let Some(channel) = self.channels.get_mut(id) else {
            return Ok(());
        };
        let link = channel.link();
        let mut is_numbered = true;
        if channel.is_association() {
            is_numbered = self.on_record_number(id, &mut body)?;
        } else {
            channel.inbound_mut().on_record(now);
            let wire = RECORD_HEADER_LENGTH + body.len() + TAG_LENGTH;
            let account = self.links.account(link, &self.channels);
            account.on_received(wire as u64);
        }
        let mut group = None;
        for frame in FrameIterator::new(body) {
            match frame? {
                Frame::State(StateFrame::Group { stream, group: of }) => group = Some((stream, of)),
                Frame::State(state) => self.on_state(now, id, state)?,
                Frame::Datagram(stream, payload) => self.on_datagram(stream, &payload),
                Frame::Chunk(..) if !is_numbered => {
                    let fault = Misbehaviour::ChunkWithoutNumber(id);
                    return Err(PeerFault::Misbehaved(fault));
                }
                Frame::Chunk(header, payload) => {
                    let channel = self.channels.get_mut(id);
                    if channel.is_some_and(|c| c.inbound_mut().on_chunk(now, payload.len())) {
                        self.channels.wake(id);
                    }
                    let opened = header.flags.open.then_some(header.stream);
                    self.on_chunk(now, header, payload, (id, buffer))?;
                    // Of one end's streams the other end does not decide.
                    if let Some((stream, group)) = group
                        && opened == Some(stream)
                        && !self.streams.is_mine(stream)
                    {
                        self.streams.set_group(now, stream, group);
                    }
                }
            }
        }
        self.schedule(now);
        Ok(())
    }

    fn on_state(
        &mut self,
        now: Instant,
        on: ChannelId,
        state: StateFrame,
    ) -> Result<(), PeerFault> {
        match state {
            StateFrame::Ack { channel, records } => self.on_ack(now, channel, records)?,
            StateFrame::Credit { stream, limit } => self.streams.on_credit(now, stream, limit),
            StateFrame::Path(report) => self.on_report(now, on, &report),
            StateFrame::SegmentsLost { link, size } => {
                self.on_segments_lost(now, LinkIndex::new(link), size);
            }
            // The driver deals with joins, and a group belongs to a chunk; a heartbeat has done its
            // work by arriving.
            StateFrame::Join { .. } | StateFrame::Group { .. } | StateFrame::Heartbeat => {}
        }
        Ok(())
    }

    fn on_ack(&mut self, now: Instant, id: ChannelId, records: u64) -> Result<(), PeerFault> {
        // An acknowledgement for a channel that is gone comes too late: its chunks went again.
        let Some(channel) = self.channels.get_mut(id) else {
            return Ok(());
        };
        let link = channel.link();
        if channel.outbound_mut().on_ack(now, records).is_err() {
            return Err(PeerFault::Misbehaved(Misbehaviour::AckOfUnsent));
        }
        while let Some(channel) = self.channels.get_mut(id)
            && let Some(sent) = channel.outbound_mut().take_acknowledged()
        {
            self.book_held(link, sent);
            self.on_chunk_held(now, sent.chunk());
        }
        self.check_close(now);
        Ok(())
    }

    /// Books a chunk that the peer acknowledges and that came by a link.
    fn book_held(&mut self, link: LinkIndex, sent: Sent) {
        let bytes = sent.length();
        let account = self.links.account(link, &self.channels);
        let Some(chunk) = self.unacknowledged.get(sent.chunk()) else {
            let was_dropped = self.unacknowledged.take_dropped(sent.chunk());
            // A copy that comes second is no fault of its link.
            if sent.is_copy() {
                return;
            }
            // The link brought what the peer has no use for any more. It is not to be judged by
            // what nothing waits for.
            if was_dropped {
                account.on_delivered(bytes);
                self.transports.on_held(link, bytes);
            } else {
                account.on_late(bytes);
            }
            return;
        };
        account.on_delivered(bytes);
        self.transports.on_held(link, bytes);
        if let Some(stream) = self.streams.get_mut(chunk.stream()) {
            stream.on_held_up_to(chunk.header().offset.value() + bytes);
        }
    }

    /// Forgets a chunk that the peer holds, by whichever channel it came.
    fn on_chunk_held(&mut self, now: Instant, key: ChunkKey) {
        let Some(chunk) = self.unacknowledged.on_held(key) else {
            return;
        };
        let id = chunk.stream();
        if id == StreamId::COMMANDS {
            self.commands.on_held(chunk.length());
            return;
        }
        let opens = chunk.header().flags.open && self.streams.is_mine(id);
        let Some(stream) = self.streams.get_mut(id) else {
            return;
        };
        // Credit may have overtaken the opening, and be lost: the peer did not know the stream.
        let owes_credit = opens && stream.receive().has_moved();
        stream.send_mut().on_acknowledged();
        let is_acknowledged = stream.send().is_acknowledged();
        if owes_credit {
            self.owe_credit(id);
        }
        if is_acknowledged {
            self.events.push(Event::Acknowledged(id));
            self.refuse_unread(now, id);
            self.retire_if_over(id);
        }
    }

    fn on_chunk(
        &mut self,
        now: Instant,
        header: ChunkHeader,
        payload: Bytes,
        (channel, buffer): (ChannelId, Option<ReadBuffer>),
    ) -> Result<(), PeerFault> {
        let id = header.stream;
        if id == StreamId::COMMANDS {
            return self.on_command_chunk(now, &header, &payload);
        }
        if !self.find_or_open(now, id)? {
            self.counters.duplicates_received += 1;
            return Ok(());
        }
        let Some(stream) = self.streams.get_mut(id) else {
            return Ok(());
        };
        if stream.is_abandoned() && !payload.is_empty() && stream.send().is_acknowledged() {
            self.reset(now, id, 0);
            return Ok(());
        }
        if let Some(code) = stream.receive().reset_code() {
            if self.on_opening(&header, channel) {
                self.events.push(Event::SendingReset(id, code));
            }
            return Ok(());
        }
        let payload = self.streams.keep(channel, payload, buffer);
        let taken = self.streams.receive(id, |receive| {
            let was_complete = receive.is_complete();
            let inserted = receive.on_chunk(&header, payload)?;
            let ends = receive.is_complete() && !was_complete;
            let is_readable = receive.ready_bytes() > 0 || ends;
            Ok((inserted, is_readable, receive.has_too_many_holes()))
        });
        match taken.transpose().map_err(PeerFault::Misbehaved)? {
            None | Some((Inserted::Duplicate, ..)) => self.counters.duplicates_received += 1,
            Some((Inserted::New, _, true)) => {
                self.reset_at_limit(now, id);
                return Ok(());
            }
            Some((Inserted::New, is_readable, false)) => {
                self.on_opening(&header, channel);
                if is_readable {
                    self.events.push(Event::Readable(id));
                }
                while let Some(id) = self.streams.next_beyond_memory() {
                    self.reset_at_limit(now, id);
                }
            }
        }
        self.after_chunk(id);
        Ok(())
    }

    /// Resets streams whose opening chunk should have come by now.
    pub(super) fn reset_unopened(&mut self, now: Instant) {
        while let Some(id) = self.streams.overdue(now) {
            self.reset_at_limit(now, id);
        }
    }

    /// Resets a stream that went beyond a limit of this side.
    fn reset_at_limit(&mut self, now: Instant, id: StreamId) {
        let code = crate::CODE_LIMIT_REACHED;
        self.reset(now, id, code);
        self.events.push(Event::Reset(id, code));
    }

    /// Takes note of the metadata of an opening chunk that came over a channel. True if it is the
    /// first one of its stream.
    fn on_opening(&mut self, header: &ChunkHeader, over: ChannelId) -> bool {
        let id = header.stream;
        let is_mine = self.streams.is_mine(id);
        let Some(stream) = self.streams.get_mut(id) else {
            return false;
        };
        let is_first = header.flags.open && stream.set_peer_metadata(&header.metadata, over);
        if is_first && is_mine {
            self.events.push(Event::StreamAccepted(id));
        } else if is_first {
            self.events.push(Event::StreamOpened(id));
            // The application did not know the stream when the peer stopped it.
            let stopped = stream.stop_code();
            self.streams.on_opening(id);
            self.events
                .extend(stopped.map(|code| Event::Stopped(id, code)));
        }
        is_first
    }

    /// Credits what has no reader, and forgets the stream if that was all of it.
    fn after_chunk(&mut self, id: StreamId) {
        let Some(stream) = self.streams.get_mut(id) else {
            return;
        };
        let discards = stream.receive().is_discarding();
        if (stream.is_abandoned() || discards) && stream.receive().is_complete() {
            stream.set_read_out();
        }
        if discards && !stream.was_read_out() && self.streams.update_credit(id) {
            self.channels.wake_quickest();
        }
        self.retire_if_over(id);
    }

    /// Makes sure that the stream of a chunk is there. False if it is over already, or refused.
    pub(super) fn find_or_open(&mut self, now: Instant, id: StreamId) -> Result<bool, PeerFault> {
        if self.is_closed() {
            return Ok(false);
        }
        let found = self.streams.find_or_open(now, id);
        match found.map_err(PeerFault::Misbehaved)? {
            Found::Known => Ok(true),
            Found::Opened { limit_moved } => {
                self.counters.streams_opened += 1;
                if limit_moved {
                    self.channels.wake_quickest();
                }
                self.prepare_streams();
                Ok(true)
            }
            Found::Over => Ok(false),
            Found::Refused => {
                self.counters.streams_reset += 1;
                let code = crate::CODE_LIMIT_REACHED;
                let refusal = Command::Reset { stream: id, code };
                if self.commands.push_bounded(&refusal) {
                    Ok(false)
                } else {
                    Err(PeerFault::Misbehaved(Misbehaviour::TooManyStreams(id)))
                }
            }
        }
    }

    /// Takes in a report that came on a channel.
    fn on_report(&mut self, now: Instant, on: ChannelId, report: &PathReport) {
        let Some(channel) = self.channels.get_mut(report.channel) else {
            return;
        };
        if !channel.notices_mut().on_report(report) {
            return;
        }
        if let Some(queue) = report.queue.map(Duration::from_micros) {
            self.links.on_queue(now, channel, queue);
        }
        if on == report.channel {
            // An association's report may have come over any path.
            if !channel.is_association() {
                channel.on_stamps(stamp_of(report), now);
            }
        } else if report.silent {
            let route = channel.route();
            self.notify(on, Notice::Ack(report.channel));
            if self.channels.seems_silent(now, route) && self.channels.live_without(route) {
                self.doubt(now, route);
            }
        }
    }

    /// Sends a notice on a channel.
    pub(super) fn notify(&mut self, on: ChannelId, notice: Notice) {
        if let Some(channel) = self.channels.get_mut(on)
            && channel.notices_mut().push(notice)
        {
            self.channels.wake(on);
        }
    }
}
