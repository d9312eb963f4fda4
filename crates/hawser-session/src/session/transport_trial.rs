//! Which of two transports delivers more: one is used, and now and then the other is tried in its place.
//!
//! What counts is what the peer holds thanks to a transport, over the time in which there was more to send than it
//! took. Both at once would not show it, since they share the links. Neither is judged while it is still growing,
//! and what trials may cost is a small part of the time in which there was something to compare.

use std::time::Duration;

use hawser_types::{Instant, Rate};

use crate::{Transport, TransportReason};

mod samples;
#[cfg(test)]
mod tests;

use samples::Samples;

/// The comparison of one direction.
#[derive(Debug, Default)]
pub(super) struct TransportTrial {
    /// What is used where nothing is tried.
    chosen: Transport,
    reason: TransportReason,
    trial: Option<Trial>,
    /// Since when what was chosen is silent, and the other is not.
    silent_since: Option<Instant>,
    /// What each delivered when it was last measured, TCP first.
    measured: [Option<Rate>; 2],
    /// The measurement of what is used.
    samples: Samples,
    /// What it delivered when it was chosen or last found the better.
    best: Option<Rate>,
    looked_at: Option<Instant>,
    /// What each had delivered by then.
    held: [u64; 2],
    /// While there has been something to send all the time.
    demand: Option<Demand>,
    /// How long there was, in all.
    busy: Duration,
    /// How much of it trials have cost.
    spent: Duration,
    /// What is known of links has led to the association once.
    was_led: bool,
    /// When the other was tried or given up last, and how long it is left alone from then on.
    tried_at: Option<Instant>,
    pause: Duration,
}

/// What there is to see at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    /// There is more to send than is taken.
    pub(super) demand: bool,
    /// What the peer holds thanks to each, since the session began.
    pub(super) held: [u64; 2],
    /// Whether each may be used.
    pub(super) sound: [bool; 2],
    /// What is under way on each.
    pub(super) in_flight: [u64; 2],
    /// The longest round trip of both.
    pub(super) round_trip: Duration,
    /// The longest way of TCP's, there and back, without queues.
    pub(super) longest_way: Duration,
    /// One of its links serves in turns.
    pub(super) in_turns: bool,
}

/// A time in which there was always something to send.
#[derive(Clone, Copy, Debug)]
struct Demand {
    since: Instant,
    until: Instant,
    /// What came to be held meanwhile.
    held: u64,
}

/// The other transport in place of the one that was chosen.
#[derive(Debug)]
struct Trial {
    began: Instant,
    /// What the first one left under way is gone; from now on it counts.
    settled: bool,
    samples: Samples,
    /// What it has cost, as time.
    cost: Duration,
}

impl TransportTrial {
    /// What bulk goes over.
    pub(super) fn in_use(&self) -> Transport {
        match self.trial.is_some() || self.silent_since.is_some() {
            true => other(self.chosen),
            false => self.chosen,
        }
    }

    /// What everything else goes over: nothing small is to wait for the outcome.
    pub(super) fn chosen(&self) -> Transport {
        self.chosen
    }

    pub(super) fn is_trying(&self) -> bool {
        self.trial.is_some()
    }

    /// Why it is what it is.
    pub(super) fn reason(&self) -> TransportReason {
        match self.trial {
            Some(_) => TransportReason::Tried,
            None => self.reason,
        }
    }

    /// What each delivered when it was last measured, TCP first.
    pub(super) fn measured(&self) -> [Option<Rate>; 2] {
        self.measured
    }

    /// Looks at both; to be called each few milliseconds while something is under way. Whether bulk goes
    /// over another than before.
    pub(super) fn on_look(&mut self, now: Instant, look: &Look) -> bool {
        let before = self.in_use();
        let span = self.looked_at.map_or(Duration::MAX, |at| now.since(at));
        let used = index(before);
        let bytes = look.held[used].saturating_sub(self.held[used]);
        if span > LONGEST_LOOK {
            // Nobody looked meanwhile.
            self.silent_since = None;
        }
        let span = span.min(LONGEST_LOOK);
        let both: u64 = look.held.iter().sum::<u64>() - self.held.iter().sum::<u64>();
        (self.looked_at, self.held) = (Some(now), look.held);
        self.leave_the_unsound(now, look);
        let known = self.demand.filter(|it| now.since(it.until) <= LONGEST_LOOK);
        if known.is_none() {
            // The transfer is over.
            (self.demand, self.trial) = (None, None);
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
            let start = demand.start(look);
            if self.trial.is_some() {
                self.measure_trial(now, look, span, (bytes, both));
            } else if self.silent_since.is_none() && now.since(demand.since) >= start {
                self.measure_chosen(span, bytes, demand.interval(look));
                self.begin_trial(now, look, demand);
            }
        }
        before != self.in_use()
    }

    /// One that is silent is not waited for, and left for good when that lasts.
    fn leave_the_unsound(&mut self, now: Instant, look: &Look) {
        let [chosen, tried] = [self.chosen, other(self.chosen)].map(|it| look.sound[index(it)]);
        if !tried && self.trial.take().is_some() {
            self.put_off(now);
        }
        if chosen || !tried {
            self.silent_since = None;
            return;
        }
        let since = *self.silent_since.get_or_insert(now);
        if now.since(since) >= SILENCE.max(look.round_trip * 4) {
            self.choose(now, other(self.chosen), TransportReason::Silent, None);
        }
    }

    /// Where a way is long, TCP takes many round trips to grow, and what it loses holds up everything for as long; where
    /// a link serves in turns, it takes long to find out that it serves again. There the association comes first, unless
    /// links are so slow that either is little beside the time that they need; what is measured later decides.
    fn follow_the_links(&mut self, look: &Look, demand: Demand) {
        let is_fresh = self.measured == [None; 2];
        let is_likely = is_fresh && look.longest_way >= LONG_WAY || look.in_turns;
        let leads = is_likely && demand.grain(1) <= LONG_WAY;
        if leads && !self.was_led && look.sound[index(Transport::Association)] {
            self.was_led = true;
            if self.trial.take().is_none() && self.chosen == Transport::Tcp {
                self.samples.clear();
            }
            (self.chosen, self.reason) = (Transport::Association, TransportReason::First);
        }
    }

    fn measure_chosen(&mut self, span: Duration, bytes: u64, interval: Duration) {
        if self.samples.add(span, bytes, interval) && self.has_settled() {
            let rate = to_rate(self.samples.mean(REFERENCE));
            self.measured[index(self.chosen)] = Some(rate);
            self.best = self.best.max(Some(rate));
        }
    }

    /// It has been used for long enough, and does not grow any more.
    fn has_settled(&self) -> bool {
        self.samples.count() >= FEW * 2 && !self.samples.is_growing(FEW, GROWING)
    }

    fn begin_trial(&mut self, now: Instant, look: &Look, demand: Demand) {
        let Some(rate) = self.measured[index(self.chosen)] else {
            return;
        };
        let fell = self
            .best
            .is_some_and(|best| rate < to_rate(f(best) * FALLEN));
        let pause = if fell {
            self.pause.min(RETRY)
        } else {
            self.pause
        };
        let due = self.tried_at.is_none_or(|at| now.since(at) >= pause);
        let cost = demand.start(look);
        let age = now.since(demand.since);
        let may_cost = |part| self.busy / part >= self.spent + cost;
        let worth = age >= cost * OF_LONG && may_cost(OF_ALL)
            || age >= cost * OF_SHORT && may_cost(OF_ALL * 2);
        if due && worth && self.has_settled() && look.sound[index(other(self.chosen))] {
            self.trial = Some(Trial {
                began: now,
                settled: false,
                samples: Samples::default(),
                cost: Duration::ZERO,
            });
        }
    }

    fn measure_trial(&mut self, now: Instant, look: &Look, span: Duration, held: (u64, u64)) {
        let (chosen, tried) = (self.chosen, other(self.chosen));
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
            let rest = look.in_flight[index(chosen)];
            let drained = rest <= look.in_flight[index(tried)] / 16;
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
        self.measured[index(tried)] = rate;
        if verdict {
            self.choose(now, tried, TransportReason::Faster, rate);
        } else {
            self.reason = TransportReason::Faster;
            self.best = Some(to_rate(known));
            self.samples.clear();
            self.put_off(now);
        }
    }

    fn choose(
        &mut self,
        now: Instant,
        transport: Transport,
        reason: TransportReason,
        rate: Option<Rate>,
    ) {
        (self.chosen, self.reason) = (transport, reason);
        (self.trial, self.silent_since, self.best) = (None, None, rate);
        self.samples.clear();
        if rate.is_none() {
            // What it did before says little of what it does now.
            self.measured[index(transport)] = None;
        }
        (self.tried_at, self.pause) = (Some(now), RETRY);
    }

    fn put_off(&mut self, now: Instant) {
        self.pause = (self.pause * 2).clamp(RETRY, LONGEST_PAUSE);
        self.tried_at = Some(now);
    }
}

impl Demand {
    /// How long a transport takes to get going, and to leave what it did before behind.
    fn start(&self, look: &Look) -> Duration {
        START.max(look.round_trip * 4).max(self.grain(1))
    }

    /// What one sample takes.
    fn interval(&self, look: &Look) -> Duration {
        INTERVAL.max(look.round_trip).max(self.grain(4))
    }

    /// The time that links need for this part of what is little on any of them.
    fn grain(&self, part: u64) -> Duration {
        let age = self.until.since(self.since).max(FIRST_GRAIN);
        age.mul_f64((GRAIN / part) as f64 / self.held.max(1) as f64)
    }
}

impl Trial {
    /// Whether what is tried is to be kept; `None`: it is too early to say.
    fn verdict(&self, chosen: &Samples, allowed: Duration) -> Option<bool> {
        if self.cost > allowed {
            return Some(false);
        }
        let count = self.samples.count();
        if !self.settled || count < FEW {
            return None;
        }
        let (new, old) = (self.samples.mean(FEW * 2), chosen.mean(REFERENCE));
        // What goes up and down does so for longer than a trial: the one that was watched for longer tells how much.
        let spread =
            (chosen.spread(REFERENCE) * new / old.max(1.0)).max(self.samples.spread(FEW * 2));
        let error = |count: usize| (CORRELATED / count as f64).sqrt();
        let [few, many] = [count.min(FEW * 2), chosen.count().clamp(1, REFERENCE)];
        let error = spread * error(few).hypot(error(many));
        let needed = old * AHEAD;
        let open = count < REFERENCE;
        let grows = self.samples.is_growing(FEW / 2, GROWING);
        match new - error > needed {
            true => Some(true),
            false if open && (grows || new + error > needed) => None,
            false => Some(false),
        }
    }
}

pub(super) fn index(transport: Transport) -> usize {
    match transport {
        Transport::Tcp => 0,
        Transport::Association => 1,
    }
}

fn to_rate(bytes_per_second: f64) -> Rate {
    Rate::from_bytes_per_second(bytes_per_second as u64)
}

fn f(rate: Rate) -> f64 {
    rate.bytes_per_second() as f64
}

const fn other(transport: Transport) -> Transport {
    match transport {
        Transport::Tcp => Transport::Association,
        Transport::Association => Transport::Tcp,
    }
}

/// Looks that are further apart have an idle time between them.
const LONGEST_LOOK: Duration = Duration::from_millis(250);
/// One that is silent for so long, or four round trips, is left until it is tried again.
const SILENCE: Duration = Duration::from_secs(1);
/// What one sample takes, or a round trip.
const INTERVAL: Duration = Duration::from_millis(250);
/// So many samples are the least that say anything.
const FEW: usize = 4;
/// So many make the rate that another has to beat.
const REFERENCE: usize = 16;
/// So many in a row are alike.
const CORRELATED: f64 = 4.0;
/// What grows by more from a few samples to the next few has not settled.
const GROWING: f64 = 0.03;
/// A start that does not count, or four round trips.
const START: Duration = Duration::from_millis(300);
const LONGEST_START: Duration = Duration::from_secs(2);
/// Below this way TCP is as good at the beginning, measured in the simulator.
const LONG_WAY: Duration = Duration::from_millis(280);
/// How much more another has to deliver: less is noise, and not worth the change.
const AHEAD: f64 = 1.03;
/// Below this part of what it once delivered, the other may do better by now.
const FALLEN: f64 = 0.6;
/// What takes long on slow links only.
const GRAIN: u64 = 64 * 1024;
/// Nothing can be said of it sooner.
const FIRST_GRAIN: Duration = Duration::from_millis(100);
/// A trial is likely to cost a start. A transfer has to have lasted for so many before one, where trials may take one
/// part in so many of all the time in which there was something to send, or in twice as many.
const OF_LONG: u32 = 30;
const OF_SHORT: u32 = 10;
const OF_ALL: u32 = 60;
/// How long the other is left alone, longer each time.
const RETRY: Duration = Duration::from_secs(30);
const LONGEST_PAUSE: Duration = Duration::from_secs(600);
