//! Runs one session: the lock around it, the tasks that move its bytes, and its timer.
//!
//! Every channel has a reading and a writing task. They do the costly work, sealing and system
//! calls, outside the lock; under it the session only keeps its books.

mod association;
mod association_channel;
mod channel;
mod failure;
mod gauge;
mod halves;
mod inner;
mod packet_lane;
mod reader;
mod shared;
mod streams;
mod timer;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hawser_channels::further::ChannelEnds;
use hawser_sched::packet::PacketPolicy;
use hawser_session::recorder::Recorder;
use hawser_session::seal::{Direction, SessionKeys};
use hawser_session::{
    ChannelSnapshot, ChannelSpec, CloseReason, LostSegment, PacketFlow, Session, SessionConfig,
    SessionSnapshot, Side, StreamError,
};
use hawser_types::{Budget, ChannelId, Instant, LinkIndex, SessionId, StreamGroup, StreamId};
use hawser_wire::Enrolment;
use tracing::Span;

use crate::association::{AssociationHandle, Seal, TunnelFlows};
use crate::clock;
use crate::congestion::Congestion;
use crate::session_budgets::SessionBudgets;
use crate::spans;
pub(crate) use channel::NewChannel;
pub use failure::ConnectionError;
pub(crate) use failure::Failure;
pub(crate) use inner::CLOSE_REFUSED;
use inner::{CHANNEL_CHARGE, Handle, Inner, Meter};
use packet_lane::{KeptStream, PacketLanes};
pub use packet_lane::{PacketLane, PacketSink};
use shared::SharedSession;
pub use streams::Label;
pub(crate) use streams::Waiting;

/// A running session. Cloning gives another handle to the same session; when the last handle and
/// the last stream are gone, the session ends.
#[derive(Clone)]
pub(crate) struct Driver {
    shared: Arc<SharedSession>,
    lanes: Arc<PacketLanes>,
}

impl Driver {
    /// Starts a session that has no channel yet. Needs a tokio runtime. The session's span is a
    /// child of the current span.
    ///
    /// `budgets`: the session takes its memory from them.
    pub(crate) fn start(
        side: Side,
        config: SessionConfig,
        keys: SessionKeys,
        congestion: Congestion,
        budgets: SessionBudgets,
    ) -> Self {
        let lanes = Arc::new(PacketLanes::new(side, config.packet_scheduler));
        let span = spans::session(keys.session_id(), side);
        let shared = SharedSession::new(span, (side, config), keys, congestion, budgets);
        let shared = Arc::new(shared);
        let timer = Arc::clone(&shared.timer);
        tokio::spawn(timer::run(Arc::downgrade(&shared), timer));
        Self { shared, lanes }
    }

    pub(crate) fn id(&self) -> SessionId {
        self.shared.id
    }

    /// The span of the session's log lines.
    pub(crate) fn span(&self) -> &Span {
        &self.shared.span
    }

    pub(crate) fn keys(&self) -> &SessionKeys {
        &self.shared.keys
    }

    /// Adds an authenticated connection; its tasks begin at once.
    pub(crate) fn add_channel(&self, spec: ChannelSpec, new: NewChannel) {
        let charge = self.shared.budgets.account.noted(CHANNEL_CHARGE);
        channel::start(&self.shared, spec, new, charge);
    }

    /// As [`Driver::add_channel`], but fails if the channel's number is not free for a join (any
    /// more), or the peer's memory budget is used up.
    pub(crate) fn admit_channel(&self, spec: ChannelSpec, new: NewChannel) -> Result<(), String> {
        let charge = self.shared.budgets.account.charge(CHANNEL_CHARGE);
        let charge = charge.map_err(|error| format!("no memory for a channel: {error}"))?;
        let reserve = |inner: &mut Inner, _| inner.session.reserve_join(spec.id);
        let reserved = self.shared.with(reserve);
        // Two connections may have passed `check_join` with the same number: the first one gets it.
        reserved.map_err(|error| error.to_string())?;
        channel::start(&self.shared, spec, new, charge);
        Ok(())
    }

    /// Adds an established association; its tasks begin at once.
    pub(crate) fn add_association(&self, id: ChannelId, association: AssociationHandle) {
        association::start(&self.shared, &self.lanes, id, association);
    }

    /// The lane of the tunnel that the stream `id` opened.
    pub(crate) fn packet_lane(self, id: StreamId, stream: KeptStream) -> PacketLane {
        PacketLane::new(self.shared, self.lanes, id, stream)
    }

    /// The budget that the peer's memory is taken from.
    pub(crate) fn account(&self) -> &Budget {
        &self.shared.budgets.account
    }

    /// The configuration that the session began with.
    pub(crate) fn session_config(&self) -> SessionConfig {
        self.shared.config.clone()
    }

    /// The UDP port at which the gateway takes associations, once it has announced one.
    pub(crate) fn datagram_port(&self) -> Option<u16> {
        self.shared.lock().datagram_port
    }

    /// The TCP port at which the client takes connections, once it has announced one.
    pub(crate) fn joins_port(&self) -> Option<u16> {
        self.shared.lock().joins_port
    }

    /// The addresses of both ends of each live TCP channel.
    pub(crate) fn tcp_ends(&self) -> Vec<ChannelEnds> {
        let inner = self.shared.lock();
        let ends = |(id, handle): (&ChannelId, &Handle)| match &handle.meter {
            Meter::Tcp(gauge) => Some(ChannelEnds {
                id: *id,
                begun_by: inner.session.begun_by(*id)?,
                local: gauge.local?,
                remote: gauge.remote?.ip(),
            }),
            Meter::Association(_) => None,
        };
        inner.channels.iter().filter_map(ends).collect()
    }

    /// The peer's address and port on the TCP channel over which the peer opened `stream`; `None`
    /// if that channel is gone, or is an association.
    pub(crate) fn opened_from(&self, stream: StreamId) -> Option<SocketAddr> {
        let inner = self.shared.lock();
        let channel = inner.session.opened_over(stream)?;
        match &inner.channels.get(&channel)?.meter {
            Meter::Tcp(gauge) => gauge.remote,
            Meter::Association(_) => None,
        }
    }

    /// This end's addresses of the paths of the session's association.
    pub(crate) fn associated(&self) -> BTreeSet<IpAddr> {
        let inner = self.shared.lock();
        let mut meters = inner.channels.values().map(|handle| &handle.meter);
        if meters.any(|meter| matches!(meter, Meter::Association(_))) {
            inner.path_links.in_use().clone()
        } else {
            BTreeSet::new()
        }
    }

    /// Takes the list of channels that this gateway began and that lost large segments.
    pub(crate) fn take_lost_segments(&self) -> Vec<(ChannelId, LostSegment)> {
        std::mem::take(&mut self.shared.lock().lost_segments)
    }

    /// The association that the client announced last, until it has begun.
    pub(crate) fn expected(&self) -> Option<ChannelId> {
        self.shared.lock().expected
    }

    /// Forgets an announced association, which has begun or is not waited for any more.
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
        let keys = &self.shared.keys;
        self.span().in_scope(|| Seal::new(keys, channel, direction))
    }

    /// True if the peer refused this side's key.
    pub(crate) fn was_refused(&self) -> bool {
        let inner = self.shared.lock();
        inner.refused || inner.closed == Some(CloseReason::Peer(CLOSE_REFUSED))
    }

    /// Checks whether a connection may join under this number.
    pub(crate) fn check_join(&self, channel: ChannelId) -> Result<(), hawser_session::JoinRefused> {
        self.shared.lock().session.check_join(channel)
    }

    /// Takes a channel number to join with.
    pub(crate) fn take_grant(&self) -> Option<ChannelId> {
        self.shared.lock().session.take_grant()
    }

    /// Closes a channel's connection now.
    pub(crate) fn drop_channel(&self, id: ChannelId) {
        self.shared.lose_channel(id);
    }

    /// Gives up a number that was taken: no channel came about.
    pub(crate) fn give_up_grant(&self, id: ChannelId) {
        self.with(|session, now| session.give_up_grant(now, id));
    }

    /// The numbers of the live channels.
    pub(crate) fn channels(&self) -> Vec<ChannelId> {
        self.shared.lock().channels.keys().copied().collect()
    }

    /// This end's addresses of those `channels` that are live.
    pub(crate) fn addresses(
        &self,
        channels: &[ChannelSnapshot],
    ) -> BTreeMap<(ChannelId, LinkIndex), IpAddr> {
        let inner = self.shared.lock();
        let address = |channel: &ChannelSnapshot| match &inner.channels.get(&channel.id)?.meter {
            Meter::Tcp(gauge) => gauge.local,
            Meter::Association(_) => inner.path_links.own_address(channel.link),
        };
        let known = channels.iter().filter_map(|channel| {
            let address = address(channel)?;
            Some(((channel.id, channel.link), address))
        });
        known.collect()
    }

    /// Number of bulk channels that a link is to have.
    pub(crate) fn wanted_channels(&self, link: LinkIndex) -> usize {
        self.shared.lock().session.wanted_channels(link)
    }

    /// The size of segments that do not arrive over a link, if such losses were found.
    pub(crate) fn lost_segment(&self, link: LinkIndex) -> Option<LostSegment> {
        self.shared.lock().session.lost_segment(link)
    }

    /// True if the gateway asks the client to go on in another session.
    pub(crate) fn is_going_away(&self) -> bool {
        self.shared.lock().session.is_going_away()
    }

    /// Notes that the client goes on in another session. Streams of this one go on as well.
    pub(crate) fn supersede(&self) {
        self.shared.lock().superseded = true;
        self.shared.tell_change();
    }

    /// True if the client goes on in another session.
    pub(crate) fn is_superseded(&self) -> bool {
        self.shared.lock().superseded
    }

    /// True if a stream is open.
    pub(crate) fn has_streams(&self) -> bool {
        self.snapshot(0).stream_count > 0
    }

    /// Changes whenever a channel is added or removed, another number of channels is wanted, grants
    /// or enrolments arrive, the gateway goes away, another session supersedes this one, or the
    /// session ends.
    pub(crate) fn changes(&self) -> tokio::sync::watch::Receiver<u64> {
        self.shared.changes()
    }

    pub(crate) fn closed(&self) -> Option<CloseReason> {
        self.shared.lock().closed
    }

    pub(crate) fn close(&self, code: u32) {
        self.shared
            .with(|inner, now| inner.session.close(now, code));
    }

    /// Ends the session at once; data in flight is lost.
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
        let tunnel = self.lanes.counts();
        let (flows, count) = self.packet_flows(max_streams);
        let inner = self.shared.lock();
        SessionSnapshot {
            packet_scheduler: self.lanes.policy(),
            tunnel,
            flows,
            flow_count: count,
            ..inner.session.snapshot(clock::now(), max_streams)
        }
    }

    /// Returns at most `most` flows of packets, the most recently active, and the number of all
    /// flows. The flows' links have the session's numbers.
    pub(crate) fn packet_flows(&self, most: usize) -> (Vec<PacketFlow>, usize) {
        // The lock of an association is never taken under that of the session.
        let TunnelFlows {
            mut flows,
            count,
            paths,
        } = self.lanes.flows(most);
        let inner = self.shared.lock();
        for flow in &mut flows {
            let name = |link| inner.path_links.of_session(&paths, link);
            flow.tally.rename_links(name);
        }
        (flows, count)
    }

    /// Places packets by this policy from now on.
    pub(crate) fn set_packet_scheduler(&self, policy: PacketPolicy) {
        self.lanes.set_policy(policy);
    }

    /// Reports the state of all associations to the session: an idle association reports its last
    /// bytes only when asked.
    fn sample_associations(&self) {
        let channels: Vec<_> = {
            let inner = self.shared.lock();
            let channel = |(id, handle): (&ChannelId, &Handle)| match &handle.meter {
                Meter::Association(channel) => Some((*id, Arc::clone(channel))),
                Meter::Tcp(_) => None,
            };
            inner.channels.iter().filter_map(channel).collect()
        };
        let now = clock::now();
        for (id, channel) in channels {
            // The lock of an association is never taken under that of the session.
            let state = channel.take_state(now);
            self.shared
                .with(|inner, now| inner.report_association(now, id, &state));
        }
    }

    /// Reads the session's recorder.
    pub(crate) fn recorder<R>(&self, read: impl FnOnce(&Recorder, Instant) -> R) -> R {
        self.sample_associations();
        read(self.shared.lock().session.recorder(), clock::now())
    }

    /// Works on the session, then wakes the tasks that this concerns.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut Session, Instant) -> R) -> R {
        self.shared.with(|inner, now| work(&mut inner.session, now))
    }

    /// Opens a stream on behalf of a group.
    pub(crate) fn open_stream(
        &self,
        group: StreamGroup,
        metadata: Bytes,
    ) -> Result<StreamId, hawser_session::OpenError> {
        self.shared.with(|inner, now| {
            let id = inner.session.open_stream_for(now, group, metadata)?;
            inner.streams.open(id);
            Ok(id)
        })
    }

    /// Polls for the next stream that the peer opened.
    pub(crate) fn poll_incoming(&self, cx: &mut Context<'_>) -> Poll<Option<StreamId>> {
        let mut inner = self.shared.lock();
        let is_over = inner.closed.is_some();
        inner.streams.poll_incoming(cx, is_over)
    }

    /// As [`SharedSession::poll_stream`].
    pub(crate) fn poll_stream<R>(
        &self,
        cx: &mut Context<'_>,
        id: StreamId,
        waiting: Waiting,
        attempt: impl FnOnce(&mut Session, Instant) -> Result<Option<R>, StreamError>,
    ) -> Poll<Result<R, Failure>> {
        self.shared.poll_stream(cx, id, waiting, attempt)
    }

    /// Returns how many bytes a write to the stream would take now.
    pub(crate) fn write_room(&self, id: StreamId) -> usize {
        self.shared.lock().session.write_room(id)
    }

    /// The code with which the peer reset a stream, if it did.
    pub(crate) fn reset_code(&self, id: StreamId) -> Option<u32> {
        self.shared.lock().streams.reset_code(id)
    }

    /// Names the application that a stream belongs to.
    pub(crate) fn set_label(&self, id: StreamId, label: Label) {
        self.shared.lock().streams.set_label(id, label);
    }

    /// The applications of these streams, where they are known.
    pub(crate) fn labels(&self, ids: &[StreamId]) -> BTreeMap<StreamId, Arc<str>> {
        // Labels are called without the lock.
        let labels = self.shared.lock().streams.labels(ids);
        let told = labels
            .into_iter()
            .filter_map(|(id, say)| Some((id, say()?)));
        told.collect()
    }

    /// True if this side opened the stream.
    pub(crate) fn is_own(&self, id: StreamId) -> bool {
        id.is_client_opened() == (self.shared.side == Side::Client)
    }

    /// Forgets a stream that the application does not use any more.
    pub(crate) fn forget_stream(&self, id: StreamId) {
        self.shared.with(|inner, now| {
            inner.streams.forget(id);
            inner.session.abandon(now, id);
        });
    }
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Driver({:?} {})", self.shared.side, self.shared.id)
    }
}

#[cfg(test)]
mod tests;
