//! Open connections, and the charges of their exits.

use std::collections::BTreeMap;
use std::time::Duration;

use hawser_path::{Activity, Segments};
use hawser_policy::Protocol;
use hawser_sched::DemandKey;
use hawser_sched::connection::{Load, remaining};
use hawser_types::{ByteCount, Instant};

use super::charges::Charge;
use super::exits::Over;
use super::expected::Expected;
use super::link_record::MOST_SLOW;
use super::sites::Site;
use super::story::TryId;

/// Number of a connection that the director counts; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(u64);

/// Total progress of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Progress {
    /// Bytes sent and received since its start.
    pub moved: [ByteCount; 2],
    /// Time after which the new bytes among them were moved; `None` for the time of the previous
    /// report.
    pub since: Option<Instant>,
    /// Time of the far end's latest packet, if known.
    pub heard: Option<Instant>,
}

/// All open connections.
#[derive(Debug, Default)]
pub(crate) struct Flows {
    open: BTreeMap<FlowId, Flow>,
    next: u64,
}

/// One open connection.
#[derive(Debug)]
pub(crate) struct Flow {
    over: Over,
    expected: Expected,
    /// The attempt in its story.
    told: Option<TryId>,
    begun: Instant,
    connected: Option<Instant>,
    activity: Activity,
    segments: Segments,
    /// Its load on the exit.
    load: Load,
}

impl Flows {
    pub(crate) fn insert(&mut self, flow: Flow) -> FlowId {
        let id = FlowId(self.next);
        self.next += 1;
        self.open.insert(id, flow);
        id
    }

    pub(crate) fn get_mut(&mut self, id: FlowId) -> Option<&mut Flow> {
        self.open.get_mut(&id)
    }

    pub(crate) fn remove(&mut self, id: FlowId) -> Option<Flow> {
        self.open.remove(&id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Flow> {
        self.open.values()
    }

    pub(crate) fn iter_with_ids(&self) -> impl Iterator<Item = (FlowId, &Flow)> {
        self.open.iter().map(|(id, flow)| (*id, flow))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Flow> {
        self.open.values_mut()
    }

    pub(crate) fn len(&self) -> usize {
        self.open.len()
    }

    /// Returns the number of open connections over this exit, including idle ones.
    pub(crate) fn count_over(&self, over: Over) -> u64 {
        self.iter().filter(|flow| flow.over == over).count() as u64
    }

    /// Returns the exits on which a connection was continuously active since the last call, sending
    /// and receiving. Calls do not count, because they never want more than they have.
    /// Unacknowledged sent bytes do not count: they may exceed the exit's capacity.
    pub(crate) fn take_busy(&mut self) -> BTreeMap<Over, [bool; 2]> {
        let mut busy: BTreeMap<Over, [bool; 2]> = BTreeMap::new();
        for flow in self.open.values_mut() {
            let was_busy = flow.activity.was_busy();
            let counts = !flow.expected.is_call();
            let [up, down] = busy.entry(flow.over).or_default();
            *up |= was_busy[0] && counts && flow.expected.is_acknowledged();
            *down |= was_busy[1] && counts;
        }
        busy
    }
}

impl Flow {
    pub(crate) fn new(now: Instant, over: Over, expected: Expected, told: Option<TryId>) -> Self {
        let demand = expected.demand;
        Self {
            over,
            expected,
            told,
            begun: now,
            connected: None,
            activity: Activity::new(now),
            segments: Segments::default(),
            load: Load {
                connections: 1,
                up: demand.up,
                down: demand.down,
            },
        }
    }

    pub(crate) const fn over(&self) -> Over {
        self.over
    }

    pub(crate) const fn key(&self) -> &DemandKey {
        &self.expected.key
    }

    pub(crate) const fn site(&self) -> Option<&Site> {
        self.expected.site.as_ref()
    }

    /// Returns how many of these sent bytes are known to have arrived.
    pub(crate) fn acknowledged(&self, sent: ByteCount) -> ByteCount {
        if self.expected.is_acknowledged() {
            sent
        } else {
            ByteCount::ZERO
        }
    }

    pub(crate) const fn told(&self) -> Option<TryId> {
        self.told
    }

    pub(crate) const fn is_connected(&self) -> bool {
        self.connected.is_some()
    }

    /// Returns the reported bytes, sent and received.
    pub(crate) fn moved(&self) -> [ByteCount; 2] {
        self.activity.moved()
    }

    /// Returns the time since it was answered, or since its start.
    pub(crate) fn lasted(&self, now: Instant) -> Duration {
        now.since(self.connected.unwrap_or(self.begun))
    }

    pub(crate) fn on_connected(&mut self, at: Instant) {
        self.connected = Some(at);
        self.activity.on_begun(at);
    }

    /// Records its progress, and returns the new bytes, sent and received.
    pub(crate) fn on_progress(&mut self, now: Instant, progress: &Progress) -> [ByteCount; 2] {
        let before = self.activity.moved();
        match progress.since {
            Some(since) => self.activity.on_moved_since(since, now, progress.moved),
            None => self.activity.on_moved(now, progress.moved),
        }
        [0, 1].map(|direction| progress.moved[direction] - before[direction])
    }

    /// Records its segments, and returns the previous numbers.
    pub(crate) const fn on_segments(&mut self, segments: Segments) -> Segments {
        std::mem::replace(&mut self.segments, segments)
    }

    /// Returns the bytes that certainly arrived before the present pause, and the time that took;
    /// once per pause.
    pub(crate) fn take_burst(&mut self) -> Option<([ByteCount; 2], Duration)> {
        let ([up, down], took) = self.activity.take_burst()?;
        Some(([self.acknowledged(up), down], took))
    }

    /// Updates its charge on an exit with this latency. Returns true if it is idle.
    pub(crate) fn update(&mut self, now: Instant, latency: Duration) -> bool {
        // A connection that is not answered yet waits for its link only, if it still waits.
        let waits = self.connected.is_none() && now.since(self.begun) < MOST_SLOW;
        let is_idle = !waits && self.activity.is_idle(now, latency);
        let [up, down] = self.activity.moved();
        self.load = if is_idle {
            Load::default()
        } else {
            Load {
                connections: 1,
                up: remaining(self.expected.demand.up, up),
                down: remaining(self.expected.demand.down, down),
            }
        };
        is_idle
    }

    /// Returns its charge on the exit.
    ///
    /// A call over datagrams counts as one until it ends, as in the kernel's program: a muted call,
    /// or one with unseen answers, would be disturbed otherwise. Datagrams that pause for long have
    /// ended; a stream may stay open for days.
    pub(crate) fn charge(&self) -> Charge {
        let goes_on = self.load.connections > 0 || self.expected.protocol == Protocol::Udp;
        Charge {
            load: self.load,
            is_call: self.expected.is_call() && goes_on,
        }
    }
}
