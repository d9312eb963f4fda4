//! Sessions: opened by INVITE, changed by UPDATE, ended by BYE (RFC 3261 §13 to 15, RFC 3311).

mod incoming;
mod outgoing;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use hawser_types::Instant;
use thiserror::Error;

use crate::dialog::{Dialog, DialogFault};
use crate::fields::{CallId, NameAddr};
use crate::message::{Request, Response, StatusCode};
use crate::uri::Uri;

/// One end of a session.
///
/// Each end sends a description with its addresses ([`crate::sdp`]), which this type passes on
/// unread. Call [`Session::poll_outgoing`] after each change and at [`Session::poll_timeout`], send
/// what it returns, and drain [`Session::poll_event`]. Requests go to [`Session::next_hop`].
#[derive(Debug)]
pub struct Session {
    role: Role,
    state: State,
    /// Contact and description of this end.
    own: Own,
    /// Whether the far end has the current description.
    is_told: bool,
    /// State of the UPDATE.
    update: Update,
    /// Pause before the next UPDATE if the far end is unreachable.
    retry: Duration,
    queue: VecDeque<Queued>,
    events: VecDeque<SessionEvent>,
}

/// Contact and description of one end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Own {
    /// The URI at which requests reach this end.
    pub contact: Uri,
    /// The description.
    pub description: Bytes,
}

/// A session to open.
#[derive(Clone, Debug)]
pub struct Call {
    /// The address of record of this end.
    pub local: NameAddr,
    /// The called user: an address of record.
    pub remote: NameAddr,
    /// Request-URI of the INVITE: the address of record, or one of its contacts.
    pub target: Uri,
    /// Call-ID that was not used before.
    pub call_id: CallId,
    /// The tag of From: a token that was not used before.
    pub tag: String,
}

/// A message to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outgoing {
    /// A request for a new transaction, whose outcome goes to [`Session::handle_response`] or
    /// [`Session::handle_failure`].
    Request(Request),
    /// An ACK, which has no transaction.
    Ack(Request),
    /// A retransmission of the 2xx to the INVITE, by its transaction.
    Again(Response),
}

/// Event of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionEvent {
    /// The far end accepted, with this description.
    Accepted(Bytes),
    /// The far end answered an UPDATE, with this description.
    Updated(Bytes),
    /// The session is over. No event follows.
    Ended(EndReason),
}

/// Why a session is over.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EndReason {
    /// This end has ended it.
    #[error("ended here")]
    Local,
    /// The far end has ended it.
    #[error("ended by the far end")]
    Remote,
    /// The far end refused.
    #[error("the far end answers {0}")]
    Refused(StatusCode),
    /// The far end did not answer.
    #[error("the far end does not answer")]
    NoAnswer,
    /// The far end's answer lacks what a session needs.
    #[error("the far end's answer: {0}")]
    Answer(#[from] DialogFault),
}

/// Outcome of a received request within the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// Send this response.
    Answer(Response),
    /// The far end sent a new description. When the owner has verified it, answer with
    /// [`Session::accept`] or [`Session::refuse`].
    Offer(Bytes),
    /// Send nothing.
    Nothing,
}

#[derive(Debug)]
enum Role {
    Caller,
    Called,
}

#[derive(Debug)]
enum State {
    /// The INVITE is in progress.
    Calling(Box<Calling>),
    /// The INVITE was accepted here, and its ACK has not arrived.
    Accepted {
        dialog: Dialog,
        response: Response,
        again: Instant,
        pause: Duration,
        ends: Instant,
        /// The BYE waits for the ACK (RFC 3261 §15).
        is_given_up: bool,
    },
    Established {
        dialog: Dialog,
        /// CSeq of the INVITE, whose 2xx may be retransmitted.
        invite: u32,
    },
    /// The BYE is sent, or is to be sent.
    Ending {
        dialog: Dialog,
    },
    Over,
}

#[derive(Debug)]
struct Calling {
    call: Call,
    /// The INVITE that was sent.
    invite: Option<Request>,
    /// Whether the far end sent any response. CANCEL waits for it (RFC 3261 §9.1).
    is_heard: bool,
    is_given_up: bool,
    is_cancelled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Update {
    None,
    Asking,
    /// The far end was unreachable, or refused because it sent an UPDATE, too (RFC 3261 §14.1).
    Waiting(Instant),
}

/// A request that waits for a new branch.
#[derive(Debug)]
enum Queued {
    Ack { dialog: Dialog, invite: u32 },
    Bye { dialog: Dialog },
}

impl Session {
    /// Creates a session that this end opens.
    #[must_use]
    pub fn call(call: Call, own: Own) -> Self {
        let calling = Calling {
            call,
            invite: None,
            is_heard: false,
            is_given_up: false,
            is_cancelled: false,
        };
        Self::new(Role::Caller, State::Calling(Box::new(calling)), own)
    }

    fn new(role: Role, state: State, own: Own) -> Self {
        Self {
            role,
            state,
            own,
            is_told: false,
            update: Update::None,
            retry: FIRST_RETRY,
            queue: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// Changes this end's description. The far end is told as soon as possible.
    pub fn set_own(&mut self, own: Own) {
        if self.own != own {
            self.own = own;
            self.is_told = false;
        }
    }

    /// Ends the session, or cancels its opening.
    pub fn hang_up(&mut self) {
        match &mut self.state {
            State::Calling(calling) => {
                calling.is_given_up = true;
                if calling.invite.is_none() {
                    self.end(EndReason::Local);
                }
            }
            State::Accepted { is_given_up, .. } => *is_given_up = true,
            _ => self.say_bye(),
        }
    }

    /// Whether the session is over.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Over) && self.queue.is_empty()
    }

    /// Returns the dialog, once there is one.
    #[must_use]
    pub fn dialog(&self) -> Option<&Dialog> {
        match &self.state {
            State::Accepted { dialog, .. }
            | State::Established { dialog, .. }
            | State::Ending { dialog, .. } => Some(dialog),
            State::Calling(_) | State::Over => None,
        }
    }

    /// Returns the next hop of the next request. `None` while the INVITE is in progress, which goes
    /// to the owner's proxy or to its URI.
    #[must_use]
    pub fn next_hop(&self) -> Option<&Uri> {
        match self.queue.front() {
            Some(Queued::Ack { dialog, .. } | Queued::Bye { dialog }) => Some(dialog.next_hop()),
            None => self.dialog().map(Dialog::next_hop),
        }
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<SessionEvent> {
        self.events.pop_front()
    }

    /// Returns the time of the next call to [`Session::poll_outgoing`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let wait = match self.update {
            Update::Waiting(until) => Some(until),
            Update::None | Update::Asking => None,
        };
        match &self.state {
            State::Accepted { again, ends, .. } => Some((*again).min(*ends)),
            State::Established { .. } if !self.is_told => wait,
            _ => None,
        }
    }

    fn say_bye(&mut self) {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Accepted { dialog, .. } | State::Established { dialog, .. } => {
                let copy = dialog.clone();
                self.queue.push_back(Queued::Bye { dialog });
                self.state = State::Ending { dialog: copy };
            }
            other => self.state = other,
        }
    }

    fn end(&mut self, reason: EndReason) {
        if !matches!(self.state, State::Over) {
            self.state = State::Over;
            self.events.push_back(SessionEvent::Ended(reason));
        }
    }
}

/// T1, and T2 as the longest pause: RFC 3261 §13.3.1.4.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(4);
/// A host that moves is usually registered again within one or two seconds.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(32);
/// 64 × T1.
const PATIENCE: Duration = Duration::from_secs(32);
