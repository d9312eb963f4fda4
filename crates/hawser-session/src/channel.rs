use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use hawser_path::{Control, ControlChoice, ControlFacts, KernelSample, PathEstimator, RttRefresh};
use hawser_sched::PathView;
use hawser_sched::governor::{Harm, Standing};
use hawser_sched::rules::Permission;
use hawser_types::{
    ByteCount, ChannelId, Instant, LinkIndex, RangeSet, Rate, RecordNumber, StreamId,
};
use hawser_wire::{ChannelRole, MAX_CHUNK_PAYLOAD, RECORD_HEADER_LENGTH};

use crate::ledger::ChunkKey;
use crate::seal::TAG_LENGTH;
use crate::session::SendTerms;
use crate::session::association::{Booked, PathSample};
use crate::session::datagrams::Given;
use crate::session::report::{Notice, Reported};
use crate::snapshot::PeerView;
use crate::{ChunkSize, Misbehaviour};

/// What the driver knows of a channel that it adds to a session.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ChannelSpec {
    /// Its number.
    pub id: ChannelId,
    /// What it is for.
    pub role: ChannelRole,
    /// The client's link below it. A gateway learns the first channel's from the client's hello. An
    /// association has [`LinkIndex::ALL`], and no other channel has.
    pub link: LinkIndex,
    /// Records exchanged before the session took over, the same in both directions: 1 for a
    /// channel that joined, 0 for the first.
    pub records: u64,
    /// Bytes of payload in a full TCP segment, or in a packet of the association, if known.
    pub segment_size: Option<u32>,
}

/// What carries a channel's records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// A TCP connection over one link.
    #[default]
    Tcp,
    /// An association over all links.
    Association,
}

/// Why chunks go over what they go over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TransportReason {
    /// It was asked for.
    Wished,
    /// Nothing else was tried yet.
    #[default]
    First,
    /// It is tried, to compare it with the other.
    Tried,
    /// It delivered more than the other, or not so much less that a change was worth it.
    Faster,
    /// The other fell silent, or is gone.
    Silent,
}

impl ChannelSpec {
    /// An association that is established and carries messages from now on.
    pub const fn association(id: ChannelId) -> Self {
        Self {
            id,
            role: ChannelRole::Bulk,
            link: LinkIndex::ALL,
            records: 0,
            segment_size: None,
        }
    }

    /// What carries it.
    pub fn transport(&self) -> Transport {
        match self.link {
            LinkIndex::ALL => Transport::Association,
            _ => Transport::Tcp,
        }
    }

    pub(crate) fn is_association(&self) -> bool {
        self.transport() == Transport::Association
    }

    /// Bytes of payload in a packet of an association.
    pub(crate) fn packet_size(&self) -> usize {
        self.segment_size.unwrap_or(DEFAULT_PACKET) as usize
    }
}

/// One TCP connection or association, as the session sees it.
#[derive(Debug)]
pub(crate) struct Channel {
    pub(crate) spec: ChannelSpec,
    pub(crate) path: PathEstimator,
    control: ControlChoice,
    pub(crate) refresh: RttRefresh,
    pub(crate) suspect_since: Option<Instant>,
    /// What the user says of the link for what this side sends, and what that comes to now.
    pub(crate) terms: SendTerms,
    pub(crate) standing: Standing,
    /// What its link did to the whole, while it is demoted for that.
    pub(crate) harm: Option<Harm>,
    /// Links with the same number share a bottleneck.
    pub(crate) bottleneck: Option<u8>,
    /// A channel of the same link died at this time; this one has yet to show that it lives.
    pub(crate) doubted_at: Option<Instant>,
    /// Suspect: when what the peer's kernel has, and its session may not have, is copied too.
    pub(crate) held_back: Option<Instant>,
    /// It is given nothing, to spare it bbr's probe.
    pub(crate) drains: bool,
    /// The kernel would send more at once.
    pub(crate) ready: bool,
    /// The driver was told that there is something to send.
    pub(crate) woken: bool,
    /// Chunks given to the channel that are not in a record yet.
    pub(crate) outbox: VecDeque<Assigned>,
    /// Chunks in records that the peer has not acknowledged.
    pub(crate) sent: VecDeque<Sent>,
    /// Records sent, of an association those with chunks; the number of the next.
    pub(crate) records_sent: u64,
    pub(crate) records_acknowledged: u64,
    /// Bytes written to the connection by the session.
    pub(crate) written: u64,
    /// How many of these the peer's kernel had acknowledged at the latest sample.
    acknowledged: u64,
    /// Bytes of payload in `sent` and `outbox`.
    pub(crate) in_flight: u64,
    pub(crate) last_session_ack: Instant,
    /// How far the peer's kernel had come, and when it came that far.
    progress: (u64, Instant),
    pub(crate) heartbeat_due: bool,
    pub(crate) heartbeat_at: Option<Instant>,
    /// Streams whose limits went over another channel and are to go over this one too.
    pub(crate) credit_copies: BTreeSet<StreamId>,
    /// What is to be said of other channels on this one.
    pub(crate) notices: Vec<Notice>,
    pub(crate) reported: Reported,
    /// How the peer last saw the channel.
    pub(crate) peer: Option<PeerView>,
    pub(crate) inbound: Inbound,
    pub(crate) given: Given,
    /// Of an association: its paths, and what of their traffic was booked.
    pub(crate) paths: Vec<PathSample>,
    pub(crate) booked: Vec<Booked>,
    /// Likewise: what it has sent twice at once.
    pub(crate) sent_twice: u64,
    pub(crate) payload_sent: u64,
    pub(crate) payload_received: u64,
}

/// A chunk given to a channel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Assigned {
    pub(crate) chunk: ChunkKey,
    pub(crate) length: u32,
    /// Another channel had it before.
    pub(crate) copy: bool,
}

/// A chunk in flight on one channel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) record: u64,
    pub(crate) chunk: ChunkKey,
    pub(crate) length: u32,
    /// Another channel had it before.
    pub(crate) copy: bool,
    /// The position of its last byte in the connection.
    pub(crate) end: u64,
    pub(crate) at: Instant,
}

/// What came in on a channel, and what of it the peer was told.
#[derive(Debug, Default)]
pub(crate) struct Inbound {
    /// Records that came; on an association the numbered ones without a gap.
    pub(crate) records: u64,
    /// Of an association: all numbers that came.
    numbers: RangeSet,
    acknowledged: u64,
    unacknowledged_bytes: u64,
    pub(crate) ack_due: Option<Instant>,
    /// When the latest large chunk came, and how long after the one before.
    latest: Option<(Instant, Duration)>,
}

impl Channel {
    pub(crate) fn new(spec: ChannelSpec) -> Self {
        Self {
            spec,
            path: PathEstimator::default(),
            control: ControlChoice::default(),
            refresh: RttRefresh::default(),
            suspect_since: None,
            terms: SendTerms::default(),
            standing: Standing::Full,
            harm: None,
            bottleneck: None,
            doubted_at: None,
            held_back: None,
            drains: false,
            ready: false,
            woken: false,
            outbox: VecDeque::new(),
            sent: VecDeque::new(),
            records_sent: spec.records,
            records_acknowledged: spec.records,
            written: 0,
            acknowledged: 0,
            in_flight: 0,
            last_session_ack: Instant::ZERO,
            progress: (0, Instant::ZERO),
            heartbeat_due: false,
            heartbeat_at: None,
            credit_copies: BTreeSet::new(),
            notices: Vec::new(),
            reported: Reported::default(),
            peer: None,
            inbound: Inbound {
                records: spec.records,
                acknowledged: spec.records,
                ..Inbound::default()
            },
            given: Given::default(),
            paths: Vec::new(),
            booked: Vec::new(),
            sent_twice: 0,
            payload_sent: 0,
            payload_received: 0,
        }
    }

    /// What a policy may see of the channel.
    pub(crate) fn view(&self, now: Instant, size: ChunkSize) -> PathView {
        let kernel = self.path.latest();
        PathView {
            channel: self.spec.id,
            link: self.spec.link,
            ready: self.ready && self.outbox.is_empty() && self.has_number_left(),
            suspect: self.suspect_since.is_some(),
            rtt: self.path.rtt(),
            min_rtt: self.path.min_rtt().unwrap_or_default(),
            rtt_variation: kernel.rtt_variation,
            standing_queue: self.path.delay().standing_queue(),
            rate: self.path.rate(),
            confidence: self.path.delivery().confidence(now),
            congestion_window: kernel.congestion_window,
            kernel_backlog: kernel.not_sent.unwrap_or_default(),
            in_flight: ByteCount::new(self.in_flight),
            stalled: self.stalled(now),
            beside: ByteCount::ZERO,
            chunk: ByteCount::from(self.chunk_limit(size, CHUNK_HEADER)),
            weight: self.terms.weight,
            price: self.terms.price,
            price_weight: self.terms.price_weight,
            preferred: self.terms.permission == Permission::Preferred,
            standing: self.standing,
            bottleneck: self.bottleneck,
        }
    }

    /// Orders channels by how late a small thing is when it goes over them.
    pub(crate) fn slowness(&self) -> (bool, bool, bool, Duration, ChannelId) {
        let bulk = self.spec.role == ChannelRole::Bulk;
        (
            self.suspect_since.is_some(),
            self.is_excluded(),
            bulk,
            self.path.rtt(),
            self.spec.id,
        )
    }

    /// Its standing, as far as the user does not exclude it.
    pub(crate) fn governed(&self) -> Standing {
        self.harm.map_or(Standing::Full, Standing::Probing)
    }

    /// It takes next to nothing for now: it drains, or bbr probes with a window of four segments, and
    /// the path holds more than that.
    pub(crate) fn pauses(&self) -> bool {
        let kernel = self.path.latest();
        let segment = self.spec.segment_size.unwrap_or(DEFAULT_SEGMENT);
        let least = ByteCount::new(u64::from(LEAST_WINDOW * segment));
        let probes = kernel.bbr_min_rtt.is_some_and(|length| {
            kernel.congestion_window <= least && self.path.rate() * length > least
        });
        self.drains || probes
    }

    /// On an association the peer would not take a number that is too far ahead.
    fn has_number_left(&self) -> bool {
        !self.spec.is_association()
            || self.records_sent - self.records_acknowledged < MAX_UNACKNOWLEDGED
    }

    /// Nothing may be placed on the channel.
    pub(crate) const fn is_excluded(&self) -> bool {
        matches!(self.standing, Standing::Excluded(_))
    }

    /// Something was written that the peer's kernel has not acknowledged, or the peer's session.
    pub(crate) fn is_busy(&self) -> bool {
        // Something written since the last sample counts: only a sample ends the wait for it.
        !self.sent.is_empty() || self.path.silence().began().is_some()
    }

    /// Takes in what the kernel says now.
    pub(crate) fn on_sample(&mut self, now: Instant, sample: KernelSample) {
        if let Some(oldest) = self.oldest_under_way() {
            let shortest = self.path.min_rtt().unwrap_or_default();
            self.path.silence_mut().on_round_trip(oldest, shortest);
        }
        self.path.on_sample(now, sample);
        self.refresh.on_sample(now, &sample);
        // Heartbeats behind the last chunk are no progress of the chunks.
        self.acknowledged = self.written.saturating_sub(sample.unacknowledged.as_u64());
        let last = self.sent.back().map_or(u64::MAX, |sent| sent.end);
        let position = self.kernel_acknowledged().min(last);
        if position > self.progress.0 {
            self.progress = (position, now);
        }
    }

    /// Which congestion control the connection should have. `shortest`: the shortest round-trip
    /// time of any link that lives.
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

    /// When either the peer's session or its kernel acknowledged something new.
    pub(crate) fn last_progress(&self) -> Instant {
        self.last_session_ack.max(self.progress.1)
    }

    /// The position up to which the peer's kernel has everything, as of the latest sample.
    pub(crate) fn kernel_acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// When the oldest chunk was written that the peer's kernel has not acknowledged.
    pub(crate) fn oldest_under_way(&self) -> Option<Instant> {
        let arrived = self.kernel_acknowledged();
        let first = self.sent.partition_point(|sent| sent.end <= arrived);
        self.sent.get(first).map(|sent| sent.at)
    }

    /// The largest payload of the next chunk, given the length of its header.
    ///
    /// A record fills whole TCP segments, so that no segment goes out half empty.
    pub(crate) fn chunk_limit(&self, size: ChunkSize, header: usize) -> usize {
        let overhead = RECORD_HEADER_LENGTH + TAG_LENGTH + header;
        let segment = match self.spec.transport() {
            Transport::Tcp => self.spec.segment_size.unwrap_or(DEFAULT_SEGMENT) as usize,
            Transport::Association => self.spec.packet_size(),
        };
        let segment = segment.clamp(MIN_SEGMENT, MAX_CHUNK_PAYLOAD);
        let wanted = match size {
            ChunkSize::Fixed(bytes) => return bytes.as_usize().clamp(256, MAX_CHUNK_PAYLOAD),
            ChunkSize::Mtu => segment,
            ChunkSize::Auto => {
                let rate = self.rate_or_guess();
                let by_rate = (rate * CHUNK_TIME).as_usize();
                let least = (rate * FULL_TIME).as_usize() / segment;
                let least = least.clamp(MIN_SEGMENTS, FULL_SEGMENTS);
                let most = match (self.spec.transport(), self.spec.role) {
                    (Transport::Association, _) => MAX_MESSAGE,
                    (_, ChannelRole::Bulk) => MAX_CHUNK_PAYLOAD,
                    (_, ChannelRole::Express) => segment * EXPRESS_SEGMENTS,
                };
                let segments = by_rate.div_ceil(segment).min(most / segment);
                segment * segments.max(least)
            }
        };
        wanted
            .min(MAX_CHUNK_PAYLOAD + overhead)
            .saturating_sub(overhead)
            .max(1)
    }

    /// The delivery rate; before it is known, what a fresh connection's window gives.
    pub(crate) fn rate_or_guess(&self) -> Rate {
        match self.path.rate() {
            Rate::ZERO => self.initial_rate(),
            rate => rate,
        }
    }

    fn initial_rate(&self) -> Rate {
        let rtt = self.path.rtt().max(MIN_GUESSED_RTT);
        let segment = self.spec.segment_size.unwrap_or(DEFAULT_SEGMENT);
        let window = f64::from(INITIAL_WINDOW * segment);
        Rate::from_bytes_per_second((window / rtt.as_secs_f64()) as u64)
    }

    /// The unsent data that the kernel may hold before the channel counts as full: 2 ms of rate,
    /// at least one chunk, at most 1 MiB.
    pub(crate) fn low_water(&self, size: ChunkSize) -> u32 {
        let chunk = self.chunk_limit(size, 0) as u64;
        let by_rate = (self.path.rate() * LOW_WATER_TIME).as_u64();
        u32::try_from(by_rate.clamp(chunk, MAX_LOW_WATER)).unwrap_or(u32::MAX)
    }
}

impl Inbound {
    /// A record with a chunk came. Whether the acknowledgement is due at once.
    pub(crate) fn on_chunk(&mut self, now: Instant, bytes: usize) -> bool {
        self.unacknowledged_bytes += bytes as u64;
        if bytes >= LARGE {
            let pause = self.latest.map_or(Duration::ZERO, |(at, _)| now.since(at));
            self.latest = Some((
                now,
                if pause < MAX_PAUSE {
                    pause
                } else {
                    Duration::ZERO
                },
            ));
        }
        let due = self.ack_due.get_or_insert(now + ACK_DELAY);
        if self.unacknowledged_bytes >= ACK_BYTES {
            *due = (*due).min(now);
        }
        *due <= now
    }

    /// A record with this number came over an association.
    pub(crate) fn on_number(
        &mut self,
        channel: ChannelId,
        number: RecordNumber,
    ) -> Result<(), Misbehaviour> {
        let value = number.value();
        if value >= self.records + MAX_AHEAD {
            return Err(Misbehaviour::NumberTooFar(channel, number));
        }
        if self.numbers.contains(value) {
            return Err(Misbehaviour::NumberRepeated(channel, number));
        }
        self.numbers.insert(value..value + 1);
        self.records = self.numbers.prefix();
        Ok(())
    }

    /// Whether large chunks keep coming, at the pace at which they came.
    pub(crate) fn is_flowing(&self, now: Instant) -> bool {
        self.latest
            .is_some_and(|(at, pause)| now.since(at) <= MIN_PACE.max(pause * 2))
    }

    /// The number of records to acknowledge, if the peer does not know it yet.
    pub(crate) fn take_ack(&mut self) -> Option<u64> {
        self.ack_due.take()?;
        self.unacknowledged_bytes = 0;
        (self.records > self.acknowledged).then(|| {
            self.acknowledged = self.records;
            self.records
        })
    }
}

/// Twice the delay that bulk may add to calls: a link that is longer by this carries none.
pub(crate) const DETOUR: Duration = Duration::from_millis(60);
/// A window that loses more of its segments carries less than others' share.
const MUCH_LOSS: f64 = 0.001;
/// About what the header of a chunk takes.
const CHUNK_HEADER: usize = 12;
/// How much of a channel's time a chunk takes.
const CHUNK_TIME: Duration = Duration::from_millis(10);
/// Keeps what headers and tags add below 1.5 %.
const MIN_SEGMENTS: usize = 2;
/// Segments that keep it below 0.6 %, as long as they take no longer than this.
const FULL_SEGMENTS: usize = 4;
const FULL_TIME: Duration = Duration::from_millis(100);
const EXPRESS_SEGMENTS: usize = 4;
const DEFAULT_SEGMENT: u32 = 1448;
/// What any path of an association carries.
const DEFAULT_PACKET: u32 = 1100;
/// A message that arrived in more pieces is put together by a longer copy, and waits for the last of them.
const MAX_MESSAGE: usize = 16 * 1024;
/// How many numbered records of an association may be unacknowledged: half of what a receiver must take.
const MAX_UNACKNOWLEDGED: u64 = MAX_AHEAD / 2;
/// How far numbers may be ahead of the first that is missing: bounds what a set of them takes.
pub(crate) const MAX_AHEAD: u64 = 65_536;
const MIN_SEGMENT: usize = 256;
/// Segments that a fresh connection may send at once. Source: RFC 6928.
const INITIAL_WINDOW: u32 = 10;
/// Segments that bbr keeps under way at the least.
const LEAST_WINDOW: u32 = 4;
const MIN_GUESSED_RTT: Duration = Duration::from_millis(10);
const LOW_WATER_TIME: Duration = Duration::from_millis(2);
const MAX_LOW_WATER: u64 = 1 << 20;
/// How long an acknowledgement may wait for company.
const ACK_DELAY: Duration = Duration::from_millis(10);
/// Chunks of less than this say nothing of the pace at which a link carries data.
const LARGE: usize = 1000;
/// Longer pauses are the application's.
const MAX_PAUSE: Duration = Duration::from_millis(500);
const MIN_PACE: Duration = Duration::from_millis(100);
/// How many bytes may wait for an acknowledgement.
const ACK_BYTES: u64 = 512 * 1024;
