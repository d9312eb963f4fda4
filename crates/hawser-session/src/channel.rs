//! One TCP connection or association, as the session sees it.
//!
//! The channel owns what is known of the connection; its parts own what was given to it
//! ([`Outbound`]), what came in ([`Inbound`]), what its silence means ([`Liveness`]), what its link
//! may be used for ([`LinkStanding`]) and what the ends tell each other of it ([`Notices`]).

mod association_paths;
mod datagram_queue;
mod inbound;
mod link_standing;
mod liveness;
mod notices;
mod outbound;
mod policing;
mod rates;
mod snapshots;
mod spec;

use std::collections::BTreeSet;
use std::time::Duration;

use hawser_path::{FullSegments, KernelSample, PathEstimator, Progress};
use hawser_sched::PathView;
use hawser_sched::{Control, ControlChoice, ControlFacts, RttRefresh};
use hawser_types::{ByteCount, ChannelId, Instant, LinkIndex, StreamId};
use hawser_wire::{ChannelRole, PathReport};

pub(crate) use association_paths::{AssociationPaths, LinksTraffic};
pub(crate) use datagram_queue::DatagramQueue;
pub(crate) use inbound::Inbound;
#[cfg(test)]
pub(crate) use inbound::MAX_NUMBERS_AHEAD;
pub(crate) use link_standing::LinkStanding;
pub(crate) use liveness::{Liveness, Trial};
pub(crate) use notices::{Notice, Notices, stamp_of};
pub(crate) use outbound::{Assigned, Outbound, Sent};
pub(crate) use spec::Route;
pub use spec::{ChannelSpec, RELAY_LINK};

use crate::config::ChunkSize;
use crate::side::Side;
use crate::transport::Transport;

/// One TCP connection or association, as the session sees it.
#[derive(Debug)]
pub(crate) struct Channel {
    spec: ChannelSpec,
    path: PathEstimator,
    progress: Progress,
    /// Bytes of the segments that arrived, as if all were full.
    delivered: u64,
    full_segments: FullSegments,
    control: ControlChoice,
    refresh: RttRefresh,
    /// Gets no chunks for now, to spare it bbr's probe.
    drains: bool,
    /// The driver was told that there is something to send.
    woken: bool,
    outbound: Outbound,
    inbound: Inbound,
    liveness: Liveness,
    standing: LinkStanding,
    notices: Notices,
    /// Streams whose limits went over another channel and should go over this one too.
    credit_copies: BTreeSet<StreamId>,
    datagrams: DatagramQueue,
    /// Paths of an association; none over TCP.
    paths: AssociationPaths,
}

impl Channel {
    /// A channel of which nothing is known yet.
    pub(crate) fn new(spec: ChannelSpec) -> Self {
        Self {
            spec,
            path: PathEstimator::default(),
            progress: Progress::default(),
            delivered: 0,
            full_segments: FullSegments::default(),
            control: ControlChoice::default(),
            refresh: RttRefresh::default(),
            drains: false,
            woken: false,
            outbound: Outbound::new(spec.records),
            inbound: Inbound::new(spec.records),
            liveness: Liveness::default(),
            standing: LinkStanding::default(),
            notices: Notices::default(),
            credit_copies: BTreeSet::new(),
            datagrams: DatagramQueue::default(),
            paths: AssociationPaths::default(),
        }
    }

    /// Returns its number.
    pub(crate) fn id(&self) -> ChannelId {
        self.spec.id
    }

    /// Returns the kind of chunks that it is for.
    pub(crate) fn role(&self) -> ChannelRole {
        self.spec.role
    }

    /// Returns the link below it; [`LinkIndex::ALL`] of an association.
    pub(crate) fn link(&self) -> LinkIndex {
        self.spec.link
    }

    /// Returns the side that connected.
    pub(crate) fn begun_by(&self) -> Side {
        self.spec.begun_by
    }

    /// Returns the way that it goes.
    pub(crate) fn route(&self) -> Route {
        self.spec.route()
    }

    /// Notes the link below it, where that was not known. Returns the link that stood for it.
    pub(crate) fn set_link(&mut self, link: LinkIndex) -> LinkIndex {
        std::mem::replace(&mut self.spec.link, link)
    }

    /// Returns what takes its records.
    pub(crate) fn transport(&self) -> Transport {
        self.spec.transport()
    }

    /// True if it is an association.
    pub(crate) fn is_association(&self) -> bool {
        self.spec.is_association()
    }

    /// Returns the bytes of payload in a packet of an association.
    pub(crate) fn packet_size(&self) -> usize {
        self.spec.packet_size()
    }

    /// Returns what was measured of its path.
    pub(crate) fn path(&self) -> &PathEstimator {
        &self.path
    }

    /// Returns whether its full segments arrive.
    pub(crate) fn full_segments(&self) -> FullSegments {
        self.full_segments
    }

    /// Returns the bytes of payload in a full segment.
    pub(crate) fn segment_size(&self) -> u32 {
        self.spec.segment_size()
    }

    /// Returns what was given to it.
    pub(crate) fn outbound(&self) -> &Outbound {
        &self.outbound
    }

    /// Returns what was given to it, to change it.
    pub(crate) fn outbound_mut(&mut self) -> &mut Outbound {
        &mut self.outbound
    }

    /// Returns what came in on it.
    pub(crate) fn inbound(&self) -> &Inbound {
        &self.inbound
    }

    /// Returns what came in on it, to change it.
    pub(crate) fn inbound_mut(&mut self) -> &mut Inbound {
        &mut self.inbound
    }

    /// Returns what its silence means.
    pub(crate) fn liveness(&self) -> &Liveness {
        &self.liveness
    }

    /// Returns what its silence means, to change it.
    pub(crate) fn liveness_mut(&mut self) -> &mut Liveness {
        &mut self.liveness
    }

    /// Returns what its link may be used for.
    pub(crate) fn standing(&self) -> &LinkStanding {
        &self.standing
    }

    /// Returns what its link may be used for, to change it.
    pub(crate) fn standing_mut(&mut self) -> &mut LinkStanding {
        &mut self.standing
    }

    /// Returns the notices that are due on it, and what the peer said of it.
    pub(crate) fn notices(&self) -> &Notices {
        &self.notices
    }

    /// Returns its notices, to change them.
    pub(crate) fn notices_mut(&mut self) -> &mut Notices {
        &mut self.notices
    }

    /// Returns the datagrams given to it.
    pub(crate) fn datagrams(&self) -> &DatagramQueue {
        &self.datagrams
    }

    /// Returns the datagrams given to it, to change them.
    pub(crate) fn datagrams_mut(&mut self) -> &mut DatagramQueue {
        &mut self.datagrams
    }

    /// Returns the paths of an association.
    pub(crate) fn paths(&self) -> &AssociationPaths {
        &self.paths
    }

    /// Returns the paths of an association, to change them.
    pub(crate) fn paths_mut(&mut self) -> &mut AssociationPaths {
        &mut self.paths
    }

    /// Returns when anything last came: an acknowledgement, or a large chunk.
    pub(crate) fn last_heard(&self) -> Option<Instant> {
        self.path.silence().last_heard().max(self.inbound.latest())
    }

    /// True if the channel is silent against expectation, or its link crawls.
    pub(crate) fn is_suspect(&self) -> bool {
        self.liveness.is_suspect()
    }

    /// True if nothing may be placed on the channel.
    pub(crate) fn is_excluded(&self) -> bool {
        self.standing.is_excluded()
    }

    /// True if the channel may be used, and is not suspect.
    pub(crate) fn is_usable(&self) -> bool {
        !self.is_suspect() && !self.is_excluded()
    }

    /// True if nothing speaks against sending data that is not repeated.
    pub(crate) fn is_sound(&self, now: Instant) -> bool {
        self.is_usable() && self.stalled(now).is_zero() && !self.drains
    }

    /// True if a chunk that is given to the channel now would be sent at once.
    pub(crate) fn takes_chunks(&self) -> bool {
        let outbound = &self.outbound;
        // On an association the peer would not take a number that is too far ahead.
        let may_number =
            !self.is_association() || outbound.unacknowledged_records() < MAX_UNACKNOWLEDGED;
        outbound.is_ready() && outbound.is_free() && may_number
    }

    /// True if a datagram that is given to the channel now would be sent at once.
    pub(crate) fn takes_datagrams(&self, now: Instant) -> bool {
        self.outbound.is_ready() && self.is_sound(now) && self.datagrams.has_room()
    }

    /// True if its next record should be one of datagrams.
    pub(crate) fn sends_datagrams(&mut self) -> bool {
        let chunk_waits = !self.outbound.is_free();
        self.datagrams
            .is_next(chunk_waits, self.outbound.is_ready())
    }

    /// Notes that a record of datagrams was made: the channel is full until the driver says
    /// otherwise.
    pub(crate) fn on_datagram_record(&mut self) {
        self.datagrams.on_record();
        self.outbound.set_ready(false);
    }

    /// Notes a record of `wire` bytes that is about to be written, and the chunk in it.
    pub(crate) fn on_record(&mut self, now: Instant, wire: u64, chunk: Option<Assigned>) {
        // On an association the peer acknowledges only what has a number.
        let counts = !self.is_association() || chunk.is_some();
        self.path.on_written(now);
        self.outbound.on_record(now, wire, chunk, counts);
    }

    /// Takes note of whether chunks wait for a channel.
    pub(crate) fn on_demand(&mut self, waits: bool) {
        self.path.on_demand(waits);
    }

    /// Takes in a sample of the kernel.
    pub(crate) fn on_sample(&mut self, now: Instant, sample: KernelSample) {
        if let Some(oldest) = self.outbound.oldest_in_flight() {
            let shortest = self.path.min_rtt().unwrap_or_default();
            self.path.silence_mut().on_round_trip(oldest, shortest);
        }
        self.count_delivered(&sample);
        self.path.on_sample(now, sample);
        if !self.is_association() {
            let segment = ByteCount::new(u64::from(self.spec.segment_size()));
            self.full_segments.on_sample(now, &sample, segment);
        }
        self.refresh.on_sample(now, &sample);
        self.outbound.on_sample(now, sample.unacknowledged);
        let span = self.watched_span();
        self.progress.on_sample(now, self.brought(), span);
    }

    /// Takes note of the latest signs of life of the link. `asked`: time at which something was
    /// sent on another channel that is answered; `came`: time at which a record came.
    pub(crate) fn on_signs_of_life(&mut self, asked: Option<Instant>, came: Option<Instant>) {
        if let Some(asked) = asked {
            self.full_segments.on_sign_of_life(asked);
        }
        if let Some(came) = came {
            let delay = self.path.rtt();
            self.full_segments.on_arrival(came, delay);
        }
    }

    /// Takes in the times of a report that came over the channel itself.
    pub(crate) fn on_stamps(&mut self, sent: Instant, received: Instant) {
        self.path.on_stamps(sent, received);
    }

    /// Notes that a suspicion was wrong: the next one takes longer.
    pub(crate) fn on_false_alarm(&mut self) {
        self.path.silence_mut().on_false_alarm();
    }

    /// True if data was written that the peer's kernel or its session has not acknowledged.
    pub(crate) fn is_busy(&self) -> bool {
        // Data written since the last sample counts: only a sample ends the wait for it.
        self.outbound.sent().len() > 0 || self.path.silence().began().is_some()
    }

    /// Returns the congestion control that the connection should have. `shortest`: the shortest
    /// round-trip time of any link that lives.
    pub(crate) fn choose_control(&mut self, now: Instant, shortest: Duration) -> Control {
        let length = self.path.min_rtt().unwrap_or_default();
        let facts = ControlFacts {
            rtt: self.path.rtt(),
            rtt_variation: self.path.latest().rtt_variation,
            length,
            lost_by_medium: self.path.loss().by_medium(),
            delivered: self.path.latest().delivered.unwrap_or(0),
            idle: self.path.latest().unacknowledged == ByteCount::ZERO,
            detour: length >= shortest.saturating_add(DETOUR),
            in_turns: self.path.silence().goes_in_turns(now),
            rate: self.path.rate(),
            lossy: self.path.loss().random() > MUCH_LOSS,
        };
        self.control.on_sample(now, &facts)
    }

    /// Decides whether the channel drains now. Returns that, and whether it just began to.
    /// `in_flight`: bytes written that the peer's kernel has not acknowledged.
    pub(crate) fn drain(
        &mut self,
        now: Instant,
        in_flight: impl Fn() -> ByteCount,
    ) -> (bool, bool) {
        let drains = self.refresh.holds(now, in_flight);
        let before = std::mem::replace(&mut self.drains, drains);
        (drains, drains && !before)
    }

    /// True if the channel takes next to nothing for now: it drains, or bbr probes with a window of
    /// four segments and the path holds more than that.
    pub(crate) fn pauses(&self) -> bool {
        let kernel = self.path.latest();
        let least = ByteCount::new(u64::from(LEAST_WINDOW * self.spec.segment_size()));
        let probes = kernel.bbr_min_rtt.is_some_and(|length| {
            kernel.congestion_window <= least && self.path.rate() * length > least
        });
        self.drains || probes
    }

    /// Returns what a policy may see of the channel.
    pub(crate) fn view(&self, now: Instant, size: ChunkSize) -> PathView {
        let kernel = self.path.latest();
        let mut view = PathView {
            channel: self.spec.id,
            link: self.spec.link,
            ready: self.takes_chunks(),
            suspect: self.is_suspect(),
            rtt: self.path.rtt(),
            min_rtt: self.path.min_rtt().unwrap_or_default(),
            rtt_variation: kernel.rtt_variation,
            standing_queue: self.path.delay().standing_queue(),
            rate: self.path.rate(),
            confidence: self.path.delivery().confidence(now),
            congestion_window: kernel.congestion_window,
            kernel_backlog: kernel.not_sent.unwrap_or_default(),
            in_flight: ByteCount::new(self.outbound.in_flight()),
            stalled: self.stalled(now),
            chunk: ByteCount::from(self.chunk_limit(size, CHUNK_HEADER)),
            ..PathView::default()
        };
        self.standing.fill(&mut view);
        view
    }

    /// Orders channels by the delay of a small message over them.
    pub(crate) fn slowness(&self) -> (bool, bool, bool, Duration, ChannelId) {
        let bulk = self.spec.role == ChannelRole::Bulk;
        (
            self.is_suspect(),
            self.is_excluded(),
            bulk,
            self.path.rtt(),
            self.spec.id,
        )
    }

    /// True if the channel does not share the fate of `link`. An association shares it where no
    /// path over another link answers.
    pub(crate) fn lives_beside(&self, link: LinkIndex) -> bool {
        !self.is_association() || self.paths.live_beside(link)
    }

    /// True if a report on the channel is due, which travels with a record that is sent anyway.
    pub(crate) fn wants_report(&self, now: Instant) -> bool {
        self.notices.wants_report(now, self.carried())
    }

    /// Makes a report on the channel for the peer.
    pub(crate) fn report(&mut self, now: Instant) -> PathReport {
        let (carried, received) = (self.carried(), self.inbound.payload());
        let rate = self.notices.on_reported(now, carried, received);
        let micros = |span: Duration| u64::try_from(span.as_micros()).unwrap_or(u64::MAX);
        PathReport {
            channel: self.spec.id,
            stamp: now.as_nanos() / 1000,
            silent: self.is_suspect(),
            queue: self.path.one_way().queue().map(micros),
            rate: rate.bytes_per_second(),
        }
    }

    /// Sends a stream's limit over this channel too.
    pub(crate) fn add_credit_copy(&mut self, stream: StreamId) {
        self.credit_copies.insert(stream);
    }

    /// Takes out a stream whose limit should go over this channel too.
    pub(crate) fn take_credit_copy(&mut self) -> Option<StreamId> {
        self.credit_copies.pop_first()
    }

    /// Forgets a stream that is over.
    pub(crate) fn drop_credit_copy(&mut self, stream: StreamId) {
        self.credit_copies.remove(&stream);
    }

    /// Returns the number of limits that should go over this channel too.
    pub(crate) fn credit_copies(&self) -> usize {
        self.credit_copies.len()
    }

    /// Notes that the driver is to be told. True unless it was told already.
    pub(crate) fn mark_woken(&mut self) -> bool {
        !std::mem::replace(&mut self.woken, true)
    }

    /// Notes that the driver asks.
    pub(crate) fn clear_woken(&mut self) {
        self.woken = false;
    }

    /// Returns the time when the driver has to be told of an acknowledgement. A channel whose
    /// driver was told waits for the connection, and no longer for the time.
    pub(crate) fn ack_alarm(&self) -> Option<Instant> {
        self.inbound.ack_due().filter(|_| !self.woken)
    }

    /// Returns the bytes of chunks that went over the channel, both ways.
    fn carried(&self) -> u64 {
        self.outbound.payload() + self.inbound.payload()
    }
}

/// Twice the delay that bulk may add to calls: a link that is longer by this carries none.
pub(crate) const DETOUR: Duration = Duration::from_millis(60);
/// Linux times out 200 ms after the round trip that it expects.
pub(crate) const TIMEOUT_MARGIN: Duration = Duration::from_millis(200);
/// A window that loses more of its segments carries less than others' share.
const MUCH_LOSS: f64 = 0.001;
/// Usual length of a chunk's header.
const CHUNK_HEADER: usize = 12;
/// Numbered records of an association that may be unacknowledged: half of what a receiver must
/// take.
const MAX_UNACKNOWLEDGED: u64 = inbound::MAX_NUMBERS_AHEAD / 2;
/// Segments that bbr keeps in flight at the least.
const LEAST_WINDOW: u32 = 4;
