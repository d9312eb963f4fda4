use std::ops::Range;
use std::time::Duration;

use hawser_types::{Instant, RangeSet};
use smallvec::SmallVec;

use super::packet::{Packet, SEGMENT};

/// The receiving direction of a connection: what has arrived, and when to say so.
#[derive(Debug)]
pub(super) struct Receiver {
    /// Every byte below this has arrived.
    next: u64,
    beyond: RangeSet,
    /// Where the latest ranges beyond are, the newest first.
    recent: SmallVec<[u64; 4]>,
    told: u64,
    /// The stamp to echo (RFC 7323 §4.3).
    recent_stamp: Option<Instant>,
    delayed_until: Option<Instant>,
    due: bool,
    duplicate: bool,
    /// Acknowledgements that go at once, as at the beginning of a connection.
    quick: u32,
    last_arrival: Instant,
    /// The peer understands ranges.
    selective: bool,
    /// The peer understands time stamps.
    stamps: bool,
}

impl Receiver {
    pub(super) fn new(selective: bool, stamps: bool) -> Self {
        Self {
            next: 0,
            beyond: RangeSet::new(),
            recent: SmallVec::new(),
            told: 0,
            recent_stamp: None,
            delayed_until: None,
            due: false,
            duplicate: false,
            quick: QUICK,
            last_arrival: Instant::ZERO,
            selective,
            stamps,
        }
    }

    /// Bytes that can be read: everything up to the first hole.
    pub(super) fn arrived(&self) -> u64 {
        self.next
    }

    /// Bytes that wait behind a hole.
    pub(super) fn waiting(&self) -> u64 {
        self.beyond.total()
    }

    pub(super) fn on_packet(&mut self, now: Instant, packet: &Packet) {
        if packet.sequence <= self.told || self.recent_stamp.is_none() {
            self.recent_stamp = Some(packet.stamp);
        }
        if packet.length == 0 {
            return;
        }
        if now.since(self.last_arrival) > QUICK_AGAIN {
            self.quick = QUICK;
        }
        self.last_arrival = now;
        let range = packet.sequence..packet.sequence + u64::from(packet.length);
        if range.end <= self.next {
            self.duplicate = true;
            self.due = true;
            return;
        }
        if range.start > self.next {
            self.recent.retain(|old| *old != range.start);
            self.recent.insert(0, range.start);
            self.recent.truncate(MAX_RECENT);
            self.duplicate |= self.beyond.insert(range) == 0;
            self.due = true;
            return;
        }
        let filled = !self.beyond.is_empty();
        self.next = range.end;
        while let Some(range) = self.beyond.pop_first_from(self.next) {
            self.next = self.next.max(range.end);
        }
        self.due |= filled || self.quick > 0 || self.next - self.told > u64::from(SEGMENT);
        if !self.due {
            self.delayed_until.get_or_insert(now + DELAY);
        }
    }

    /// Whether an acknowledgement has to go now.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.due || self.delayed_until.is_some_and(|at| at <= now)
    }

    pub(super) fn timeout(&self) -> Option<Instant> {
        self.delayed_until
    }

    /// Fills in what a packet that leaves now tells the other end.
    pub(super) fn tell(&mut self, packet: &mut Packet) {
        packet.acknowledged = self.next;
        packet.window = WINDOW;
        packet.echo = self.recent_stamp.filter(|_| self.stamps);
        packet.duplicate = std::mem::take(&mut self.duplicate);
        packet.selective = self.ranges();
        self.told = self.next;
        self.due = false;
        self.delayed_until = None;
        self.quick = self.quick.saturating_sub(1);
    }

    fn ranges(&mut self) -> SmallVec<[Range<u64>; 3]> {
        let mut ranges: SmallVec<[Range<u64>; 3]> = SmallVec::new();
        if !self.selective || self.beyond.is_empty() {
            self.recent.clear();
            return ranges;
        }
        let beyond = &self.beyond;
        self.recent.retain(|at| match beyond.find(*at) {
            Some(range) if !ranges.contains(&range) && ranges.len() < MAX_RANGES => {
                ranges.push(range);
                true
            }
            _ => false,
        });
        ranges
    }
}

/// What may be on its way: half of `net.ipv4.tcp_rmem`'s largest, 32 MiB. That the kernel begins
/// with less and grows it is left out.
pub(super) const WINDOW: u64 = 16 << 20;
/// `TCP_DELACK_MIN`.
const DELAY: Duration = Duration::from_millis(40);
/// `TCP_MAX_QUICKACKS`.
const QUICK: u32 = 16;
/// A pause after which acknowledgements go at once again.
const QUICK_AGAIN: Duration = Duration::from_millis(200);
const MAX_RANGES: usize = 3;
/// More than are told, since ranges grow together.
const MAX_RECENT: usize = 8;
