//! An association between the two sides of a pair, as the session sees one: reliable messages
//! arrive once, in any order, unless it is dead; others may be lost.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use hawser_types::{ByteCount, Instant, LinkIndex, Rate};

use crate::{AssociationSample, PathSample};

/// How the messages of a pipe fare.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weather {
    /// All links together, in Mbit/s.
    pub(super) mbit: u64,
    /// One way, in milliseconds.
    pub(super) delay: u64,
    /// By how many milliseconds more a message may be late.
    pub(super) jitter: u64,
    /// How many of a thousand messages are lost, or sent again a round trip later.
    pub(super) lost: u64,
}

/// One direction.
pub(super) struct Pipe {
    weather: Weather,
    random: u64,
    free_at: Instant,
    messages: u64,
    /// By the time of their arrival.
    pub(super) in_flight: BTreeMap<(Instant, u64), Bytes>,
    /// When they will be acknowledged or given up, and their bytes.
    acks: BTreeMap<(Instant, u64), u64>,
    last_ack: Instant,
    pub(super) is_dead: bool,
    pub(super) told_ready: bool,
    sent: u64,
    pub(super) received: u64,
    /// How many messages were lost, and how many came before one that was sent earlier.
    pub(super) lost: u64,
    /// Messages that are worth being sent twice.
    pub(super) twice: u32,
    /// Bytes of such messages that the association says it has sent twice.
    pub(super) duplicated: u64,
    pub(super) overtaken: u64,
    latest: u64,
}

impl Pipe {
    pub(super) fn new(now: Instant, weather: Weather, seed: u64) -> Self {
        Self {
            weather,
            random: seed | 1,
            free_at: now,
            messages: 0,
            in_flight: BTreeMap::new(),
            acks: BTreeMap::new(),
            last_ack: now,
            is_dead: false,
            told_ready: false,
            sent: 0,
            received: 0,
            twice: 0,
            duplicated: 0,
            lost: 0,
            overtaken: 0,
            latest: 0,
        }
    }

    /// When less than 2 ms of what it was given is left to send.
    pub(super) fn ready_at(&self) -> Instant {
        self.free_at - Duration::from_millis(2)
    }

    pub(super) fn send(&mut self, now: Instant, message: Bytes, lifetime: Option<Duration>) {
        let Weather {
            mbit,
            delay,
            jitter,
            lost,
        } = self.weather;
        let size = message.len() as u64;
        let rate = Rate::from_bits_per_second(mbit * 1_000_000);
        let time = rate.time_for(ByteCount::new(size + 50)).unwrap();
        self.free_at = self.free_at.max(now) + time;
        self.sent += size + 50;
        self.told_ready = false;
        self.messages += 1;
        let number = self.messages;
        let delay = Duration::from_millis(delay);
        let mut arrives = self.free_at + delay + Duration::from_millis(self.below(jitter + 1));
        let is_lost = self.below(1000) < lost;
        self.lost += u64::from(is_lost);
        match lifetime {
            Some(lifetime) if is_lost => {
                self.acks.insert((now + lifetime, number), size);
                return;
            }
            None if is_lost => arrives += delay * 2,
            _ => {}
        }
        self.acks.insert((arrives + delay, number), size);
        self.in_flight.insert((arrives, number), message);
    }

    /// The next message that has arrived.
    pub(super) fn receive(&mut self, now: Instant) -> Option<Bytes> {
        let entry = self.in_flight.first_entry().filter(|_| !self.is_dead)?;
        let (at, number) = *entry.key();
        let message = (at <= now).then(|| entry.remove())?;
        self.overtaken += u64::from(number < self.latest);
        self.latest = self.latest.max(number);
        self.received += message.len() as u64 + 50;
        Some(message)
    }

    /// Gives the session's side what a driver would.
    pub(super) fn sample(&mut self, now: Instant, received: u64) -> ([PathSample; 2], Totals) {
        while let Some(entry) = self.acks.first_entry().filter(|_| !self.is_dead) {
            if entry.key().0 > now {
                break;
            }
            self.last_ack = self.last_ack.max(entry.key().0);
            entry.remove();
        }
        let unacknowledged: u64 = self.acks.values().sum();
        let path = |link: u32, rtt: u64, share: u64| PathSample {
            link: LinkIndex::new(link),
            is_active: !self.is_dead,
            is_suspect: self.is_dead,
            rtt: Some(Duration::from_millis(rtt)),
            rate: Rate::from_bits_per_second(self.weather.mbit * 1_000_000 / 2),
            window: ByteCount::new(1 << 20),
            in_flight: ByteCount::new(unacknowledged / 2),
            sent: ByteCount::new(self.sent * share / 4),
            received: ByteCount::new(received * share / 4),
            ..PathSample::default()
        };
        let rtt = self.weather.delay * 2;
        let totals = Totals {
            unacknowledged: ByteCount::new(unacknowledged),
            since_ack: now.since(self.last_ack),
            duplicated: self.duplicated,
        };
        let slower = rtt + self.weather.jitter;
        ([path(1, rtt, 3), path(2, slower, 1)], totals)
    }

    fn below(&mut self, bound: u64) -> u64 {
        // Marsaglia's xorshift.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % bound
    }
}

/// Totals of an association beside its paths.
pub(super) struct Totals {
    unacknowledged: ByteCount,
    since_ack: Duration,
    duplicated: u64,
}

impl Totals {
    pub(super) fn with<'a>(&self, paths: &'a [PathSample]) -> AssociationSample<'a> {
        AssociationSample {
            paths,
            placed: &[],
            unacknowledged: self.unacknowledged,
            queued: ByteCount::ZERO,
            since_ack: self.since_ack,
            duplicated: ByteCount::new(self.duplicated),
            copied: ByteCount::new(self.duplicated),
            is_stuck: false,
        }
    }
}
