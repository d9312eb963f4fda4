//! Which of two carriers delivers more: one is used, and now and then the other is tried in its place.
//!
//! What counts is what the peer holds thanks to a carrier, over the time in which there was more to send than it
//! took. Both at once would not show it, since they share the links.

use std::time::Duration;

use hawser_types::{ByteCount, Instant, Rate};

use crate::{Carrier, CarrierReason};

/// The comparison of one direction.
#[derive(Debug, Default)]
pub(super) struct Race {
    /// What is used where nothing is tried.
    chosen: Carrier,
    reason: CarrierReason,
    trial: Option<Trial>,
    /// What each delivered when it was last measured, TCP first.
    measured: [Option<Rate>; 2],
    /// The measurement of what is used.
    pace: Pace,
    /// What it delivered when it was chosen or last found the better.
    best: Option<Rate>,
    looked_at: Option<Instant>,
    /// What each had delivered by then.
    held: [u64; 2],
    /// Since when there has been something to send all the time, and until when.
    demand: Option<(Instant, Instant)>,
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
}

/// The other carrier in place of the one that was chosen.
#[derive(Debug)]
struct Trial {
    began: Instant,
    /// What the first one left under way is gone; from now on it counts.
    settled: bool,
    pace: Pace,
}

/// A measurement in progress.
#[derive(Debug, Default)]
struct Pace {
    busy: Duration,
    bytes: u64,
}

impl Race {
    /// What bulk goes over.
    pub(super) fn in_use(&self) -> Carrier {
        match self.trial {
            Some(_) => other(self.chosen),
            None => self.chosen,
        }
    }

    /// What everything else goes over: nothing small is to wait for the outcome.
    pub(super) fn chosen(&self) -> Carrier {
        self.chosen
    }

    pub(super) fn is_trying(&self) -> bool {
        self.trial.is_some()
    }

    /// Why it is what it is.
    pub(super) fn reason(&self) -> CarrierReason {
        match self.trial {
            Some(_) => CarrierReason::Tried,
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
        (self.looked_at, self.held) = (Some(now), look.held);
        self.leave_the_unsound(now, look);
        let known = self
            .demand
            .filter(|(_, until)| now.since(*until) <= LONGEST_LOOK);
        if known.is_none() {
            // The transfer is over.
            (self.demand, self.trial) = (None, None);
        }
        if look.demand {
            let since = known.map_or(now, |(since, _)| since);
            self.demand = Some((since, now));
            if self.trial.is_some() {
                self.measure_trial(now, look, span.min(LONGEST_LOOK), bytes);
            } else if now.since(since) >= START.max(look.round_trip * 4) {
                // As of a trial, the start does not count.
                self.measure_chosen(span.min(LONGEST_LOOK), bytes, look.round_trip);
                self.begin_trial(now, look, since);
            }
        }
        before != self.in_use()
    }

    /// One that is silent is not waited for.
    fn leave_the_unsound(&mut self, now: Instant, look: &Look) {
        let [chosen, tried] = [self.chosen, other(self.chosen)].map(|it| look.sound[index(it)]);
        if !tried && self.trial.take().is_some() {
            self.put_off(now);
        }
        if !chosen && tried {
            self.choose(now, other(self.chosen), CarrierReason::Silent, None);
        }
    }

    fn measure_chosen(&mut self, span: Duration, bytes: u64, round_trip: Duration) {
        if let Some(rate) = self.pace.add(span, bytes, round_trip) {
            self.measured[index(self.chosen)] = Some(rate);
            self.best = self.best.max(Some(rate));
            self.pace = Pace::default();
        }
    }

    fn begin_trial(&mut self, now: Instant, look: &Look, demand_since: Instant) {
        let Some(rate) = self.measured[index(self.chosen)] else {
            return;
        };
        let fell = self.best.is_some_and(|best| rate < part(best, FALLEN));
        let pause = if fell {
            self.pause.min(RETRY)
        } else {
            self.pause
        };
        let due = self.tried_at.is_none_or(|at| now.since(at) >= pause);
        let steady = now.since(demand_since) >= STEADY;
        if due && steady && look.sound[index(other(self.chosen))] {
            self.trial = Some(Trial {
                began: now,
                settled: false,
                pace: Pace::default(),
            });
        }
    }

    fn measure_trial(&mut self, now: Instant, look: &Look, span: Duration, bytes: u64) {
        let (chosen, tried) = (self.chosen, other(self.chosen));
        let Some(trial) = &mut self.trial else {
            return;
        };
        if !trial.settled {
            let age = now.since(trial.began);
            let started = age >= START.max(look.round_trip * 4);
            let rest = look.in_flight[index(chosen)];
            let drained = rest <= look.in_flight[index(tried)] / 16;
            trial.settled = started && drained || age >= LONGEST_START + look.round_trip * 4;
            return;
        }
        let known = self.measured[index(chosen)].unwrap_or_default();
        let rate = trial.pace.add(span, bytes, look.round_trip);
        let hopeless = trial.pace.is_hopeless(known, look.round_trip);
        let Some(rate) = rate.or(hopeless) else {
            return;
        };
        self.trial = None;
        self.measured[index(tried)] = Some(rate);
        if rate > part(known, AHEAD) {
            self.choose(now, tried, CarrierReason::Faster, Some(rate));
        } else {
            self.reason = CarrierReason::Faster;
            self.best = Some(known);
            self.put_off(now);
        }
    }

    fn choose(
        &mut self,
        now: Instant,
        carrier: Carrier,
        reason: CarrierReason,
        rate: Option<Rate>,
    ) {
        (self.chosen, self.reason) = (carrier, reason);
        (self.trial, self.pace, self.best) = (None, Pace::default(), rate);
        if rate.is_none() {
            // What it did before says little of what it does now.
            self.measured[index(carrier)] = None;
        }
        (self.tried_at, self.pause) = (Some(now), RETRY);
    }

    fn put_off(&mut self, now: Instant) {
        self.pause = (self.pause * 2).clamp(RETRY, LONGEST_PAUSE);
        self.tried_at = Some(now);
    }
}

impl Pace {
    /// Adds a span in which there was demand; the rate, once it lasted for long enough.
    fn add(&mut self, span: Duration, bytes: u64, round_trip: Duration) -> Option<Rate> {
        self.busy += span;
        self.bytes += bytes;
        let enough = MEASURED.max(round_trip * 8);
        (self.busy >= enough).then(|| self.rate())
    }

    /// The rate, where it is clear after some round trips that it is much less than another.
    fn is_hopeless(&self, known: Rate, round_trip: Duration) -> Option<Rate> {
        let clear = self.busy >= START.max(round_trip * 4);
        let rate = self.rate();
        (clear && rate < part(known, HOPELESS)).then_some(rate)
    }

    fn rate(&self) -> Rate {
        Rate::over(ByteCount::new(self.bytes), self.busy)
    }
}

pub(super) fn index(carrier: Carrier) -> usize {
    match carrier {
        Carrier::Tcp => 0,
        Carrier::Association => 1,
    }
}

fn part(rate: Rate, part: f64) -> Rate {
    Rate::from_bytes_per_second((rate.bytes_per_second() as f64 * part) as u64)
}

const fn other(carrier: Carrier) -> Carrier {
    match carrier {
        Carrier::Tcp => Carrier::Association,
        Carrier::Association => Carrier::Tcp,
    }
}

/// Looks that are further apart have an idle time between them.
const LONGEST_LOOK: Duration = Duration::from_millis(250);
/// How long a measurement takes at least, or eight round trips.
const MEASURED: Duration = Duration::from_secs(1);
/// Nothing is tried for a transfer that has not lasted for so long.
const STEADY: Duration = Duration::from_millis(1000);
/// A start that does not count, at least and at most, each with four round trips.
const START: Duration = Duration::from_millis(300);
const LONGEST_START: Duration = Duration::from_secs(2);
/// How much more another has to deliver: less is noise, and not worth the change.
const AHEAD: f64 = 1.05;
/// Below this part of the other's rate, a trial ends early.
const HOPELESS: f64 = 0.5;
/// Below this part of what it once delivered, the other may do better by now.
const FALLEN: f64 = 0.6;
/// A trial costs about as much as one second; so it comes each half minute, and less and less often.
const RETRY: Duration = Duration::from_secs(30);
const LONGEST_PAUSE: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests;
