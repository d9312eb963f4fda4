use std::time::Duration;

use hawser_types::Instant;
use smallvec::SmallVec;

use crate::AssociationConfig;

/// Path MTU discovery: the search for the largest packet that a path carries, without help from
/// routers. Every path is assumed to carry [`AssociationConfig::BASE_PACKET`]; larger packets are
/// probed by heartbeats with padding.
///
/// The largest size is probed first, since it mostly passes; then common sizes, by bisection of
/// their list; then sizes between. A lost probe is not a sign of congestion or of a dead path.
///
/// Source: RFC 8899 §5 (states, MAX_PROBES, PMTU_RAISE_TIMER), with SCTP's probes from §6.2.
#[derive(Debug)]
pub(super) struct PacketSize {
    /// Largest size known to pass.
    known: usize,
    /// Smallest size known to fail; above `max` while none has failed.
    failed: usize,
    max: usize,
    unit: usize,
    tries: u32,
    probe: Option<Probe>,
    /// Earliest time of the next probe.
    next: Instant,
}

/// An outstanding probe.
#[derive(Clone, Copy, Debug)]
struct Probe {
    nonce: u64,
    size: usize,
    sent: Instant,
    until: Instant,
}

impl PacketSize {
    pub(super) fn new(config: &AssociationConfig, is_ipv4: bool) -> Self {
        let max = config.largest_packet(is_ipv4);
        Self {
            known: config.base_packet(),
            failed: max + 1,
            max,
            unit: config.framing.unit(),
            tries: 0,
            probe: None,
            next: Instant::ZERO,
        }
    }

    /// Makes a size known to pass.
    #[cfg(test)]
    pub(super) fn set_known(&mut self, size: usize) {
        self.known = size;
    }

    /// Returns the largest size known to pass.
    pub(super) fn known(&self) -> usize {
        self.known
    }

    /// Returns the size expected to pass: the largest, until a probe has failed.
    pub(super) fn expected(&self) -> usize {
        let is_undecided = self.failed > self.max && self.tries == 0 && self.next == Instant::ZERO;
        if is_undecided { self.max } else { self.known }
    }

    /// Returns when the search needs attention, on a path that answers.
    pub(super) fn wakes_at(&self) -> Option<Instant> {
        match &self.probe {
            Some(probe) => Some(probe.until),
            None => (self.known < self.max).then_some(self.next),
        }
    }

    /// Returns the size to probe now.
    pub(super) fn due(&self, now: Instant) -> Option<usize> {
        let due = self.probe.is_none() && self.known < self.max && self.next <= now;
        due.then(|| self.candidate())
    }

    /// Handles a probe that leaves: a heartbeat with this nonce in a packet of `size`.
    pub(super) fn on_sent(&mut self, now: Instant, nonce: u64, size: usize, patience: Duration) {
        self.probe = Some(Probe {
            nonce,
            size,
            sent: now,
            until: now + patience,
        });
    }

    /// Handles the answer to the heartbeat with this nonce: returns its round-trip time if it was a
    /// probe.
    pub(super) fn on_answered(&mut self, now: Instant, nonce: u64) -> Option<Duration> {
        let probe = self.probe.filter(|probe| probe.nonce == nonce)?;
        self.probe = None;
        self.tries = 0;
        self.known = self.known.max(probe.size);
        self.settle(now);
        Some(now.since(probe.sent))
    }

    /// Counts a probe that was not answered in time. `path_answers`: the path answers otherwise.
    pub(super) fn handle_timeout(&mut self, now: Instant, path_answers: bool) {
        let Some(probe) = self.probe.filter(|probe| probe.until <= now) else {
            return;
        };
        self.probe = None;
        if !path_answers {
            return;
        }
        self.tries += 1;
        if self.tries >= MAX_PROBES {
            self.tries = 0;
            self.failed = probe.size;
            self.settle(now);
        }
    }

    /// Returns to the base, after time-outs that may mean that packets of the known size do not
    /// pass.
    ///
    /// The search pauses for a while, so that a probe that happens to pass does not raise the size
    /// at once.
    pub(super) fn on_black_hole(&mut self, now: Instant) {
        *self = Self {
            known: AssociationConfig::BASE_PACKET.min(self.max),
            failed: self.max + 1,
            max: self.max,
            unit: self.unit,
            tries: 0,
            probe: None,
            next: now + REST,
        };
    }

    fn candidate(&self) -> usize {
        if self.failed > self.max {
            return self.max;
        }
        let common = COMMON_DIFFERENCES
            .iter()
            .map(|less| self.in_units(self.max.saturating_sub(*less)));
        let common = common.filter(|size| (self.known + 1..self.failed).contains(size));
        let common: SmallVec<[usize; COMMON_DIFFERENCES.len()]> = common.collect();
        // Of two middle ones the larger: success shows after a round trip, failure after three
        // time-outs.
        let middle = common.get(common.len().saturating_sub(1) / 2);
        let middle = middle.copied().unwrap_or((self.known + self.failed) / 2);
        self.in_units(middle)
    }

    fn in_units(&self, size: usize) -> usize {
        size / self.unit * self.unit
    }

    /// Tells whether no further size is worth a probe.
    fn is_fine_enough(&self) -> bool {
        let candidate = self.candidate();
        let is_common = COMMON_DIFFERENCES
            .iter()
            .any(|less| self.in_units(self.max.saturating_sub(*less)) == candidate);
        candidate <= self.known || !is_common && self.failed - self.known <= FINE_ENOUGH
    }

    /// Ends the search when it is fine enough; it starts again later, since the path may then carry
    /// more.
    fn settle(&mut self, now: Instant) {
        if self.known >= self.max || self.is_fine_enough() {
            self.failed = self.max + 1;
            self.next = now + RAISE;
        }
    }
}

/// Differences of common link MTUs from 1500 bytes: 1492 (PPPoE), 1480 and 1472 (IP tunnels), 1460,
/// 1452, 1440 and 1420 (VPNs), 1400, 1280 (the minimum of IPv6).
const COMMON_DIFFERENCES: [usize; 9] = [8, 20, 28, 40, 48, 60, 80, 100, 220];
const FINE_ENOUGH: usize = 16;
const MAX_PROBES: u32 = 3;
/// Pause after a black hole.
const REST: Duration = Duration::from_secs(10);
/// PMTU_RAISE_TIMER.
const RAISE: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use hawser_wire::sctp::Framing;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(1);

    fn search(max: usize) -> PacketSize {
        framed(max, Framing::Whole)
    }

    fn framed(max: usize, framing: Framing) -> PacketSize {
        let config = AssociationConfig {
            max_packet: max,
            framing,
            ..AssociationConfig::default()
        };
        PacketSize::new(&config, true)
    }

    /// Searches on a path that carries `limit`, for `span`; returns the number of probes.
    fn run(size: &mut PacketSize, from: Instant, span: Duration, limit: usize) -> u32 {
        let (mut now, mut tried) = (from, 0);
        while now.since(from) < span {
            if let Some(probe) = size.due(now) {
                tried += 1;
                size.on_sent(now, u64::from(tried), probe, PATIENCE);
                if probe <= limit {
                    assert!(size.on_answered(now, u64::from(tried)).is_some());
                }
            }
            now += Duration::from_millis(500);
            size.handle_timeout(now, true);
        }
        tried
    }

    #[test]
    fn the_largest_packet_is_found_at_once_where_it_passes() {
        let mut size = search(1452);
        assert_eq!(size.known(), 1200);
        assert_eq!(run(&mut size, Instant::ZERO, PATIENCE, 1452), 1);
        assert_eq!(size.known(), 1452);
        assert_eq!(size.wakes_at(), None);
    }

    #[test]
    fn a_path_that_carries_less_is_measured_to_some_bytes() {
        for limit in [1200, 1280, 1372, 1400, 1448] {
            let mut size = search(1452);
            let tried = run(&mut size, Instant::ZERO, Duration::from_secs(60), limit);
            assert!(
                size.known() <= limit && limit - size.known() < 20,
                "{limit}"
            );
            assert!(tried < 24);
        }
    }

    #[test]
    fn what_links_often_carry_is_found_to_the_byte() {
        const AROUND: usize = 28 + 23;
        for mtu in [1500, 1492, 1480, 1472, 1460, 1452, 1440, 1420, 1400, 1280] {
            let mut size = framed(1500 - AROUND, Framing::Compact);
            let tried = run(
                &mut size,
                Instant::ZERO,
                Duration::from_secs(60),
                mtu - AROUND,
            );
            assert_eq!(size.known() + AROUND, mtu);
            assert_eq!(size.wakes_at(), (mtu < 1500).then_some(size.next));
            assert!(tried <= 24, "{mtu}: {tried}");
        }
    }

    #[test]
    fn the_largest_is_expected_until_a_try_has_failed() {
        let mut size = search(1452);
        assert_eq!((size.known(), size.expected()), (1200, 1452));
        size.on_sent(Instant::ZERO, 1, 1452, PATIENCE);
        size.handle_timeout(Instant::ZERO + PATIENCE, true);
        assert_eq!(size.expected(), 1200);
        size.on_sent(Instant::ZERO, 2, 1452, PATIENCE);
        size.on_answered(Instant::ZERO, 2);
        assert_eq!(size.expected(), 1452);
        size.on_black_hole(Instant::ZERO);
        assert_eq!(size.expected(), 1200);
    }

    #[test]
    fn over_ipv6_there_is_room_for_less() {
        let config = AssociationConfig::default();
        assert_eq!(
            PacketSize::new(&config, true).due(Instant::ZERO),
            Some(1472)
        );
        assert_eq!(
            PacketSize::new(&config, false).due(Instant::ZERO),
            Some(1452)
        );
    }

    #[test]
    fn the_search_is_taken_up_again_after_minutes() {
        let mut size = search(1452);
        run(&mut size, Instant::ZERO, Duration::from_secs(60), 1300);
        assert!(size.known() <= 1300);
        run(
            &mut size,
            Instant::ZERO + RAISE,
            Duration::from_secs(90),
            1452,
        );
        assert_eq!(size.known(), 1452);
    }

    #[test]
    fn a_black_hole_leads_back_to_the_base() {
        let mut size = search(1452);
        run(&mut size, Instant::ZERO, PATIENCE, 1452);
        size.on_black_hole(Instant::ZERO + PATIENCE);
        assert_eq!(size.known(), 1200);
        run(
            &mut size,
            Instant::ZERO + PATIENCE,
            Duration::from_secs(60),
            1320,
        );
        assert!((1304..=1320).contains(&size.known()));
    }

    #[test]
    fn tries_on_a_path_that_is_dead_say_nothing() {
        let mut size = search(1452);
        for second in 0..10 {
            let now = Instant::ZERO + PATIENCE * second;
            if let Some(probe) = size.due(now) {
                size.on_sent(now, 1, probe, PATIENCE);
            }
            size.handle_timeout(now + PATIENCE, false);
        }
        run(&mut size, Instant::ZERO + PATIENCE * 10, PATIENCE, 1452);
        assert_eq!(size.known(), 1452);
    }

    #[test]
    fn nothing_is_tried_where_the_base_is_the_most() {
        let size = search(1000);
        assert_eq!((size.due(Instant::ZERO), size.wakes_at()), (None, None));
        assert_eq!(search(usize::MAX).due(Instant::ZERO), Some(65_000));
    }
}
