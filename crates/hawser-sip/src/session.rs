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
/// Each end says where it can be reached by a description ([`crate::sdp`]), which this type carries
/// and never reads. Call [`Session::poll_outgoing`] after each change and at
/// [`Session::poll_timeout`], send what it returns, and drain [`Session::poll_event`]. Requests go
/// to [`Session::next_hop`].
#[derive(Debug)]
pub struct Session {
    role: Role,
    state: State,
    /// What this end says of itself, and where it is.
    own: Own,
    /// Whether the far end has been told.
    is_told: bool,
    /// The UPDATE in progress.
    update: Update,
    /// The pause before the far end is asked again that was not reached.
    retry: Duration,
    queue: VecDeque<Queued>,
    events: VecDeque<SessionEvent>,
}

/// What one end says of itself.
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
    /// Whom to call: an address of record.
    pub remote: NameAddr,
    /// Where the INVITE is for: the address of record, or a contact of it.
    pub target: Uri,
    /// A word that was not used before.
    pub call_id: CallId,
    /// The tag of From: a token that was not used before.
    pub tag: String,
}

/// What is to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outgoing {
    /// A request, by a transaction. Its outcome goes to [`Session::handle_response`] or
    /// [`Session::handle_failure`].
    Request(Request),
    /// An ACK, which is no transaction.
    Ack(Request),
    /// The 2xx to the INVITE once more, by its transaction.
    Again(Response),
}

/// What has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionEvent {
    /// The far end has accepted, and describes itself so.
    Accepted(Bytes),
    /// The far end has taken a change, and describes itself so.
    Updated(Bytes),
    /// The session is over. Nothing follows.
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
    /// The far end's answer makes no session.
    #[error("the far end's answer: {0}")]
    Answer(#[from] DialogFault),
}

/// What becomes of a request that has come within the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// It is answered so.
    Answer(Response),
    /// The far end describes itself anew. When the owner has verified that, it answers by
    /// [`Session::accept`] or [`Session::refuse`].
    Offer(Bytes),
    /// There is nothing to answer.
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
    /// The INVITE was accepted here, and its ACK has not come.
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
        /// The number of the INVITE, whose 2xx may come again.
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
    /// Whether the far end has shown a sign of life. CANCEL waits for it (RFC 3261 §9.1).
    is_heard: bool,
    is_given_up: bool,
    is_cancelled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Update {
    None,
    Asking,
    /// The far end was not reached, or asked at once and refused (RFC 3261 §14.1).
    Waiting(Instant),
}

/// What is sent as soon as there is a branch for it.
#[derive(Debug)]
enum Queued {
    Ack { dialog: Dialog, invite: u32 },
    Bye { dialog: Dialog },
}

impl Session {
    /// A session that this end opens.
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

    /// Changes what this end says of itself. The far end is told as soon as may be.
    pub fn set_own(&mut self, own: Own) {
        if self.own != own {
            self.own = own;
            self.is_told = false;
        }
    }

    /// Ends the session, or gives up opening it.
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

    /// Returns where the next request is sent. `None` while the INVITE is in progress, which goes
    /// to the owner's proxy or to its URI.
    #[must_use]
    pub fn next_hop(&self) -> Option<&Uri> {
        match self.queue.front() {
            Some(Queued::Ack { dialog, .. } | Queued::Bye { dialog }) => Some(dialog.next_hop()),
            None => self.dialog().map(Dialog::next_hop),
        }
    }

    /// Returns the next thing that has happened.
    pub fn poll_event(&mut self) -> Option<SessionEvent> {
        self.events.pop_front()
    }

    /// Returns when [`Session::poll_outgoing`] is to be called next.
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
/// A host that moves is registered again within a second or two.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(32);
/// 64 × T1.
const PATIENCE: Duration = Duration::from_secs(32);
