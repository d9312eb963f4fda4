//! From channels to records: the chunk that was placed there, with all the state that is due.

use std::time::Duration;

use hawser_types::{ChannelId, Instant, RecordNumber, StreamGroup, StreamId};
use hawser_wire::{
    ChannelRole, ChunkHeader, RECORD_HEADER_LENGTH, StateFrame, datagram_length, put_datagram,
    put_record_number,
};

use super::Session;
use super::liveness::TICK;
use crate::channel::{Assigned, Notice};
use crate::event::{CloseReason, Limit};
use crate::outgoing::{MAX_BODY, MAX_STATE_FRAME, Outgoing};
use crate::seal::TAG_LENGTH;

impl Session {
    /// Makes the next record for a channel: a chunk if one was placed there, with all the state
    /// that is due. `false`: nothing to send. A channel that gave a chunk counts as busy until
    /// [`Session::handle_writable`] says otherwise.
    pub fn poll_transmit(&mut self, now: Instant, id: ChannelId, out: &mut Outgoing) -> bool {
        out.clear();
        if self.drop_stale(id) {
            self.schedule(now);
        }
        // Once the session is over, this is the last call, and the peer waits for this
        // acknowledgement.
        let over = self.is_closed();
        let Some(channel) = self.channels.get_mut(id) else {
            return false;
        };
        channel.clear_woken();
        let datagrams = channel.sends_datagrams();
        let is_association = channel.is_association();
        if datagrams && is_association {
            self.put_datagrams_alone(now, id, out);
            return self.is_within_limit(out);
        }
        let first_datagram = if datagrams {
            channel.datagrams().next_length()
        } else {
            0
        };
        let assigned = if datagrams || channel.notices().is_due_alone() {
            None
        } else {
            channel.outbound_mut().take_assigned()
        };
        let has_chunk = assigned.is_some();
        let ack_due = channel.inbound().ack_due();
        let ack_due = ack_due.is_some_and(|due| over || due <= now);
        let heartbeat = channel.liveness_mut().take_heartbeat() && !has_chunk;
        let credit = self.streams.is_credit_due() || channel.credit_copies() > 0;
        let notices = channel.notices().is_due();
        if !has_chunk && !datagrams && !ack_due && !heartbeat && !credit && !notices {
            return false;
        }
        if is_association {
            let next = channel.outbound().next_record();
            let number = has_chunk.then(|| RecordNumber::new(next));
            put_record_number(number, &mut out.head);
        }
        let prefix = out.head.len();
        // State takes the room that is left beside what the record is for.
        let chunk = assigned.map_or(0, |assigned| self.length_in_record(assigned));
        let most = MAX_BODY.saturating_sub(chunk.max(first_datagram));
        self.put_state(id, heartbeat, most, out);
        self.put_reports(now, id, most, out);
        if datagrams {
            self.put_datagrams(id, MAX_DATAGRAMS, out);
        }
        if let Some(assigned) = assigned {
            self.put_chunk(assigned, is_association, out);
        }
        if out.head.len() == prefix {
            // Credit was due to streams that are over.
            return false;
        }
        self.on_record_made(now, id, assigned, out);
        self.is_within_limit(out)
    }

    /// True if the peer takes the record. No record is ever larger than that; if one was, its
    /// channel would die of it, then the next one with the same chunk, without an end. So the
    /// session ends instead.
    fn is_within_limit(&mut self, out: &mut Outgoing) -> bool {
        let fits = out.length() <= MAX_BODY;
        if !fits {
            out.clear();
            self.end(CloseReason::LimitExceeded(Limit::Record));
        }
        fits
    }

    /// Returns the bytes that a chunk takes in its record.
    fn length_in_record(&self, assigned: Assigned) -> usize {
        let chunk = self.unacknowledged.get(assigned.chunk());
        chunk.map_or(0, |chunk| {
            let group = self
                .group_frame(chunk.header())
                .map_or(0, |_| MAX_STATE_FRAME);
            group + chunk.header().length() + chunk.length()
        })
    }

    /// Returns what goes ahead of a chunk that opens a stream for a group.
    fn group_frame(&self, header: &ChunkHeader) -> Option<StateFrame> {
        let stream = header.stream;
        if !header.flags.open || !self.streams.is_mine(stream) {
            return None;
        }
        let group = self.streams.get(stream)?.group();
        (group != StreamGroup::OWN).then_some(StateFrame::Group { stream, group })
    }

    /// Drops chunks that were acknowledged, or whose stream was reset, while they waited for this
    /// channel. True if the channel is free for others by that.
    fn drop_stale(&mut self, id: ChannelId) -> bool {
        let Some(channel) = self.channels.get_mut(id) else {
            return false;
        };
        let chunks = &mut self.unacknowledged;
        let outbound = channel.outbound_mut();
        outbound.drop_stale(|key| {
            let is_wanted = chunks.contains(key);
            if !is_wanted {
                chunks.take_dropped(key);
            }
            is_wanted
        })
    }

    fn put_chunk(&self, assigned: Assigned, is_association: bool, out: &mut Outgoing) {
        let Some(chunk) = self.unacknowledged.get(assigned.chunk()) else {
            return;
        };
        if let Some(group) = self.group_frame(chunk.header()) {
            group.encode(&mut out.head);
        }
        chunk.header().encode(&mut out.head);
        out.stream = chunk.stream();
        out.duplicate = is_association
            && chunk.role() == ChannelRole::Express
            && chunk.length() <= SHORT
            && self.duplicates.allows(chunk.length() as u64);
        out.payload.extend(chunk.payload().iter().cloned());
    }

    /// Puts the state that is due ahead of a record's chunk, up to `most` bytes of head. What finds
    /// no room goes with the next record.
    fn put_state(&mut self, id: ChannelId, heartbeat: bool, most: usize, out: &mut Outgoing) {
        if heartbeat {
            out.put(most, &StateFrame::Heartbeat);
        }
        let channel = self.channels.get_mut(id);
        if has_room(most, out)
            && let Some(records) = channel.and_then(|channel| channel.inbound_mut().take_ack())
        {
            let channel = id;
            out.put(most, &StateFrame::Ack { channel, records });
        }
        self.put_credit(id, most, out);
    }

    /// Puts limits that have moved, and copies of those that went over another channel: a writer
    /// that waits for its credit should not wait for TCP to repair a loss.
    fn put_credit(&mut self, id: ChannelId, most: usize, out: &mut Outgoing) {
        let second = if self.streams.is_credit_due() {
            self.channels.quickest_beside(id)
        } else {
            None
        };
        for _ in 0..MAX_CREDITS {
            let Some(channel) = self.channels.get_mut(id).filter(|_| has_room(most, out)) else {
                break;
            };
            let new = self.streams.take_credit_due();
            let Some(stream) = new.or_else(|| channel.take_credit_copy()) else {
                break;
            };
            let Some(limit) = self.streams.limit(stream) else {
                continue;
            };
            out.put(most, &StateFrame::Credit { stream, limit });
            let second = second.filter(|_| new.is_some());
            if let Some(channel) = second.and_then(|second| self.channels.get_mut(second)) {
                channel.add_credit_copy(stream);
            }
        }
        if let Some(second) = second {
            self.channels.wake(second);
        }
    }

    /// Puts the reports that are due ahead of a record's chunk: notices, and now and then the
    /// channel's own state where a record is sent anyway.
    fn put_reports(&mut self, now: Instant, id: ChannelId, most: usize, out: &mut Outgoing) {
        while has_room(most, out)
            && let Some(channel) = self.channels.get_mut(id)
            && let Some(notice) = channel.notices_mut().pop()
        {
            match notice {
                Notice::Report(about) => self.put_report(now, about, most, out),
                Notice::SegmentsLost(link) => {
                    if let Some(lost) = self.links.lost_segments().on(link) {
                        let (link, size) = (link.value(), lost.size);
                        out.put(most, &StateFrame::SegmentsLost { link, size });
                    }
                }
                Notice::Ack(about) => {
                    if let Some(channel) = self.channels.get(about) {
                        let (channel, records) = (about, channel.inbound().records());
                        out.put(most, &StateFrame::Ack { channel, records });
                    }
                }
            }
        }
        let channel = self.channels.get(id);
        if has_room(most, out) && channel.is_some_and(|channel| channel.wants_report(now)) {
            self.put_report(now, id, most, out);
        }
    }

    fn put_report(&mut self, now: Instant, about: ChannelId, most: usize, out: &mut Outgoing) {
        if let Some(channel) = self.channels.get_mut(about) {
            out.put(most, &StateFrame::Path(channel.report(now)));
        }
    }

    /// Makes a record of datagrams for an association: alone, since it may get lost.
    fn put_datagrams_alone(&mut self, now: Instant, id: ChannelId, out: &mut Outgoing) {
        put_record_number(None, &mut out.head);
        let Some(channel) = self.channels.get(id) else {
            return;
        };
        out.lifetime = Some(DATAGRAM_LIFETIME.max(channel.path().rtt() * 2));
        let most = channel.packet_size();
        out.stream = self.put_datagrams(id, most, out).unwrap_or_default();
        self.on_record_made(now, id, None, out);
    }

    /// Puts datagrams into a record for a channel: one, or frames of `most` bytes. Returns the
    /// stream of the first.
    fn put_datagrams(
        &mut self,
        id: ChannelId,
        most: usize,
        out: &mut Outgoing,
    ) -> Option<StreamId> {
        let channel = self.channels.get_mut(id)?;
        let is_association = channel.is_association();
        let (mut first, mut length) = (None, 0);
        loop {
            let room = match first {
                None => MAX_BODY.saturating_sub(out.head.len()),
                Some(_) => most
                    .saturating_sub(length)
                    .min(MAX_BODY.saturating_sub(out.head.len())),
            };
            let Some((stream, payload)) = channel.datagrams_mut().pop(room) else {
                break;
            };
            first = first.or(Some(stream));
            length += datagram_length(stream, payload.len());
            put_datagram(stream, &payload, &mut out.head);
            let sender = self.streams.get(stream);
            out.duplicate |= is_association && sender.is_some_and(|sender| sender.is_call());
            self.duplicates.on_sent(payload.len() as u64);
            self.counters.datagrams_sent += 1;
        }
        channel.on_datagram_record();
        first
    }

    /// Books a record that is about to be written.
    fn on_record_made(
        &mut self,
        now: Instant,
        id: ChannelId,
        assigned: Option<Assigned>,
        out: &Outgoing,
    ) {
        let Some(channel) = self.channels.get_mut(id) else {
            return;
        };
        let body = out.head.len() + out.payload_length();
        let is_association = channel.is_association();
        let wire = if is_association {
            body
        } else {
            RECORD_HEADER_LENGTH + body + TAG_LENGTH
        } as u64;
        channel.on_record(now, wire, assigned);
        let link = channel.link();
        if let Some(assigned) = assigned {
            self.duplicates.on_sent(assigned.length());
        }
        self.lifecycle.look_by(now + TICK);
        // The traffic of associations is booked on the links of their paths.
        if !is_association {
            self.links.account(link, &self.channels).on_sent(wire);
        }
    }
}

/// True if any frame of state fits a head of `most` bytes.
fn has_room(most: usize, out: &Outgoing) -> bool {
    out.head.len() + MAX_STATE_FRAME <= most
}

/// State travels along in bounded pieces; the rest goes with the next record.
const MAX_CREDITS: usize = 64;
/// Small datagrams share a record, with frames of so many bytes together.
const MAX_DATAGRAMS: usize = 16 * 1024;
/// A chunk that fits one packet with others.
const SHORT: usize = 1100;
/// Time for which a datagram is worth sending again: an older one is only late.
const DATAGRAM_LIFETIME: Duration = Duration::from_millis(250);
