//! Runs one session: the lock around it, the tasks that move its bytes, and its timer.
//!
//! Every channel has a reading and a writing task. They do the costly work, sealing and system
//! calls, outside the lock; under it the session only keeps its books.

mod association;
mod channel;
mod halves;
mod inner;
mod sample;
mod timer;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use hawser_session::recorder::Recorder;
use hawser_session::seal::{Direction, SessionKeys};
use hawser_session::{
    ChannelSnapshot, ChannelSpec, CloseReason, Session, SessionConfig, SessionSnapshot, Side,
    StreamError,
};
use hawser_types::{ChannelId, Instant, LinkIndex, SessionId, StreamId};
use hawser_wire::Enrolment;
use tokio::sync::Notify;

use crate::association::{AssociationHandle, Seal};
use crate::clock;
use crate::congestion::Congestion;
use crate::stream::{Failure, Label};
pub(crate) use channel::NewChannel;
pub(crate) use inner::Waiting;
use inner::{Handle, Inner, Meter, Wakers};

/// A session that runs. Cloning gives another handle to the same one; when the last handle and
/// the last stream are gone, the session ends.
#[derive(Clone)]
pub(crate) struct Driver {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    inner: Mutex<Inner>,
    keys: SessionKeys,
    id: SessionId,
    congestion: Congestion,
    config: SessionConfig,
    side: Side,
    timer: Arc<Notify>,
    changed: tokio::sync::watch::Sender<u64>,
}

impl Driver {
    /// Starts a session that has no channel yet. Needs a tokio runtime.
    pub(crate) fn start(
        side: Side,
        config: SessionConfig,
        keys: SessionKeys,
        congestion: Congestion,
    ) -> Self {
        let inner = Inner::new(Session::new(clock::now(), side, config.clone()));
        let shared = Arc::new(Shared {
            inner: Mutex::new(inner),
            id: keys.session_id(),
            keys,
            congestion,
            config,
            side,
            timer: Arc::default(),
            changed: tokio::sync::watch::Sender::new(0),
        });
        let timer = Arc::clone(&shared.timer);
        tokio::spawn(timer::run(Arc::downgrade(&shared), timer));
        Self { shared }
    }

    pub(crate) fn id(&self) -> SessionId {
        self.shared.id
    }

    pub(crate) fn keys(&self) -> &SessionKeys {
        &self.shared.keys
    }

    /// Adds a connection that is authenticated; its tasks begin at once.
    pub(crate) fn add_channel(&self, spec: ChannelSpec, new: NewChannel) {
        channel::start(&self.shared, spec, new);
    }

    /// As [`Driver::add_channel`], unless the number is not, or no longer, free to join with.
    pub(crate) fn admit_channel(&self, spec: ChannelSpec, new: NewChannel) -> bool {
        let free = self
            .shared
            .with(|inner, _| inner.session.reserve_join(spec.id).is_ok());
        if free {
            self.add_channel(spec, new);
        }
        free
    }

    /// Adds an association that is established; its tasks begin at once.
    pub(crate) fn add_association(&self, id: ChannelId, association: AssociationHandle) {
        association::start(&self.shared, id, association);
    }

    /// How the session behaves.
    pub(crate) fn session_config(&self) -> SessionConfig {
        self.shared.config.clone()
    }

    /// The UDP port at which the gateway takes associations, once it has said so.
    pub(crate) fn datagram_port(&self) -> Option<u16> {
        self.shared.lock().datagram_port
    }

    /// The association that the client has told of last and that has not begun.
    pub(crate) fn expected(&self) -> Option<ChannelId> {
        self.shared.lock().expected
    }

    /// It has begun, or is not waited for any more.
    pub(crate) fn forget_expected(&self, id: ChannelId) {
        let mut inner = self.shared.lock();
        inner.expected = inner.expected.filter(|expected| *expected != id);
    }

    /// Keys for an association with the number `channel`.
    pub(crate) fn association_seal(&self, channel: ChannelId) -> Seal {
        let direction = match self.shared.side {
            Side::Client => Direction::ClientToGateway,
            Side::Gateway => Direction::GatewayToClient,
        };
        Seal::new(&self.shared.keys, channel, direction)
    }

    /// The peer refused this side's key.
    pub(crate) fn was_refused(&self) -> bool {
        let inner = self.shared.lock();
        inner.refused || inner.closed == Some(CloseReason::Peer(CLOSE_REFUSED))
    }

    /// Whether a connection may join under this number.
    pub(crate) fn check_join(&self, channel: ChannelId) -> Result<(), hawser_session::JoinRefused> {
        self.shared.lock().session.check_join(channel)
    }

    /// A number to join with.
    pub(crate) fn take_grant(&self) -> Option<ChannelId> {
        self.shared.lock().session.take_grant()
    }

    /// A channel's connection is to be closed, now.
    pub(crate) fn drop_channel(&self, id: ChannelId) {
        self.shared.lose_channel(id);
    }

    /// A number that was taken has failed.
    pub(crate) fn give_up_grant(&self, id: ChannelId) {
        self.with(|session, now| session.give_up_grant(now, id));
    }

    /// The numbers of the channels that live.
    pub(crate) fn channels(&self) -> Vec<ChannelId> {
        self.shared.lock().channels.keys().copied().collect()
    }

    /// This end's addresses of those channels that live.
    pub(crate) fn addresses(
        &self,
        channels: &[ChannelSnapshot],
    ) -> BTreeMap<(ChannelId, LinkIndex), IpAddr> {
        let inner = self.shared.lock();
        let address = |channel: &ChannelSnapshot| match &inner.channels.get(&channel.id)?.meter {
            Meter::Tcp(gauge) => gauge.local,
            Meter::Association(_) => inner.ways.home(channel.link),
        };
        let known = channels.iter().filter_map(|channel| {
            let address = address(channel)?;
            Some(((channel.id, channel.link), address))
        });
        known.collect()
    }

    /// How many bulk channels a link is to have.
    pub(crate) fn wanted_channels(&self, link: LinkIndex) -> usize {
        self.shared.lock().session.wanted_channels(link)
    }

    /// Changes whenever a channel comes or goes, another number of them is wanted, grants or
    /// enrolments arrive, or the session ends.
    pub(crate) fn changes(&self) -> tokio::sync::watch::Receiver<u64> {
        self.shared.changed.subscribe()
    }

    pub(crate) fn closed(&self) -> Option<CloseReason> {
        self.shared.lock().closed
    }

    pub(crate) fn close(&self, code: u32) {
        self.shared
            .with(|inner, now| inner.session.close(now, code));
    }

    /// Gives up whatever is under way.
    pub(crate) fn abort(&self) {
        self.shared.abort();
    }

    pub(crate) fn enrol(&self, enrolment: Enrolment) {
        self.shared
            .with(|inner, now| inner.session.enrol(now, enrolment));
    }

    pub(crate) fn is_enrolled(&self) -> bool {
        self.shared.lock().enrolled
    }

    pub(crate) fn take_enrolment(&self) -> Option<Enrolment> {
        self.shared.lock().enrolments.pop_front()
    }

    pub(crate) fn confirm_enrolment(&self) {
        self.shared
            .with(|inner, now| inner.session.confirm_enrolment(now));
    }

    pub(crate) fn snapshot(&self, max_streams: usize) -> SessionSnapshot {
        self.sample_associations();
        self.shared
            .lock()
            .session
            .snapshot(clock::now(), max_streams)
    }

    /// What associations have carried is counted there: one at rest tells of its last bytes when it is asked.
    fn sample_associations(&self) {
        let rides: Vec<_> = {
            let inner = self.shared.lock();
            let ride = |(id, handle): (&ChannelId, &Handle)| match &handle.meter {
                Meter::Association(ride) => Some((*id, Arc::clone(ride))),
                Meter::Tcp(_) => None,
            };
            inner.channels.iter().filter_map(ride).collect()
        };
        let now = clock::now();
        for (id, look) in rides.iter().map(|(id, ride)| (*id, ride.look(now))) {
            let side = self.shared.side;
            self.shared
                .with(|inner, now| look.tell(inner, side, now, id));
        }
    }

    /// Reads what the session has recorded.
    pub(crate) fn recorder<R>(&self, read: impl FnOnce(&Recorder, Instant) -> R) -> R {
        read(self.shared.lock().session.recorder(), clock::now())
    }

    /// Works on the session, then wakes whom that concerns.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut Session, Instant) -> R) -> R {
        self.shared.with(|inner, now| work(&mut inner.session, now))
    }

    /// Opens a stream.
    pub(crate) fn open_stream(
        &self,
        metadata: Bytes,
    ) -> Result<StreamId, hawser_session::OpenError> {
        self.shared.with(|inner, now| {
            let id = inner.session.open_stream(now, metadata)?;
            inner.streams.insert(id, Wakers::default());
            Ok(id)
        })
    }

    /// The next stream that the peer opened.
    pub(crate) fn poll_incoming(&self, cx: &mut Context<'_>) -> Poll<Option<StreamId>> {
        let mut inner = self.shared.lock();
        if let Some(id) = inner.incoming.pop_front() {
            return Poll::Ready(Some(id));
        }
        if inner.closed.is_some() {
            return Poll::Ready(None);
        }
        if !inner
            .acceptors
            .iter()
            .any(|waker| waker.will_wake(cx.waker()))
        {
            inner.acceptors.push(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Tries something on a stream; when that is not possible yet, remembers whom to wake.
    pub(crate) fn poll_stream<R>(
        &self,
        cx: &mut Context<'_>,
        id: StreamId,
        waiting: Waiting,
        attempt: impl FnOnce(&mut Session, Instant) -> Result<Option<R>, StreamError>,
    ) -> Poll<Result<R, Failure>> {
        self.shared.with(|inner, now| {
            let wakers = inner.streams.get(&id);
            if let Some(failure) = wakers.and_then(|wakers| wakers.overrules(waiting)) {
                return Poll::Ready(Err(failure));
            }
            let refused = match attempt(&mut inner.session, now) {
                Ok(None) => None,
                Ok(Some(done)) => return Poll::Ready(Ok(done)),
                Err(error) => Some(error),
            };
            if let Some(failure) = inner.failure(id, waiting, refused) {
                return Poll::Ready(Err(failure));
            }
            let Some(wakers) = inner.streams.get_mut(&id) else {
                return Poll::Ready(Err(Failure::Refused(StreamError::Unknown(id))));
            };
            *wakers.slot(waiting) = Some(cx.waker().clone());
            Poll::Pending
        })
    }

    /// Why the peer reset a stream, if it did.
    pub(crate) fn reset_code(&self, id: StreamId) -> Option<u32> {
        self.shared.lock().streams.get(&id)?.ended.both
    }

    /// Says whose a stream is.
    pub(crate) fn set_label(&self, id: StreamId, label: Label) {
        if let Some(wakers) = self.shared.lock().streams.get_mut(&id) {
            wakers.label = Some(label);
        }
    }

    /// Whose these streams are, as far as that is known.
    pub(crate) fn labels(&self, ids: &[StreamId]) -> BTreeMap<StreamId, Arc<str>> {
        let inner = self.shared.lock();
        let label = |id: &StreamId| Some((*id, inner.streams.get(id)?.label.clone()?));
        let labels: Vec<(StreamId, Label)> = ids.iter().filter_map(label).collect();
        drop(inner);
        let told = labels
            .into_iter()
            .filter_map(|(id, say)| Some((id, say()?)));
        told.collect()
    }

    /// Whether this side opened the stream.
    pub(crate) fn is_own(&self, id: StreamId) -> bool {
        id.is_client_opened() == (self.shared.side == Side::Client)
    }

    /// Nobody will ask for this stream again.
    pub(crate) fn forget_stream(&self, id: StreamId) {
        self.shared.with(|inner, now| {
            inner.streams.remove(&id);
            inner.session.abandon(now, id);
        });
    }
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Driver({:?} {})", self.shared.side, self.shared.id)
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic elsewhere must not take this session's other streams with it.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works under the lock, drains what the session has to say, and wakes whom that concerns
    /// once the lock is released.
    fn with<R>(&self, work: impl FnOnce(&mut Inner, Instant) -> R) -> R {
        let now = clock::now();
        let mut inner = self.lock();
        let result = work(&mut inner, now);
        let changed = inner.drain();
        let sooner = inner
            .session
            .poll_timeout()
            .filter(|at| inner.timer_at.is_none_or(|planned| *at < planned));
        if sooner.is_some() {
            inner.timer_at = sooner;
        }
        let (woken, notified) = (
            std::mem::take(&mut inner.woken),
            std::mem::take(&mut inner.notified),
        );
        drop(inner);
        if sooner.is_some() {
            self.timer.notify_one();
        }
        notified.iter().for_each(|notify| notify.notify_one());
        woken.into_iter().for_each(Waker::wake);
        if changed {
            self.changed.send_modify(|count| *count += 1);
        }
        result
    }

    /// A channel's connection is over: its work goes to others.
    fn lose_channel(&self, id: ChannelId) {
        self.with(|inner, now| {
            inner.session.handle_channel_lost(now, id);
            inner.remove_channel(id);
        });
        self.changed.send_modify(|count| *count += 1);
    }

    /// The peer did what a correct one would not do.
    fn fail(&self, fault: &dyn std::fmt::Display) {
        tracing::warn!(session = %self.id, %fault, "the session ends: the peer is at fault");
        self.abort();
    }

    fn abort(&self) {
        self.with(|inner, _| inner.end(CloseReason::Abandoned));
        self.changed.send_modify(|count| *count += 1);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // The timer's task looks, and finds nothing left.
        self.timer.notify_one();
    }
}

/// The code with which a gateway ends the session of a client that it does not admit, or no more.
pub(crate) const CLOSE_REFUSED: u32 = 1;
