//! Sizes and times that follow the rate of a channel.

use std::time::Duration;

use hawser_path::{KernelSample, crawling};
use hawser_types::{ByteCount, Instant, Rate};
use hawser_wire::{ChannelRole, MAX_CHUNK_PAYLOAD, RECORD_HEADER_LENGTH};

use super::{Channel, TIMEOUT_MARGIN};
use crate::config::ChunkSize;
use crate::seal::TAG_LENGTH;
use crate::transport::Transport;

impl Channel {
    /// Returns the largest payload of the next chunk, given the length of its header.
    ///
    /// A record fills whole TCP segments, so that no segment goes out half empty.
    pub(crate) fn chunk_limit(&self, size: ChunkSize, header: usize) -> usize {
        let overhead = RECORD_HEADER_LENGTH + TAG_LENGTH + header;
        let segment = match self.transport() {
            Transport::Tcp => self.spec.segment_size() as usize,
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
                let most = match (self.transport(), self.role()) {
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

    /// Returns the unsent data that the kernel may hold before the channel counts as full: 2 ms of
    /// rate, at least one chunk, at most 1 MiB.
    pub(crate) fn low_water(&self, size: ChunkSize) -> u32 {
        let chunk = self.chunk_limit(size, 0) as u64;
        let by_rate = (self.path.rate() * LOW_WATER_TIME).as_u64();
        u32::try_from(by_rate.clamp(chunk, MAX_LOW_WATER)).unwrap_or(u32::MAX)
    }

    /// Returns the time for which the peer should have acknowledged more, and has not.
    pub(crate) fn stalled(&self, now: Instant) -> Duration {
        let usual = self.path.rtt() * 2 + self.time_for(u64::from(FULL_SEGMENT) * 2);
        self.outbound.overdue(now).saturating_sub(usual)
    }

    /// True if nothing came of the chunks in flight for longer than TCP takes to repair a loss:
    /// three segments and a quarter of a round trip to find it (RFC 8985, 6.2), a round trip to
    /// hear that it is repaired.
    pub(crate) fn has_stalled(&self, now: Instant) -> bool {
        let patience = TIMEOUT_MARGIN.max(self.path.rtt() * 5 / 4)
            + self.time_for(u64::from(FULL_SEGMENT) * 4);
        self.outbound.sent().len() > 0 && now.since(self.outbound.last_progress()) > patience
    }

    /// Returns the time over which arrivals show whether the channel's link crawls.
    pub(crate) fn crawl_span(&self) -> Duration {
        crawling::span(self.path.min_rtt().unwrap_or_default())
    }

    /// Returns the time for which it is known what has arrived.
    pub(super) fn watched_span(&self) -> Duration {
        self.crawl_span().max(KNOWN_SPAN)
    }

    /// Returns the bytes that have arrived within a span; `None` while that is not known.
    pub(crate) fn came_within(&self, now: Instant, span: Duration) -> Option<ByteCount> {
        self.progress.came_within(now, self.brought(), span)
    }

    /// Returns the bytes that have arrived since the channel began. For bulk this includes segments
    /// behind a gap, if the kernel counts segments: TCP will close the gap.
    pub(super) fn brought(&self) -> ByteCount {
        let counts = self.role() == ChannelRole::Bulk && self.path.latest().delivered.is_some();
        ByteCount::new(if counts {
            self.delivered
        } else {
            self.outbound.arrived()
        })
    }

    /// Counts the segments that have arrived since the latest sample; the kernel's counter has 32
    /// bits.
    pub(super) fn count_delivered(&mut self, sample: &KernelSample) {
        let before = self.path.latest().delivered;
        if let (Some(count), Some(before)) = (sample.delivered, before) {
            let more = (count as u32).wrapping_sub(before as u32);
            self.delivered += u64::from(more) * u64::from(self.spec.segment_size());
        }
    }

    /// True if the peer has all that was given to the channel, or its kernel does.
    pub(crate) fn has_all_arrived(&self) -> bool {
        self.outbound.is_free() && self.outbound.oldest_in_flight().is_none()
    }

    /// True if a chunk in flight has been there for longer than a span.
    pub(crate) fn is_late_by(&self, now: Instant, span: Duration) -> bool {
        let oldest = self.outbound.oldest_in_flight();
        oldest.is_some_and(|at| now.since(at) > span)
    }

    /// True if nothing came of the chunks in flight for longer than an association takes to repair
    /// a loss. New chunks go elsewhere meanwhile.
    pub(crate) fn is_late(&self, now: Instant) -> bool {
        self.outbound.overdue(now) > self.repair_time()
    }

    /// Returns the time that an association takes to repair a loss, at the most.
    pub(crate) fn repair_time(&self) -> Duration {
        let rtt = self.path.rtt() + self.path.latest().rtt_variation * 4;
        LATE_AFTER.max(rtt * 2)
    }

    /// True if nothing gets through, however alive the path seems: the peer hangs, or a middlebox
    /// swallows what it acknowledges.
    pub(crate) fn is_stuck(&self, now: Instant) -> bool {
        let patience = if self.is_relayed() {
            RELAYED_STUCK_AFTER
        } else {
            STUCK_AFTER.max(self.path.rtt() * 8)
        };
        self.outbound.overdue(now) > patience
    }

    /// True if the peer has acknowledged nothing for so long that other channels should carry what
    /// is in flight on a relayed one.
    pub(crate) fn is_held_up(&self, now: Instant) -> bool {
        self.outbound.overdue(now) > HELD_UP_AFTER
    }

    pub(crate) fn is_relayed(&self) -> bool {
        self.spec.is_relayed()
    }

    /// True if the peer's kernel has everything and its session does not say so. A heartbeat shows
    /// whether either still lives.
    pub(crate) fn wants_heartbeat(&self, now: Instant) -> bool {
        let patience = HEARTBEAT_AFTER.max(self.path.rtt() * 2);
        let latest = self.liveness.heartbeat_at();
        self.path.latest().unacknowledged == ByteCount::ZERO
            && self.outbound.overdue(now) > patience
            && latest.is_none_or(|at| now.since(at) > patience)
    }

    /// Returns the time that the channel takes for so many bytes, at most 800 ms: the measured rate
    /// sinks while the channel stands still, and would excuse that for ever longer.
    pub(crate) fn time_for(&self, bytes: u64) -> Duration {
        let rate = self.rate_or_guess();
        let time = rate.time_for(ByteCount::new(bytes)).unwrap_or_default();
        time.min(MAX_EXCUSE)
    }

    /// Returns the delivery rate; before it is known, that of a fresh connection's window.
    fn rate_or_guess(&self) -> Rate {
        match self.path.rate() {
            Rate::ZERO => self.initial_rate(),
            rate => rate,
        }
    }

    fn initial_rate(&self) -> Rate {
        let rtt = match self.path.rtt() {
            Duration::ZERO => UNKNOWN_RTT,
            known => known.max(MIN_GUESSED_RTT),
        };
        let window = f64::from(INITIAL_WINDOW * self.spec.segment_size());
        Rate::from_bytes_per_second((window / rtt.as_secs_f64()) as u64)
    }
}

/// For how long it is known what has arrived, at the least.
const KNOWN_SPAN: Duration = Duration::from_secs(1);
/// Time of a channel that a chunk takes.
const CHUNK_TIME: Duration = Duration::from_millis(10);
/// Keeps the share of headers and tags below 1.5 %.
const MIN_SEGMENTS: usize = 2;
/// Segments that keep it below 0.6 %, as long as they take no longer than `FULL_TIME`.
const FULL_SEGMENTS: usize = 4;
const FULL_TIME: Duration = Duration::from_millis(100);
const EXPRESS_SEGMENTS: usize = 4;
const MIN_SEGMENT: usize = 256;
/// A longer message arrives in more pieces: putting them together takes a longer copy, and waits
/// for the last of them.
const MAX_MESSAGE: usize = 16 * 1024;
/// Segments that a fresh connection may send at once. Source: RFC 6928.
const INITIAL_WINDOW: u32 = 10;
const MIN_GUESSED_RTT: Duration = Duration::from_millis(10);
/// Of an association that has sent nothing yet. As long as policies guess too, so that chunks are
/// small until something is known: one of 16 kB holds up a slow link for 200 ms.
const UNKNOWN_RTT: Duration = Duration::from_millis(100);
const LOW_WATER_TIME: Duration = Duration::from_millis(2);
const MAX_LOW_WATER: u64 = 1 << 20;
const FULL_SEGMENT: u32 = 1448;
/// Time of two chunks on the slowest links.
const MAX_EXCUSE: Duration = Duration::from_millis(800);
/// An association probes for a lost tail sooner, and its time-outs begin with this.
const LATE_AFTER: Duration = Duration::from_millis(300);
const HEARTBEAT_AFTER: Duration = Duration::from_millis(500);
const STUCK_AFTER: Duration = Duration::from_secs(6);
/// As long as the session below may wait for its links: its end ends the channel at once.
const RELAYED_STUCK_AFTER: Duration = Duration::from_secs(60);
/// Round trips of the slowest links to the gateway and on to the peer, and their queues.
const HELD_UP_AFTER: Duration = Duration::from_secs(3);
