use std::time::Duration;

use hawser_types::Instant;

use crate::AssociationConfig;

/// Searches the largest packet that a path carries, without help from routers: every path is taken
/// to carry [`AssociationConfig::BASE_PACKET`], and larger ones are tried by heartbeats with padding.
///
/// The largest is tried first, since it mostly passes; then by halves. A try that is not answered
/// says nothing of congestion, and nothing of the path.
///
/// Source: RFC 8899 §5 (states, MAX_PROBES, PMTU_RAISE_TIMER), with SCTP's probes from §6.2.
#[derive(Debug)]
pub(super) struct PacketSize {
    /// What passes.
    known: usize,
    /// The least that does not; above `max` while nothing has failed.
    failed: usize,
    max: usize,
    tries: u32,
    probe: Option<Probe>,
    /// The next try is not before.
    next: Instant,
}

/// A try under way.
#[derive(Clone, Copy, Debug)]
struct Probe {
    nonce: u64,
    size: usize,
    sent: Instant,
    until: Instant,
}

impl PacketSize {
    pub(super) fn new(config: &AssociationConfig) -> Self {
        let known = config.base_packet();
        let max = (config.max_packet / STEP * STEP).clamp(known, MAX_PACKET);
        Self {
            known,
            failed: max + STEP,
            max,
            tries: 0,
            probe: None,
            next: Instant::ZERO,
        }
    }

    /// The largest packet known to pass.
    pub(super) fn known(&self) -> usize {
        self.known
    }

    /// When there is something to do, on a path that answers.
    pub(super) fn wakes_at(&self) -> Option<Instant> {
        match &self.probe {
            Some(probe) => Some(probe.until),
            None => (self.known < self.max).then_some(self.next),
        }
    }

    /// The size that should be tried now.
    pub(super) fn due(&self, now: Instant) -> Option<usize> {
        let due = self.probe.is_none() && self.known < self.max && self.next <= now;
        due.then(|| self.candidate())
    }

    /// A heartbeat with that nonce leaves in a packet of `size`.
    pub(super) fn on_sent(&mut self, now: Instant, nonce: u64, size: usize, patience: Duration) {
        self.probe = Some(Probe {
            nonce,
            size,
            sent: now,
            until: now + patience,
        });
    }

    /// A heartbeat with that nonce was answered: after how long, if it was a try of this search.
    pub(super) fn on_answered(&mut self, now: Instant, nonce: u64) -> Option<Duration> {
        let probe = self.probe.filter(|probe| probe.nonce == nonce)?;
        self.probe = None;
        self.tries = 0;
        self.known = self.known.max(probe.size);
        self.settle(now);
        Some(now.since(probe.sent))
    }

    /// Counts a try that was not answered in time. `telling`: the path answers otherwise.
    pub(super) fn handle_timeout(&mut self, now: Instant, telling: bool) {
        let Some(probe) = self.probe.filter(|probe| probe.until <= now) else {
            return;
        };
        self.probe = None;
        if !telling {
            return;
        }
        self.tries += 1;
        if self.tries >= MAX_PROBES {
            self.tries = 0;
            self.failed = probe.size;
            self.settle(now);
        }
    }

    /// Nothing passes any more: it may be that packets of the known size are what does not.
    ///
    /// The search rests for a while, lest it be led there again by a try that happens to pass.
    pub(super) fn on_black_hole(&mut self, now: Instant) {
        *self = Self {
            known: AssociationConfig::BASE_PACKET.min(self.max),
            failed: self.max + STEP,
            max: self.max,
            tries: 0,
            probe: None,
            next: now + REST,
        };
    }

    fn candidate(&self) -> usize {
        if self.failed > self.max {
            return self.max;
        }
        let middle = (self.known + self.failed) / 2;
        middle / STEP * STEP
    }

    /// Ends the search when it is fine enough; the path may carry more later.
    fn settle(&mut self, now: Instant) {
        if self.failed - self.known <= FINE_ENOUGH || self.candidate() <= self.known {
            self.failed = self.max + STEP;
            self.next = now + RAISE;
        }
    }
}

/// Chunks have a length of so many bytes.
const STEP: usize = 4;
const FINE_ENOUGH: usize = 16;
/// What UDP over IPv6 can carry, with room to spare.
const MAX_PACKET: usize = 65_000;
const MAX_PROBES: u32 = 3;
/// After a black hole.
const REST: Duration = Duration::from_secs(10);
/// PMTU_RAISE_TIMER.
const RAISE: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(1);

    fn search(max: usize) -> PacketSize {
        PacketSize::new(&AssociationConfig {
            max_packet: max,
            ..AssociationConfig::default()
        })
    }

    /// Searches on a path that carries `limit`, for `span`; how many packets were tried.
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
        assert_eq!(search(usize::MAX).due(Instant::ZERO), Some(MAX_PACKET));
    }
}
