//! The state under the lock of a session, and how the session's events reach the waiting tasks.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;

use hawser_channels::association::{AssociationState, PathLinks};
use hawser_session::{CloseReason, Event, LostSegment, Session, Side, StreamError};
use hawser_types::{ByteCount, ChannelId, Charge, Instant, StreamId};
use hawser_wire::Enrolment;
use smallvec::SmallVec;
use tokio::sync::Notify;
use tracing::Span;

use super::association_channel::AssociationChannel;
use super::failure::{ConnectionError, Failure};
use super::gauge::Gauge;
use super::streams::{Half, Streams, Waiting};
use crate::clock;

/// The state that the lock guards.
pub(super) struct Inner {
    pub(super) session: Session,
    pub(super) channels: BTreeMap<ChannelId, Handle>,
    pub(super) streams: Streams,
    pub(super) enrolments: VecDeque<Enrolment>,
    pub(super) enrolled: bool,
    pub(super) closed: Option<CloseReason>,
    /// The peer application's reason for the close that follows.
    pub(super) close_reason: Option<(u32, String)>,
    pub(super) refused: bool,
    /// The client goes on in another session.
    pub(super) superseded: bool,
    pub(super) timer_at: Option<Instant>,
    /// Wakers to call once the lock is released.
    pub(super) woken: Vec<Waker>,
    pub(super) notified: Vec<Arc<Notify>>,
    /// Removed channels, to be dropped once the lock is released: dropping an association takes the
    /// association's own lock.
    pub(super) gone: Vec<Handle>,
    /// The UDP port at which the gateway takes associations.
    pub(super) datagram_port: Option<u16>,
    /// The TCP port at which the client takes connections: the first one that it announced.
    pub(super) joins_port: Option<u16>,
    /// Channels that this gateway began and that lost large segments, until the gateway's plan for
    /// such channels takes this list.
    pub(super) lost_segments: Vec<(ChannelId, LostSegment)>,
    /// The association that the client is about to begin.
    pub(super) expected: Option<ChannelId>,
    /// The links below the paths of associations.
    pub(super) path_links: PathLinks,
    side: Side,
    /// The span of the session's log lines.
    span: Span,
}

/// The driver's part of a channel.
pub(super) struct Handle {
    pub(super) meter: Meter,
    pub(super) write: Arc<Notify>,
    /// The reading task, the writing task, and any further one.
    pub(super) tasks: SmallVec<[tokio::task::AbortHandle; 3]>,
    pub(super) _charge: Charge,
}

/// The source of a channel's measurements.
#[derive(Clone)]
pub(super) enum Meter {
    Tcp(Arc<Gauge>),
    Association(Arc<AssociationChannel>),
}

impl Inner {
    pub(super) fn new(side: Side, session: Session, span: Span) -> Self {
        Self {
            path_links: PathLinks::new(side),
            side,
            span,
            session,
            channels: BTreeMap::new(),
            streams: Streams::default(),
            enrolments: VecDeque::new(),
            enrolled: false,
            closed: None,
            close_reason: None,
            refused: false,
            superseded: false,
            timer_at: None,
            woken: Vec::new(),
            notified: Vec::new(),
            gone: Vec::new(),
            datagram_port: None,
            joins_port: None,
            lost_segments: Vec::new(),
            expected: None,
        }
    }

    /// Distributes the session's wake-ups and events. Returns true if they concern the watchers of
    /// the session as a whole.
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
            Event::SendingReset(id, code) => self.on_half_ended(id, Half::Sending, code),
            Event::Stopped(id, code) => self.on_half_ended(id, Half::Reading, code),
            Event::CloseReason(code, text) => self.close_reason = Some((code, text)),
            Event::Datagram(id) => self.wake(id, Waiting::Datagram),
            Event::StreamOpened(id) => self.streams.on_opened(id, &mut self.woken),
            Event::Reset(id, code) => self.streams.on_reset(id, code, &mut self.woken),
            Event::Over(id) => self.streams.on_over(id),
            Event::Suspect(id) => {
                let _span = self.span.enter();
                tracing::info!(channel = %id, "sending over other channels: this one is silent or crawls");
            }
            Event::Recovered(id) => {
                let _span = self.span.enter();
                tracing::info!(channel = %id, "using a channel again");
            }
            Event::DatagramPort(_) | Event::AssociationExpected(_) | Event::RulesChanged => {
                return self.on_association_event(&event);
            }
            Event::Dead(id) => {
                self.span
                    .in_scope(|| tracing::info!(%id, "giving up channel"));
                self.expected = self.expected.filter(|expected| *expected != id);
                self.remove_channel(id);
                return true;
            }
            Event::Granted(_) | Event::Spread(_) | Event::GoingAway => return true,
            Event::JoinsAccepted(port) => {
                self.joins_port.get_or_insert(port);
                return true;
            }
            Event::SegmentsLost(id, lost) => {
                if self.lost_segments.len() < MAX_LOST_SEGMENTS {
                    self.lost_segments.push((id, lost));
                }
                return true;
            }
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

    fn wake(&mut self, id: StreamId, waiting: Waiting) {
        self.streams.wake(id, waiting, &mut self.woken);
    }

    fn on_half_ended(&mut self, id: StreamId, half: Half, code: u32) {
        self.streams.on_half_ended(id, half, code, &mut self.woken);
    }

    /// Returns why the session is over; `None` while it is open.
    pub(super) fn end_reason(&self) -> Option<ConnectionError> {
        let refused = self.refused || self.closed == Some(CloseReason::Peer(CLOSE_REFUSED));
        Some(match self.closed? {
            _ if refused => ConnectionError::Refused,
            CloseReason::Local => ConnectionError::LocallyClosed,
            CloseReason::Peer(code) => {
                let said = self.close_reason.clone();
                let (code, reason) = said.unwrap_or((code, String::new()));
                ConnectionError::ClosedByPeer { code, reason }
            }
            _ => ConnectionError::Lost,
        })
    }

    /// Returns why an operation on a stream fails that had to wait or was refused.
    pub(super) fn failure(
        &self,
        id: StreamId,
        waiting: Waiting,
        refused: Option<StreamError>,
    ) -> Option<Failure> {
        if let Some(failure) = self.streams.failure(id, waiting) {
            return Some(failure);
        }
        match (refused, self.end_reason()) {
            (Some(StreamError::SessionClosed), Some(end)) => Some(Failure::Over(end)),
            (Some(error), _) => Some(Failure::Refused(error)),
            (None, end) => end.map(Failure::Ended),
        }
    }

    fn on_association_event(&mut self, event: &Event) -> bool {
        match event {
            Event::DatagramPort(port) => self.datagram_port = Some(*port),
            Event::AssociationExpected(id) => self.expected = Some(*id),
            _ => {
                self.path_links.mark_stale();
                // The writers of associations have to follow a change of links.
                let is_one = |handle: &&Handle| matches!(handle.meter, Meter::Association(_));
                let associations = self.channels.values().filter(is_one);
                let writers = associations.map(|handle| Arc::clone(&handle.write));
                self.notified.extend(writers);
                return false;
            }
        }
        true
    }

    /// Reports the state of an association to the session.
    pub(super) fn report_association(
        &mut self,
        now: Instant,
        id: ChannelId,
        state: &AssociationState,
    ) {
        self.learn_unknown_paths(state);
        state.report(now, &mut self.session, id, &mut self.path_links);
    }

    /// Learns about the links below an association's paths if some are unknown.
    pub(super) fn learn_unknown_paths(&mut self, state: &AssociationState) {
        if state.has_unknown_path(&self.path_links) && self.learn_links() {
            self.path_links.mark_stale();
        }
    }

    /// Learns from the TCP channels which address belongs to which link. Returns true if anything
    /// was new.
    pub(super) fn learn_links(&mut self) -> bool {
        let mut learned = false;
        for channel in self.session.snapshot(clock::now(), 0).channels {
            let meter = self.channels.get(&channel.id).map(|handle| &handle.meter);
            let Some(Meter::Tcp(gauge)) = meter else {
                continue;
            };
            let address = match self.side {
                Side::Client => gauge.local,
                Side::Gateway => gauge.remote.map(|it| it.ip()),
            };
            learned |= self.path_links.learn(channel.link, address);
        }
        learned
    }

    pub(super) fn remove_channel(&mut self, id: ChannelId) {
        if let Some(handle) = self.channels.remove(&id) {
            handle
                .tasks
                .iter()
                .for_each(tokio::task::AbortHandle::abort);
            self.gone.push(handle);
        }
    }

    pub(super) fn end(&mut self, reason: CloseReason) {
        if self.closed.is_some() {
            return;
        }
        self.closed = Some(reason);
        self.timer_at = None;
        self.session.abort();
        self.streams.wake_all(&mut self.woken);
        // This side's last acknowledgements, or its close, may still be on their way out.
        for (_, handle) in std::mem::take(&mut self.channels) {
            handle.write.notify_one();
            let tasks = handle.tasks.iter().enumerate();
            let others = tasks.filter(|(place, _)| *place != WRITER);
            others.for_each(|(_, task)| task.abort());
            self.gone.push(handle);
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

/// The code with which a gateway ends the session of a client that is not admitted (any more).
pub(crate) const CLOSE_REFUSED: u32 = 1;
/// The place of the writing task among a channel's tasks.
const WRITER: usize = 1;
/// More entries than a plan has channels. A plan takes them at once; without a plan, they stay.
const MAX_LOST_SEGMENTS: usize = 32;
/// A client enrols once; more requests at a time are a mistake.
const MAX_ENROLMENTS: usize = 4;

/// Memory of a channel besides its read buffer: its tasks, its measurements, and data that waits to
/// be written. It is a charge; see docs/design/charges.md.
pub(super) const CHANNEL_CHARGE: ByteCount = ByteCount::from_kib(16);
