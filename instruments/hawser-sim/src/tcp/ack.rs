//! Effects of an acknowledgement on a sender.

use std::ops::Range;
use std::time::Duration;

use hawser_types::Instant;
use smallvec::SmallVec;

use super::packet::Packet;
use super::send::{Segment, Sender};
use super::window::{Phase, Progress};

/// What one acknowledgement has delivered.
#[derive(Debug, Default)]
pub(super) struct Delivered {
    pub(super) segments: u32,
    pub(super) rtt: Option<Duration>,
    pub(super) advanced: bool,
}

impl Sender {
    /// Takes in the acknowledgement that a packet carries.
    pub(super) fn on_acknowledgement(&mut self, now: Instant, packet: &Packet) {
        self.last_ack = now;
        self.peer_window = packet.window;
        if packet.acknowledged > self.next {
            return;
        }
        let in_flight_before = self.in_flight();
        let mut delivered = Delivered::default();
        self.take_selective(now, packet, &mut delivered);
        self.take_cumulative(now, packet.acknowledged, &mut delivered);
        if !self.has_ranges && !delivered.advanced {
            self.take_duplicate(now, packet, &mut delivered);
        }
        if delivered.segments == 0 && !delivered.advanced && packet.selective.is_empty() {
            self.end_probe(packet);
            return;
        }
        let sampled = delivered.rtt.or_else(|| {
            // A segment that was sent again: only its stamp tells which departure arrived.
            let echo = packet.echo.filter(|_| delivered.advanced)?;
            Some(now.since(echo))
        });
        if let Some(rtt) = sampled {
            self.rtt.on_sample(now, rtt, self.una, self.next);
        }
        self.end_probe(packet);
        if delivered.advanced {
            self.check_busy(now);
            self.repair.backoff = 0;
            self.undo_if_spurious(packet);
        }
        let lost_now = if self.has_ranges {
            self.detect_losses(now)
        } else {
            self.losses_by_count(delivered.advanced)
        };
        self.move_phase(lost_now);
        self.adjust_window(now, in_flight_before, &delivered, lost_now);
        if delivered.advanced || delivered.segments > 0 {
            self.arm(now);
        }
    }

    fn take_cumulative(&mut self, now: Instant, acknowledged: u64, total: &mut Delivered) {
        while let Some(front) = self.segments.front() {
            let end = front.sequence + u64::from(front.length);
            if end > acknowledged {
                break;
            }
            let Some(segment) = self.segments.pop_front() else {
                break;
            };
            if segment.delivered {
                self.counts.delivered -= 1;
            } else {
                self.forget_loss(&segment);
                self.on_delivered(now, &segment, total);
            }
            self.una = end;
            total.advanced = true;
        }
        self.selective.remove_below(self.una);
    }

    fn take_selective(&mut self, now: Instant, packet: &Packet, total: &mut Delivered) {
        for range in &packet.selective {
            let (start, end) = (range.start.max(self.una), range.end);
            if end > self.next {
                continue;
            }
            let mut fresh: SmallVec<[Range<u64>; 2]> = SmallVec::new();
            self.selective
                .insert_with(start..end, |part| fresh.push(part));
            for Range {
                start: from,
                end: to,
            } in fresh
            {
                let mut index = self
                    .segments
                    .partition_point(|segment| segment.sequence < from);
                while let Some(segment) = self.segments.get_mut(index)
                    && segment.sequence < to
                {
                    index += 1;
                    if segment.delivered {
                        continue;
                    }
                    segment.delivered = true;
                    let copy = segment.clone();
                    self.counts.delivered += 1;
                    self.forget_loss(&copy);
                    if let Some(segment) = self.segments.get_mut(index - 1) {
                        (segment.lost, segment.repaired) = (false, false);
                    }
                    self.on_delivered(now, &copy, total);
                }
            }
        }
    }

    fn forget_loss(&mut self, segment: &Segment) {
        if segment.lost {
            self.counts.lost -= 1;
            self.again.remove(&segment.sequence);
        }
        if segment.repaired {
            self.counts.repaired -= 1;
        }
    }

    pub(super) fn on_delivered(&mut self, now: Instant, segment: &Segment, total: &mut Delivered) {
        total.segments += 1;
        let end = segment.sequence + u64::from(segment.length);
        self.rate.on_delivered(segment.departure, segment.sent, end);
        let rtt = now.since(segment.sent);
        if segment.times == 1 {
            // The last one gives the time: it was the least delayed by the receiver.
            total.rtt = Some(total.rtt.map_or(rtt, |old| old.min(rtt)));
        } else if self.rtt.lowest().is_some_and(|lowest| rtt < lowest) {
            // It can't have been the last departure that arrived so soon.
            return;
        }
        if self
            .rack
            .newest
            .is_none_or(|newest| (segment.sent, end) > newest)
        {
            self.rack.newest = Some((segment.sent, end));
            self.rack.rtt = rtt;
        }
    }

    fn adjust_window(
        &mut self,
        now: Instant,
        in_flight_before: u32,
        delivered: &Delivered,
        lost_now: u32,
    ) {
        let sample = self.rate.take_sample(now, self.rtt.lowest());
        let progress = Progress {
            now,
            sample,
            delivered_now: delivered.segments,
            lost_now,
            in_flight_before,
            in_flight: self.in_flight(),
            delivered: self.rate.delivered,
            delivered_at: self.rate.delivered_at,
            rtt: delivered.rtt,
            smoothed_rtt: self.rtt.smoothed(),
            phase: self.repair.phase,
            una: self.una,
            next: self.next,
            window_limited: self.is_window_limited(),
            departure: self.departure,
            segment: self.segment,
        };
        self.control.on_progress(&progress, &mut self.window);
        if self.control.holds_back() {
            self.rate.on_app_limited(self.in_flight());
        }
        if !self.control.is_sovereign() && self.repair.phase == Phase::Recovery {
            self.reduce_proportionally(delivered.segments, lost_now, delivered.advanced);
        }
        if !self.control.is_sovereign() {
            self.pace_window();
        }
    }

    /// Source: RFC 6937, as Linux `tcp_cwnd_reduction` has it.
    fn reduce_proportionally(&mut self, delivered: u32, lost_now: u32, advanced: bool) {
        if delivered == 0 || self.repair.prior_window == 0 {
            return;
        }
        let in_flight = self.in_flight();
        let threshold = self.window.threshold;
        let repair = &mut self.repair;
        repair.delivered += delivered;
        let may_send = if in_flight > threshold {
            let share = u64::from(threshold) * u64::from(repair.delivered);
            let share = share.div_ceil(u64::from(repair.prior_window)) as u32;
            share.saturating_sub(repair.sent)
        } else {
            let mut count = repair.delivered.saturating_sub(repair.sent).max(delivered);
            if advanced && lost_now == 0 {
                count += 1;
            }
            count.min(threshold - in_flight)
        };
        let least = u32::from(repair.sent == 0);
        self.window.congestion = in_flight + may_send.max(least);
    }
}
