//! Losses: their detection and repair.

use std::time::Duration;

use hawser_types::Instant;

use super::packet::Packet;
use super::send::{Forced, Sender};
use super::window::Phase;

impl Sender {
    /// Declares lost what left before the newest delivered segment. Returns how many segments.
    ///
    /// Source: RFC 8985 §6.2, without the doubling for reordering, which these links never do.
    pub(super) fn detect_losses(&mut self, now: Instant) -> u32 {
        self.timers.reordering = None;
        let Some(newest) = self.rack.newest else {
            return 0;
        };
        let patience = self.rack.rtt + self.reordering_window();
        let mut lost = 0;
        while let Some((sent, sequence, times)) = self.departures.front().copied() {
            let Some(index) = self.find(sequence) else {
                self.departures.pop_front();
                continue;
            };
            let segment = &self.segments[index];
            let stale = segment.times != times || segment.delivered || segment.needs_repair();
            if stale {
                self.departures.pop_front();
                continue;
            }
            let end = sequence + u64::from(segment.length);
            if (sent, end) >= newest {
                break;
            }
            let due = sent + patience;
            if due > now {
                self.timers.reordering = Some(due);
                break;
            }
            self.departures.pop_front();
            self.declare_lost(index);
            lost += 1;
        }
        lost
    }

    pub(super) fn move_phase(&mut self, lost_now: u32) {
        if self.repair.phase != Phase::Open && self.una >= self.repair.until {
            if self.repair.phase == Phase::Recovery {
                self.window_after_recovery();
            }
            self.end_repair();
        }
        if self.repair.phase == Phase::Open && (lost_now > 0 || self.counts.lost > 0) {
            self.begin_repair(Phase::Recovery);
            // What is repaired first may leave whatever the window says.
            if let Some(first) = self.again.first().copied() {
                self.repair.forced = Some(Forced::Again(first));
            }
        }
    }

    /// A timer of this connection has run out. Which one shows from the time.
    pub(super) fn on_timeout(&mut self, now: Instant) {
        if self.timers.pacing.is_some_and(|at| at <= now) {
            self.timers.pacing = None;
        }
        if self.timers.reordering.is_some_and(|at| at <= now) {
            let lost = self.detect_losses(now);
            self.move_phase(lost);
        }
        if self.timers.probe.is_some_and(|at| at <= now) {
            self.timers.probe = None;
            self.probe_for_loss(now);
        }
        if self.timers.retransmission.is_some_and(|at| at <= now) {
            self.timers.retransmission = None;
            self.on_retransmission_timeout(now);
        }
    }

    /// Starts the timer for what is in flight: a loss probe first, where one makes sense.
    pub(super) fn arm(&mut self, now: Instant) {
        (self.timers.probe, self.timers.retransmission) = (None, None);
        if self.segments.is_empty() {
            return;
        }
        let timeout = self.timeout();
        let quiet = self.repair.phase == Phase::Open
            && self.counts.delivered == 0
            && self.repair.probe.is_none();
        if quiet {
            // RFC 8985 §7.2.
            let single = self.segments.len() == 1;
            let twice = self.rtt.smoothed().map(|rtt| rtt * 2);
            let wait = twice.map_or(FIRST_PROBE, |twice| {
                twice + if single { SINGLE_PROBE } else { TICKS }
            });
            self.timers.probe = Some(now + wait.min(timeout));
        } else {
            self.timers.retransmission = Some(now + timeout);
        }
    }

    /// Source: RFC 8985 §7.3.
    fn probe_for_loss(&mut self, now: Instant) {
        let Some(last) = self.segments.back() else {
            return;
        };
        let fresh = self.unsent() > 0;
        self.repair.probe = Some((self.next, !fresh));
        self.repair.forced = Some(if fresh {
            Forced::New
        } else {
            Forced::Again(last.sequence)
        });
        self.timers.retransmission = Some(now + self.timeout());
    }

    /// A probe was answered. When it repeated a segment that had been lost, that was a loss like
    /// any other for congestion control.
    pub(super) fn end_probe(&mut self, packet: &Packet) {
        let Some((until, repeated)) = self.repair.probe else {
            return;
        };
        if packet.acknowledged < until {
            return;
        }
        self.repair.probe = None;
        if repeated && !packet.duplicate && self.repair.phase == Phase::Open {
            self.begin_repair(Phase::Recovery);
            self.window_after_recovery();
            self.end_repair();
        }
    }

    /// Sets the window to the threshold of the loss, unless the recovery began under a congestion
    /// control without a threshold and another control took over meanwhile.
    ///
    /// Source: Linux `tcp_end_cwnd_reduction`.
    fn window_after_recovery(&mut self) {
        if !self.control.is_sovereign() && self.window.threshold < u32::MAX {
            self.window.congestion = self.window.threshold;
        }
    }

    /// An acknowledgement that answers what was sent before the first repetition: nothing had
    /// been lost, it was only late.
    ///
    /// Source: RFC 4015.
    pub(super) fn undo_if_spurious(&mut self, packet: &Packet) {
        let (Some(began), Some(echo)) = (self.repair.began, packet.echo) else {
            return;
        };
        if self.repair.phase == Phase::Open || echo >= began || self.repair.prior_window == 0 {
            return;
        }
        for index in 0..self.segments.len() {
            let segment = &mut self.segments[index];
            if segment.needs_repair() {
                segment.lost = false;
                self.counts.lost -= 1;
                self.again.remove(&segment.sequence);
                self.departures
                    .push_back((segment.sent, segment.sequence, segment.times));
            }
        }
        // Departures stay in the order of time.
        self.departures.make_contiguous().sort_unstable();
        let window = &mut self.window;
        window.congestion = window.congestion.max(self.repair.prior_window);
        window.threshold = window.threshold.max(self.repair.prior_threshold);
        self.control.on_undo();
        self.end_repair();
    }

    fn on_retransmission_timeout(&mut self, now: Instant) {
        if self.segments.is_empty() {
            return;
        }
        if self.repair.phase == Phase::Open || self.una >= self.repair.until {
            self.end_repair();
            self.begin_repair(Phase::Loss);
        } else {
            self.repair.phase = Phase::Loss;
            self.repair.until = self.next;
        }
        self.control.on_timeout();
        self.forget_guesses();
        let patience = self.rack.rtt;
        for index in 0..self.segments.len() {
            let segment = &self.segments[index];
            // What left a short while ago may still arrive.
            let recent = index > 0 && segment.sent + patience > now;
            if !segment.delivered && !segment.needs_repair() && !recent {
                self.declare_lost(index);
            }
        }
        self.window.congestion = self.in_flight() + 1;
        self.repair.probe = None;
        self.repair.backoff = (self.repair.backoff + 1).min(MAX_BACKOFF);
        if let Some(first) = self.again.first().copied() {
            self.repair.forced = Some(Forced::Again(first));
        }
        self.timers.retransmission = Some(now + self.timeout());
    }

    fn begin_repair(&mut self, phase: Phase) {
        self.repair.prior_window = self.window.congestion;
        self.repair.prior_threshold = self.window.threshold;
        self.window.threshold = self.control.threshold(&self.window);
        self.repair.phase = phase;
        self.repair.until = self.next;
        self.repair.delivered = 0;
        self.repair.sent = 0;
        self.repair.began = None;
    }

    fn end_repair(&mut self) {
        self.repair.phase = Phase::Open;
        self.repair.began = None;
        self.repair.prior_window = 0;
    }

    pub(super) fn declare_lost(&mut self, index: usize) {
        let segment = &mut self.segments[index];
        if segment.repaired {
            segment.repaired = false;
            self.counts.repaired -= 1;
        }
        if !segment.lost {
            segment.lost = true;
            self.counts.lost += 1;
        }
        self.again.insert(segment.sequence);
    }

    fn reordering_window(&self) -> Duration {
        if self.repair.phase >= Phase::Recovery || self.counts.delivered >= DUPLICATES {
            return Duration::ZERO;
        }
        self.rtt.lowest().unwrap_or_default() / 4
    }

    fn timeout(&self) -> Duration {
        (self.rtt.timeout() * (1 << self.repair.backoff)).min(MAX_TIMEOUT)
    }
}

pub(super) const DUPLICATES: u32 = 3;
const FIRST_PROBE: Duration = Duration::from_secs(1);
const SINGLE_PROBE: Duration = Duration::from_millis(200);
/// `TCP_TIMEOUT_MIN` at 250 ticks a second.
const TICKS: Duration = Duration::from_millis(8);
const MAX_BACKOFF: u32 = 10;
const MAX_TIMEOUT: Duration = Duration::from_secs(120);
