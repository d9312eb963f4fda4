//! Open connections, and what their way out is charged with for them.

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

/// One connection that the director counts. Numbers are never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(u64);

/// How far a connection has come, in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Progress {
    /// Bytes sent and received since its beginning.
    pub moved: [ByteCount; 2],
    /// The time after which the new ones among them were moved; `None` where that is the last time
    /// that progress was told.
    pub since: Option<Instant>,
    /// The time at which a packet of the far end last came, where that is known.
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
    /// The try in its story.
    told: Option<TryId>,
    begun: Instant,
    connected: Option<Instant>,
    activity: Activity,
    segments: Segments,
    /// The load that its way out is charged with for it.
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

    /// Connections that are open over this way, idle ones too.
    pub(crate) fn count_over(&self, over: Over) -> u64 {
        self.iter().filter(|flow| flow.over == over).count() as u64
    }

    /// The ways out on which a connection was active, sent and received, without a pause since the
    /// last call. Calls do not count, since they never want more than they have. Nor does what is
    /// sent and not acknowledged: it may be more than its way out carries.
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

    /// The part of these sent bytes that has arrived as far as anybody knows.
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

    /// Bytes sent and received, as far as that was told.
    pub(crate) fn moved(&self) -> [ByteCount; 2] {
        self.activity.moved()
    }

    /// Time since it was answered, or since it began.
    pub(crate) fn lasted(&self, now: Instant) -> Duration {
        now.since(self.connected.unwrap_or(self.begun))
    }

    pub(crate) fn on_connected(&mut self, at: Instant) {
        self.connected = Some(at);
        self.activity.on_begun(at);
    }

    /// Takes in its progress, and returns the bytes that are new, sent and received.
    pub(crate) fn on_progress(&mut self, now: Instant, progress: &Progress) -> [ByteCount; 2] {
        let before = self.activity.moved();
        match progress.since {
            Some(since) => self.activity.on_moved_since(since, now, progress.moved),
            None => self.activity.on_moved(now, progress.moved),
        }
        [0, 1].map(|direction| progress.moved[direction] - before[direction])
    }

    /// Takes in its segments, and returns what was known of them before.
    pub(crate) const fn on_segments(&mut self, segments: Segments) -> Segments {
        std::mem::replace(&mut self.segments, segments)
    }

    /// What it has moved for certain before the present pause, and the time that took; once for
    /// each pause.
    pub(crate) fn take_burst(&mut self) -> Option<([ByteCount; 2], Duration)> {
        let ([up, down], took) = self.activity.take_burst()?;
        Some(([self.acknowledged(up), down], took))
    }

    /// Works out its charge as it is now, on a way out with this latency. True if it is idle.
    pub(crate) fn update(&mut self, now: Instant, latency: Duration) -> bool {
        // One that is not connected yet waits for its link and nothing else, if it still waits.
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

    /// The charge of its way out for it.
    ///
    /// A call over datagrams counts as one until it ends, as it does for the kernel's program: one
    /// that is muted, or whose answers nobody sees, would be disturbed as it goes on. Datagrams
    /// that are still for long have ended; a stream may be left open for days.
    pub(crate) fn charge(&self) -> Charge {
        let goes_on = self.load.connections > 0 || self.expected.protocol == Protocol::Udp;
        Charge {
            load: self.load,
            is_call: self.expected.is_call() && goes_on,
        }
    }
}
