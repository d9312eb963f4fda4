//! Packets in flight on one path, and the detection of their loss.

mod delivery;
mod pacer;
mod reordering;
mod sent_packet;
#[cfg(test)]
mod tests;
mod timed_out;

use std::collections::VecDeque;
use std::time::Duration;

use hawser_types::{ByteCount, Instant, Rate};
use smallvec::SmallVec;

use super::rtt::RttEstimator;
use crate::LossRule;
use crate::congestion::RateSample;
use delivery::{Delivery, Snapshot};
use pacer::Pacer;
use reordering::Reordering;
pub(crate) use sent_packet::SentPacket;
pub(crate) use timed_out::TimedOut;

/// Packets in flight on one path, kept as QUIC keeps sent packets: each packet with DATA gets the
/// path's next number, whichever chunks it carries.
///
/// Loss detection compares only packets of one path, so that paths of different delay never make
/// each other's chunks look lost. Source: RFC 9002 §6.1, in place of RFC 9260's missing reports.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    /// Packets from the oldest one in flight.
    packets: VecDeque<SentPacket>,
    /// Number of the first of them.
    first: u64,
    bytes: u64,
    /// Number of packets in flight, at least in part.
    open: u64,
    /// Number of the latest packet acknowledged, even in part.
    largest: Option<u64>,
    losses: LossRule,
    /// Start of T3: the time of the last acknowledgement, or of the first packet sent with nothing
    /// in flight.
    timer: Instant,
    last_sent: Instant,
    probe: Probe,
    /// Packets before this number have been copied to another path.
    copied: u64,
    summary: Option<AckSummary>,
    delivery: Delivery,
    pacer: Pacer,
    reordering: Reordering,
    timed_out: TimedOut,
    /// Recent share of lost packets.
    loss: f64,
    /// Bytes that have arrived over the path for certain: a copy may have arrived over another.
    arrived: u64,
    /// Number of packets that counted as lost because later ones arrived.
    overtaken: u64,
}

/// Summary of one SACK, as it concerns the path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AckSummary {
    pub(crate) bytes: ByteCount,
    pub(crate) flight_before: ByteCount,
    pub(crate) newest_sent: Instant,
    /// Send time of the latest acknowledged chunk that was sent once: Karn's rule.
    pub(crate) measurable: Option<Instant>,
    newest: Snapshot,
}

/// State of the tail loss probe, sent once in each period without answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Probe {
    #[default]
    Idle,
    Due,
    Sent,
}

impl Flight {
    pub(crate) fn new(losses: LossRule) -> Self {
        Self {
            losses,
            ..Self::default()
        }
    }

    /// Returns the bytes in flight.
    pub(crate) fn bytes(&self) -> ByteCount {
        ByteCount::new(self.bytes)
    }

    /// Returns the bytes that have arrived over the path for certain, since it began.
    pub(crate) fn arrived(&self) -> ByteCount {
        ByteCount::new(self.arrived)
    }

    /// Returns the recent share of lost packets, 0 to 1.
    pub(crate) fn loss(&self) -> f64 {
        self.loss
    }

    /// Returns the number of packets that counted as lost because later ones arrived, since the
    /// path began. Time-outs are not among them: they come of silences, too.
    pub(crate) fn overtaken(&self) -> u64 {
        self.overtaken
    }

    /// Tells whether nothing is in flight.
    pub(crate) fn is_empty(&self) -> bool {
        self.open == 0
    }

    /// Tells whether window and pacing allow another packet now.
    pub(crate) fn is_ready(&self, now: Instant, window: ByteCount) -> bool {
        self.bytes() < window && self.is_paced(now)
    }

    /// Tells whether pacing allows another packet now.
    pub(crate) fn is_paced(&self, now: Instant) -> bool {
        self.pacer.free_at() <= now
    }

    /// Tells whether something waits for pacing and nothing else.
    pub(crate) fn set_waiting_for_pace(&mut self, is_waiting: bool) {
        self.pacer.set_waiting(is_waiting);
    }

    /// Returns when pacing allows the next packet.
    pub(crate) fn paced_at(&self) -> Instant {
        self.pacer.free_at()
    }

    /// Returns the number of the next packet.
    pub(crate) fn next_number(&self) -> u64 {
        self.first + self.packets.len() as u64
    }

    /// Handles a packet of `bytes` that leaves with these chunks.
    pub(crate) fn on_sent(
        &mut self,
        now: Instant,
        chunks: SmallVec<[u64; 2]>,
        bytes: u64,
        pace: Option<Rate>,
    ) {
        if self.is_empty() {
            self.timer = now;
            self.delivery.on_begin(now);
        }
        self.packets.push_back(SentPacket {
            number: self.next_number(),
            at: now,
            open: chunks.len(),
            chunks,
            bytes,
            snapshot: self.delivery.snapshot(now),
        });
        self.bytes += bytes;
        self.open += 1;
        self.last_sent = now;
        self.pacer.on_sent(now, ByteCount::new(bytes), pace);
        if self.probe == Probe::Due {
            self.probe = Probe::Sent;
        }
    }

    /// Returns when the packet was sent; `None` once nothing of it is in flight.
    pub(crate) fn sent_at(&self, number: u64) -> Option<Instant> {
        let place = number.checked_sub(self.first)?;
        let packet = self.packets.get(place as usize)?;
        (packet.open > 0).then_some(packet.at)
    }

    /// Returns when the oldest packet in flight was sent; `None` where nothing is in flight.
    pub(crate) fn oldest_sent(&self) -> Option<Instant> {
        let oldest = self.packets.iter().find(|packet| packet.open > 0);
        oldest.map(|packet| packet.at)
    }

    /// Returns the bytes in flight in the packet and those sent before it.
    pub(crate) fn bytes_up_to(&self, number: u64) -> ByteCount {
        let upto = self.packets.iter().take_while(|it| it.number <= number);
        upto.filter(|it| it.open > 0)
            .map(|it| ByteCount::new(it.bytes))
            .sum()
    }

    /// Handles the acknowledgement of a chunk of `bytes` in this packet. `once`: it was sent only
    /// once.
    pub(crate) fn acknowledge(&mut self, now: Instant, number: u64, bytes: u64, once: bool) {
        let before = self.bytes();
        let Some((at, snapshot, bytes)) = self.close(number, bytes) else {
            return;
        };
        // Any acknowledgement restarts T3, except in RFC 2960 §6.3.2, where only that of the oldest
        // packet does.
        if self.losses == LossRule::PerPath || number == self.first {
            self.timer = now;
        }
        if once {
            self.arrived += bytes;
            // Packets that timed out before it are not expected any more.
            self.timed_out.clear();
        }
        self.largest = self.largest.max(Some(number));
        self.delivery.on_delivered(now, bytes, at);
        self.probe = Probe::Idle;
        let summary = self.summary.get_or_insert(AckSummary {
            bytes: ByteCount::ZERO,
            flight_before: before,
            newest_sent: at,
            measurable: None,
            newest: snapshot,
        });
        summary.bytes += ByteCount::new(bytes);
        if once {
            summary.measurable = summary.measurable.max(Some(at));
        }
        if at >= summary.newest_sent {
            summary.newest_sent = at;
            summary.newest = snapshot;
        }
        self.pop_closed();
    }

    /// Removes a chunk of this packet from flight, when it is unknown whether it arrived.
    pub(crate) fn forget(&mut self, number: u64, bytes: u64) {
        self.close(number, bytes);
        self.pop_closed();
    }

    /// Returns what the last SACK reported for this path.
    pub(crate) fn take_ack_summary(&mut self) -> Option<AckSummary> {
        self.summary.take()
    }

    /// Returns a delivery rate sample of the latest packet acknowledged; `None` if it is too short.
    pub(crate) fn rate_sample(
        &self,
        summary: &AckSummary,
        min_rtt: Duration,
    ) -> Option<RateSample> {
        self.delivery.sample(&summary.newest, min_rtt)
    }

    /// Marks samples as limited by the application until everything now in flight is delivered.
    pub(crate) fn on_application_limited(&mut self) {
        self.delivery.on_application_limited(self.bytes);
    }

    /// Returns the next lost packet: enough later packets of this path were acknowledged, or one
    /// was and enough time has passed.
    pub(crate) fn pop_lost(&mut self, now: Instant, rtt: &RttEstimator) -> Option<SentPacket> {
        let largest = self.largest?;
        let patience = self.reordering.patience(rtt);
        let threshold = self.reordering.packets();
        let lost = self.packets.iter_mut().find(|packet| {
            packet.number >= largest
                || packet.open > 0
                    && (packet.number + threshold <= largest || packet.at + patience <= now)
        })?;
        if lost.number >= largest {
            return None;
        }
        let lost = lost.take();
        self.book_lost(&lost);
        self.overtaken += 1;
        self.reordering
            .on_lost(lost.number, lost.open, self.next_number());
        Some(lost)
    }

    /// Returns all packets in flight as lost, oldest first, when T3 has expired.
    pub(crate) fn take_all(&mut self) -> Vec<SentPacket> {
        let loss = self.loss;
        let open = self.packets.iter_mut().filter(|packet| packet.open > 0);
        let lost: Vec<_> = open.map(SentPacket::take).collect();
        lost.iter().for_each(|packet| self.book_lost(packet));
        self.probe = Probe::Idle;
        self.timed_out.add(&lost, loss);
        let next = self.next_number();
        let first = self.timed_out.first().unwrap_or(next);
        let chunks = lost.iter().map(|packet| packet.open).sum();
        self.reordering.on_timeout(first, chunks, next);
        lost
    }

    /// Handles a chunk of this packet that counted as lost and arrived. Returns whether all losses
    /// since the last window reduction were spurious.
    pub(crate) fn on_late(&mut self, number: u64) -> bool {
        self.reordering.on_late(number)
    }

    /// Returns what T3 has taken for lost, if this packet is among it, which has arrived late.
    pub(crate) fn take_timed_out(&mut self, late: u64) -> TimedOut {
        if self.timed_out.contains(late) {
            std::mem::take(&mut self.timed_out)
        } else {
            TimedOut::default()
        }
    }

    /// Puts what T3 has taken for lost back in flight: packet `late` of it has arrived, and the
    /// others may be on their way behind it.
    pub(crate) fn put_back(&mut self, now: Instant, late: u64, timed_out: TimedOut) {
        let Some(begin) = timed_out.first() else {
            return;
        };
        self.loss = timed_out.loss();
        let mut packets = VecDeque::new();
        let closed = |number| SentPacket {
            number,
            at: now,
            chunks: SmallVec::new(),
            bytes: 0,
            open: 0,
            snapshot: Snapshot::default(),
        };
        for packet in timed_out.into_packets() {
            let next = begin + packets.len() as u64;
            packets.extend((next..packet.number).map(closed));
            self.bytes += packet.bytes;
            self.open += 1;
            packets.push_back(packet);
        }
        let next = begin + packets.len() as u64;
        packets.extend((next..self.first).map(closed));
        packets.append(&mut self.packets);
        (self.packets, self.first) = (packets, begin);
        // Acknowledgements of what was sent again meanwhile were those of the first copies. Nothing
        // that was put back has been overtaken: it waited for the link, too.
        self.largest = Some(late.min(begin));
        self.timer = now;
    }

    /// Returns when T3 expires; `None` where nothing is in flight.
    pub(crate) fn t3(&self, rtt: &RttEstimator) -> Option<Instant> {
        (!self.is_empty()).then(|| self.timer + rtt.rto())
    }

    /// Returns when the oldest overtaken packet counts as lost.
    pub(crate) fn loss_at(&self, rtt: &RttEstimator) -> Option<Instant> {
        let largest = self.largest?;
        let before = self
            .packets
            .iter()
            .take_while(|packet| packet.number < largest);
        let oldest = before.into_iter().find(|packet| packet.open > 0)?;
        Some(oldest.at + self.reordering.patience(rtt))
    }

    /// Returns when a tail loss probe is due, so that a loss at the end does not wait for T3.
    /// Source: RFC 8985 §7.2.
    pub(crate) fn probe_at(&self, rtt: &RttEstimator, sack_delay: Duration) -> Option<Instant> {
        let smoothed = rtt.smoothed()?;
        // After T3 has expired, its next expiry serves as the probe.
        let backs_off = rtt.rto() > rtt.rto_without_backoff();
        if self.is_empty() || self.probe != Probe::Idle || backs_off {
            return None;
        }
        let company = if self.open == 1 {
            sack_delay
        } else {
            Duration::ZERO
        };
        let at = self.timer.max(self.last_sent) + smoothed * 2 + company;
        Some(at).filter(|at| self.t3(rtt).is_some_and(|t3| *at < t3))
    }

    /// Requests a probe.
    pub(crate) fn request_probe(&mut self) {
        self.probe = Probe::Due;
    }

    /// Tells whether a probe is due.
    pub(crate) fn is_probe_due(&self) -> bool {
        self.probe == Probe::Due
    }

    /// Tells whether nothing has been acknowledged since the last probe.
    pub(crate) fn is_probed(&self) -> bool {
        self.probe == Probe::Sent
    }

    /// Drops the probe, since nothing can be sent for it.
    pub(crate) fn give_up_probe(&mut self) {
        self.probe = Probe::Sent;
    }

    /// Returns the latest packet in flight.
    pub(crate) fn latest(&self) -> Option<&SentPacket> {
        self.packets.iter().rev().find(|packet| packet.open > 0)
    }

    /// Returns the oldest packet in flight that has not been copied to another path.
    pub(crate) fn uncopied(&self) -> Option<&SentPacket> {
        let from = self.copied.saturating_sub(self.first);
        let packets = self.packets.iter().skip(from as usize);
        packets.into_iter().find(|packet| packet.open > 0)
    }

    /// Marks that packet as copied, or as not worth a copy.
    pub(crate) fn on_copied(&mut self) {
        let copied = self.uncopied().map(|packet| packet.number + 1);
        self.copied = copied.unwrap_or(self.copied);
    }

    /// Removes one chunk of a packet from flight. Returns the packet's send time and snapshot, and
    /// the bytes removed.
    fn close(&mut self, number: u64, bytes: u64) -> Option<(Instant, Snapshot, u64)> {
        let place = number.checked_sub(self.first)?;
        let packet = self.packets.get_mut(place as usize)?;
        packet.open = packet.open.checked_sub(1)?;
        let bytes = match packet.open {
            0 => packet.bytes,
            _ => packet.bytes.min(bytes),
        };
        packet.bytes -= bytes;
        self.bytes -= bytes;
        if packet.open == 0 {
            self.open -= 1;
            self.loss -= self.loss * LOSS_WEIGHT;
        }
        Some((packet.at, packet.snapshot, bytes))
    }

    fn book_lost(&mut self, lost: &SentPacket) {
        self.loss += (1.0 - self.loss) * LOSS_WEIGHT;
        self.bytes -= lost.bytes;
        self.open -= 1;
        self.pop_closed();
    }

    fn pop_closed(&mut self) {
        while self.packets.front().is_some_and(|packet| packet.open == 0) {
            self.packets.pop_front();
            self.first += 1;
        }
    }
}

/// Weight of one packet in the share of losses: a loss shows for about a hundred packets.
const LOSS_WEIGHT: f64 = 1.0 / 128.0;
