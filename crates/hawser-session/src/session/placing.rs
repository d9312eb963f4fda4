//! From streams to channels: which data is sent next, and on which channel.

use hawser_sched::chunk::{ChunkPolicy, ChunkUnit, Decision};
use hawser_types::{ByteCount, ChannelId, Instant, StreamId};
use hawser_wire::{ChannelRole, varint_length};

use super::Session;
use super::liveness::TICK;
use crate::channel::Trial;
use crate::event::Event;
use crate::unacknowledged::ChunkKey;

/// Data that could be sent next.
#[derive(Clone, Copy, Debug)]
enum Source {
    /// A chunk that a channel failed.
    Again(ChunkKey),
    /// The command stream.
    Commands,
    /// A stream whose turn it is.
    Stream(StreamId),
}

/// Data that could be sent next, its stream and its size.
#[derive(Clone, Copy, Debug)]
struct Next {
    source: Source,
    stream: StreamId,
    size: u64,
}

impl Session {
    /// Places everything that can be placed now.
    pub(super) fn schedule(&mut self, now: Instant) {
        self.scheduling.end_waits();
        if self.is_closed() {
            return;
        }
        let recorder = &mut self.recorder;
        let on_standing = |link, standing| recorder.on_standing(now, link, standing);
        // Chunks that wait for a link which may not be used any more go elsewhere.
        for chunk in self.links.review(&mut self.channels, on_standing) {
            self.unacknowledged.release(chunk, false);
        }
        if !self.channels.any_ready() {
            return;
        }
        if self.has_source(ChannelRole::Express) {
            self.place(now, ChannelRole::Express);
        }
        // Without new bulk an idle channel may repeat what is in flight.
        let may_place = self.has_source(ChannelRole::Bulk) || !self.unacknowledged.is_empty();
        if may_place && self.place(now, ChannelRole::Bulk) {
            self.help_the_tail(now);
        }
        self.place_datagrams(now);
    }

    /// True unless there is surely nothing of a kind to place.
    fn has_source(&self, role: ChannelRole) -> bool {
        let commands = role == ChannelRole::Express && self.commands.sendable().is_some();
        commands || self.unacknowledged.has_again(role) || self.streams.any_waiting(role)
    }

    /// Places chunks of one kind while there are any and a channel takes them. True if channels
    /// were left over.
    fn place(&mut self, now: Instant, role: ChannelRole) -> bool {
        self.look(now, role);
        if self.scheduling.preferred_go_first(role) {
            self.scheduling.hide_others_than_preferred();
            self.place_in_view(now, role);
            self.look(now, role);
        }
        self.place_in_view(now, role)
    }

    fn look(&mut self, now: Instant, role: ChannelRole) {
        let channels = &self.channels;
        let association = self.transports.association_for(now, role, channels);
        self.scheduling.look(now, role, channels, association);
    }

    fn place_in_view(&mut self, now: Instant, role: ChannelRole) -> bool {
        while self.scheduling.any_ready() {
            let Some(next) = self.next_source(role) else {
                return true;
            };
            let unit = self.unit(next);
            let decision = self.scheduling.select(now, role, unit);
            let views = self.scheduling.views();
            let asked = (role, next.stream);
            self.recorder.on_decision(now, asked, unit, views, decision);
            let (first, second) = match decision {
                Decision::Channel(id, _) => (id, None),
                Decision::Duplicate([id, other], _) => (id, Some(other)),
                Decision::Wait(until, _) => {
                    // A channel that becomes ready asks by itself: this is for one that does not.
                    let until = until.map(|at| at.max(now + TICK));
                    self.scheduling.wait(until);
                    return false;
                }
            };
            let trial = match next.source {
                Source::Again(_) => None,
                _ => self.channels.due_for_trial(now, first, next.size),
            };
            let Some(key) = self.take(now, next.source, role, trial.unwrap_or(first)) else {
                continue;
            };
            self.assign(key, first);
            if let Some(trial) = trial {
                self.try_out(now, key, trial);
            }
            // A policy that duplicates everything has no budget for it.
            let policy = self.scheduling.policy();
            let always = role == ChannelRole::Bulk && policy == ChunkPolicy::Redundant;
            let second = second.filter(|second| Some(*second) != trial);
            let second = second.filter(|_| always || self.duplicates.try_spend(next.size));
            if let Some(second) = second {
                self.counters.bytes_duplicated += next.size;
                self.assign(key, second);
            }
        }
        false
    }

    /// Gives a copy of a chunk to a channel whose link crawls.
    fn try_out(&mut self, now: Instant, key: ChunkKey, id: ChannelId) {
        let Some(chunk) = self.unacknowledged.get(key) else {
            return;
        };
        let bytes = chunk.length() as u64;
        if let Some(channel) = self.channels.get_mut(id) {
            let trial = Trial {
                at: now,
                bytes: ByteCount::new(bytes),
                payload: channel.outbound().payload() + bytes,
            };
            channel.liveness_mut().try_out(trial);
            self.counters.bytes_duplicated += bytes;
            self.assign(key, id);
        }
    }

    /// Returns what a policy may know of the chunk that goes next.
    fn unit(&self, next: Next) -> ChunkUnit {
        let memory = self.config.send_memory.as_u64();
        let memory = memory.saturating_sub(self.unacknowledged.bytes());
        let stream = match next.source {
            Source::Stream(id) => self.streams.get(id),
            _ => None,
        };
        let send = stream.map(|stream| stream.send());
        ChunkUnit {
            size: ByteCount::new(next.size),
            more: send.is_some_and(|send| send.has_more()),
            room: send.map(|send| ByteCount::new(send.credit().min(memory))),
            again: matches!(next.source, Source::Again(_)),
        }
    }

    /// Returns the data that goes next.
    fn next_source(&mut self, role: ChannelRole) -> Option<Next> {
        if let Some((key, chunk)) = self.unacknowledged.next_again(role) {
            return Some(Next {
                source: Source::Again(key),
                stream: chunk.stream(),
                size: chunk.length() as u64,
            });
        }
        if role == ChannelRole::Express
            && let Some(size) = self.commands.sendable()
        {
            return Some(Next {
                source: Source::Commands,
                stream: StreamId::COMMANDS,
                size,
            });
        }
        if self.is_send_memory_full() {
            return None;
        }
        let (stream, size) = self.streams.next_turn(role)?;
        Some(Next {
            source: Source::Stream(stream),
            stream,
            size,
        })
    }

    /// Makes an unacknowledged chunk of a source.
    fn take(
        &mut self,
        now: Instant,
        source: Source,
        role: ChannelRole,
        channel: ChannelId,
    ) -> Option<ChunkKey> {
        match source {
            Source::Again(key) => {
                self.counters.chunks_again += 1;
                self.counters.bytes_again += self.unacknowledged.take_again(key, role)?;
                Some(key)
            }
            Source::Commands => {
                let (header, payload, length) = self.commands.cut();
                let chunks = &mut self.unacknowledged;
                Some(chunks.insert(header, payload, length, ChannelRole::Express))
            }
            Source::Stream(id) => {
                self.streams.end_turn(role);
                let key = self.cut_stream(now, id, role, channel);
                if let Some(stream) = self.streams.get_mut(id)
                    && stream.send_mut().unblock_writer()
                {
                    self.events.push(Event::Writable(id));
                }
                self.streams.enlist(now, id);
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
        let stream = self.streams.get_mut(id)?;
        // So that the record fills its segments.
        let header = 1
            + varint_length(id.value())
            + varint_length(self.unacknowledged.next_segment().value())
            + varint_length(stream.send().sent());
        let channel = self.channels.get(to)?;
        let size = self.scheduling.chunk_size(now, channel);
        let cut = stream.send_mut().cut(channel.chunk_limit(size, header))?;
        let (header, payload, length) = cut.into_parts(id);
        self.counters.chunks_cut += 1;
        self.streams.on_cut(role, id, length);
        self.scheduling.on_cut(now, role, length);
        let chunks = &mut self.unacknowledged;
        Some(chunks.insert(header, payload, length, role))
    }

    /// Gives a chunk to a channel, which is busy from then on.
    pub(super) fn assign(&mut self, key: ChunkKey, id: ChannelId) {
        let Some(channel) = self.channels.get_mut(id) else {
            return;
        };
        let assigned = self.unacknowledged.assign(key, channel.is_suspect());
        let Some((chunk, is_copy)) = assigned else {
            return;
        };
        let length = chunk.length();
        self.recorder
            .on_given(chunk.stream(), channel, length, is_copy);
        channel.outbound_mut().assign(key, length, is_copy);
        let link = channel.link();
        self.scheduling
            .on_assigned(id, link, ByteCount::from(length));
        self.channels.wake(id);
    }

    /// True if nothing new may be sent before something is acknowledged.
    pub(super) fn is_send_memory_full(&self) -> bool {
        self.unacknowledged.bytes() >= self.config.send_memory.as_u64()
    }
}
