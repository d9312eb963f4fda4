mod model;
mod movement;
mod startup;

use std::time::Duration;

use hawser_types::{ByteCount, Instant, Rate};

use super::control::{Acknowledged, CongestionControl, Lost, MAX_WINDOW, initial_window};
use model::Model;
use startup::Startup;

/// BBR: sends at the measured delivery rate, with little more in flight than the path holds.
///
/// The states and gains are those of draft-ietf-ccwg-bbr. The differences:
///
/// - Losses limit the window only where they exceed what chance explains for this path's usual loss
///   rate, 2 % or more: packets that a radio link loses do not indicate a queue. A queue that
///   overflows under a probe loses far more.
/// - Startup ends with the first round whose rate no longer grows while every packet of it waited,
///   also where the application limits the rate.
/// - The rate is probed about every eight round trips, as in BBR's first version, to follow links
///   whose rate changes. Where it has doubled or halved within seconds, as over radio, it is probed
///   every few, and steeply as soon as a queue is gone.
///
/// `docs/design/association-paths.md` has all of them, and why.
#[derive(Debug)]
pub(crate) struct Bbr {
    packet: u64,
    window: u64,
    pacing: Option<u64>,
    phase: Phase,
    model: Model,
    /// Upper bound of bytes in flight, from a probe that lost too much.
    inflight_long_term: Option<u64>,
    /// Upper bounds until the next probe, from losses without a probe.
    short_term: Option<ShortTermBounds>,
    startup: Startup,
    /// The last probe, while acknowledgements of its packets may be outstanding.
    last_probe: Option<Probe>,
    /// Consecutive time-outs.
    timeouts: u32,
    /// Window before the first of them.
    window_before_timeouts: u64,
    /// State before too many of them reset it; kept until the path is measured again.
    forgotten: Option<Box<Self>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// Doubles the rate with each round trip.
    Startup,
    /// Drains the queue that startup has built.
    Drain,
    /// Sends below the rate, to drain the queue of the last probe.
    Down { rounds: u32 },
    /// Sends at the rate.
    Cruise { until: Instant, rounds: u32 },
    /// Sends at the rate for a round trip, without the short-term bounds, to fill the path before a
    /// probe.
    Refill { rounds: u32 },
    /// Sends above the rate.
    Up { since: Instant, probe: Probe },
    /// Sends little for a short time, to measure the path's delay without a queue.
    ProbeRtt {
        lowest: Option<Duration>,
        done: Option<Instant>,
        /// The window to which the path returns.
        before: u64,
    },
}

/// A probe for more bandwidth, by the factor `gain`. `best`: the rate at its start.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Probe {
    best: u64,
    gain: f64,
}

#[derive(Clone, Copy, Debug)]
struct ShortTermBounds {
    rate: u64,
    flight: u64,
}

impl Bbr {
    pub(crate) fn new(packet: ByteCount) -> Self {
        let packet = packet.as_u64().max(1);
        Self {
            packet,
            window: initial_window(packet),
            pacing: None,
            phase: Phase::Startup,
            model: Model::default(),
            inflight_long_term: None,
            short_term: None,
            startup: Startup::default(),
            last_probe: None,
            timeouts: 0,
            window_before_timeouts: 0,
            forgotten: None,
        }
    }

    /// Judges the losses of a round at its end.
    fn judge_losses(&mut self) {
        let too_much = match self.phase {
            Phase::Startup => self.model.loses_too_much_at_first(self.packet),
            _ => self.model.loses_too_much(self.packet),
        };
        if !too_much {
            return;
        }
        let carried = self.model.round_carried();
        match self.phase {
            Phase::Startup | Phase::Refill { .. } | Phase::Up { .. } => {
                let least = self.product(1.0);
                self.inflight_long_term = Some(carried.max(least));
                self.startup.is_over = true;
            }
            _ => {
                let before = self.short_term.unwrap_or(ShortTermBounds {
                    rate: self.model.rate(),
                    flight: self.window,
                });
                self.short_term = Some(ShortTermBounds {
                    rate: ((before.rate as f64 * LOSS_BETA) as u64).max(self.model.round_rate()),
                    flight: ((before.flight as f64 * LOSS_BETA) as u64).max(carried),
                });
            }
        }
    }

    fn advance(&mut self, ack: &Acknowledged, too_much: bool) {
        let (now, flight) = (ack.now, ack.flight.as_u64());
        let round = self.model.is_round_start();
        // If neighbours gave way to a probe, instead of unused bandwidth, a queue remains.
        let has_found = |probe: &_| self.has_grown(probe) && self.model.is_without_queue();
        if let Phase::Down { .. } | Phase::Cruise { .. } = self.phase
            && let Some(probe) = self.last_probe.filter(has_found)
        {
            self.phase = self.steeper(now, probe);
            return;
        }
        match self.phase {
            Phase::Startup if self.startup.is_over => self.phase = Phase::Drain,
            Phase::Drain if flight <= self.unqueued(1.0) => self.cruise(now),
            Phase::Down { rounds } => {
                let rounds = rounds.saturating_add(u32::from(round));
                self.phase = Phase::Down { rounds };
                if flight <= self.unqueued(1.0) || round && self.drains_no_more(rounds) {
                    self.cruise(now);
                }
            }
            Phase::Cruise { until, rounds } => {
                let rounds = rounds.saturating_add(u32::from(round));
                self.last_probe.take_if(|_| rounds >= ANSWERED_AFTER);
                self.phase = if round && self.model.has_risen() {
                    self.short_term = None;
                    self.up(now, STEEPEST)
                } else if now >= until && rounds >= CRUISE_ROUNDS {
                    self.short_term = None;
                    Phase::Refill { rounds: 0 }
                } else {
                    Phase::Cruise { until, rounds }
                };
            }
            Phase::Refill { rounds } if round => {
                self.phase = if rounds > 0 {
                    self.up(now, GAIN_UP)
                } else {
                    Phase::Refill { rounds: 1 }
                };
            }
            Phase::Up { since, probe } => self.phase = self.go_on_up(ack, since, probe, too_much),
            _ => {}
        }
    }

    /// Continues a probe. It lasts a round trip at least, since acknowledgements of packets sent at
    /// the old rate hide it before; the result shows a round trip later.
    fn go_on_up(
        &mut self,
        ack: &Acknowledged,
        since: Instant,
        probe: Probe,
        too_much: bool,
    ) -> Phase {
        let (now, before) = (ack.now, ack.flight_before.as_u64());
        if too_much {
            return Phase::Down { rounds: 0 };
        }
        let elapsed = now.since(since);
        if elapsed <= self.model.typical_rtt() {
            return Phase::Up { since, probe };
        }
        if self.has_grown(&probe) {
            return self.steeper(now, probe);
        }
        let full = before >= self.unqueued(probe.gain) || before + self.packet > self.window;
        if full || self.model.is_limited() || elapsed > ack.smoothed_rtt * LONGEST_PROBE {
            self.raise();
            self.last_probe = Some(probe);
            return Phase::Down { rounds: 0 };
        }
        Phase::Up { since, probe }
    }

    /// Tells whether sending less than the rate no longer shortens the queue, at the end of a
    /// round. It shows from the second round on, in packets that were sent meanwhile. The queue of
    /// this path alone shrinks by a quarter of each round trip. Where it shrinks by far less,
    /// others take the place, and waiting for them would give the link away.
    fn drains_no_more(&self, rounds: u32) -> bool {
        let least = 1.0 - (1.0 - GAIN_DOWN) * STILL_DRAINING;
        rounds >= DRAINED_AFTER && !self.model.has_shortened(least)
    }

    /// Starts a steeper probe after one that the path has carried.
    fn steeper(&mut self, now: Instant, probe: Probe) -> Phase {
        if self.last_probe.take().is_none() {
            self.raise();
        }
        self.up(now, (probe.gain * probe.gain).min(STEEPEST))
    }

    fn has_grown(&self, probe: &Probe) -> bool {
        let least = 1.0 + (probe.gain - 1.0) * STILL_RISING;
        self.model.rate() as f64 > probe.best as f64 * least
    }

    /// Raises the bound after a probe without harm.
    fn raise(&mut self) {
        let raised = self
            .inflight_long_term
            .map(|inflight_long_term| (inflight_long_term as f64 * GAIN_UP) as u64);
        self.inflight_long_term = raised.filter(|raised| *raised < 3 * self.product(1.0));
    }

    fn up(&mut self, now: Instant, gain: f64) -> Phase {
        self.model.next_cycle();
        let best = self.model.rate();
        Phase::Up {
            since: now,
            probe: Probe { best, gain },
        }
    }

    fn cruise(&mut self, now: Instant) {
        // Senders on one link must not probe in step; some bits of the time serve as randomness.
        let spread = (now.as_nanos().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 62) as u32;
        let trips = if self.model.is_moving() {
            // The rounds of a cruise are a pause by themselves.
            0
        } else {
            CRUISE + spread
        };
        let pause = self.model.min_rtt() * trips;
        self.phase = Phase::Cruise {
            until: now + pause.min(LONGEST_CRUISE),
            rounds: 0,
        };
    }

    /// Measures the path's delay when the minimum round-trip time is old.
    fn probe_rtt(&mut self, ack: &Acknowledged) {
        let (now, flight) = (ack.now, ack.flight.as_u64());
        let low = self.window_of_probe();
        match &mut self.phase {
            Phase::ProbeRtt {
                lowest,
                done,
                before,
            } => {
                *lowest = [*lowest, ack.rtt].into_iter().flatten().min();
                if done.is_none() && flight <= low {
                    // A smoothed round trip has the queue in it that is gone now.
                    *done = Some(now + PROBE_RTT.max(self.model.typical_rtt()));
                }
                if done.is_some_and(|done| now >= done) {
                    if let Some(lowest) = *lowest {
                        self.model.renew_min_rtt(now, lowest);
                    }
                    self.window = self.window.max(*before);
                    if self.startup.is_over {
                        self.cruise(now);
                    } else {
                        self.phase = Phase::Startup;
                    }
                }
            }
            _ if !self.model.is_min_rtt_old(now) => {}
            _ if ack.flight_before.as_u64() <= low => {
                // So little is in flight that this path has no queue of its own.
                if let Some(rtt) = ack.rtt {
                    self.model.renew_min_rtt(now, rtt);
                }
            }
            phase => {
                *phase = Phase::ProbeRtt {
                    lowest: None,
                    done: None,
                    before: self.window,
                }
            }
        }
    }

    fn rate(&self) -> u64 {
        let most = self
            .short_term
            .map_or(u64::MAX, |short_term| short_term.rate);
        self.model.rate().min(most)
    }

    /// Returns the bandwidth-delay product times `gain`.
    fn product(&self, gain: f64) -> u64 {
        self.carried_within(self.model.min_rtt(), gain)
    }

    /// Returns the bytes in flight without a queue, times `gain`.
    fn unqueued(&self, gain: f64) -> u64 {
        self.carried_within(self.model.typical_rtt(), gain)
    }

    fn carried_within(&self, span: Duration, gain: f64) -> u64 {
        let product = self.rate() as f64 * span.as_secs_f64() * gain;
        if product > 0.0 {
            product.min(MAX_WINDOW as f64) as u64
        } else {
            initial_window(self.packet)
        }
    }

    fn set_pacing(&mut self, ack: &Acknowledged) {
        let gain = match self.phase {
            Phase::Startup => GAIN_STARTUP,
            Phase::Drain => 1.0 / GAIN_STARTUP,
            Phase::Down { .. } => GAIN_DOWN,
            Phase::Up { probe, .. } => probe.gain,
            Phase::Cruise { .. } | Phase::Refill { .. } | Phase::ProbeRtt { .. } => 1.0,
        };
        let mut rate = self.rate() as f64 * gain * MARGIN;
        if self.pacing.is_none() {
            // Early delivery samples may come from a short message and a delayed acknowledgement,
            // and say nothing about the rate.
            let rtt = ack.rtt.unwrap_or(ack.smoothed_rtt);
            if rtt.is_zero() {
                return;
            }
            rate = rate.max(self.window as f64 / rtt.as_secs_f64() * gain);
        }
        let rate = (rate as u64).clamp(MIN_PACING, MAX_PACING);
        if self.startup.is_over || self.pacing.is_none_or(|old| rate > old) {
            self.pacing = Some(rate);
        }
    }

    fn set_window(&mut self, ack: &Acknowledged) {
        let bytes = ack.bytes.as_u64();
        let gain = match self.phase {
            Phase::Up { probe, .. } => 1.0 + probe.gain,
            _ => 2.0,
        };
        let target = self.product(gain) + self.aggregated() + 3 * self.quantum();
        let grown = self.window.saturating_add(bytes);
        if self.startup.is_over {
            self.window = grown.min(target);
        } else if self.window < target || self.may_grow_unmeasured(ack) {
            self.window = grown;
        }
        self.window = self.window.min(self.bound());
        if let Phase::ProbeRtt { .. } = self.phase {
            self.window = self.window.min(self.window_of_probe());
        }
        self.window = self.window.clamp(MIN_PACKETS * self.packet, MAX_WINDOW);
    }

    /// Tells whether the window grows by all that arrives of the first window, whose rate is little
    /// proof. Where its packets wait for longer than the path is long, the link is slow: twice as
    /// much overflows its queue, and the repair waits behind the rest.
    fn may_grow_unmeasured(&self, ack: &Acknowledged) -> bool {
        let length = self.model.min_rtt();
        let waited = ack.rtt.unwrap_or_default().saturating_sub(length);
        let is_slow = waited >= SLOW_QUEUE.max(length) && self.model.rate() >= SLOWEST;
        !is_slow && self.model.delivered() < initial_window(self.packet)
    }

    /// Returns the bound that losses have set.
    fn bound(&self) -> u64 {
        let inflight_long_term = self.inflight_long_term.unwrap_or(u64::MAX);
        match self.phase {
            Phase::Up { .. } => (inflight_long_term as f64 * GAIN_UP) as u64,
            // Headroom for other flows.
            Phase::Cruise { .. } | Phase::Down { .. } => {
                let short_term = self
                    .short_term
                    .map_or(u64::MAX, |short_term| short_term.flight);
                short_term.min((inflight_long_term as f64 * HEADROOM) as u64)
            }
            _ => inflight_long_term,
        }
    }

    /// Returns the bytes in flight that bursts of acknowledgements need, at the rate of now. While
    /// it rises, all that comes seems to be a burst, so that startup counts little of it.
    fn aggregated(&self) -> u64 {
        let most = if self.startup.is_over {
            self.rate() / BURSTS_PER_SECOND
        } else {
            self.product(0.4)
        };
        self.model.aggregated().min(most)
    }

    fn window_of_probe(&self) -> u64 {
        self.product(0.5).max(MIN_PACKETS * self.packet)
    }

    /// Returns the bytes that may leave at once.
    fn quantum(&self) -> u64 {
        let millisecond = self.pacing.unwrap_or(0) / 1000;
        millisecond.clamp(2 * self.packet, MAX_QUANTUM.max(2 * self.packet))
    }
}

impl CongestionControl for Bbr {
    fn window(&self) -> ByteCount {
        ByteCount::new(self.window)
    }

    fn pacing(&self) -> Option<Rate> {
        self.pacing.map(Rate::from_bytes_per_second)
    }

    fn short_queue(&self) -> Option<ByteCount> {
        let most = self.carried_within(LONGEST_BURST, 1.0);
        let queue = self.model.aggregated().min(most).max(self.unqueued(0.25));
        let bytes = ByteCount::new(self.unqueued(1.0) + queue);
        self.startup.is_over.then_some(bytes)
    }

    fn on_sent(&mut self, now: Instant, _: ByteCount, flight: ByteCount) {
        if flight == ByteCount::ZERO {
            self.model.on_idle(now);
        }
    }

    fn on_acknowledged(&mut self, ack: &Acknowledged) {
        self.timeouts = 0;
        if ack.rtt.is_some() {
            self.forgotten = None;
        }
        self.model.on_acknowledged(ack, self.window);
        let round = self.model.is_round_start();
        let too_much = round && self.model.loses_too_much(self.packet);
        if round {
            self.judge_losses();
            // Behind a queue of others little of the window is used.
            let is_used = ack.flight_before.as_u64() >= self.window / 2;
            let queued = is_used && self.model.has_queue();
            let limited = self.model.is_limited();
            self.startup.judge(self.model.rate(), queued, limited);
        }
        self.advance(ack, too_much);
        self.probe_rtt(ack);
        if round {
            let steady = match self.phase {
                Phase::Startup => self.model.is_without_queue(),
                Phase::Cruise { .. } | Phase::Refill { .. } => {
                    self.model.note_rate(ack.now);
                    true
                }
                _ => false,
            };
            self.model.begin_round(ack.now, steady);
        }
        self.set_pacing(ack);
        self.set_window(ack);
    }

    fn on_lost(&mut self, lost: &Lost) {
        self.model.on_lost(lost.bytes.as_u64());
    }

    fn on_timeout(&mut self, _: Instant) {
        self.timeouts = self.timeouts.saturating_add(1);
        if self.timeouts == 1 {
            self.window_before_timeouts = self.window;
        }
        if self.timeouts == FORGET_AFTER_TIMEOUTS {
            // After so many time-outs the path may be a different one.
            let fresh = Self {
                timeouts: FORGET_AFTER_TIMEOUTS,
                window_before_timeouts: self.window_before_timeouts,
                ..Self::new(ByteCount::new(self.packet))
            };
            self.forgotten = Some(Box::new(std::mem::replace(self, fresh)));
        }
        self.window = self.packet;
    }

    fn on_spurious(&mut self, _: Instant) {
        if let Some(known) = self.forgotten.take() {
            // Answers of before show that it is the same path.
            let packet = self.packet;
            *self = Self { packet, ..*known };
        }
        self.window = self
            .window
            .max(std::mem::take(&mut self.window_before_timeouts));
    }

    fn on_longer_way(&mut self, now: Instant, shortest: Duration) {
        self.model.on_longer_way(now, shortest);
    }

    fn on_packet_size(&mut self, size: ByteCount) {
        self.packet = size.as_u64().max(1);
        self.window = self.window.max(self.packet);
    }
}

const GAIN_STARTUP: f64 = 2.77;
/// Wait of a packet of the first window that tells a slow link: the last of ten waits for less from
/// 1.3 Mbit/s on.
const SLOW_QUEUE: Duration = Duration::from_millis(90);
/// Rate in bytes per second below which the first window takes so long that its growth costs less
/// than packets that come late to an empty link: 200 kbit/s.
const SLOWEST: u64 = 25_000;
const GAIN_UP: f64 = 1.25;
const GAIN_DOWN: f64 = 0.75;
/// Pacing margin: one per cent below the measured rate, so that no queue stays.
const MARGIN: f64 = 0.99;
/// Share of the probed increase from which a steeper probe follows at once; a neighbour gives way
/// to less.
const STILL_RISING: f64 = 0.6;
const STEEPEST: f64 = 2.0;
/// Number of rounds after which sending less shows in round-trip times.
const DRAINED_AFTER: u32 = 2;
/// Share of what a queue of this path alone loses in a round that tells that it still drains.
const STILL_DRAINING: f64 = 0.4;
/// Maximum length of a probe, in round trips.
const LONGEST_PROBE: u32 = 3;
/// Number of rounds after a probe in which its result can show.
const ANSWERED_AFTER: u32 = 2;
/// Minimum round trips between probes; up to three more are added.
const CRUISE: u32 = 5;
const CRUISE_ROUNDS: u32 = 2;
const LONGEST_CRUISE: Duration = Duration::from_secs(3);
/// Share of the bounds that remains after losses.
const LOSS_BETA: f64 = 0.7;
const HEADROOM: f64 = 0.85;
/// Bursts that are further apart are those of a link that stands still.
const BURSTS_PER_SECOND: u64 = 20;
const PROBE_RTT: Duration = Duration::from_millis(200);
/// Longer bursts are those of a machine that was busy, and not of a link.
const LONGEST_BURST: Duration = Duration::from_millis(3);
const MIN_PACKETS: u64 = 4;
const MAX_QUANTUM: u64 = 64 * 1024;
/// Minimum pacing rate in bytes per second; less would stop the path for good.
const MIN_PACING: u64 = 1000;
const MAX_PACING: u64 = 1 << 40;
const FORGET_AFTER_TIMEOUTS: u32 = 3;
