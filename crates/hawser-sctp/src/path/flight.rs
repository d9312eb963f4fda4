//! What is under way on one path, and what of it is lost.

mod delivery;
mod pacer;
mod reordering;
#[cfg(test)]
mod tests;

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

/// What is under way on one path, like a QUIC connection's sent packets: each packet with DATA gets
/// the path's next number, whichever chunks it carries.
///
/// Loss is judged among the packets of one path alone, so that paths of different delay never make
/// each other's chunks look lost. Source: RFC 9002 §6.1, in place of RFC 9260's missing reports.
#[derive(Debug, Default)]
pub(crate) struct Flight {
    /// From the oldest of which anything is under way.
    packets: VecDeque<SentPacket>,
    /// The number of the first of them.
    first: u64,
    bytes: u64,
    /// Packets of which anything is under way.
    open: u64,
    /// The latest packet that was acknowledged, even in part.
    largest: Option<u64>,
    losses: LossRule,
    /// What T3 counts from: when something was acknowledged, or sent with nothing under way.
    timer: Instant,
    last_sent: Instant,
    probe: Probe,
    /// Packets before this one went over another path as well.
    copied: u64,
    news: Option<News>,
    delivery: Delivery,
    pacer: Pacer,
    reordering: Reordering,
    /// The share of packets that were lost lately.
    loss: f64,
}

/// A packet with DATA.
#[derive(Debug)]
pub(crate) struct SentPacket {
    pub(crate) number: u64,
    pub(crate) at: Instant,
    /// The chunks that it carried, by their places in the compound window.
    pub(crate) chunks: SmallVec<[u64; 2]>,
    /// What of it is neither acknowledged nor lost; the packet's header goes with the last chunk.
    pub(crate) bytes: u64,
    /// How many of the chunks that is.
    open: usize,
    snapshot: Snapshot,
}

/// What one SACK said of the path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct News {
    pub(crate) bytes: ByteCount,
    pub(crate) flight_before: ByteCount,
    pub(crate) newest_sent: Instant,
    /// When the latest of those chunks was sent that were sent once: Karn's rule.
    pub(crate) measurable: Option<Instant>,
    newest: Snapshot,
}

/// The tail loss probe: once for each time that nothing comes back.
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

    /// Bytes of packets under way, less the chunks in them that are not.
    pub(crate) fn bytes(&self) -> ByteCount {
        ByteCount::new(self.bytes)
    }

    /// The share of packets that were lost lately, 0 to 1.
    pub(crate) fn loss(&self) -> f64 {
        self.loss
    }

    /// Whether nothing is under way.
    pub(crate) fn is_empty(&self) -> bool {
        self.open == 0
    }

    /// Whether another packet may leave now, by the window and by the pace.
    pub(crate) fn is_ready(&self, now: Instant, window: ByteCount) -> bool {
        self.bytes() < window && self.is_paced(now)
    }

    /// Whether another packet may leave now by the pace alone.
    pub(crate) fn is_paced(&self, now: Instant) -> bool {
        self.pacer.free_at() <= now
    }

    /// Whether something waits for that and nothing else.
    pub(crate) fn set_waiting_for_pace(&mut self, is_waiting: bool) {
        self.pacer.set_waiting(is_waiting);
    }

    /// When it may.
    pub(crate) fn paced_at(&self) -> Instant {
        self.pacer.free_at()
    }

    /// The number that the next packet gets.
    pub(crate) fn next_number(&self) -> u64 {
        self.first + self.packets.len() as u64
    }

    /// A packet of `bytes` leaves with these chunks.
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

    /// When the packet left; `None` once nothing of it is under way.
    pub(crate) fn sent_at(&self, number: u64) -> Option<Instant> {
        let place = number.checked_sub(self.first)?;
        let packet = self.packets.get(place as usize)?;
        (packet.open > 0).then_some(packet.at)
    }

    /// A chunk of `bytes` in this packet was acknowledged. `once`: it was sent only once.
    pub(crate) fn acknowledge(&mut self, now: Instant, number: u64, bytes: u64, once: bool) {
        let before = self.bytes();
        let Some((at, snapshot, bytes)) = self.close(number, bytes) else {
            return;
        };
        // Any answer shows that more are to come, but RFC 2960 §6.3.2 has T3 wait for the oldest.
        if self.losses == LossRule::PerPath || number == self.first {
            self.timer = now;
        }
        self.largest = self.largest.max(Some(number));
        self.delivery.on_delivered(now, bytes, at);
        self.probe = Probe::Idle;
        let news = self.news.get_or_insert(News {
            bytes: ByteCount::ZERO,
            flight_before: before,
            newest_sent: at,
            measurable: None,
            newest: snapshot,
        });
        news.bytes += ByteCount::new(bytes);
        if once {
            news.measurable = news.measurable.max(Some(at));
        }
        if at >= news.newest_sent {
            news.newest_sent = at;
            news.newest = snapshot;
        }
        self.pop_closed();
    }

    /// A chunk in this packet is under way no more, and nobody knows whether it arrived.
    pub(crate) fn forget(&mut self, number: u64, bytes: u64) {
        self.close(number, bytes);
        self.pop_closed();
    }

    /// What the SACK that was just read said of this path.
    pub(crate) fn take_news(&mut self) -> Option<News> {
        self.news.take()
    }

    /// How fast the path delivered by the latest of the news; `None` where it was too little.
    pub(crate) fn rate_sample(&self, news: &News, min_rtt: Duration) -> Option<RateSample> {
        self.delivery.sample(&news.newest, min_rtt)
    }

    /// Whatever is delivered until all that is under way now has been says little of the path:
    /// it could have carried more.
    pub(crate) fn on_application_limited(&mut self) {
        self.delivery.on_application_limited(self.bytes);
    }

    /// The next packet that is lost: enough later ones of this path were acknowledged, or one and
    /// enough time has gone by.
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
        self.reordering.on_lost(&lost, self.next_number());
        Some(lost)
    }

    /// T3 has expired: everything under way is lost, oldest first.
    pub(crate) fn take_all(&mut self) -> Vec<SentPacket> {
        let open = self.packets.iter_mut().filter(|packet| packet.open > 0);
        let lost: Vec<_> = open.map(SentPacket::take).collect();
        lost.iter().for_each(|packet| self.book_lost(packet));
        self.probe = Probe::Idle;
        let next = self.next_number();
        self.reordering.on_timeout(&lost, next);
        lost
    }

    /// A chunk of this packet that was lost had only been late. Whether it turns out that nothing was
    /// lost since the window was last reduced.
    pub(crate) fn on_late(&mut self, number: u64) -> bool {
        self.reordering.on_late(number)
    }

    /// When everything under way is taken for lost; `None` where nothing is.
    pub(crate) fn t3(&self, rtt: &RttEstimator) -> Option<Instant> {
        (!self.is_empty()).then(|| self.timer + rtt.rto())
    }

    /// When the oldest packet that a later one has overtaken is lost.
    pub(crate) fn loss_at(&self, rtt: &RttEstimator) -> Option<Instant> {
        let largest = self.largest?;
        let before = self
            .packets
            .iter()
            .take_while(|packet| packet.number < largest);
        let oldest = before.into_iter().find(|packet| packet.open > 0)?;
        Some(oldest.at + self.reordering.patience(rtt))
    }

    /// When a probe is to bring an answer, so that a loss at the end does not wait for T3.
    /// Source: RFC 8985 §7.2.
    pub(crate) fn probe_at(&self, rtt: &RttEstimator, sack_delay: Duration) -> Option<Instant> {
        let smoothed = rtt.smoothed()?;
        // Once T3 has expired, its next expiry is the probe.
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

    /// The time for a probe has come.
    pub(crate) fn ask_for_probe(&mut self) {
        self.probe = Probe::Due;
    }

    /// Whether a probe is to be sent.
    pub(crate) fn is_probe_due(&self) -> bool {
        self.probe == Probe::Due
    }

    /// There was nothing to send for it.
    pub(crate) fn give_up_probe(&mut self) {
        self.probe = Probe::Sent;
    }

    /// The chunks of the latest packet of which anything is under way.
    pub(crate) fn latest(&self) -> Option<&SentPacket> {
        self.packets.iter().rev().find(|packet| packet.open > 0)
    }

    /// The oldest packet under way that no other path has a copy of.
    pub(crate) fn uncopied(&self) -> Option<&SentPacket> {
        let from = self.copied.saturating_sub(self.first);
        let packets = self.packets.iter().skip(from as usize);
        packets.into_iter().find(|packet| packet.open > 0)
    }

    /// That one went over another path as well, or need not.
    pub(crate) fn on_copied(&mut self) {
        let copied = self.uncopied().map(|packet| packet.number + 1);
        self.copied = copied.unwrap_or(self.copied);
    }

    /// Closes one chunk of a packet: when it was sent, what was known then, and the bytes that are
    /// under way no more.
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

impl SentPacket {
    /// Closes it, and gives out what it carried.
    fn take(&mut self) -> Self {
        Self {
            number: self.number,
            at: self.at,
            chunks: std::mem::take(&mut self.chunks),
            bytes: std::mem::take(&mut self.bytes),
            open: std::mem::take(&mut self.open),
            snapshot: self.snapshot,
        }
    }
}

/// What one packet counts for in the share of those that are lost: a loss shows for some hundred packets.
const LOSS_WEIGHT: f64 = 1.0 / 128.0;
