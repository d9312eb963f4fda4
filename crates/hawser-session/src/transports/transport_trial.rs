//! The trial of the transport that is not in use, which shows now and then whether it delivers
//! more.
//!
//! The measure is the data that the peer holds thanks to a transport, over the time in which there
//! was more to send than it took. Both at once would not show it, since they share the links. A
//! transport is not judged while its rate still grows, and trials may cost a small part of the time
//! in which there was something to compare.

use std::time::Duration;

use hawser_types::{Instant, Rate};

use crate::transport::{Transport, TransportReason};

mod look;
mod samples;
#[cfg(test)]
mod tests;

pub(super) use look::Look;
use samples::Samples;

/// Comparison of the two transports, for one direction.
#[derive(Debug, Default)]
pub(super) struct TransportTrial {
    /// Transport outside of trials.
    chosen: Transport,
    reason: TransportReason,
    trial: Option<Trial>,
    /// Time since when the chosen transport is silent, and the other one is not, with the payload
    /// that the other one had brought by then.
    silent_since: Option<(Instant, u64)>,
    /// Rate of each when it was last measured, TCP first.
    measured: [Option<Rate>; 2],
    /// Measurement of the transport in use.
    samples: Samples,
    /// Rate of the chosen transport when it was chosen or last found the better one.
    best: Option<Rate>,
    looked_at: Option<Instant>,
    /// Payload that the peer held thanks to each at the last look.
    held: [u64; 2],
    /// Present while there has been something to send all the time.
    demand: Option<Demand>,
    /// Total time in which there was something to send.
    busy: Duration,
    /// Part of `busy` that trials have cost.
    spent: Duration,
    /// The properties of the links have led to the association once.
    was_led: bool,
    /// The association was there at some time.
    was_met: bool,
    /// Time when the other transport was tried or given up last.
    tried_at: Option<Instant>,
    /// Time for which the other transport is left alone from then on.
    pause: Duration,
}

/// A time in which there was always something to send.
#[derive(Clone, Copy, Debug)]
struct Demand {
    since: Instant,
    until: Instant,
    /// Payload that came to be held meanwhile.
    held: u64,
}

/// Use of the other transport in place of the chosen one.
#[derive(Debug)]
struct Trial {
    began: Instant,
    /// Nothing of the chosen transport is in flight any more; from now on the trial counts.
    settled: bool,
    samples: Samples,
    /// Time lost by the trial.
    cost: Duration,
    /// Factor by which the transport on trial has to deliver more.
    margin: f64,
    /// The network hinders the chosen transport, so that what it has in flight takes little from
    /// the one on trial.
    is_hindered: bool,
}

impl TransportTrial {
    /// Begins with the association: it bears loss whatever congestion control the kernel allows,
    /// and delivers at least 0.98 of TCP on all other links, measured in the simulator.
    pub(super) fn new() -> Self {
        Self {
            chosen: Transport::Association,
            ..Self::default()
        }
    }

    /// Returns the transport for bulk while it is sound.
    pub(super) fn wanted(&self) -> Transport {
        match self.trial {
            Some(_) => self.chosen.other(),
            None => self.chosen,
        }
    }

    /// Returns the transport that bulk goes over.
    pub(super) fn in_use(&self) -> Transport {
        if self.trial.is_some() || self.silent_since.is_some() {
            self.chosen.other()
        } else {
            self.chosen
        }
    }

    /// Returns the transport for everything else: small messages must not wait for the outcome.
    pub(super) fn chosen(&self) -> Transport {
        self.chosen
    }

    /// True while the other transport is on trial.
    pub(super) fn is_trying(&self) -> bool {
        self.trial.is_some()
    }

    /// Returns the reason for the transport that is in use.
    pub(super) fn reason(&self) -> TransportReason {
        match self.trial {
            Some(_) => TransportReason::Tried,
            None => self.reason,
        }
    }

    /// Returns the rate of each when it was last measured, TCP first.
    pub(super) fn measured(&self) -> [Option<Rate>; 2] {
        self.measured
    }

    /// Takes in a look at both. Called every few milliseconds while something is in flight. True if
    /// bulk goes over another transport than before.
    pub(super) fn on_look(&mut self, now: Instant, look: &Look) -> bool {
        let before = self.in_use();
        let span = self.looked_at.map_or(Duration::MAX, |at| now.since(at));
        let used = before.index();
        let bytes = look.held[used].saturating_sub(self.held[used]);
        if span > LONGEST_LOOK {
            // Too long ago for a silence to have been watched.
            self.silent_since = None;
        }
        let span = span.min(LONGEST_LOOK);
        let both: u64 = look.held.iter().sum::<u64>() - self.held.iter().sum::<u64>();
        (self.looked_at, self.held) = (Some(now), look.held);
        self.leave_the_unsound(now, look);
        self.meet_the_association(look);
        let known = self.demand.filter(|it| now.since(it.until) <= LONGEST_LOOK);
        if known.is_none() {
            // The transfer is over.
            self.demand = None;
            self.abandon_trial();
            self.samples.clear();
        }
        if look.demand {
            let begun = Demand {
                since: now,
                until: now,
                held: 0,
            };
            let mut demand = known.unwrap_or(begun);
            demand.until = now;
            demand.held += both;
            self.demand = Some(demand);
            self.busy += span;
            self.follow_the_links(look, demand);
            // The rate of a hindered transport does not grow with its age.
            let start = if self.is_hindered(look) {
                demand.interval(look)
            } else {
                demand.start(look)
            };
            if self.trial.is_some() {
                self.measure_trial(now, look, span, (bytes, both));
            } else if self.silent_since.is_none() && now.since(demand.since) >= start {
                if self.samples.add(span, bytes, demand.interval(look)) && self.has_settled() {
                    let rate = to_rate(self.samples.mean(REFERENCE));
                    self.measured[self.chosen.index()] = Some(rate);
                    self.best = self.best.max(Some(rate));
                }
                self.begin_trial(now, look, demand);
            }
        }
        before != self.in_use()
    }

    /// Takes an association that TCP was taken instead of only because it was not there yet. Not in
    /// the middle of a transfer, where TCP has filled its windows.
    fn meet_the_association(&mut self, look: &Look) {
        if !look.sound[Transport::Association.index()] || self.was_met {
            return;
        }
        let is_unknown = self.measured[Transport::Association.index()].is_none();
        if self.chosen == Transport::Association {
            self.was_met = true;
        } else if !look.demand && self.trial.is_none() {
            self.was_met = true;
            if is_unknown {
                self.samples.clear();
                (self.chosen, self.reason) = (Transport::Association, TransportReason::First);
            }
        }
    }

    /// Leaves a silent transport at once, and for good when the silence lasts.
    fn leave_the_unsound(&mut self, now: Instant, look: &Look) {
        let [chosen, tried] = [self.chosen, self.chosen.other()].map(|it| look.sound[it.index()]);
        if !tried && self.abandon_trial() {
            self.put_off(now);
        }
        if chosen || !tried {
            self.silent_since = None;
            return;
        }
        let brought = look.held[self.chosen.other().index()];
        let (since, before) = *self.silent_since.get_or_insert((now, brought));
        // The other one may seem sound only since nothing was in flight on it.
        if brought > before && now.since(since) >= SILENCE.max(look.round_trip * 4) {
            self.choose(now, self.chosen.other(), TransportReason::Silent, None);
        }
    }

    /// Goes over to the association in the middle of a transfer where the properties of the links
    /// speak for it: on a long path, to one that has come late, since TCP takes many round trips to
    /// grow there, and each loss holds up everything for as long; on a link that serves in turns,
    /// since TCP takes long to find out that the link serves again. If links are so slow that
    /// either is little beside the time that they need, TCP stays. What a trial has found counts
    /// more.
    fn follow_the_links(&mut self, look: &Look, demand: Demand) {
        let is_fresh = self.measured == [None; 2];
        let is_likely = is_fresh && look.longest_path >= LONG_PATH || look.in_turns;
        let is_measured = self.chosen == Transport::Tcp && self.reason == TransportReason::Faster;
        let leads = is_likely && !is_measured && demand.grain(1) <= LONG_PATH;
        if leads && !self.was_led && look.sound[Transport::Association.index()] {
            self.was_led = true;
            if !self.abandon_trial() && self.chosen == Transport::Tcp {
                self.samples.clear();
            }
            (self.chosen, self.reason) = (Transport::Association, TransportReason::First);
        }
    }

    /// True if the chosen transport was used for long enough, and its rate does not grow any more.
    fn has_settled(&self) -> bool {
        self.samples.count() >= FEW * 2 && !self.samples.is_growing(FEW, GROWING)
    }

    /// True if the network seems to hinder the chosen transport, so that there is no need to wait
    /// until it has settled.
    fn is_hindered(&self, look: &Look) -> bool {
        self.chosen == Transport::Association && look.is_policed
    }

    fn begin_trial(&mut self, now: Instant, look: &Look, demand: Demand) {
        let is_hindered = self.is_hindered(look);
        let has_fallen = is_hindered && self.has_fallen(FALLEN_FOR);
        let is_urgent = has_fallen && self.busy / OF_FALLEN >= self.spent;
        let is_possible = look.sound[self.chosen.other().index()];
        if !is_possible || !is_urgent && !self.is_due(now) {
            return;
        }
        let margin = if has_fallen {
            // Earlier samples are no measure for the trial.
            self.samples.keep(1);
            EARLY_MARGIN
        } else if self.has_settled() && self.is_worth_a_trial(now, look, demand) {
            MARGIN
        } else if is_hindered && self.samples.count() > 0 && self.best.is_none() {
            EARLY_MARGIN
        } else {
            return;
        };
        self.trial = Some(Trial {
            began: now,
            settled: false,
            samples: Samples::default(),
            cost: Duration::ZERO,
            margin,
            is_hindered,
        });
    }

    /// True if the last trial is long ago, or the chosen transport delivers much less by now.
    fn is_due(&self, now: Instant) -> bool {
        let rates = self.measured[self.chosen.index()].zip(self.best);
        let fell = rates.is_some_and(|(rate, best)| rate < to_rate(f(best) * FALLEN));
        let pause = if fell {
            self.pause.min(RETRY)
        } else {
            self.pause
        };
        self.tried_at.is_none_or(|at| now.since(at) >= pause)
    }

    /// True if the chosen transport delivers much less than before, for as many samples.
    fn has_fallen(&self, latest: usize) -> bool {
        let latest = self.samples.highest(latest);
        let best = self.best.map(|best| f(best) * FALLEN);
        latest.zip(best).is_some_and(|(latest, best)| latest < best)
    }

    /// True if the transfer has lasted long enough beside what a trial costs, and all trials
    /// together, with this one, cost little of all the time.
    fn is_worth_a_trial(&self, now: Instant, look: &Look, demand: Demand) -> bool {
        let cost = demand.start(look);
        let age = now.since(demand.since);
        let spent = self.spent + cost;
        let is_worth = |starts, part| age >= cost * starts && self.busy / part >= spent;
        is_worth(OF_LONG, OF_ALL) || is_worth(OF_SHORT, OF_ALL * 2)
    }

    fn measure_trial(&mut self, now: Instant, look: &Look, span: Duration, held: (u64, u64)) {
        let (chosen, tried) = (self.chosen, self.chosen.other());
        let (Some(trial), Some(demand)) = (&mut self.trial, self.demand) else {
            return;
        };
        let known = self.samples.mean(REFERENCE);
        let (bytes, both) = held;
        let lost = 1.0 - both as f64 / (known * span.as_secs_f64()).max(1.0);
        trial.cost = match lost {
            lost if lost >= 0.0 => trial.cost + span.mul_f64(lost),
            won => trial.cost.saturating_sub(span.mul_f64(-won)),
        };
        let (age, start) = (now.since(trial.began), demand.start(look));
        if !trial.settled {
            let rest = look.in_flight[chosen.index()];
            let drained = trial.is_hindered || rest <= look.in_flight[tried.index()] / 16;
            trial.settled = age >= start && drained || age >= LONGEST_START + start;
        } else {
            trial.samples.add(span, bytes, demand.interval(look));
        }
        let allowed = start + start / 2;
        let Some(verdict) = trial.verdict(&self.samples, allowed) else {
            return;
        };
        let rate = trial
            .settled
            .then(|| to_rate(trial.samples.mean(REFERENCE)));
        self.spent += trial.cost;
        self.trial = None;
        self.measured[tried.index()] = rate;
        if verdict {
            self.choose(now, tried, TransportReason::Faster, rate);
        } else {
            self.reason = TransportReason::Faster;
            self.best = Some(to_rate(known));
            self.samples.clear();
            self.put_off(now);
        }
    }

    /// Ends a trial without a verdict. What it has cost counts. True if there was one.
    fn abandon_trial(&mut self) -> bool {
        let trial = self.trial.take();
        self.spent += trial.as_ref().map_or(Duration::ZERO, |it| it.cost);
        trial.is_some()
    }

    fn choose(
        &mut self,
        now: Instant,
        transport: Transport,
        reason: TransportReason,
        rate: Option<Rate>,
    ) {
        self.abandon_trial();
        (self.chosen, self.reason) = (transport, reason);
        (self.silent_since, self.best) = (None, rate);
        self.samples.clear();
        if rate.is_none() {
            // An old measurement says little of its rate now.
            self.measured[transport.index()] = None;
        }
        (self.tried_at, self.pause) = (Some(now), RETRY);
    }

    fn put_off(&mut self, now: Instant) {
        self.pause = (self.pause * 2).clamp(RETRY, LONGEST_PAUSE);
        self.tried_at = Some(now);
    }
}

impl Demand {
    /// Returns the time that a transport takes to start.
    fn start(&self, look: &Look) -> Duration {
        START.max(look.round_trip * 4).max(self.grain(1))
    }

    /// Returns the time that one sample takes.
    fn interval(&self, look: &Look) -> Duration {
        INTERVAL.max(look.round_trip).max(self.grain(4))
    }

    /// Returns the time that the links need for one `part`th of 64 KiB.
    fn grain(&self, part: u64) -> Duration {
        let age = self.until.since(self.since).max(FIRST_GRAIN);
        age.mul_f64((GRAIN / part) as f64 / self.held.max(1) as f64)
    }
}

impl Trial {
    /// Returns whether to keep the transport on trial; `None`: it is too early to say.
    fn verdict(&self, chosen: &Samples, allowed: Duration) -> Option<bool> {
        if self.cost > allowed {
            return Some(false);
        }
        let count = self.samples.count();
        if !self.settled || count < FEW {
            return None;
        }
        let (new, old) = (self.samples.mean(FEW * 2), chosen.mean(REFERENCE));
        // Rates vary over longer times than a trial takes: the transport that was watched for
        // longer tells by how much.
        let spread =
            (chosen.spread(REFERENCE) * new / old.max(1.0)).max(self.samples.spread(FEW * 2));
        let error = |count: usize| (CORRELATED / count as f64).sqrt();
        let [few, many] = [count.min(FEW * 2), chosen.count().clamp(1, REFERENCE)];
        let error = spread * error(few).hypot(error(many));
        let needed = old * self.margin;
        let open = count < REFERENCE;
        let grows = self.samples.is_growing(FEW / 2, GROWING);
        let wins = new - error > needed;
        let is_undecided = open && (grows || new + error > needed);
        (wins || !is_undecided).then_some(wins)
    }
}

fn to_rate(bytes_per_second: f64) -> Rate {
    Rate::from_bytes_per_second(bytes_per_second as u64)
}

fn f(rate: Rate) -> f64 {
    rate.bytes_per_second() as f64
}

/// Looks that are further apart have an idle time between them.
const LONGEST_LOOK: Duration = Duration::from_millis(250);
/// A transport that is silent for so long, or four round trips, is left until it is tried again.
const SILENCE: Duration = Duration::from_secs(1);
/// Time of one sample, or a round trip.
const INTERVAL: Duration = Duration::from_millis(250);
/// Fewer samples say nothing.
const FEW: usize = 4;
/// Samples of the rate that the other transport has to beat.
const REFERENCE: usize = 16;
/// Samples in a row that are alike.
const CORRELATED: f64 = 4.0;
/// A rate that grows by more from a few samples to the next few has not settled.
const GROWING: f64 = 0.03;
/// A start that does not count, or four round trips.
const START: Duration = Duration::from_millis(300);
const LONGEST_START: Duration = Duration::from_secs(2);
/// On shorter paths TCP is as good at the beginning, measured in the simulator.
const LONG_PATH: Duration = Duration::from_millis(280);
/// Factor by which the other transport has to deliver more: less is noise, and not worth the
/// change.
const MARGIN: f64 = 1.03;
/// The same for a trial that comes early: the chosen transport may still have been growing.
const EARLY_MARGIN: f64 = 1.5;
/// Below this part of its best rate, the other transport may do better by now.
const FALLEN: f64 = 0.6;
/// Bytes that take long on slow links only.
const GRAIN: u64 = 64 * 1024;
/// Least time from which a rate is worked out.
const FIRST_GRAIN: Duration = Duration::from_millis(100);
/// A trial is likely to cost a start. A transfer has to have lasted for `OF_LONG` starts before a
/// trial where trials may take one part in `OF_ALL` of all the time in which there was something to
/// send, and for `OF_SHORT` starts where they may take half of that.
const OF_LONG: u32 = 60;
const OF_SHORT: u32 = 40;
const OF_ALL: u32 = 60;
/// A trial that waits for no pause, since the chosen transport has fallen, may begin while all
/// trials have taken less than one part in so many of that time. The first one always may.
const OF_FALLEN: u32 = 30;
/// So many samples in a row, each below `FALLEN` of the best rate, start such a trial.
const FALLEN_FOR: usize = 2;
/// Time for which the other transport is left alone, longer each time.
const RETRY: Duration = Duration::from_secs(30);
const LONGEST_PAUSE: Duration = Duration::from_secs(600);
