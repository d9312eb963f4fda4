//! What the writer of a channel does whose records an association carries.

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
/// The association's queue is kept as short as a socket's: little is bound to it when it fails. The
/// owner calls [`AssociationWriter::step`] under the lock of the session, then
/// [`AssociationWriter::send`] under that of the association, and waits as
/// [`AssociationWriter::next`] says.
#[derive(Debug)]
pub struct AssociationWriter {
    channel: ChannelId,
    /// Streams of the association to send on.
    streams: u16,
    /// Messages that the association has not taken yet.
    waiting: VecDeque<(StreamNumber, Message)>,
    /// The policy that the association was told last.
    policy: Option<ChunkPolicy>,
    next_sample: Instant,
    /// Bytes that are to wait in the association.
    low_water: ByteCount,
}

/// What a step came to.
#[derive(Debug)]
pub struct Step {
    /// What the association is to know before it gets the messages.
    pub instructions: Instructions,
    /// The session gave out records.
    found: bool,
    /// The association would take more at once.
    has_room: bool,
}

/// What an association is to know from now on.
#[derive(Debug, Default)]
pub struct Instructions {
    /// What holds for links, where that has changed.
    pub links: Option<Vec<LinkInfo>>,
    /// What places packets on paths, where that has changed.
    pub policy: Option<ChunkPolicy>,
    /// What follows the messages.
    pub backlog: OwnerBacklog,
}

/// What the writer waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing: it takes another step.
    Again,
    /// For the session, which has nothing to send. Once the session is over, that was all.
    Idle,
    /// For the session, or until less than this waits in the association.
    Full(ByteCount),
}

impl AssociationWriter {
    /// The writer of a channel that has just been added to the session. `streams`: streams of the
    /// association to send on.
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

    /// True if the next step is to come with the state of the association.
    pub fn is_sample_due(&self, now: Instant) -> bool {
        now >= self.next_sample
    }

    /// Bytes of messages that the association has not taken yet.
    pub fn waiting(&self) -> ByteCount {
        let bytes = self.waiting.iter().map(|(_, it)| it.payload.len() as u64);
        ByteCount::new(bytes.sum())
    }

    /// Tells the session how the association stands, where that is due, and takes records from it
    /// while there is room. `queued`: bytes that wait in the association.
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

    /// Gives the association what it is to know and the messages that it has room for.
    ///
    /// # Errors
    /// When the association takes nothing more.
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

    /// What the writer waits for after a step whose messages were sent as far as there was room.
    pub fn next(&self, step: &Step) -> Next {
        match (self.waiting.is_empty(), step.found) {
            (true, true) => Next::Again,
            (true, false) if step.has_room => Next::Idle,
            _ => Next::Full(self.low_water),
        }
    }

    /// True if everything that the session gave out so far was handed to the association.
    pub fn is_done(&self, step: &Step) -> bool {
        self.waiting.is_empty() && !step.found
    }

    /// Takes records from the session. Tells whether there were any, and whether there is room for
    /// more.
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
        // What the session has to say beside chunks leaves in any case.
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

/// Bytes that wait in the association while nothing is known of its rate.
const MIN_LOW_WATER: u64 = 64 * 1024;
/// Records that are taken from the session in one step.
const MAX_RECORDS: usize = 64;
