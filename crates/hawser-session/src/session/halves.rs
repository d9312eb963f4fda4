//! One direction of a stream ends before its end: the reader stops it, or the writer resets it.
//!
//! A peer that has not said in its hello that it knows this gets what the protocol had before: a
//! reset of the whole stream for a writer's reset, and nothing for a reader's stop. What such a
//! peer goes on sending is taken, credited and dropped.
//!
//! Source: RFC 9000 §3.5 (STOP_SENDING and RESET_STREAM), without the final size: credit belongs
//! to a stream, so that no count of the connection depends on it.

use bytes::Bytes;
use hawser_types::{Instant, StreamId};
use hawser_wire::{ChunkHeader, Command};

use super::Session;
use crate::error::PeerFault;
use crate::event::Event;
use crate::halves::EndedHalf;

impl Session {
    /// Ends this side's direction of a stream at once: what the peer does not hold yet is dropped,
    /// and its reader hears `code`. Does nothing once the peer holds everything, the end included.
    ///
    /// A peer of an older version hears a reset of both directions instead.
    pub fn reset_sending(&mut self, now: Instant, id: StreamId, code: u32) {
        let Some(stream) = self.streams.get_mut(id) else {
            return;
        };
        if stream.send().is_acknowledged() {
            return;
        }
        // The peer must learn of the stream, or that it was accepted, before it hears of this.
        stream.send_mut().open(Bytes::new());
        self.drop_unheld(id);
        self.tell_ended(now, EndedHalf::Sending(id, code));
        self.streams.enlist(now, id);
        self.retire_if_over(id);
        self.schedule(now);
    }

    /// Reads no more of a stream: the peer's writer hears `code`, and what comes is dropped. Does
    /// nothing once everything was read.
    pub fn stop_reading(&mut self, now: Instant, id: StreamId, code: u32) {
        let Some(stream) = self.streams.get_mut(id) else {
            return;
        };
        if stream.was_read_out() {
            return;
        }
        stream.receive_mut().discard();
        if stream.receive().is_complete() {
            stream.set_read_out();
            self.retire_if_over(id);
        } else {
            self.tell_ended(now, EndedHalf::Reading(id, code));
        }
        self.schedule(now);
    }

    /// Tells the peer, whose hello has come, of the directions that ended before.
    pub(super) fn tell_ended_before_hello(&mut self, now: Instant) {
        for ended in self.halves.take() {
            self.tell_ended(now, ended);
        }
    }

    /// Takes note that the peer reads no more of a stream.
    pub(super) fn on_stop(
        &mut self,
        now: Instant,
        id: StreamId,
        code: u32,
    ) -> Result<(), PeerFault> {
        if id == StreamId::COMMANDS || !self.find_or_open(now, id)? {
            return Ok(());
        }
        let stream = self.streams.get(id);
        if stream.is_some_and(|stream| !stream.send().is_acknowledged()) {
            self.drop_unheld(id);
            self.events.push(Event::Stopped(id, code));
            self.retire_ended_by_peer(id);
        }
        Ok(())
    }

    /// Takes note that the peer's direction of a stream ends before its end.
    pub(super) fn on_reset_sending(
        &mut self,
        now: Instant,
        id: StreamId,
        code: u32,
    ) -> Result<(), PeerFault> {
        if id == StreamId::COMMANDS || !self.find_or_open(now, id)? {
            return Ok(());
        }
        let Some(stream) = self.streams.get_mut(id) else {
            return Ok(());
        };
        // What is here completely is handed out, as if the reset had come later.
        if stream.receive().is_complete() || stream.was_read_out() {
            return Ok(());
        }
        stream.receive_mut().on_reset(code);
        stream.set_read_out();
        if stream.peer_metadata().is_some() {
            self.events.push(Event::SendingReset(id, code));
        }
        self.retire_ended_by_peer(id);
        Ok(())
    }

    /// Forgets a stream if the peer has ended both of its directions. The owner hears of that: a
    /// stream that nobody has accepted yet would stay in its queue otherwise, without a limit.
    fn retire_ended_by_peer(&mut self, id: StreamId) {
        self.retire_if_over(id);
        if !self.streams.contains(id) {
            self.events.push(Event::Over(id));
        }
    }

    /// Takes in a chunk of a direction that the peer has reset: only the opening matters any more.
    pub(super) fn on_chunk_after_reset(&mut self, header: &ChunkHeader, code: u32) {
        let id = header.stream;
        let is_mine = self.streams.is_mine(id);
        let Some(stream) = self.streams.get_mut(id) else {
            return;
        };
        if header.flags.open && stream.set_peer_metadata(&header.metadata) {
            self.events.push(match is_mine {
                true => Event::StreamAccepted(id),
                false => Event::StreamOpened(id),
            });
            self.events.push(Event::SendingReset(id, code));
        }
    }

    /// Drops what was written to a stream and the peer does not hold, the opening chunk apart:
    /// without that one the peer never learns of the stream.
    fn drop_unheld(&mut self, id: StreamId) {
        let kept = self.unacknowledged.drop_all_but_opening(id);
        if let Some(stream) = self.streams.get_mut(id) {
            stream.send_mut().end_early(kept);
        }
    }

    fn tell_ended(&mut self, now: Instant, ended: EndedHalf) {
        match (self.commands.peer_ends_halves(), ended) {
            (None, _) => self.halves.keep(ended),
            (Some(true), EndedHalf::Reading(id, code)) => {
                self.commands.push(&Command::Stop { stream: id, code });
                // The peer sends no end behind that: there is nothing to wait for.
                if let Some(stream) = self.streams.get_mut(id) {
                    stream.set_read_out();
                    self.retire_if_over(id);
                }
            }
            (Some(true), EndedHalf::Sending(id, code)) => {
                self.commands
                    .push(&Command::ResetSending { stream: id, code });
            }
            (Some(false), EndedHalf::Reading(..)) => {}
            (Some(false), EndedHalf::Sending(id, code)) => self.reset(now, id, code),
        }
    }
}
