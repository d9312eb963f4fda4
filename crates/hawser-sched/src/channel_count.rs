use std::time::Duration;

use hawser_types::{ByteCount, Instant, Rate};

/// Number of bulk channels of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spread {
    /// As many as measurement shows to be worth it: see [`ChannelCount`].
    #[default]
    Auto,
    /// This many, at least one.
    Fixed(usize),
}

/// State of a link when the number of its channels is looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkFacts {
    /// Bytes that arrived over the link, either way, since the session began.
    pub carried: ByteCount,
    /// There is more to carry.
    pub busy: bool,
    /// Round-trip time of the empty link; zero while unknown.
    pub rtt: Duration,
    /// Delay of the link's queue, on the way with the longer one.
    pub queue: Duration,
}

/// Finds out how many bulk channels one link needs, by trying.
///
/// One is the rule: it fills most links, and two would take from others what is theirs. It does not
/// where its send buffer holds less than the link, and on a long way, where each loss and each
/// start costs many round trips. So where a channel has 2 MB in flight, or a round trip takes 450
/// ms, and no queue stands although there is more to carry, another channel is tried once the rate
/// no longer grows. It stays if the link then carries a tenth more. If not, it goes once the link
/// rests, since what is in flight on it would have to be sent again, and the next one is tried only
/// after a while that doubles each time. All but one go when the link has rested for a minute.
///
/// Source: `desired bandwidth`, `channel spread` and `min improvement` of PATTHEL §III.D, observed
/// over one second there as well; that one interface is filled before the next is not taken over.
#[derive(Clone, Debug)]
pub struct ChannelCount {
    spread: Spread,
    wanted: usize,
    span: Option<Span>,
    /// Rates of the latest full seconds on end, the latest last.
    rates: [Rate; 3],
    trial: Option<Trial>,
    /// The latest channel was tried in vain, and goes when the link rests.
    surplus: bool,
    next_trial: Instant,
    /// Time by which the next failure puts the next trial off.
    pause: Duration,
    last_busy: Instant,
}

/// A second under observation.
#[derive(Clone, Copy, Debug)]
struct Span {
    began: Instant,
    latest: Instant,
    carried: ByteCount,
    /// Every look found it busy.
    busy: bool,
    /// The least that was found in the queues.
    queue: Duration,
}

/// A channel more than before.
#[derive(Clone, Copy, Debug)]
struct Trial {
    before: Rate,
    /// Busy seconds left in which it may show what it is worth.
    left: u32,
}

impl ChannelCount {
    /// One link's, of which nothing is known yet.
    pub fn new(spread: Spread) -> Self {
        let wanted = match spread {
            Spread::Auto => 1,
            Spread::Fixed(count) => count.clamp(1, MAX_CHANNELS),
        };
        Self {
            spread,
            wanted,
            span: None,
            rates: [Rate::ZERO; 3],
            trial: None,
            surplus: false,
            next_trial: Instant::ZERO,
            pause: PAUSE,
            last_busy: Instant::ZERO,
        }
    }

    /// Returns the number of bulk channels that the link is to have now.
    pub const fn wanted(&self) -> usize {
        self.wanted
    }

    /// Returns when surplus channels go if the link stays at rest.
    pub fn rests_until(&self) -> Option<Instant> {
        let several = self.spread == Spread::Auto && self.wanted > 1;
        let rest = if self.surplus { SHORT_REST } else { REST };
        several.then(|| self.last_busy + rest)
    }

    /// Takes in how the link stands: every few ten milliseconds while it carries something, and
    /// when [`ChannelCount::rests_until`] says. Whether another number is wanted now.
    pub fn on_facts(&mut self, now: Instant, facts: &LinkFacts) -> bool {
        if self.spread != Spread::Auto {
            return false;
        }
        let before = self.wanted;
        if self.rests_until().is_some_and(|at| now >= at) {
            if std::mem::take(&mut self.surplus) {
                self.wanted -= 1;
            } else {
                *self = Self::new(self.spread);
            }
        }
        if facts.busy {
            self.last_busy = now;
        }
        let fresh = Span {
            began: now,
            latest: now,
            carried: facts.carried,
            busy: facts.busy,
            queue: facts.queue,
        };
        let span = self.span.get_or_insert(fresh);
        span.busy &= facts.busy && now.since(span.latest) <= MAX_GAP;
        span.queue = span.queue.min(facts.queue);
        span.latest = now;
        if !span.busy {
            self.span = None;
            self.rates = Default::default();
        } else if now.since(span.began) >= SPAN {
            let over = *span;
            self.span = Some(fresh);
            self.on_second(now, over, facts);
        }
        self.wanted != before
    }

    /// The link was busy for a second.
    fn on_second(&mut self, now: Instant, span: Span, facts: &LinkFacts) {
        let rate = Rate::over(facts.carried - span.carried, now.since(span.began));
        self.rates.rotate_left(1);
        self.rates[2] = rate;
        if let Some(mut trial) = self.trial.take() {
            let better = |rate: Rate| exceeds(rate, trial.before, MIN_IMPROVEMENT);
            trial.left -= 1;
            if better(self.rates[1]) && better(rate) {
                self.pause = PAUSE;
                self.rates = Default::default();
            } else if trial.left == 0 {
                self.surplus = true;
                self.next_trial = now + self.pause;
                self.pause = (self.pause * 2).min(MAX_PAUSE);
            } else {
                self.trial = Some(trial);
            }
        } else if !self.surplus && now >= self.next_trial && self.is_held_down(&span, facts) {
            self.wanted += 1;
            let round_trips = facts.rtt * SETTLING;
            self.trial = Some(Trial {
                before: self.most(),
                left: MIN_TRIAL + round_trips.as_secs() as u32,
            });
            self.rates = Default::default();
        }
    }

    /// True if the link might carry more with another channel.
    fn is_held_down(&self, span: &Span, facts: &LinkFacts) -> bool {
        let [_, before, rate] = self.rates;
        let each = (self.most() * facts.rtt).as_u64() / self.wanted as u64;
        let steady = before > Rate::ZERO && !exceeds(rate, before, MIN_IMPROVEMENT);
        let suspicious = each >= MUCH || facts.rtt >= LONG && each >= ENOUGH;
        steady && suspicious && span.queue * 4 <= facts.rtt && self.wanted < MAX_CHANNELS
    }

    fn most(&self) -> Rate {
        self.rates.into_iter().max().unwrap_or_default()
    }
}

fn exceeds(rate: Rate, other: Rate, percent: u64) -> bool {
    u128::from(rate.bytes_per_second()) * 100
        >= u128::from(other.bytes_per_second()) * u128::from(100 + percent)
}

/// PATTHEL's `channel spread`.
const MAX_CHANNELS: usize = 4;
const SPAN: Duration = Duration::from_secs(1);
/// Looks further apart than this have missed a pause.
const MAX_GAP: Duration = Duration::from_millis(500);
/// In per cent.
const MIN_IMPROVEMENT: u64 = 10;
/// Seconds that a trial takes, and round trips besides: what a fresh connection needs to grow.
const MIN_TRIAL: u32 = 3;
const SETTLING: u32 = 10;
/// Bytes in flight on one channel near the most that the common limit of send buffers, 4 MiB,
/// allows: the kernel calls a socket writable up to two thirds of it.
const MUCH: u64 = 2_000_000;
/// A round trip from here on is that of a satellite. At 200 ms a trial on a link that bbr filled,
/// beside a quick one, made the reader wait 0.4 s longer.
const LONG: Duration = Duration::from_millis(450);
/// Bytes in flight beside which a fresh connection's first window is little.
const ENOUGH: u64 = 128_000;
const PAUSE: Duration = Duration::from_secs(10);
const MAX_PAUSE: Duration = Duration::from_secs(600);
const REST: Duration = Duration::from_secs(60);
const SHORT_REST: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    /// A link whose rate depends on the number of its channels.
    struct Link {
        count: ChannelCount,
        now: Instant,
        facts: LinkFacts,
    }

    impl Link {
        fn new(rtt: u64) -> Self {
            let rtt = Duration::from_millis(rtt);
            let mut link = Self {
                count: ChannelCount::new(Spread::Auto),
                now: Instant::ZERO,
                facts: LinkFacts {
                    busy: true,
                    rtt,
                    ..LinkFacts::default()
                },
            };
            link.count.on_facts(link.now, &link.facts);
            link
        }

        /// Time passes; `rate` gives kB/s. The numbers that were wanted, without repetition.
        fn run(&mut self, seconds: u64, rate: impl Fn(usize) -> u64) -> Vec<usize> {
            let mut wanted = vec![self.count.wanted()];
            for _ in 0..seconds * 50 {
                self.now += Duration::from_millis(20);
                if self.facts.busy {
                    self.facts.carried += ByteCount::new(20 * rate(self.count.wanted()));
                }
                if self.count.on_facts(self.now, &self.facts) {
                    wanted.push(self.count.wanted());
                }
            }
            wanted
        }
    }

    #[test]
    fn channels_are_added_as_long_as_each_brings_a_tenth() {
        let mut link = Link::new(600);
        assert_eq!(link.run(60, |n| 4000 * n as u64), [1, 2, 3, 4]);
        let mut link = Link::new(600);
        assert_eq!(link.run(60, |n| 4000 * n.min(2) as u64), [1, 2, 3]);
    }

    #[test]
    fn one_that_brings_less_goes_at_rest_and_the_next_try_comes_later_each_time() {
        let mut link = Link::new(500);
        assert_eq!(link.run(2, |_| 1000), [1, 2]);
        for pause in [10, 20, 40] {
            // The trial takes eight busy seconds.
            assert_eq!(link.run(8, |n| 1000 + 40 * n as u64), [2]);
            link.facts.busy = false;
            assert_eq!(link.run(pause - 3, |_| 0), [2, 1]);
            link.facts.busy = true;
            assert_eq!(link.run(2, |_| 1000), [1]);
            assert_eq!(link.run(2, |_| 1000), [1, 2]);
        }
    }

    #[test]
    fn nothing_is_tried_where_one_channel_should_do() {
        // No very long way, with little in flight.
        assert_eq!(Link::new(400).run(20, |_| 4000), [1]);
        // A long way with less in flight than the try would add.
        assert_eq!(Link::new(500).run(20, |_| 200), [1]);
        let mut queue = Link::new(500);
        queue.facts.queue = Duration::from_millis(126);
        assert_eq!(queue.run(20, |_| 4000), [1]);
        let mut idle = Link::new(500);
        idle.facts.busy = false;
        assert_eq!(idle.run(20, |_| 4000), [1]);
    }

    #[test]
    fn a_short_fat_way_is_tried_when_the_send_buffer_may_be_the_limit() {
        assert_eq!(Link::new(30).run(2, |_| 70_000), [1, 2]);
    }

    #[test]
    fn a_transfers_end_is_no_verdict_and_a_rest_of_a_minute_ends_all_but_one() {
        let mut link = Link::new(500);
        assert_eq!(link.run(4, |_| 1000), [1, 2]);
        link.facts.busy = false;
        assert_eq!(link.run(50, |_| 0), [2]);
        let rests_until = link.count.rests_until().unwrap();
        assert_eq!(link.run(10, |_| 0), [2, 1]);
        assert!(link.now >= rests_until);
        assert_eq!(link.count.rests_until(), None);
    }

    #[test]
    fn a_fixed_number_stays() {
        let mut count = ChannelCount::new(Spread::Fixed(3));
        assert!(!count.on_facts(Instant::ZERO, &LinkFacts::default()));
        assert_eq!((count.wanted(), count.rests_until()), (3, None));
    }
}
