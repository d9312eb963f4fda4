//! The writer of a channel over an association.

use std::collections::VecDeque;

use hawser_sched::chunk::ChunkPolicy;
use hawser_sctp::{Association, LinkInfo, Message, OwnerBacklog, SendError};
use hawser_session::{Outgoing, Session};
use hawser_types::{ByteCount, ChannelId, Instant};
use hawser_wire::sctp::StreamNumber;

use super::message::{length, message_of, send_waiting};
use super::{AssociationState, PathLinks};
use crate::SAMPLE_INTERVAL;

/// The writer of one channel over an association: it moves records from the session to the
/// association, and keeps each informed about the other.
///
/// The association's queue is kept as short as a socket's, so that little data is bound to it when
/// it fails. The owner calls [`AssociationWriter::step`] under the lock of the session, then
/// [`AssociationWriter::send`] under that of the association, and waits as
/// [`AssociationWriter::next`] returns.
#[derive(Debug)]
pub struct AssociationWriter {
    channel: ChannelId,
    /// Number of the association's streams to send on.
    streams: u16,
    /// Messages that the association has not accepted yet.
    waiting: VecDeque<(StreamNumber, Message)>,
    /// Policy last passed to the association.
    policy: Option<ChunkPolicy>,
    next_sample: Instant,
    /// Bytes that should wait in the association.
    low_water: ByteCount,
}

/// Outcome of a step.
#[derive(Debug)]
pub struct Step {
    /// Updates for the association before it gets the messages.
    pub instructions: Instructions,
    /// Whether the session had records.
    found: bool,
    /// Whether the association would accept more at once.
    has_room: bool,
}

/// Updates for an association.
#[derive(Debug, Default)]
pub struct Instructions {
    /// Properties of links, if they changed.
    pub links: Option<Vec<LinkInfo>>,
    /// Policy that places packets on paths, if it changed.
    pub policy: Option<ChunkPolicy>,
    /// Data that follows the messages.
    pub backlog: OwnerBacklog,
}

/// Condition for the writer's next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// None: take the next step at once.
    Again,
    /// Wait for the session, which has no records. If the session is over, the writer is done.
    Idle,
    /// Wait for the session, or until less than this waits in the association.
    Full(ByteCount),
}

impl AssociationWriter {
    /// Creates the writer of a channel that was just added to the session. `streams` is the number
    /// of the association's streams to send on.
    pub fn new(now: Instant, channel: ChannelId, streams: u16) -> Self {
        Self {
            channel,
            streams,
            waiting: VecDeque::new(),
            policy: None,
            next_sample: now,
            low_water: ByteCount::ZERO,
        }
    }

    /// True if the next step needs the state of the association.
    pub fn is_sample_due(&self, now: Instant) -> bool {
        now >= self.next_sample
    }

    /// Returns the bytes of messages that the association has not accepted yet.
    pub fn waiting(&self) -> ByteCount {
        let bytes = self.waiting.iter().map(|(_, it)| it.payload.len() as u64);
        ByteCount::new(bytes.sum())
    }

    /// Reports the association's state to the session if that is due, and takes records from it
    /// while there is room. `queued` are the bytes that wait in the association.
    pub fn step(
        &mut self,
        now: Instant,
        session: &mut Session,
        links: &mut PathLinks,
        state: Option<&AssociationState>,
        queued: ByteCount,
    ) -> Step {
        if let Some(state) = state {
            self.next_sample = now + SAMPLE_INTERVAL;
            state.report(now, session, self.channel, links);
            let low_water = session.low_water(self.channel).unwrap_or_default();
            self.low_water = ByteCount::new(u64::from(low_water).max(MIN_LOW_WATER));
        }
        let announcements = links.take_announcements(session);
        let (found, has_room) = self.take_records(now, session, queued);
        let policy = session.scheduler();
        let before = self.policy.replace(policy);
        let hawser_session::StreamBacklog { bytes, more } = session.stream_backlog();
        Step {
            instructions: Instructions {
                links: announcements,
                policy: (before != Some(policy)).then_some(policy),
                backlog: OwnerBacklog { bytes, more },
            },
            found,
            has_room,
        }
    }

    /// True if [`AssociationWriter::send`] has something to do.
    pub fn has_work(&self, instructions: &Instructions) -> bool {
        let Instructions { links, policy, .. } = instructions;
        !self.waiting.is_empty() || links.is_some() || policy.is_some()
    }

    /// Passes the updates to the association, and the messages for which it has room.
    ///
    /// # Errors
    /// When the association accepts no more messages.
    pub fn send(
        &mut self,
        now: Instant,
        association: &mut Association,
        instructions: Instructions,
    ) -> Result<(), SendError> {
        let Instructions {
            links,
            policy,
            backlog,
        } = instructions;
        if let Some(links) = links {
            association.set_links(links);
        }
        if let Some(policy) = policy {
            association.set_policy(policy);
        }
        if self.waiting.is_empty() {
            return Ok(());
        }
        association.set_owner_backlog(backlog);
        send_waiting(now, association, &mut self.waiting)
    }

    /// Returns what to wait for after a step, once its messages were sent as far as there was room.
    pub fn next(&self, step: &Step) -> Next {
        match (self.waiting.is_empty(), step.found) {
            (true, true) => Next::Again,
            (true, false) if step.has_room => Next::Idle,
            _ => Next::Full(self.low_water),
        }
    }

    /// True if the association has accepted everything that the session sent so far.
    pub fn is_done(&self, step: &Step) -> bool {
        self.waiting.is_empty() && !step.found
    }

    /// Takes records from the session. Returns whether there were any, and whether there is room
    /// for more.
    fn take_records(
        &mut self,
        now: Instant,
        session: &mut Session,
        queued: ByteCount,
    ) -> (bool, bool) {
        let mut room = if self.waiting.is_empty() {
            self.low_water.as_u64().saturating_sub(queued.as_u64())
        } else {
            0
        };
        let before = self.waiting.len();
        // Records without chunks are sent in any case.
        while self.waiting.len() < MAX_RECORDS {
            match room {
                0 => session.handle_full(self.channel),
                _ => session.handle_writable(now, self.channel),
            }
            let mut record = Outgoing::default();
            if !session.poll_transmit(now, self.channel, &mut record) {
                break;
            }
            room = room.saturating_sub(length(&record) as u64);
            let counts = session.recorder().is_on();
            self.waiting
                .push_back(message_of(record, self.streams, counts));
        }
        (self.waiting.len() > before, room > 0)
    }
}

/// Bytes that wait in the association while its rate is unknown.
const MIN_LOW_WATER: u64 = 64 * 1024;
/// Limit of records taken from the session in one step.
const MAX_RECORDS: usize = 64;
