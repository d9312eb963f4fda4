//! The driver's part of streams: the tasks that wait on each, how the peer ended it, and which of
//! them the application has not accepted yet.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use hawser_types::StreamId;

use super::failure::Failure;

/// The streams that have an owner, or wait for one.
#[derive(Default)]
pub(super) struct Streams {
    by_id: HashMap<StreamId, Entry>,
    /// Streams of the peer that the application has not accepted.
    incoming: VecDeque<StreamId>,
    acceptors: Vec<Waker>,
}

/// The events that a task waits for on a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Waiting {
    Read,
    Write,
    Accept,
    Acknowledged,
    Datagram,
    /// The peer holds everything, or has stopped reading.
    Stopped,
}

/// Returns the application of a stream, for users; `None` while it is unknown. It is called for
/// each listing of streams, and must not wait.
pub type Label = Arc<dyn Fn() -> Option<Arc<str>> + Send + Sync>;

/// A direction of a stream that the peer ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Half {
    /// The peer's own direction, which this side reads.
    Sending,
    /// This side's direction, which the peer has stopped reading.
    Reading,
}

/// The tasks that wait on one stream, and the driver's other state of it.
#[derive(Default)]
struct Entry {
    read: Option<Waker>,
    write: Option<Waker>,
    accept: Option<Waker>,
    acknowledged: Option<Waker>,
    datagram: Option<Waker>,
    stopped: Option<Waker>,
    ended: EndedByPeer,
    /// The application that the stream belongs to, for users.
    label: Option<Label>,
}

/// Directions of one stream that the peer ended early, with its codes.
#[derive(Clone, Copy, Debug, Default)]
struct EndedByPeer {
    both: Option<u32>,
    sending: Option<u32>,
    reading: Option<u32>,
}

impl Streams {
    /// Keeps a stream that this side opens.
    pub(super) fn open(&mut self, id: StreamId) {
        self.by_id.insert(id, Entry::default());
    }

    /// Keeps a stream that the peer opened, and wakes the tasks that accept.
    pub(super) fn on_opened(&mut self, id: StreamId, woken: &mut Vec<Waker>) {
        self.open(id);
        self.incoming.push_back(id);
        woken.append(&mut self.acceptors);
    }

    /// Notes that the peer reset a stream.
    pub(super) fn on_reset(&mut self, id: StreamId, code: u32, woken: &mut Vec<Waker>) {
        if let Some(entry) = self.by_id.get_mut(&id) {
            entry.ended.both = Some(code);
            entry.wake_all(woken);
        }
        self.on_over(id);
    }

    /// Notes that the peer ended one direction of a stream.
    pub(super) fn on_half_ended(
        &mut self,
        id: StreamId,
        half: Half,
        code: u32,
        woken: &mut Vec<Waker>,
    ) {
        if let Some(entry) = self.by_id.get_mut(&id) {
            match half {
                Half::Sending => entry.ended.sending = Some(code),
                Half::Reading => entry.ended.reading = Some(code),
            }
            entry.wake_all(woken);
        }
    }

    /// Forgets a stream that is over if the application has not accepted it yet.
    pub(super) fn on_over(&mut self, id: StreamId) {
        if let Some(place) = self.incoming.iter().position(|waiting| *waiting == id) {
            self.incoming.remove(place);
            self.by_id.remove(&id);
        }
    }

    /// Forgets a stream that its owner has dropped.
    pub(super) fn forget(&mut self, id: StreamId) {
        self.by_id.remove(&id);
    }

    /// Polls for the next stream of the peer; `None` if no more will come.
    pub(super) fn poll_incoming(
        &mut self,
        cx: &mut Context<'_>,
        is_over: bool,
    ) -> Poll<Option<StreamId>> {
        if let Some(id) = self.incoming.pop_front() {
            return Poll::Ready(Some(id));
        }
        if is_over {
            return Poll::Ready(None);
        }
        let waker = cx.waker();
        if !self.acceptors.iter().any(|it| it.will_wake(waker)) {
            self.acceptors.push(waker.clone());
        }
        Poll::Pending
    }

    /// Lets a task wait on a stream. Returns false if the stream is unknown.
    pub(super) fn wait(&mut self, id: StreamId, waiting: Waiting, waker: &Waker) -> bool {
        let entry = self.by_id.get_mut(&id);
        entry
            .map(|entry| *entry.slot(waiting) = Some(waker.clone()))
            .is_some()
    }

    /// Wakes the task that waits for something on a stream.
    pub(super) fn wake(&mut self, id: StreamId, waiting: Waiting, woken: &mut Vec<Waker>) {
        if let Some(entry) = self.by_id.get_mut(&id) {
            woken.extend(entry.slot(waiting).take());
        }
    }

    /// Wakes every task: the session is over.
    pub(super) fn wake_all(&mut self, woken: &mut Vec<Waker>) {
        self.by_id
            .values_mut()
            .for_each(|entry| entry.wake_all(woken));
        woken.append(&mut self.acceptors);
    }

    /// Returns the early end by the peer that makes `waiting` fail.
    pub(super) fn failure(&self, id: StreamId, waiting: Waiting) -> Option<Failure> {
        self.by_id.get(&id)?.ended.failure(waiting)
    }

    /// Returns the failure that overrules an answer of the session: a direction that the peer has
    /// stopped or reset looks acknowledged to the session.
    pub(super) fn overrules(&self, id: StreamId, waiting: Waiting) -> Option<Failure> {
        match waiting {
            Waiting::Acknowledged | Waiting::Stopped => self.failure(id, waiting),
            _ => None,
        }
    }

    /// Returns the code with which the peer reset a stream.
    pub(super) fn reset_code(&self, id: StreamId) -> Option<u32> {
        self.by_id.get(&id)?.ended.both
    }

    /// Names the application that a stream belongs to.
    pub(super) fn set_label(&mut self, id: StreamId, label: Label) {
        if let Some(entry) = self.by_id.get_mut(&id) {
            entry.label = Some(label);
        }
    }

    /// Returns the labels of these streams, of those that have one.
    pub(super) fn labels(&self, ids: &[StreamId]) -> Vec<(StreamId, Label)> {
        let label = |id: &StreamId| Some((*id, self.by_id.get(id)?.label.clone()?));
        ids.iter().filter_map(label).collect()
    }
}

impl Entry {
    fn slot(&mut self, waiting: Waiting) -> &mut Option<Waker> {
        match waiting {
            Waiting::Read => &mut self.read,
            Waiting::Write => &mut self.write,
            Waiting::Accept => &mut self.accept,
            Waiting::Acknowledged => &mut self.acknowledged,
            Waiting::Datagram => &mut self.datagram,
            Waiting::Stopped => &mut self.stopped,
        }
    }

    fn wake_all(&mut self, woken: &mut Vec<Waker>) {
        for slot in [
            Waiting::Read,
            Waiting::Write,
            Waiting::Accept,
            Waiting::Acknowledged,
            Waiting::Datagram,
            Waiting::Stopped,
        ] {
            woken.extend(self.slot(slot).take());
        }
    }
}

impl EndedByPeer {
    /// Returns why `waiting` fails.
    fn failure(self, waiting: Waiting) -> Option<Failure> {
        let half = match waiting {
            Waiting::Read => self.sending.map(Failure::Reset),
            Waiting::Write | Waiting::Acknowledged | Waiting::Stopped => {
                self.reading.map(Failure::Stopped)
            }
            Waiting::Accept | Waiting::Datagram => None,
        };
        self.both.map(Failure::Reset).or(half)
    }
}

#[cfg(test)]
impl Streams {
    /// Number of streams that were not accepted yet, and of all.
    pub(super) fn counts(&self) -> [usize; 2] {
        [self.incoming.len(), self.by_id.len()]
    }

    /// True if the peer ended a direction of the stream early.
    pub(super) fn has_ended_half(&self, id: StreamId) -> bool {
        let ended = self.by_id.get(&id).map(|entry| entry.ended);
        ended.is_some_and(|it| it.sending.is_some() || it.reading.is_some())
    }
}
