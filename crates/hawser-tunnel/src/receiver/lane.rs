//! The order of one flow.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use hawser_sched::tally::FlowTally;
use hawser_types::{ByteCount, Instant, LinkIndex, NumberWindow, PathId};
use hawser_wire::tunnel::TunnelHeader;

use super::pace::Pace;
use crate::packet::{FlowKey, PacketView, UDP};

/// A flow's packets that wait, and its gaps.
#[derive(Debug)]
pub(super) struct Lane {
    /// Number of the next packet in order.
    next: u64,
    highest: u64,
    /// The recent numbers that came.
    came: NumberWindow<WORDS>,
    /// Packets that came ahead of their turn, by ascending numbers above `next`.
    held: VecDeque<Held>,
    /// Numbers that were passed over and may still come late, ascending; the oldest go first.
    gaps: VecDeque<Gap>,
    /// Nothing is known of numbers below.
    floor: u64,
    /// The entries of this flow among those that wait.
    pub(super) waiting: Option<(Instant, Proof)>,
    /// How fast packets go on whose turn it is; `None`: at once.
    pace: Option<Pace>,
    /// The number that is to be sent once more, and until when that is waited for.
    repair: Option<(u64, Instant)>,
    /// The flow that has this number now, and its counts.
    pub(super) key: Option<FlowKey>,
    pub(super) tally: FlowTally,
}

/// A packet that came, with where and when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival<'a> {
    pub(super) now: Instant,
    pub(super) path: PathId,
    pub(super) place: u64,
    pub(super) header: &'a TunnelHeader,
}

/// A packet that came ahead of its turn.
#[derive(Debug)]
pub(super) struct Held {
    number: u64,
    place: u64,
    path: PathId,
    arrived: Instant,
    early: bool,
    /// Packets just before this one that took the same path, at least.
    run: u64,
    /// `None` where it was handed on already.
    pub(super) packet: Option<Bytes>,
}

/// Outcome of a packet.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It is next; others have waited for it.
    Now { packet: Bytes, waited: Duration },
    /// It had counted as lost; that is how long after others had begun to wait for it.
    Late { packet: Bytes, waited: Duration },
    /// It waits.
    Held { charge: ByteCount },
    /// It is handed on ahead of its turn, and its place is kept.
    Ahead { packet: Bytes, charge: ByteCount },
    /// It came before.
    Duplicate,
}

/// Proof that a missing packet is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Proof {
    /// A higher place on every usable path.
    All(u64),
    /// A higher place on this path, which carried all that is missing.
    Path(PathId, u64),
    /// Nothing but time.
    None,
}

/// Numbers that were passed over, and since when others had waited for them.
#[derive(Clone, Copy, Debug)]
struct Gap {
    start: u64,
    end: u64,
    since: Instant,
}

impl Lane {
    /// A flow that begins with this packet. Where its number is not among the first, those before
    /// it may still come, but are not waited for.
    pub(super) fn new(first: &Arrival<'_>) -> Self {
        let number = first.header.number.expand(0);
        let mut lane = Self {
            next: 0,
            highest: number,
            came: NumberWindow::default(),
            held: VecDeque::new(),
            gaps: VecDeque::new(),
            floor: 0,
            waiting: None,
            pace: None,
            repair: None,
            key: None,
            tally: FlowTally::default(),
        };
        if number >= BEGINNING {
            lane.next = number;
            lane.floor = number.saturating_sub(JOINED_LATE);
            lane.add_gap(Gap {
                start: lane.floor,
                end: number,
                since: first.now,
            });
        }
        lane
    }

    /// Sees whether the sender has given the number to another flow.
    pub(super) fn of_flow(&mut self, now: Instant, packet: &[u8]) {
        let Ok(view) = PacketView::parse(packet) else {
            return;
        };
        let key = view.flow_key();
        if self.key != Some(key) {
            self.key = Some(key);
            self.tally = FlowTally::new(now);
        }
    }

    /// Counts a packet that came over `link`.
    pub(super) fn count(&mut self, now: Instant, link: LinkIndex, bytes: usize, outcome: &Outcome) {
        match outcome {
            Outcome::Duplicate => return,
            Outcome::Late { .. } => self.tally.late += 1,
            Outcome::Now { .. } | Outcome::Held { .. } | Outcome::Ahead { .. } => {}
        }
        self.tally.on_received(now, link, ByteCount::from(bytes));
    }

    pub(super) fn handle(&mut self, arrival: &Arrival<'_>, packet: Bytes) -> Outcome {
        self.waiting = None;
        let header = arrival.header;
        let number = header.number.expand(self.highest);
        self.highest = self.highest.max(number);
        let index = self.held.partition_point(|held| held.number < number);
        let is_held = self.held.get(index).is_some_and(|it| it.number == number);
        if is_held || self.came.contains(number) {
            return Outcome::Duplicate;
        }
        let is_new = self.came.is_new(number);
        self.came.insert(number);
        if number < self.next {
            return self.handle_late(arrival, number, is_new, packet);
        }
        if number == self.next {
            self.next += 1;
            let since = self.held.front().map_or(arrival.now, |held| held.arrived);
            let waited = arrival.now.since(since);
            return Outcome::Now { packet, waited };
        }
        let mut held = Held {
            number,
            place: arrival.place,
            path: arrival.path,
            arrived: arrival.now,
            early: header.early || header.copied,
            run: header.run.packets(),
            packet: None,
        };
        let outcome = if header.unheld {
            let charge = held.charge();
            Outcome::Ahead { packet, charge }
        } else {
            held.packet = Some(packet);
            let charge = held.charge();
            Outcome::Held { charge }
        };
        self.held.insert(index, held);
        outcome
    }

    /// The next packet is there.
    fn is_ready(&self) -> bool {
        self.held.front().is_some_and(|it| it.number == self.next)
    }

    /// How many packets whose turn it is go on now. Only datagrams of UDP are held back: their
    /// sockets would lose what comes all at once.
    pub(super) fn allowance(&mut self, now: Instant) -> usize {
        let is_udp = self.key.is_some_and(|key| key.protocol == UDP);
        let Some(front) = self.held.front().filter(|_| is_udp && self.is_ready()) else {
            self.pace = None;
            return usize::MAX;
        };
        if self.pace.is_none() {
            self.pace = Pace::new(now, self.held.len(), front.arrived);
        }
        self.pace.as_mut().map_or(usize::MAX, |pace| pace.step(now))
    }

    /// When more packets go on whose turn it is.
    pub(super) fn resumes(&self) -> Option<Instant> {
        let pace = self.pace.filter(|_| self.is_ready())?;
        Some(pace.next())
    }

    /// The next portion of packets whose turn it is goes on now.
    pub(super) fn hurry(&mut self) {
        self.pace = None;
    }

    /// Takes out the next packet, if it is there.
    pub(super) fn pop_in_order(&mut self) -> Option<Held> {
        let held = self.is_ready().then(|| self.held.pop_front())??;
        self.next += 1;
        Some(held)
    }

    /// Returns what proves the loss of what is missing, and since when it is waited for. `None`:
    /// nothing waits.
    pub(super) fn waits(&self) -> Option<(Proof, Instant)> {
        let front = self.held.front()?;
        let in_turn = self.held.iter().take(LOOK_AHEAD).find(|held| !held.early);
        let proof = in_turn.map_or(Proof::None, |held| {
            if held.number - self.next <= held.run {
                Proof::Path(held.path, held.place)
            } else {
                Proof::All(held.place)
            }
        });
        Some((proof, front.arrived))
    }

    /// The next packet is lost, and is waited for until it was sent once more.
    pub(super) fn await_repair(&mut self, until: Instant) {
        self.repair = Some((self.next, until));
    }

    /// Until when the next packet is waited for, if it is to be sent once more.
    pub(super) fn repair_deadline(&self) -> Option<Instant> {
        let (number, until) = self.repair?;
        (number == self.next).then_some(until)
    }

    /// Passes over what is missing before the first packet that waits; returns how much that is.
    pub(super) fn skip(&mut self) -> u64 {
        let Some(front) = self.held.front() else {
            return 0;
        };
        let gap = Gap {
            start: self.next,
            end: front.number,
            since: front.arrived,
        };
        self.next = gap.end;
        self.add_gap(gap);
        gap.end - gap.start
    }

    fn handle_late(
        &mut self,
        arrival: &Arrival<'_>,
        number: u64,
        is_new: bool,
        packet: Bytes,
    ) -> Outcome {
        if number < self.floor {
            // Whether an old one came before is forgotten. Of one that was sent twice it is likely.
            let waited = Duration::ZERO;
            return if is_new || !arrival.header.copied {
                Outcome::Late { packet, waited }
            } else {
                Outcome::Duplicate
            };
        }
        let index = self.gaps.partition_point(|gap| gap.end <= number);
        let Some(gap) = self.gaps.get_mut(index).filter(|gap| gap.start <= number) else {
            return Outcome::Duplicate;
        };
        let waited = arrival.now.since(gap.since);
        let before = Gap {
            end: number,
            ..*gap
        };
        gap.start = number + 1;
        if gap.start == gap.end {
            self.gaps.remove(index);
        }
        if before.start < before.end {
            self.gaps.insert(index, before);
            self.forget_gaps();
        }
        Outcome::Late { packet, waited }
    }

    fn add_gap(&mut self, gap: Gap) {
        if gap.start < gap.end {
            self.gaps.push_back(gap);
            self.forget_gaps();
        }
    }

    fn forget_gaps(&mut self) {
        while self.gaps.len() > MAX_GAPS
            && let Some(gap) = self.gaps.pop_front()
        {
            self.floor = gap.end;
        }
    }
}

impl Held {
    /// Memory that it takes.
    pub(super) fn charge(&self) -> ByteCount {
        ByteCount::from(self.packet.as_ref().map_or(0, Bytes::len) + OVERHEAD)
    }
}

/// A flow whose first packet has a lower number has just begun: so many may have overtaken the very
/// first ones, and a flow that is joined this early waits for them once.
const BEGINNING: u64 = 1 << 14;
/// Numbers before the first one of a flow in the middle that may still come.
const JOINED_LATE: u64 = 1024;
/// Ranges that may still come late, and whose age is known. Numbers tell what came before.
const MAX_GAPS: usize = 64;
/// Half a kilobyte tells of the latest 4032 numbers whether they came.
const WORDS: usize = 64;
/// Packets that are looked at for one that left in its turn.
const LOOK_AHEAD: usize = 64;
/// Memory for a packet besides its bytes.
const OVERHEAD: usize = 128;
