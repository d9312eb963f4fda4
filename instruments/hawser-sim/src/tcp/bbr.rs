mod aggregation;
mod max_filter;

use std::time::Duration;

use hawser_types::Instant;
use rand::Rng;
use rand::rngs::SmallRng;

use super::packet::SEGMENT;
use super::window::{INITIAL_WINDOW, Phase, Progress, Window};
use aggregation::Aggregation;
use max_filter::{BANDWIDTH_SHIFT, MaxFilter};

/// BBR, version 1, without its model of token-bucket policers.
///
/// Source: Cardwell et al., "BBR: Congestion-Based Congestion Control", ACM Queue 14(5), 2016;
/// constants and the order of steps from Linux `net/ipv4/tcp_bbr.c`.
#[derive(Debug)]
pub(super) struct Bbr {
    mode: Mode,
    rng: SmallRng,
    bandwidth: MaxFilter,
    min_rtt: Option<(Duration, Instant)>,
    probe_done: Option<Instant>,
    probe_round_done: bool,
    round: u64,
    round_start: bool,
    next_round_delivered: u64,
    full_bandwidth: u64,
    full_count: u32,
    full_reached: bool,
    cycle: usize,
    cycle_began: Instant,
    idle_restart: bool,
    packet_conservation: bool,
    last_phase: Phase,
    prior_window: u32,
    aggregation: Aggregation,
    seen_rtt: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Startup,
    Drain,
    ProbeBandwidth,
    ProbeRtt,
}

impl Bbr {
    pub(super) fn new(rng: SmallRng) -> Self {
        Self {
            mode: Mode::Startup,
            rng,
            bandwidth: MaxFilter::default(),
            min_rtt: None,
            probe_done: None,
            probe_round_done: false,
            round: 0,
            round_start: false,
            next_round_delivered: 0,
            full_bandwidth: 0,
            full_count: 0,
            full_reached: false,
            cycle: 0,
            cycle_began: Instant::ZERO,
            idle_restart: false,
            packet_conservation: false,
            last_phase: Phase::Open,
            prior_window: 0,
            aggregation: Aggregation::default(),
            seen_rtt: false,
        }
    }

    /// The handshake has measured a round trip.
    pub(super) fn on_established(&mut self, now: Instant, rtt: Duration, window: &mut Window) {
        self.min_rtt = Some((rtt, now));
        self.seen_rtt = true;
        self.cycle_began = now;
        self.aggregation.begin(now);
        window.pacing = Some(first_pacing(window.congestion, rtt, SEGMENT));
    }

    /// It takes over a connection that has carried data.
    pub(super) fn take_over(
        &mut self,
        now: Instant,
        (lowest, smoothed): (Duration, Duration),
        delivered: u64,
        window: &mut Window,
    ) {
        window.threshold = u32::MAX;
        self.on_established(now, smoothed, window);
        self.min_rtt = Some((lowest, now));
        self.next_round_delivered = delivered;
    }

    pub(super) fn on_progress(&mut self, p: &Progress, window: &mut Window) {
        self.update_bandwidth(p);
        let bandwidth = self.bandwidth.max();
        self.aggregation
            .on_progress(p, self.round_start, bandwidth, window.congestion);
        self.update_cycle(p, window);
        self.check_full(p);
        self.check_drain(p, window);
        self.update_min_rtt(p, window);
        self.set_pacing(self.pacing_gain(), p.smoothed_rtt, p.segment, window);
        self.set_window(p, window);
    }

    pub(super) fn min_rtt(&self) -> Option<Duration> {
        self.min_rtt.map(|(rtt, _)| rtt)
    }

    pub(super) fn save_window(&mut self, window: &Window) {
        if self.last_phase < Phase::Recovery && self.mode != Mode::ProbeRtt {
            self.prior_window = window.congestion;
        } else {
            self.prior_window = self.prior_window.max(window.congestion);
        }
    }

    pub(super) fn on_timeout(&mut self) {
        self.last_phase = Phase::Loss;
        self.full_bandwidth = 0;
        self.round_start = true;
    }

    pub(super) fn on_undo(&mut self) {
        self.full_bandwidth = 0;
        self.full_count = 0;
    }

    pub(super) fn on_restart(&mut self, now: Instant, window: &mut Window) {
        self.idle_restart = true;
        self.aggregation.restart(now);
        match self.mode {
            Mode::ProbeBandwidth => self.set_pacing(UNIT, None, SEGMENT, window),
            Mode::ProbeRtt => self.check_probe_done(now, now, window),
            _ => {}
        }
    }

    fn update_bandwidth(&mut self, p: &Progress) {
        self.round_start = false;
        if !p.sample.any || p.sample.delivered == 0 {
            return;
        }
        if p.sample.prior_delivered >= self.next_round_delivered {
            self.next_round_delivered = p.delivered;
            self.round += 1;
            self.round_start = true;
            self.packet_conservation = false;
        }
        let micros = (p.sample.interval.as_micros() as u64).max(1);
        let measured = (p.sample.delivered << BANDWIDTH_SHIFT) / micros;
        if !p.sample.app_limited || measured >= self.bandwidth.max() {
            self.bandwidth.add(self.round, measured);
        }
    }

    fn update_cycle(&mut self, p: &Progress, window: &Window) {
        if self.mode != Mode::ProbeBandwidth {
            return;
        }
        let min_rtt = self.min_rtt().unwrap_or_default();
        let full_length = p.delivered_at.since(self.cycle_began) > min_rtt;
        let gain = CYCLE[self.cycle];
        let in_net = || self.in_net(p, p.in_flight_before, gain, window);
        let next = match gain {
            UNIT => full_length,
            gain if gain > UNIT => {
                full_length && (p.lost_now > 0 || in_net() >= self.target(gain, window))
            }
            _ => full_length || in_net() <= self.target(UNIT, window),
        };
        if next {
            self.advance_cycle(p.delivered_at);
        }
    }

    fn advance_cycle(&mut self, at: Instant) {
        self.cycle = (self.cycle + 1) % CYCLE.len();
        self.cycle_began = at;
    }

    fn check_full(&mut self, p: &Progress) {
        if self.full_reached || !self.round_start || p.sample.app_limited {
            return;
        }
        let bandwidth = self.bandwidth.max();
        if bandwidth >= self.full_bandwidth * 5 / 4 {
            self.full_bandwidth = bandwidth;
            self.full_count = 0;
            return;
        }
        self.full_count += 1;
        self.full_reached = self.full_count >= 3;
    }

    fn check_drain(&mut self, p: &Progress, window: &mut Window) {
        if self.mode == Mode::Startup && self.full_reached {
            self.mode = Mode::Drain;
            window.threshold = self.target(UNIT, window);
        }
        if self.mode == Mode::Drain
            && self.in_net(p, p.in_flight, DRAIN_GAIN, window) <= self.target(UNIT, window)
        {
            self.probe_bandwidth(p.delivered_at);
        }
    }

    fn probe_bandwidth(&mut self, at: Instant) {
        self.mode = Mode::ProbeBandwidth;
        self.cycle = CYCLE.len() - 1 - self.rng.random_range(0..CYCLE.len() - 1);
        self.advance_cycle(at);
    }

    fn update_min_rtt(&mut self, p: &Progress, window: &mut Window) {
        let expired = self
            .min_rtt
            .is_some_and(|(_, at)| p.now > at + MIN_RTT_WINDOW);
        if let Some(rtt) = p.rtt
            && (expired || self.min_rtt.is_none_or(|(lowest, _)| rtt < lowest))
        {
            self.min_rtt = Some((rtt, p.now));
        }
        if expired && !self.idle_restart && self.mode != Mode::ProbeRtt {
            self.save_window(window);
            self.mode = Mode::ProbeRtt;
            self.probe_done = None;
        }
        if self.mode == Mode::ProbeRtt {
            match self.probe_done {
                None if p.in_flight <= MIN_WINDOW => {
                    self.probe_done = Some(p.now + PROBE_RTT_TIME);
                    self.probe_round_done = false;
                    self.next_round_delivered = p.delivered;
                }
                None => {}
                Some(_) => {
                    self.probe_round_done |= self.round_start;
                    if self.probe_round_done {
                        self.check_probe_done(p.now, p.delivered_at, window);
                    }
                }
            }
        }
        if p.sample.any && p.sample.delivered > 0 {
            self.idle_restart = false;
        }
    }

    /// Whether its samples count as limited by the application, as while it keeps the window low.
    pub(super) fn holds_back(&self) -> bool {
        self.mode == Mode::ProbeRtt
    }

    fn check_probe_done(&mut self, now: Instant, delivered_at: Instant, window: &mut Window) {
        if self.probe_done.is_none_or(|at| now <= at) {
            return;
        }
        if let Some((_, at)) = &mut self.min_rtt {
            *at = now;
        }
        window.congestion = window.congestion.max(self.prior_window);
        if self.full_reached {
            self.probe_bandwidth(delivered_at);
        } else {
            self.mode = Mode::Startup;
        }
    }

    fn pacing_gain(&self) -> u64 {
        match self.mode {
            Mode::Startup => HIGH_GAIN,
            Mode::Drain => DRAIN_GAIN,
            Mode::ProbeBandwidth => CYCLE[self.cycle],
            Mode::ProbeRtt => UNIT,
        }
    }

    fn window_gain(&self) -> u64 {
        match self.mode {
            Mode::Startup | Mode::Drain => HIGH_GAIN,
            Mode::ProbeBandwidth => 2 * UNIT,
            Mode::ProbeRtt => UNIT,
        }
    }

    fn set_pacing(
        &mut self,
        gain: u64,
        smoothed: Option<Duration>,
        segment: u32,
        window: &mut Window,
    ) {
        if !self.seen_rtt
            && let Some(rtt) = smoothed
        {
            self.seen_rtt = true;
            window.pacing = Some(first_pacing(window.congestion, rtt, segment));
        }
        let rate = (self.bandwidth.max() * u64::from(segment) * gain) >> GAIN_SHIFT;
        // One per cent less, so that the queue drains.
        let rate = ((u128::from(rate) * 990_000) >> BANDWIDTH_SHIFT) as u64;
        if self.full_reached || window.pacing.is_none_or(|old| rate > old) {
            window.pacing = Some(rate.max(MIN_PACING));
        }
    }

    fn set_window(&mut self, p: &Progress, window: &mut Window) {
        if p.delivered_now > 0 && !self.recovers(p, window) {
            let target = self.product(self.window_gain()) + self.aggregated();
            let target = self.with_budget(target, window);
            if self.full_reached {
                window.congestion = (window.congestion + p.delivered_now).min(target);
            } else if window.congestion < target || p.delivered < u64::from(INITIAL_WINDOW) {
                window.congestion += p.delivered_now;
            }
            window.congestion = window.congestion.max(MIN_WINDOW);
        }
        if self.mode == Mode::ProbeRtt {
            window.congestion = window.congestion.min(MIN_WINDOW);
        }
    }

    /// Deals with the rounds around a loss. Whether the window is set with that.
    fn recovers(&mut self, p: &Progress, window: &mut Window) -> bool {
        let mut congestion = window.congestion;
        if p.lost_now > 0 {
            congestion = congestion.saturating_sub(p.lost_now).max(1);
        }
        if p.phase == Phase::Recovery && self.last_phase != Phase::Recovery {
            self.packet_conservation = true;
            self.next_round_delivered = p.delivered;
            congestion = p.in_flight + p.delivered_now;
        } else if self.last_phase >= Phase::Recovery && p.phase < Phase::Recovery {
            congestion = congestion.max(self.prior_window);
            self.packet_conservation = false;
        }
        self.last_phase = p.phase;
        if self.packet_conservation {
            congestion = congestion.max(p.in_flight + p.delivered_now);
        }
        window.congestion = congestion;
        self.packet_conservation
    }

    /// Bandwidth times delay times gain, in segments.
    fn product(&self, gain: u64) -> u32 {
        let Some((rtt, _)) = self.min_rtt else {
            return INITIAL_WINDOW;
        };
        let segments = u128::from(self.bandwidth.max()) * rtt.as_micros();
        let scaled = (segments * u128::from(gain)) >> GAIN_SHIFT;
        u32::try_from(scaled.div_ceil(1 << BANDWIDTH_SHIFT)).unwrap_or(u32::MAX / 4)
    }

    fn with_budget(&self, segments: u32, window: &Window) -> u32 {
        let mut segments = segments + 3 * window.burst();
        segments = (segments + 1) & !1;
        if self.mode == Mode::ProbeBandwidth && self.cycle == 0 {
            segments += 2;
        }
        segments
    }

    fn target(&self, gain: u64, window: &Window) -> u32 {
        self.with_budget(self.product(gain), window)
    }

    fn aggregated(&self) -> u32 {
        if !self.full_reached {
            return 0;
        }
        let most = (self.bandwidth.max() * 100_000) >> BANDWIDTH_SHIFT;
        self.aggregation
            .extra()
            .min(u32::try_from(most).unwrap_or(u32::MAX))
    }

    /// Segments that will be in the network when the next one may leave.
    fn in_net(&self, p: &Progress, in_flight: u32, gain: u64, window: &Window) -> u32 {
        let wait = p.departure.since(p.now).as_micros() as u64;
        let gone = (self.bandwidth.max() * wait) >> BANDWIDTH_SHIFT;
        let more = if gain > UNIT { window.burst() } else { 0 };
        (in_flight + more).saturating_sub(u32::try_from(gone).unwrap_or(u32::MAX))
    }
}

/// The rate before any is measured: the window in one round trip, times the gain of the start.
fn first_pacing(congestion: u32, rtt: Duration, segment: u32) -> u64 {
    let micros = (rtt.as_micros() as u64).max(1);
    let rate = u64::from(congestion) * u64::from(segment) * 1_000_000 / micros;
    (((rate * HIGH_GAIN) >> GAIN_SHIFT) * 99 / 100).max(MIN_PACING)
}

/// Gains are in 256ths.
const GAIN_SHIFT: u32 = 8;
const UNIT: u64 = 1 << GAIN_SHIFT;
const HIGH_GAIN: u64 = UNIT * 2885 / 1000 + 1;
const DRAIN_GAIN: u64 = UNIT * 1000 / 2885;
const CYCLE: [u64; 8] = [
    UNIT * 5 / 4,
    UNIT * 3 / 4,
    UNIT,
    UNIT,
    UNIT,
    UNIT,
    UNIT,
    UNIT,
];
const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);
const PROBE_RTT_TIME: Duration = Duration::from_millis(200);
const MIN_WINDOW: u32 = 4;
/// Bytes per second; less would stop the connection for good.
const MIN_PACING: u64 = 1000;
