mod account;
mod ahead;
pub(crate) mod association;
mod bottleneck;
mod control;
pub(crate) mod datagrams;
mod failure;
mod govern;
mod ingest;
mod pauses;
pub(crate) mod report;
mod rescue;
mod restraint;
mod riding;
mod snapshots;
mod spread;
mod streams;
mod tail;
mod transmit;
mod transport;
mod transport_trial;
mod views;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hawser_path::{ChannelCount, Control, KernelSample};
use hawser_sched::PathView;
use hawser_sched::chunk::{ChunkScheduler, express_scheduler};
use hawser_types::{
    ByteCount, ChannelId, Instant, LinkIndex, RangeSet, Rate, SegmentNumber, StreamId,
};
use hawser_wire::{ChannelRole, CommandDecoder};

pub(crate) use govern::SendTerms;

use crate::arena::Arena;
use crate::channel::{Channel, ChannelSpec};
use crate::event::{CloseReason, Event};
use crate::grant::{Granted, Received};
use crate::ledger::{ChunkKey, Ledger};
use crate::reassembly::Reassembly;
use crate::recorder::Recorder;
use crate::snapshot::Counters;
use crate::stream::{Pool, Stream};
use crate::{Payload, SessionConfig, Transport};

/// Which side of a session this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Began the session; opens streams with even numbers and makes the connections.
    Client,
    /// Accepted it; opens streams with odd numbers and grants channels.
    Gateway,
}

/// Everything between two hosts: channels that carry streams.
///
/// The contract: call one `handle_*` or stream method, then drain [`Session::poll_wake`] and
/// [`Session::poll_event`] to `None`; for each channel woken, and whenever a channel can take
/// more, drain [`Session::poll_transmit`]. Wait for [`Session::poll_timeout`], give fresh samples
/// of the busy channels, then call [`Session::handle_timeout`].
#[derive(Debug)]
pub struct Session {
    side: Side,
    config: SessionConfig,
    channels: BTreeMap<ChannelId, Channel>,
    streams: BTreeMap<StreamId, Stream>,
    /// Streams that are over, by who opened them (the peer's bit of the number, divided out).
    ended: [RangeSet; 2],
    /// How many streams each side has open.
    open_streams: [u64; 2],
    next_stream: StreamId,
    peer_max_streams: u64,
    peer_accepts_plain: bool,
    datagrams: datagrams::Datagrams,
    pool: Pool,
    ledger: Ledger,
    /// Streams that wait for their turn, by the kind of channel that their next chunk belongs on.
    waiting: [VecDeque<StreamId>; 2],
    /// Chunks that have to be sent again, likewise.
    again: [BTreeMap<SegmentNumber, ChunkKey>; 2],
    commands: Commands,
    credit_due: BTreeSet<StreamId>,
    ahead: ahead::Ahead,
    granted: Granted,
    received_grants: Received,
    bulk: Box<dyn ChunkScheduler>,
    express: Box<dyn ChunkScheduler>,
    views: Vec<PathView>,
    /// Of the channels in `views`, and of those beside them.
    view_links: Vec<views::LinkFacts>,
    tail_budget: tail::Budget,
    interactive: restraint::Interactive,
    rules: govern::Rules,
    transports: transport::Transports,
    accounts: BTreeMap<LinkIndex, account::LinkAccount>,
    governor: account::Oversight,
    shared: bottleneck::Shared,
    /// How many channels the client's links are to have.
    counts: BTreeMap<LinkIndex, ChannelCount>,
    /// What the links together carry in a moment: more at once is bulk.
    small: u64,
    events: VecDeque<Event>,
    wakes: VecDeque<ChannelId>,
    /// Where the copies of what applications write lie, and when it was last trimmed.
    copies: Arena,
    trimmed_at: Instant,
    tick_at: Option<Instant>,
    /// A policy waits for a channel, until then at most.
    wait_over: Option<Instant>,
    lonely_since: Option<Instant>,
    state: State,
    counters: Counters,
    recorder: Recorder,
}

/// Stream 0.
#[derive(Debug)]
struct Commands {
    /// Encoded commands that no chunk was cut from.
    queue: BytesMut,
    sent: u64,
    outstanding: u64,
    inbound: Reassembly,
    decoder: CommandDecoder,
    /// This side's hello was queued.
    said_hello: bool,
    /// The peer's hello came.
    greeted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// No new streams; the close command follows when everything is acknowledged.
    Closing {
        code: u32,
        told: bool,
    },
    Closed,
}

/// A record to be sealed and written: its state and header, then the payload.
#[derive(Debug, Default)]
pub struct Outgoing {
    /// State frames and the chunk's header.
    pub head: BytesMut,
    /// The chunk's payload; empty for a record of state only.
    pub payload: Payload,
    /// The stream that it belongs to; the commands' for what belongs to none.
    pub stream: StreamId,
    /// Over an association: for how long it is worth anything. `None`: it must arrive.
    pub lifetime: Option<Duration>,
    /// Over an association: somebody waits for it, and it is short: it is worth being sent twice. What comes of
    /// that is told by [`AssociationSample::sent_twice`](crate::AssociationSample::sent_twice). Never over TCP.
    pub twice: bool,
}

/// What reading from a stream gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadOutcome {
    /// Some bytes, with the position of the first in the stream.
    Data(u64, Bytes),
    /// Nothing yet; [`Event::Readable`] tells when.
    Blocked,
    /// The peer has finished this direction and everything was read.
    End,
}

impl Session {
    /// A session that has no channel yet.
    pub fn new(now: Instant, side: Side, config: SessionConfig) -> Self {
        let (clients, gateways) = (StreamId::new(2), StreamId::new(1));
        let (first, peers_first) = match side {
            Side::Client => (clients, gateways),
            Side::Gateway => (gateways, clients),
        };
        Self {
            side,
            channels: BTreeMap::new(),
            streams: BTreeMap::new(),
            ended: Default::default(),
            open_streams: [0; 2],
            next_stream: first,
            peer_max_streams: INITIAL_STREAMS,
            peer_accepts_plain: false,
            datagrams: datagrams::Datagrams::default(),
            pool: Pool::new(config.receive_memory),
            ledger: Ledger::default(),
            waiting: Default::default(),
            again: Default::default(),
            commands: Commands::new(),
            credit_due: BTreeSet::new(),
            ahead: ahead::Ahead::new(peers_first),
            granted: Granted::new(),
            received_grants: Received::default(),
            bulk: config.scheduler.scheduler(),
            express: express_scheduler(),
            views: Vec::new(),
            view_links: Vec::new(),
            interactive: restraint::Interactive::default(),
            tail_budget: tail::Budget::default(),
            rules: govern::Rules::default(),
            transports: transport::Transports::default(),
            accounts: BTreeMap::new(),
            governor: account::Oversight::default(),
            shared: bottleneck::Shared::default(),
            counts: BTreeMap::new(),
            small: MIN_SMALL,
            events: VecDeque::new(),
            wakes: VecDeque::new(),
            copies: Arena::default(),
            trimmed_at: now,
            tick_at: None,
            wait_over: None,
            lonely_since: Some(now),
            state: State::Open,
            counters: Counters::default(),
            recorder: Recorder::new(now, config.recorder),
            config,
        }
    }

    /// Adds a channel whose connection is authenticated and carries records from now on. A
    /// gateway asks [`Session::check_join`] before it believes a connection that joins.
    pub fn add_channel(&mut self, now: Instant, spec: ChannelSpec) {
        if self.side == Side::Gateway {
            self.granted.mark_used(spec.id);
        }
        let first = !std::mem::replace(&mut self.commands.said_hello, true);
        let channel = Channel::new(spec);
        self.recorder.note(now, channel.added());
        self.channels.insert(spec.id, channel);
        self.replace_suspects(now, spec.link, spec.role);
        self.account(spec.link).pauses.on_added(now);
        if !spec.is_association() {
            self.count_on(spec.link);
        }
        self.apply_terms();
        self.lonely_since = None;
        if first {
            self.greet(spec.link);
            self.prepare_streams();
        }
        self.replenish_grants();
        self.schedule(now);
    }

    /// The kernel would send more on this channel at once.
    pub fn handle_writable(&mut self, now: Instant, channel: ChannelId) {
        if let Some(channel) = self.channels.get_mut(&channel) {
            channel.ready = true;
            self.schedule(now);
        }
    }

    /// The kernel would not send more on this channel now, or is not to be asked to.
    pub fn handle_full(&mut self, channel: ChannelId) {
        if let Some(channel) = self.channels.get_mut(&channel) {
            channel.ready = false;
        }
    }

    /// What the kernel says of a channel now.
    pub fn handle_sample(&mut self, now: Instant, channel: ChannelId, sample: KernelSample) {
        if let Some(channel) = self.channels.get_mut(&channel) {
            let role = slot(channel.spec.role);
            let waits = !self.waiting[role].is_empty() || !self.again[role].is_empty();
            channel.path.on_demand(waits);
            let before = *channel.path.latest();
            channel.on_sample(now, sample);
            self.shared.on_sample(now, channel, &before);
            self.recorder.on_sample(now, channel);
            self.small = self.carried_in(SMALL_TIME);
            self.check_recovery(now);
        }
    }

    /// A moment that [`Session::poll_timeout`] named has come.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.tick(now);
        self.wake_due_acks(now);
        self.check_close(now);
        self.schedule(now);
    }

    /// When [`Session::handle_timeout`] wants to be called; `None` while nothing can happen.
    pub fn poll_timeout(&self) -> Option<Instant> {
        // One whose driver was told waits for the channel, and no longer for the time.
        let untold = self.channels.values().filter(|channel| !channel.woken);
        let acks = untold.filter_map(|channel| channel.inbound.ack_due);
        let lonely = self.lonely_since.map(|since| since + self.config.survive);
        let rests = self.counts.values().filter_map(ChannelCount::rests_until);
        let waits = lonely.into_iter().chain(rests);
        let waits = waits.filter(|_| self.state != State::Closed);
        acks.chain(self.tick_at)
            .chain(self.wait_over)
            .chain(waits)
            .min()
    }

    /// A channel that has something to send.
    pub fn poll_wake(&mut self) -> Option<ChannelId> {
        self.wakes.pop_front()
    }

    /// Something that the driver or the application has to know.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The channels that something is under way on: those whose samples matter.
    pub fn busy_channels(&self) -> impl Iterator<Item = ChannelId> {
        self.channels
            .values()
            .filter(|channel| channel.is_busy())
            .map(|channel| channel.spec.id)
    }

    /// The unsent data that the kernel may hold for a channel before it counts as full.
    pub fn low_water(&self, channel: ChannelId) -> Option<u32> {
        Some(
            self.channels
                .get(&channel)?
                .low_water(self.config.chunk_size),
        )
    }

    /// Which congestion control a channel's connection should have; to be asked with every sample.
    pub fn choose_control(&mut self, now: Instant, channel: ChannelId) -> Option<Control> {
        let shortest = self.shortest_path();
        let channel = self.channels.get_mut(&channel)?;
        Some(channel.choose_control(now, shortest.unwrap_or(Duration::MAX)))
    }

    /// Whether a channel is to drain now, to spare it BBR's probe while another link carries on, or to
    /// leave a slow link's queue to something interactive. `in_flight`:
    /// what was written to it and the peer's kernel has not acknowledged, asked only when it matters.
    pub fn holds(
        &mut self,
        now: Instant,
        id: ChannelId,
        in_flight: impl Fn() -> ByteCount,
    ) -> bool {
        let restrained = |channel| self.is_restrained(now, channel, &in_flight);
        if self.channels.get(&id).is_some_and(restrained) {
            return true;
        }
        let Some(channel) = self.channels.get_mut(&id) else {
            return false;
        };
        let link = channel.spec.link;
        let drains = channel.refresh.holds(now, in_flight);
        let began = drains && !channel.drains;
        channel.drains = drains;
        let elsewhere = drains
            && self
                .channels
                .values()
                .any(|other| other.spec.link != link && other.suspect_since.is_none());
        if began && elsewhere {
            // What waits for this channel has others now.
            self.handle_full(id);
            self.schedule(now);
        }
        elsewhere
    }

    /// Whether the session has ended, by either side or for want of channels.
    pub fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// Whether any channel is left.
    pub fn has_channels(&self) -> bool {
        !self.channels.is_empty()
    }

    /// What was decided, and why.
    pub fn recorder(&self) -> &Recorder {
        &self.recorder
    }

    fn wake(&mut self, id: ChannelId) {
        if let Some(channel) = self.channels.get_mut(&id)
            && !channel.woken
        {
            channel.woken = true;
            self.wakes.push_back(id);
        }
    }

    /// The live channel over which a small thing arrives first.
    fn quickest(&self) -> Option<ChannelId> {
        self.channels
            .values()
            .min_by_key(|channel| channel.slowness())
            .map(|channel| channel.spec.id)
    }

    /// The best companion of a channel for what should not depend on one alone: the quickest of
    /// another link, else of its own.
    fn quickest_beside(&self, id: ChannelId) -> Option<ChannelId> {
        let link = self.channels.get(&id)?.spec.link;
        self.channels
            .values()
            .filter(|channel| channel.spec.id != id && !channel.is_excluded())
            .min_by_key(|channel| (channel.spec.link == link, channel.slowness()))
            .map(|channel| channel.spec.id)
    }

    /// The shortest round-trip time of any channel that is not suspect.
    fn shortest_path(&self) -> Option<Duration> {
        let sound = self.channels.values().filter(|c| c.suspect_since.is_none());
        sound.filter_map(|channel| channel.path.min_rtt()).min()
    }

    /// How many bytes all links carry in `time`, as far as is known; at least a chunk.
    fn carried_in(&self, time: Duration) -> u64 {
        let rate = |transport: Transport| -> Rate {
            let bulk = self.channels.values();
            let bulk = bulk.filter(|c| c.spec.role == ChannelRole::Bulk && !c.is_excluded());
            let bulk = bulk.filter(|channel| channel.spec.transport() == transport);
            bulk.map(|channel| channel.path.rate()).sum()
        };
        let rate = rate(Transport::Tcp).max(rate(Transport::Association));
        (rate * time).as_u64().max(MIN_SMALL)
    }

    fn close_now(&mut self, reason: CloseReason) {
        if self.state != State::Closed {
            self.state = State::Closed;
            self.tick_at = None;
            self.wait_over = None;
            self.events.push_back(Event::Closed(reason));
        }
    }
}

impl Commands {
    fn new() -> Self {
        Self {
            queue: BytesMut::new(),
            sent: 0,
            outstanding: 0,
            inbound: Reassembly::new(StreamId::COMMANDS),
            decoder: CommandDecoder::default(),
            said_hello: false,
            greeted: false,
        }
    }
}

/// The place of a role in arrays of two.
pub(crate) const fn slot(role: ChannelRole) -> usize {
    match role {
        ChannelRole::Bulk => 0,
        ChannelRole::Express => 1,
    }
}

/// What takes longer than this is bulk, however little it is …
const SMALL_TIME: Duration = Duration::from_millis(100);
/// … save what fits a chunk or two.
const MIN_SMALL: u64 = 4096;
/// How many streams a side may open before it has heard the peer's hello.
const INITIAL_STREAMS: u64 = 64;

#[cfg(test)]
mod tests;
