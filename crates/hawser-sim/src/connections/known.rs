//! What a client knows of its links, as the daemon learns it.

use std::time::Duration;

use hawser_path::{Capacity, LinkLatency};
use hawser_scenario::Link;
use hawser_sched::connection::{LinkView, Load};
use hawser_types::{ByteCount, Instant, LinkIndex, Rate};

/// What is known of the links when a run begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Rates {
    /// Their rates, which are the scenario's
    Known,
    /// What another run showed while they were busy
    Learnt,
    /// Nothing
    Unknown,
}

/// One link. Pairs are of what is sent and what is received.
#[derive(Debug)]
pub(super) struct KnownLink {
    index: LinkIndex,
    nominal: Option<[Rate; 2]>,
    measured: [Capacity; 2],
    /// Of handshakes.
    latency: LinkLatency,
}

impl KnownLink {
    pub(super) fn new(place: usize, link: &Link, rates: Rates) -> Self {
        Self {
            index: LinkIndex::new(place as u32 + 1),
            nominal: (rates == Rates::Known).then_some([link.up.rate, link.down.rate]),
            measured: Default::default(),
            latency: LinkLatency::default(),
        }
    }

    /// The link as a policy sees it, without its load.
    pub(super) fn view(&self) -> LinkView {
        let measured = || self.measured.each_ref().map(Capacity::rate);
        let [up, down] = match self.nominal {
            Some(rates) => rates,
            None => measured().map(Option::unwrap_or_default),
        };
        LinkView {
            link: self.index,
            up,
            down,
            latency: self.latency.smoothed(),
            load: Load::default(),
        }
    }

    /// The interface has carried so much up to now.
    pub(super) fn on_counter(&mut self, now: Instant, carried: [ByteCount; 2], busy: [bool; 2]) {
        for way in 0..2 {
            self.measured[way].on_counter(now, carried[way], busy[way]);
        }
    }

    /// A connection has ended that has moved so much in its time.
    pub(super) fn on_end(&mut self, now: Instant, moved: [ByteCount; 2], span: Duration) {
        for (capacity, bytes) in self.measured.iter_mut().zip(moved) {
            capacity.on_transfer(now, bytes, span);
        }
    }

    pub(super) fn on_handshake(&mut self, took: Duration) {
        self.latency.on_sample(took);
    }

    pub(super) fn on_empty(&mut self) {
        self.latency.on_empty();
    }
}

/// How often the interfaces' counters are read.
pub(super) const COUNTED_EVERY: Duration = Duration::from_millis(500);
