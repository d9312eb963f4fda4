//! From streams to records: what is sent next, on which channel, and what rides with it.

use bytes::Bytes;
use hawser_sched::chunk::{ChunkPolicy, ChunkUnit, Decision};
use hawser_types::{ByteCount, ChannelId, Instant, StreamId, StreamOffset};
use hawser_wire::{ChannelRole, ChunkFlags, ChunkHeader, RECORD_HEADER_LENGTH, varint_length};

use super::failure::TICK;
use super::{Outgoing, Session, State, slot};
use crate::channel::{Assigned, Sent};
use crate::ledger::{ChunkKey, SentChunk};
use crate::seal::TAG_LENGTH;
use crate::stream::Stream;
use crate::{Event, Payload};

/// What could be sent next.
#[derive(Clone, Copy, Debug)]
enum Source {
    /// A chunk that a channel failed.
    Again(ChunkKey),
    /// The command stream.
    Commands,
    /// A stream whose turn it is.
    Stream(StreamId),
}

impl Session {
    /// Places everything that can be placed now.
    pub(super) fn schedule(&mut self, now: Instant) {
        self.wait_over = None;
        if self.state == State::Closed {
            return;
        }
        self.review_links(now);
        self.place(now, ChannelRole::Express);
        if self.place(now, ChannelRole::Bulk) {
            self.help_the_tail(now);
        }
        self.place_datagrams(now);
    }

    /// The next record for a channel: a chunk if one was placed there, with all the state that is
    /// due. `false`: nothing to send. A channel that gave a chunk counts as busy until
    /// [`Session::handle_writable`] says otherwise.
    pub fn poll_transmit(&mut self, now: Instant, id: ChannelId, out: &mut Outgoing) -> bool {
        out.head.clear();
        out.payload.clear();
        (out.stream, out.lifetime, out.twice) = (StreamId::COMMANDS, None, false);
        if self.drop_stale(id) {
            self.schedule(now);
        }
        let Some(channel) = self.channels.get_mut(&id) else {
            return false;
        };
        channel.woken = false;
        let datagrams = channel.sends_datagrams();
        if datagrams && channel.spec.is_association() {
            self.transmit_datagrams(now, id, out);
            return true;
        }
        let assigned = match datagrams {
            true => None,
            false => channel.outbox.pop_front(),
        };
        let has_chunk = assigned.is_some();
        // Nobody asks again once the session is over, and the peer waits for this one.
        let over = self.state == State::Closed;
        let inbound = &channel.inbound;
        let ack_due = inbound.ack_due.is_some_and(|due| over || due <= now);
        let heartbeat = std::mem::take(&mut channel.heartbeat_due) && !has_chunk;
        let credit = !self.credit_due.is_empty() || !channel.credit_copies.is_empty();
        let notices = !channel.notices.is_empty();
        if !has_chunk && !datagrams && !ack_due && !heartbeat && !credit && !notices {
            return false;
        }
        let is_association = channel.spec.is_association();
        channel.put_number(has_chunk, out);
        let prefix = out.head.len();
        self.put_state(id, heartbeat, out);
        self.put_reports(now, id, out);
        if datagrams {
            self.put_datagrams(id, MAX_DATAGRAMS, out);
        }
        let chunk = assigned.and_then(|assigned| self.ledger.get(assigned.chunk));
        if let Some(chunk) = chunk {
            chunk.header.encode(&mut out.head);
            out.stream = chunk.header.stream;
            out.twice = is_association
                && chunk.role == ChannelRole::Express
                && chunk.length <= SHORT
                && self.tail_budget.allows(chunk.length as u64);
            out.payload.extend(chunk.payload.iter().cloned());
        }
        if out.head.len() == prefix {
            // Credit was due to streams that are over.
            return false;
        }
        self.note_sent(now, id, assigned, out);
        true
    }

    /// Books a record that is about to be written.
    pub(super) fn note_sent(
        &mut self,
        now: Instant,
        id: ChannelId,
        assigned: Option<Assigned>,
        out: &Outgoing,
    ) {
        let Some(channel) = self.channels.get_mut(&id) else {
            return;
        };
        let payload: usize = out.payload.iter().map(Bytes::len).sum();
        let is_association = channel.spec.is_association();
        let wire = match is_association {
            true => out.head.len() + payload,
            false => RECORD_HEADER_LENGTH + out.head.len() + payload + TAG_LENGTH,
        };
        let counts = !is_association || assigned.is_some();
        channel.written += wire as u64;
        channel.path.on_written(now);
        if let Some(Assigned {
            chunk,
            length,
            copy,
        }) = assigned
        {
            channel.ready = false;
            channel.payload_sent += u64::from(length);
            self.tail_budget.on_sent(u64::from(length));
            channel.sent.push_back(Sent {
                record: channel.records_sent,
                chunk,
                length,
                copy,
                end: channel.written,
                at: now,
            });
        }
        channel.records_sent += u64::from(counts);
        let link = channel.spec.link;
        if self.tick_at.is_none() {
            self.tick_at = Some(now + super::failure::TICK);
        }
        // What associations send is booked on the links of their paths.
        if !is_association {
            self.account(link).sent += wire as u64;
        }
    }

    /// Drops chunks that were acknowledged, or whose stream was reset, while they waited for this
    /// channel. Whether the channel is free for others by that.
    fn drop_stale(&mut self, id: ChannelId) -> bool {
        let Some(channel) = self.channels.get_mut(&id) else {
            return false;
        };
        let before = channel.outbox.len();
        let (ledger, in_flight) = (&self.ledger, &mut channel.in_flight);
        channel.outbox.retain(|assigned| {
            let wanted = ledger.get(assigned.chunk).is_some();
            if !wanted {
                *in_flight = in_flight.saturating_sub(u64::from(assigned.length));
            }
            wanted
        });
        channel.outbox.is_empty() && before > 0
    }

    /// A stream may have something to send: it takes its place among those that wait.
    pub(super) fn enlist(&mut self, now: Instant, id: StreamId) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        if stream.send.enlisted.is_none() && stream.send.sendable().is_some() {
            let role = stream.send.role(now, self.small);
            stream.send.enlisted = Some(role);
            self.waiting[slot(role)].push_back(id);
        }
    }

    /// Places chunks of one kind while there are any and a channel takes them. Whether channels
    /// were left over.
    fn place(&mut self, now: Instant, role: ChannelRole) -> bool {
        self.view_channels(now, role);
        if self.preferred_go_first(role) {
            self.views.retain(|view| view.preferred);
            self.place_in_view(now, role);
            self.view_channels(now, role);
        }
        self.place_in_view(now, role)
    }

    fn place_in_view(&mut self, now: Instant, role: ChannelRole) -> bool {
        while self.views.iter().any(|view| view.ready) {
            let Some((source, size)) = self.next_source(role) else {
                return true;
            };
            let unit = self.unit(source, size);
            let scheduler = match role {
                ChannelRole::Bulk => &mut self.bulk,
                ChannelRole::Express => &mut self.express,
            };
            let decision = scheduler.select(now, unit, &self.views);
            let asked = (role, self.stream_of(source));
            self.recorder
                .on_decision(now, asked, unit, &self.views, decision);
            let (first, second) = match decision {
                Decision::Channel(id, _) => (id, None),
                Decision::Duplicate([id, other], _) => (id, Some(other)),
                Decision::Wait(until, _) => {
                    // A channel that becomes ready asks by itself: this is for one that does not.
                    let over = until.map(|at| at.max(now + TICK));
                    self.wait_over = self.wait_over.into_iter().chain(over).min();
                    return false;
                }
            };
            let Some(key) = self.take(now, source, role, first) else {
                continue;
            };
            self.assign(key, first);
            // Who chose to send everything twice has no budget for it.
            let always = role == ChannelRole::Bulk && self.bulk.policy() == ChunkPolicy::Redundant;
            if let Some(second) = second.filter(|_| always || self.may_duplicate(size)) {
                self.counters.bytes_duplicated += size;
                self.assign(key, second);
            }
        }
        false
    }

    /// Whose bytes go next.
    fn stream_of(&self, source: Source) -> StreamId {
        match source {
            Source::Again(key) => {
                let chunk = self.ledger.get(key);
                chunk.map_or(StreamId::COMMANDS, |chunk| chunk.header.stream)
            }
            Source::Commands => StreamId::COMMANDS,
            Source::Stream(id) => id,
        }
    }

    /// What a policy may know of the chunk that goes next.
    fn unit(&self, source: Source, size: u64) -> ChunkUnit {
        let memory = self.config.send_memory.as_u64();
        let memory = memory.saturating_sub(self.ledger.bytes());
        let stream = match source {
            Source::Stream(id) => self.streams.get(&id),
            _ => None,
        };
        ChunkUnit {
            size: ByteCount::new(size),
            more: stream.is_some_and(|stream| stream.send.has_more()),
            room: stream.map(|stream| ByteCount::new(stream.send.credit().min(memory))),
            again: matches!(source, Source::Again(_)),
        }
    }

    /// What goes next, and its size.
    fn next_source(&mut self, role: ChannelRole) -> Option<(Source, u64)> {
        while let Some(entry) = self.again[slot(role)].first_entry() {
            let key = *entry.get();
            if let Some(chunk) = self.ledger.get(key) {
                return Some((Source::Again(key), chunk.length as u64));
            }
            entry.remove();
        }
        if role == ChannelRole::Express {
            let queued = self.commands.queue.len() as u64;
            if queued > 0 && self.commands.outstanding < MAX_COMMANDS_OUTSTANDING {
                return Some((Source::Commands, queued));
            }
        }
        if self.ledger.bytes() >= self.config.send_memory.as_u64() {
            return None;
        }
        while let Some(id) = self.waiting[slot(role)].front().copied() {
            if let Some(stream) = self.streams.get_mut(&id) {
                if let Some(size) = stream.send.sendable() {
                    return Some((Source::Stream(id), size));
                }
                stream.send.enlisted = None;
            }
            self.waiting[slot(role)].pop_front();
        }
        None
    }

    /// Turns a source into a chunk in the ledger.
    fn take(
        &mut self,
        now: Instant,
        source: Source,
        role: ChannelRole,
        channel: ChannelId,
    ) -> Option<ChunkKey> {
        match source {
            Source::Again(key) => {
                self.again[slot(role)].remove(&key.segment);
                self.counters.chunks_again += 1;
                self.counters.bytes_again += self.ledger.get(key)?.length as u64;
                Some(key)
            }
            Source::Commands => Some(self.cut_commands()),
            Source::Stream(id) => {
                self.waiting[slot(role)].pop_front();
                let key = self.cut_stream(now, id, role, channel);
                let chunk = key.and_then(|key| self.ledger.get(key));
                if let Some(chunk) = chunk {
                    self.interactive.on_cut(now, role, chunk.length);
                }
                if let Some(stream) = self.streams.get_mut(&id) {
                    stream.send.enlisted = None;
                    if stream.send.write_blocked && stream.send.has_room() {
                        stream.send.write_blocked = false;
                        self.events.push_back(Event::Writable(id));
                    }
                }
                self.enlist(now, id);
                key
            }
        }
    }

    fn cut_stream(
        &mut self,
        now: Instant,
        id: StreamId,
        role: ChannelRole,
        to: ChannelId,
    ) -> Option<ChunkKey> {
        let stream = self.streams.get(&id)?;
        let header = header_length(id, &self.ledger, stream);
        let channel = self.channels.get(&to)?;
        let limit = channel.chunk_limit(self.chunk_size(now, channel), header);
        let stream = self.streams.get_mut(&id)?;
        let cut = stream.send.cut(limit)?;
        let header = ChunkHeader {
            stream: id,
            segment: self.ledger.take_segment(),
            offset: cut.offset,
            flags: cut.flags,
            metadata: cut.metadata,
        };
        self.counters.chunks_cut += 1;
        let (payload, length) = (cut.payload, cut.length);
        Some(self.ledger.insert(SentChunk {
            header,
            payload,
            length,
            role,
            copies: 0,
            doubtful: 0,
        }))
    }

    fn cut_commands(&mut self) -> ChunkKey {
        let length = self.commands.queue.len().min(MAX_COMMAND_CHUNK);
        let bytes: Bytes = self.commands.queue.split_to(length).freeze();
        let header = ChunkHeader {
            stream: StreamId::COMMANDS,
            segment: self.ledger.take_segment(),
            offset: StreamOffset::new(self.commands.sent),
            flags: ChunkFlags::default(),
            metadata: Bytes::new(),
        };
        self.commands.sent += length as u64;
        self.commands.outstanding += length as u64;
        let payload = Payload::from_iter([bytes]);
        let role = ChannelRole::Express;
        self.ledger.insert(SentChunk {
            header,
            payload,
            length,
            role,
            copies: 0,
            doubtful: 0,
        })
    }

    /// Gives a chunk to a channel, which is busy from then on.
    pub(super) fn assign(&mut self, key: ChunkKey, id: ChannelId) {
        let Some(channel) = self.channels.get_mut(&id) else {
            return;
        };
        let Some(chunk) = self.ledger.get_mut(key) else {
            return;
        };
        let (stream, copy) = (chunk.header.stream, chunk.copies > 0);
        self.recorder.on_given(stream, channel, chunk.length, copy);
        chunk.copies += 1;
        chunk.doubtful += u32::from(channel.suspect_since.is_some());
        channel.in_flight += chunk.length as u64;
        channel.outbox.push_back(Assigned {
            chunk: key,
            length: chunk.length as u32,
            copy,
        });
        let (link, length) = (channel.spec.link, ByteCount::from(chunk.length));
        for view in self.views.iter_mut().filter(|view| view.link == link) {
            if view.channel == id {
                view.ready = false;
                view.in_flight += length;
            } else {
                view.beside += length;
            }
        }
        self.wake(id);
    }
}

/// How long the header of a stream's next chunk will be, so that the record fills its segments.
fn header_length(id: StreamId, ledger: &crate::ledger::Ledger, stream: &Stream) -> usize {
    1 + varint_length(id.value())
        + varint_length(ledger.next_segment().value())
        + varint_length(stream.send.sent())
}

/// Small datagrams share a record.
const MAX_DATAGRAMS: usize = 16 * 1024;
/// Commands are exempt from credit, so this bounds them.
const MAX_COMMANDS_OUTSTANDING: u64 = 64 * 1024;
const MAX_COMMAND_CHUNK: usize = 1200;
/// What fits one packet with others.
const SHORT: usize = 1100;
