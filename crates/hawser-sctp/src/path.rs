//! The paths of an association (the paper's virtual associations): the state of each pair of
//! addresses.

mod asconf;
mod candidates;
mod crawling;
mod flight;
mod heartbeat;
mod large_packets;
mod packet_size;
mod probing;
mod rtt;
mod selection;
mod standing;
mod table;
mod validation;
mod view;
mod way_back;

use std::time::Duration;

use hawser_path::{DeliveryRate, Expectation, Limit, Silence};
use hawser_sched::rules::LinkRules;
use hawser_types::{ByteCount, ChannelId, Instant, LinkIndex, PathId, Rate};
use hawser_wire::sctp::{DataOrder, Framing, StreamNumber};

use crate::congestion::{self, Acknowledged, CongestionControl, Lost};
use crate::route::{LinkInfo, Route};
use crate::{AssociationConfig, Traffic};
pub(crate) use asconf::{AddressRequest, Asconf};
#[cfg(test)]
pub(crate) use candidates::MAX_CANDIDATES;
pub(crate) use flight::{Flight, SentPacket};
use heartbeat::Heartbeat;
use large_packets::LargePackets;
use packet_size::PacketSize;
pub(crate) use probing::HeartbeatToSend;
pub(crate) use rtt::{RttEstimator, failure_delay};
use standing::PathStanding;
pub(crate) use table::Paths;
use validation::Validation;
use way_back::WayBack;

/// One virtual association. Source: SCTP aggregation §3.1, table 1.
#[derive(Debug)]
pub(crate) struct Path {
    pub(crate) id: PathId,
    pub(crate) route: Route,
    pub(crate) state: PathState,
    /// The path is selected to carry data (§3.2).
    pub(crate) selected: bool,
    /// The largest packet known to pass, with its SCTP header.
    pub(crate) packet_size: usize,
    pub(crate) rtt: RttEstimator,
    way_back: WayBack,
    pub(crate) congestion: Box<dyn CongestionControl>,
    /// Packets in flight.
    pub(crate) flight: Flight,
    /// Consecutive time-outs.
    errors: u32,
    /// Send time of the packet that caused the first of them.
    failing_since: Instant,
    /// Consecutive time-outs of data alone: answered heartbeats say nothing about larger packets.
    data_errors: u32,
    /// Even minimum data packets are lost, while heartbeats are answered.
    is_narrow: bool,
    heartbeat: Heartbeat,
    size: PacketSize,
    large_packets: LargePackets,
    delivery: DeliveryRate,
    silence: Silence,
    standing: PathStanding,
    /// The path was suspect at the last [`Paths::handle_timeout`].
    was_suspect: bool,
    /// Time of the last answer; before the first, the time when the path was added.
    heard_at: Instant,
    /// Time when the last packet came over the path; before the first, when the path was added.
    arrived_at: Instant,
    /// The path is there only because a packet came from it, and has not answered.
    validation: Option<Validation>,
    /// Another port of the peer's address answers, and nothing has come from this one since: time
    /// until which something has to.
    probation: Option<Instant>,
    /// Time when a chunk that measures the round-trip time was last sent, or the path was added.
    last_sent: Instant,
    sack_delay: Duration,
    /// Approximate size of a packet's headers.
    overhead: usize,
    /// The link that determines the path: this host's, unless the owner knows better.
    pub(crate) link: LinkIndex,
    /// The peer's link, if the peer has announced it.
    pub(crate) peer_link: Option<LinkIndex>,
    /// The user's rules for the link.
    pub(crate) rules: LinkRules,
    pub(crate) sent: Traffic,
    pub(crate) received: Traffic,
}

/// Reachability of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathState {
    /// The path has not answered yet and carries no data (RFC 9260 §5.4).
    Unconfirmed,
    /// The path answers.
    Active,
    /// Consecutive time-outs exceeded the limit.
    Inactive,
}

/// Estimate of the answer to a packet in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    due: Instant,
    /// How long what is in flight up to the packet takes to drain, where the rate is known.
    drain: Duration,
}

impl Answer {
    /// Returns the time until it comes. One that is overdue comes when what is ahead of it has
    /// drained, and is late by as much again.
    pub(crate) fn comes_in(&self, now: Instant) -> Duration {
        match now.since(self.due) {
            Duration::ZERO => self.due.since(now),
            late => self.drain + late,
        }
    }

    /// Returns the time from which [`Self::comes_in`] of an overdue answer exceeds `span`.
    pub(crate) fn overdue_at(&self, span: Duration) -> Instant {
        self.due + span.saturating_sub(self.drain)
    }
}

impl Path {
    fn new(now: Instant, id: PathId, route: Route, config: &AssociationConfig) -> Self {
        let packet_size = config.base_packet();
        Self {
            id,
            route,
            state: PathState::Unconfirmed,
            selected: false,
            packet_size,
            rtt: RttEstimator::new(config),
            way_back: WayBack::default(),
            congestion: congestion::new(config.control, ByteCount::from(packet_size)),
            flight: Flight::new(config.losses),
            errors: 0,
            failing_since: now,
            data_errors: 0,
            is_narrow: false,
            heartbeat: Heartbeat::new(now),
            size: PacketSize::new(config, route.remote.is_ipv4()),
            large_packets: LargePackets::default(),
            overhead: overhead(config.framing),
            delivery: DeliveryRate::default(),
            silence: Silence::default(),
            standing: PathStanding::default(),
            was_suspect: false,
            heard_at: now,
            arrived_at: now,
            validation: None,
            probation: None,
            last_sent: now,
            sack_delay: config.sack_delay,
            link: route.local.link,
            peer_link: None,
            rules: LinkRules::default(),
            sent: Traffic::default(),
            received: Traffic::default(),
        }
    }

    /// Applies the first link entry that matches the path.
    fn apply_link(&mut self, links: &[LinkInfo]) {
        let entry = links
            .iter()
            .find(|entry| entry.paths.selects(&self.route, self.peer_link));
        self.link = entry.map_or(self.route.local.link, |entry| entry.link);
        self.rules = entry.map_or_else(LinkRules::default, |entry| entry.rules);
    }

    /// Returns the path's name for schedulers.
    pub(crate) fn channel(&self) -> ChannelId {
        ChannelId::new(self.id.value())
    }

    /// Returns the path that has this name for schedulers.
    pub(crate) const fn of_channel(channel: ChannelId) -> PathId {
        PathId::new(channel.value())
    }

    /// Handles a packet with `size` bytes that need acknowledgement. `flight`: bytes in flight
    /// before it.
    pub(crate) fn on_sent(&mut self, now: Instant, size: ByteCount, flight: ByteCount) {
        if flight == ByteCount::ZERO {
            let idle = now.since(self.last_sent).as_nanos();
            let timeouts = idle / self.rtt.rto_without_backoff().as_nanos().max(1);
            if timeouts > 0 {
                self.congestion
                    .on_idle(u32::try_from(timeouts).unwrap_or(u32::MAX));
            }
        }
        self.last_sent = now;
        self.silence.on_written(now);
        self.congestion.on_sent(now, size, flight);
    }

    /// Handles the round-trip time of a packet whose answer came over the path `over`; `None` for
    /// an unknown route. `rests`: [`Paths::way_back_rests`].
    pub(crate) fn on_round_trip(
        &mut self,
        now: Instant,
        rtt: Duration,
        over: Option<PathId>,
        rests: Duration,
    ) {
        self.rtt.on_sample(now, rtt);
        let gone_after = self.rtt.smoothed().unwrap_or(rtt) * WAY_GONE_AFTER;
        let way_back = &mut self.way_back;
        if let Some(shortest) = way_back.on_sample(now, rtt, over, rests, gone_after)
            && self
                .rtt
                .min()
                .is_some_and(|before| before + before / LONGER < shortest)
        {
            self.rtt.renew_min(now, shortest);
            self.congestion.on_longer_way(now, shortest);
        }
    }

    /// Handles an acknowledgement, after [`Self::on_round_trip`].
    pub(crate) fn on_acknowledged(&mut self, ack: &Acknowledged) {
        self.data_errors = 0;
        if let Some(sample) = &ack.sample {
            let limit = if sample.application_limited {
                Limit::Application
            } else {
                Limit::Path
            };
            self.delivery
                .on_sample(ack.now, sample.rate, ack.smoothed_rtt, limit);
        }
        self.congestion.on_acknowledged(ack);
    }

    /// Handles the arrival of a chunk of `size` bytes, with its header.
    pub(crate) fn on_chunk_arrived(&mut self, size: u64) {
        self.large_packets.on_arrived(size);
    }

    /// Handles the loss of a chunk of `size` bytes that left at `sent`.
    pub(crate) fn on_chunk_lost(&mut self, now: Instant, sent: Instant, size: u64) {
        if self.large_packets.on_lost(now, sent, size) {
            self.fall_to_base(now);
        }
    }

    /// Handles lost chunks.
    pub(crate) fn on_lost(&mut self, lost: &Lost) {
        self.congestion.on_lost(lost);
    }

    /// Handles a retransmission time-out and doubles [`RttEstimator::rto`].
    pub(crate) fn on_timeout(&mut self, now: Instant) {
        self.rtt.back_off();
        self.congestion.on_timeout(now);
        self.data_errors = self.data_errors.saturating_add(1);
        // A heartbeat was answered since the last time-out, so the path works.
        let answers = self.errors == 0;
        let is_large = self.packet_size > AssociationConfig::BASE_PACKET;
        if answers && is_large && self.data_errors >= BLACK_HOLE {
            self.fall_to_base(now);
        }
        self.is_narrow |= answers && self.data_errors >= 2 * BLACK_HOLE;
    }

    fn fall_to_base(&mut self, now: Instant) {
        tracing::debug!(path = %self.id, size = self.packet_size, "large packets do not arrive");
        self.large_packets.on_fallen(now);
        self.size.on_black_hole(now);
        self.take_packet_size();
    }

    /// Tells whether packets of `size` bytes have been too large for the path for longer than a
    /// retransmission takes, which may be fragmented.
    pub(crate) fn is_too_narrow_for(&self, now: Instant, size: usize) -> bool {
        let patience = self.rtt.rto_without_backoff();
        size > self.packet_size && self.large_packets.has_fallen_for(now, patience)
    }

    /// Tells whether a data packet of this length passes only in IP fragments.
    pub(crate) fn needs_fragments(&self, length: usize) -> bool {
        self.is_narrow || length > self.packet_size
    }

    /// Makes a packet size known to pass.
    #[cfg(test)]
    pub(crate) fn learn_packet_size(&mut self, size: usize) {
        self.size.set_known(size);
        self.take_packet_size();
    }

    /// Returns the delivery rate; zero while unknown.
    pub(crate) fn delivery_rate(&self) -> Rate {
        self.delivery.rate()
    }

    /// Tells whether a packet may leave now: the congestion window has room, and pacing allows it.
    pub(crate) fn is_ready(&self, now: Instant) -> bool {
        self.flight.is_ready(now, self.congestion.window())
    }

    /// Returns what may be in flight of messages that the owner places: what fills the path and a
    /// short queue. The congestion window allows far more. Where a round trip is shorter than what
    /// both ends take for a batch of packets, that would be a few packets at a time, and the rate
    /// would stay what they allow.
    pub(crate) fn placed_limit(&self) -> ByteCount {
        let limit = self.congestion.short_queue();
        let limit = limit.map_or(ByteCount::new(u64::MAX), |bytes| {
            bytes + ByteCount::from(SHORT_QUEUE * self.packet_size)
        });
        limit.max((self.delivery_rate() * BATCHES).min(MOST_BATCHES))
    }

    /// Tells whether the congestion window has room.
    pub(crate) fn has_room(&self) -> bool {
        self.flight.bytes() < self.congestion.window()
    }

    /// Tells whether the path is given up: it has failed more than `most` times, or was never
    /// confirmed after many heartbeats.
    fn is_given_up(&self, now: Instant, most: u32) -> bool {
        match self.state {
            PathState::Unconfirmed => self.errors > most.min(UNCONFIRMED_TRIES - 1),
            PathState::Active | PathState::Inactive => self.has_failed(now, most),
        }
    }

    /// Tells whether the path has failed more than `most` times in a row, for as long as that many
    /// time-outs last by the specification. A shorter RTO must not give up sooner.
    fn has_failed(&self, now: Instant, most: u32) -> bool {
        let silence = now.since(self.failing_since);
        self.errors > most && silence >= self.rtt.failure_delay(most)
    }

    /// Requests a heartbeat, since chunks were acknowledged sooner than the path's round-trip time
    /// allows.
    pub(crate) fn request_heartbeat(&mut self) {
        self.heartbeat.request();
    }

    /// Tells whether the path is active, without recent time-outs and not on probation.
    pub(crate) fn has_answered_all(&self) -> bool {
        self.state == PathState::Active && self.errors == 0 && !self.is_on_probation()
    }

    /// Tells whether the path may be one that a translator has forgotten.
    pub(crate) fn is_on_probation(&self) -> bool {
        self.probation.is_some()
    }

    /// Handles an answer on the path.
    fn on_heard(&mut self, now: Instant) {
        // With time-outs the suspicion was justified.
        if std::mem::take(&mut self.was_suspect) && self.errors == 0 {
            self.silence.on_false_alarm();
        }
        self.errors = 0;
        self.heard_at = now;
        let flight = self.flight.bytes();
        self.silence
            .on_sample(now, flight > ByteCount::ZERO, flight, Duration::ZERO);
        // The next answer is that of what is in flight now.
        let oldest = self.flight.oldest_sent().unwrap_or(now);
        let shortest = self.rtt.min().unwrap_or_default();
        self.silence.on_round_trip(oldest, shortest);
    }

    /// Returns what is known of the answer to a packet in flight; `None` before the first round
    /// trip.
    pub(crate) fn answer(&self, now: Instant, packet: u64) -> Option<Answer> {
        let due = self.flight.sent_at(packet)? + self.rtt.smoothed()?;
        // A rate that nothing but the application has limited says little of the path.
        let is_known = self.delivery.confidence(now) >= MIN_CONFIDENCE;
        let rate = is_known.then(|| self.delivery.rate());
        let ahead = rate.and_then(|rate| rate.time_for(self.flight.bytes_up_to(packet)));
        Some(Answer {
            due,
            drain: ahead.unwrap_or_default(),
        })
    }

    /// Tells whether the path is on probation, crawls, or has been silent for longer than its
    /// round-trip time explains. It then gets nothing new while another path is there.
    pub(crate) fn is_suspect(&self, now: Instant) -> bool {
        self.is_on_probation() || self.standing.crawls() || self.is_silent(now)
    }

    /// Tells whether the path has been silent for longer than its round-trip time explains.
    fn is_silent(&self, now: Instant) -> bool {
        // This is called for every packet and path; few paths are silent for so long.
        self.silence.current(now) >= Silence::SHORTEST
            && self.suspect_at().is_some_and(|at| at <= now)
    }

    /// Returns when the path becomes suspect without an answer; `None` while none is expected.
    pub(crate) fn suspect_at(&self) -> Option<Instant> {
        let began = self.silence.began()?;
        Some(began + self.silence.suspect_after(self.expectation()))
    }

    /// Applies the result of the packet size search.
    fn take_packet_size(&mut self) {
        let known = self.size.known();
        if known != self.packet_size {
            self.is_narrow &= known < self.packet_size;
            self.packet_size = known;
            self.congestion.on_packet_size(ByteCount::from(known));
        }
    }

    fn expectation(&self) -> Expectation {
        let rtt = self.rtt.smoothed().unwrap_or_else(|| self.rtt.rto());
        let rate = self.delivery.rate();
        let due = match self.flight.oldest_sent() {
            Some(oldest) => self.silence.due(oldest, rtt),
            None => rtt,
        };
        Expectation {
            // The peer delays the acknowledgement of the last packets of a flight.
            rtt: rtt + self.sack_delay,
            variation: self.rtt.variation(),
            own_variation: self.rtt.variation(),
            drain: rate.time_for(self.flight.bytes()).unwrap_or_default(),
            due,
        }
    }
}

/// Returns the size of a packet's headers: the common header and that of an I-DATA chunk, with
/// small numbers where their size varies.
fn overhead(framing: Framing) -> usize {
    let order = DataOrder::Interleaved {
        message: 0,
        fragment: 0,
    };
    framing.packet_header() + framing.data_header(StreamNumber::default(), &order, None)
}

/// How sure a rate must be to tell a queue: with three samples that the path has limited.
const MIN_CONFIDENCE: f64 = 0.45;
/// Time of packets in the batches of both ends. Source: draft-ietf-ccwg-bbr, whose offload budget
/// has three times what leaves in a millisecond, and no more than 64 KiB each.
const BATCHES: Duration = Duration::from_millis(3);
const MOST_BATCHES: ByteCount = ByteCount::from_kib(3 * 64);
/// Packets in a queue that is short.
const SHORT_QUEUE: usize = 2;
/// Round trips for which nothing went or came by a way that is not used any more.
const WAY_GONE_AFTER: u32 = 2;
/// A path is longer if its shortest round trip has grown by this part, one in so many: less is
/// within what round trips vary by, and no queue is told by it.
const LONGER: u32 = 8;
/// Consecutive time-outs after which packets may have become too large for the path.
const BLACK_HOLE: u32 = 2;
/// Number of heartbeats to an unconfirmed address before the pauses become long.
const UNCONFIRMED_TRIES: u32 = 8;
