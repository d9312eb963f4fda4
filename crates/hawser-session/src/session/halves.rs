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
use hawser_wire::Command;

use super::Session;
use crate::error::PeerFault;
use crate::event::Event;
use crate::halves::EndedHalf;
use crate::stream::{ReceiveStream, Stream};
use crate::unacknowledged::Dropped;

impl Session {
    /// Ends this side's direction of a stream at once: what the peer does not hold yet is dropped,
    /// and its reader hears `code`. Does nothing once the peer holds everything, the end included,
    /// or the direction has ended early by either side.
    ///
    /// A peer of an older version hears a reset of both directions instead.
    pub fn reset_sending(&mut self, now: Instant, id: StreamId, code: u32) {
        let Some(stream) = self.streams.get_mut(id) else {
            return;
        };
        if stream.send().is_acknowledged() || stream.send().has_ended_early() {
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
    /// nothing once everything was read, and nothing the second time.
    pub fn stop_reading(&mut self, now: Instant, id: StreamId, code: u32) {
        let Some(stream) = self.streams.get_mut(id) else {
            return;
        };
        if stream.was_read_out() || stream.receive().is_discarding() {
            return;
        }
        self.streams.receive(id, ReceiveStream::discard);
        let Some(stream) = self.streams.get_mut(id) else {
            return;
        };
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

    /// Takes note that the peer reads no more of a stream. It says so once; what is said of a
    /// stream whose opening chunk has not come waits for that chunk.
    pub(super) fn on_stop(
        &mut self,
        now: Instant,
        id: StreamId,
        code: u32,
    ) -> Result<(), PeerFault> {
        if id == StreamId::COMMANDS || !self.find_or_open(now, id)? {
            return Ok(());
        }
        let is_mine = self.streams.is_mine(id);
        let Some(stream) = self.streams.get_mut(id) else {
            return Ok(());
        };
        if stream.send().is_acknowledged() || stream.stop_code().is_some() {
            return Ok(());
        }
        stream.set_stopped(code);
        if is_mine || stream.peer_metadata().is_some() {
            self.events.push(Event::Stopped(id, code));
        }
        self.drop_unheld(id);
        if !self.refuse_unread(now, id) {
            self.retire_ended_by_peer(id, code);
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
        // A stream that is here completely is handed out, as if the reset had come later.
        if stream.receive().is_complete() || stream.was_read_out() {
            return Ok(());
        }
        stream.set_read_out();
        self.streams.receive(id, |receive| receive.on_reset(code));
        let Some(stream) = self.streams.get(id) else {
            return Ok(());
        };
        if stream.peer_metadata().is_some() {
            self.events.push(Event::SendingReset(id, code));
        }
        self.retire_ended_by_peer(id, code);
        Ok(())
    }

    /// Forgets a stream if the peer has ended both of its directions; `code` is that of the end
    /// that came last. The owner hears of that: a stream that no application has accepted yet would
    /// stay in its queue otherwise, without a limit, and an application would wait without end for
    /// the answer to a stream that the peer ended before its answer came.
    fn retire_ended_by_peer(&mut self, id: StreamId, code: u32) {
        let stream = self.streams.get(id);
        let waits_for_answer =
            self.streams.is_mine(id) && stream.is_some_and(|it| it.peer_metadata().is_none());
        self.retire_if_over(id);
        if !self.streams.contains(id) {
            self.events.push(if waits_for_answer {
                Event::Reset(id, code)
            } else {
                Event::Over(id)
            });
        }
    }

    /// Resets a stream that its application let go of, if data lies unread and nothing more goes
    /// out: the peer's writer would wait for a reader. True if that was so.
    pub(super) fn refuse_unread(&mut self, now: Instant, id: StreamId) -> bool {
        let stream = self.streams.get(id);
        let refuses = stream.is_some_and(Stream::has_data_for_nothing);
        if refuses {
            self.reset(now, id, 0);
        }
        refuses
    }

    /// Drops what was written to a stream and the peer does not hold, the opening chunk apart:
    /// without that one the peer never learns of the stream.
    fn drop_unheld(&mut self, id: StreamId) {
        let kept = self.unacknowledged.drop_chunks(id, Dropped::AllButOpening);
        if let Some(stream) = self.streams.get_mut(id) {
            stream.send_mut().end_early(kept);
            if stream.send().sendable().is_none() {
                self.streams.withdraw(id);
            }
        }
    }

    fn tell_ended(&mut self, now: Instant, ended: EndedHalf) {
        match (self.commands.peer_ends_halves(), ended) {
            (None, _) => self.halves.keep(ended),
            (Some(true), EndedHalf::Reading(id, code)) => {
                self.command(&Command::Stop { stream: id, code });
                // The peer sends no end behind that: there is nothing to wait for.
                if let Some(stream) = self.streams.get_mut(id) {
                    stream.set_read_out();
                    self.retire_if_over(id);
                }
            }
            (Some(true), EndedHalf::Sending(id, code)) => {
                self.command(&Command::ResetSending { stream: id, code });
            }
            (Some(false), EndedHalf::Reading(..)) => {}
            (Some(false), EndedHalf::Sending(id, code)) => self.reset(now, id, code),
        }
    }
}
