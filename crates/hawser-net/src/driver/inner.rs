//! What the lock of a session guards, and how the session's events reach those who wait.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;

use hawser_session::{CloseReason, Event, Session};
use hawser_types::{ChannelId, Instant, StreamId};
use hawser_wire::Enrolment;
use tokio::sync::Notify;

use super::association::{Ride, Ways};
use super::channel;
use super::halves::EndedByPeer;
use super::sample::Gauge;
use crate::stream::Label;

/// What the lock guards.
pub(super) struct Inner {
    pub(super) session: Session,
    pub(super) channels: BTreeMap<ChannelId, Handle>,
    pub(super) streams: HashMap<StreamId, Wakers>,
    pub(super) incoming: VecDeque<StreamId>,
    pub(super) acceptors: Vec<Waker>,
    pub(super) enrolments: VecDeque<Enrolment>,
    pub(super) enrolled: bool,
    pub(super) closed: Option<CloseReason>,
    /// What the peer's application said of the close that follows.
    pub(super) close_reason: Option<(u32, String)>,
    pub(super) refused: bool,
    pub(super) timer_at: Option<Instant>,
    /// Wakers to call once the lock is released.
    pub(super) woken: Vec<Waker>,
    pub(super) notified: Vec<Arc<Notify>>,
    /// Where the gateway takes associations.
    pub(super) datagram_port: Option<u16>,
    /// The association that the client is about to begin.
    pub(super) expected: Option<ChannelId>,
    pub(super) ways: Ways,
}

/// What the driver keeps of a channel.
pub(super) struct Handle {
    pub(super) meter: Meter,
    pub(super) write: Arc<Notify>,
    pub(super) tasks: [tokio::task::AbortHandle; 2],
}

/// What measures a channel.
#[derive(Clone)]
pub(super) enum Meter {
    Tcp(Arc<Gauge>),
    Association(Arc<Ride>),
}

/// Who waits for what on one stream, and what else the driver keeps of it.
#[derive(Default)]
pub(super) struct Wakers {
    pub(super) read: Option<Waker>,
    pub(super) write: Option<Waker>,
    pub(super) accept: Option<Waker>,
    pub(super) acknowledged: Option<Waker>,
    pub(super) datagram: Option<Waker>,
    pub(super) stopped: Option<Waker>,
    pub(super) ended: EndedByPeer,
    /// Whose it is, for people.
    pub(super) label: Option<Label>,
}

/// What a stream may wait for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Waiting {
    Read,
    Write,
    Accept,
    Acknowledged,
    Datagram,
    /// The peer holds everything, or reads no more.
    Stopped,
}

impl Inner {
    pub(super) fn new(session: Session) -> Self {
        Self {
            session,
            channels: BTreeMap::new(),
            streams: HashMap::new(),
            incoming: VecDeque::new(),
            acceptors: Vec::new(),
            enrolments: VecDeque::new(),
            enrolled: false,
            closed: None,
            close_reason: None,
            refused: false,
            timer_at: None,
            woken: Vec::new(),
            notified: Vec::new(),
            datagram_port: None,
            expected: None,
            ways: Ways::default(),
        }
    }

    /// Hands out what the session has to say. Whether somebody who watches the session as a whole
    /// has to look.
    pub(super) fn drain(&mut self) -> bool {
        while let Some(id) = self.session.poll_wake() {
            if let Some(handle) = self.channels.get(&id) {
                self.notified.push(Arc::clone(&handle.write));
            }
        }
        let mut changed = false;
        while let Some(event) = self.session.poll_event() {
            changed |= self.on_event(event);
        }
        changed
    }

    pub(super) fn on_event(&mut self, event: Event) -> bool {
        match event {
            Event::Readable(id) => self.wake(id, Waiting::Read),
            Event::Writable(id) => self.wake(id, Waiting::Write),
            Event::StreamAccepted(id) => self.wake(id, Waiting::Accept),
            Event::Acknowledged(id) => {
                self.wake(id, Waiting::Acknowledged);
                self.wake(id, Waiting::Stopped);
            }
            Event::SendingReset(id, code) => self.on_half_ended(id, [Some(code), None]),
            Event::Stopped(id, code) => self.on_half_ended(id, [None, Some(code)]),
            Event::CloseReason(code, text) => self.close_reason = Some((code, text)),
            Event::Datagram(id) => self.wake(id, Waiting::Datagram),
            Event::StreamOpened(id) => {
                self.streams.insert(id, Wakers::default());
                self.incoming.push_back(id);
                self.woken.append(&mut self.acceptors);
            }
            Event::Reset(id, code) => {
                if let Some(wakers) = self.streams.get_mut(&id) {
                    wakers.ended.both = Some(code);
                    wakers.wake_all(&mut self.woken);
                }
                // Nobody has taken it yet, and nobody has to.
                if let Some(place) = self.incoming.iter().position(|waiting| *waiting == id) {
                    self.incoming.remove(place);
                    self.streams.remove(&id);
                }
            }
            Event::Suspect(id) => tracing::info!(%id, "silent: its work goes elsewhere"),
            Event::Recovered(id) => tracing::info!(%id, "speaks again"),
            Event::DatagramPort(_) | Event::AssociationExpected(_) | Event::RulesChanged => {
                return self.on_association_event(&event);
            }
            Event::Dead(id) => {
                tracing::info!(%id, "given up");
                self.expected = self.expected.filter(|expected| *expected != id);
                self.remove_channel(id);
                return true;
            }
            Event::Granted(_) | Event::Spread(_) => return true,
            Event::EnrolRequested(enrolment) => {
                if self.enrolments.len() < MAX_ENROLMENTS {
                    self.enrolments.push_back(enrolment);
                }
                return true;
            }
            Event::Enrolled => {
                self.enrolled = true;
                return true;
            }
            Event::Closed(reason) => {
                self.end(reason);
                return true;
            }
            _ => {}
        }
        false
    }

    pub(super) fn wake(&mut self, id: StreamId, waiting: Waiting) {
        if let Some(wakers) = self.streams.get_mut(&id) {
            self.woken.extend(wakers.slot(waiting).take());
        }
    }

    fn on_association_event(&mut self, event: &Event) -> bool {
        match event {
            Event::DatagramPort(port) => self.datagram_port = Some(*port),
            Event::AssociationExpected(id) => self.expected = Some(*id),
            _ => {
                self.ways.stale = true;
                self.wake_associations();
                return false;
            }
        }
        true
    }

    /// They have something to learn.
    fn wake_associations(&mut self) {
        let is_one = |handle: &&Handle| matches!(handle.meter, Meter::Association(_));
        let associations = self.channels.values().filter(is_one);
        let writers = associations.map(|handle| Arc::clone(&handle.write));
        self.notified.extend(writers);
    }

    pub(super) fn remove_channel(&mut self, id: ChannelId) {
        if let Some(handle) = self.channels.remove(&id) {
            handle
                .tasks
                .iter()
                .for_each(tokio::task::AbortHandle::abort);
        }
    }

    pub(super) fn end(&mut self, reason: CloseReason) {
        if self.closed.is_some() {
            return;
        }
        self.closed = Some(reason);
        self.timer_at = None;
        self.session.abort();
        self.streams
            .values_mut()
            .for_each(|wakers| wakers.wake_all(&mut self.woken));
        self.woken.append(&mut self.acceptors);
        // What this side has acknowledged or closed last may still be on its way out.
        for (_, handle) in std::mem::take(&mut self.channels) {
            handle.write.notify_one();
            handle.tasks[channel::READER].abort();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        for handle in self.channels.values() {
            handle
                .tasks
                .iter()
                .for_each(tokio::task::AbortHandle::abort);
        }
    }
}

impl Wakers {
    pub(super) fn slot(&mut self, waiting: Waiting) -> &mut Option<Waker> {
        match waiting {
            Waiting::Read => &mut self.read,
            Waiting::Write => &mut self.write,
            Waiting::Accept => &mut self.accept,
            Waiting::Acknowledged => &mut self.acknowledged,
            Waiting::Datagram => &mut self.datagram,
            Waiting::Stopped => &mut self.stopped,
        }
    }

    pub(super) fn wake_all(&mut self, woken: &mut Vec<Waker>) {
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

/// A client enrols once; more at a time are a mistake.
const MAX_ENROLMENTS: usize = 4;
