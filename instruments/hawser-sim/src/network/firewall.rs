//! The UDP policy of a network, in front of each of its links.

use std::time::Duration;

use hawser_types::{ByteCount, Instant, Rate};

/// What becomes of UDP. TCP passes in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UdpFate {
    /// Everything passes.
    #[default]
    Passes,
    /// Nothing passes.
    Blocked,
    /// Each link lets a tenth of its rate pass in each direction, and drops the rest.
    Throttled,
    /// The same once this time is over.
    Slowed(Duration),
    /// Each link lets 200 kbit/s pass in each direction once this time is over.
    Limited(Duration),
    /// Nothing passes once this time is over.
    Dropped(Duration),
}

/// The state of what drops UDP.
#[derive(Debug)]
pub(super) struct Firewall {
    fate: UdpFate,
    began: Instant,
    /// By link and direction.
    ways: Vec<[Way; 2]>,
}

/// What is in front of one direction of a link.
#[derive(Debug)]
struct Way {
    /// The link's.
    rate: Rate,
    /// Time up to which the part that passes is used.
    used_until: Instant,
}

impl Firewall {
    /// A firewall in front of links of these rates, towards the server and towards the client.
    pub(super) fn new(now: Instant, rates: impl Iterator<Item = [Rate; 2]>) -> Self {
        let way = |rate| Way {
            rate,
            used_until: now,
        };
        Self {
            fate: UdpFate::Passes,
            began: now,
            ways: rates.map(|rates| rates.map(way)).collect(),
        }
    }

    /// Lets another part of UDP pass from now on.
    pub(super) fn set(&mut self, now: Instant, fate: UdpFate) {
        (self.fate, self.began) = (fate, now);
    }

    /// Returns whether a datagram passes to direction `way` of a link.
    pub(super) fn lets_pass(
        &mut self,
        now: Instant,
        (link, way): (usize, usize),
        size: ByteCount,
    ) -> bool {
        let age = now.since(self.began);
        let way = &mut self.ways[link][way];
        match self.fate {
            UdpFate::Passes => true,
            UdpFate::Blocked => false,
            UdpFate::Dropped(after) => age < after,
            UdpFate::Throttled => way.lets_pass_a_tenth(now, size),
            UdpFate::Slowed(after) => age < after || way.lets_pass_a_tenth(now, size),
            UdpFate::Limited(after) => {
                let time = LIMIT.time_for(size).unwrap_or_default();
                age < after || way.lets_pass(now, time)
            }
        }
    }
}

impl Way {
    /// Whether a datagram is within a tenth of the link's rate.
    fn lets_pass_a_tenth(&mut self, now: Instant, size: ByteCount) -> bool {
        let time = self.rate.time_for(size).unwrap_or_default();
        self.lets_pass(now, time * THROTTLED_TO)
    }

    /// Whether a datagram is within what passes, which takes this time of it.
    fn lets_pass(&mut self, now: Instant, time: Duration) -> bool {
        let from = now.max(self.used_until);
        let passes = from <= now + BURST;
        if passes {
            self.used_until = from + time;
        }
        passes
    }
}

/// The part of a link's rate that throttled UDP has.
const THROTTLED_TO: u32 = 10;
/// The rate of limited UDP.
const LIMIT: Rate = Rate::from_bits_per_second(200_000);
/// Time for which throttled or limited UDP may be ahead of its rate.
const BURST: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn firewall() -> Firewall {
        let rates = [Rate::ZERO, Rate::from_bits_per_second(8_000_000)];
        Firewall::new(at(0), [rates].into_iter())
    }

    /// Datagrams of 1000 bytes that pass of one each millisecond, as much as the link carries.
    fn passed(firewall: &mut Firewall, from: u64, millis: u64) -> usize {
        let mut pass = |now| firewall.lets_pass(at(now), (0, 1), ByteCount::new(1000));
        (from..from + millis).filter(|now| pass(*now)).count()
    }

    #[test]
    fn of_throttled_udp_a_tenth_passes() {
        let mut firewall = firewall();
        assert_eq!(passed(&mut firewall, 0, 1000), 1000);
        firewall.set(at(1000), UdpFate::Throttled);
        let all = passed(&mut firewall, 1000, 10_000);
        assert!((1000..1015).contains(&all), "{all}");
    }

    #[test]
    fn udp_is_throttled_when_its_time_is_over() {
        let mut firewall = firewall();
        firewall.set(at(0), UdpFate::Slowed(Duration::from_secs(1)));
        assert_eq!(passed(&mut firewall, 0, 1000), 1000);
        let all = passed(&mut firewall, 1000, 10_000);
        assert!((1000..1015).contains(&all), "{all}");
    }

    #[test]
    fn limited_udp_has_a_rate_whatever_the_link_has() {
        let mut firewall = firewall();
        firewall.set(at(0), UdpFate::Limited(Duration::from_secs(1)));
        assert_eq!(passed(&mut firewall, 0, 1000), 1000);
        let all = passed(&mut firewall, 1000, 10_000);
        assert!((250..255).contains(&all), "{all}");
    }

    #[test]
    fn udp_is_dropped_when_its_time_is_over() {
        let mut firewall = firewall();
        firewall.set(at(0), UdpFate::Dropped(Duration::from_millis(500)));
        assert_eq!(passed(&mut firewall, 0, 1000), 500);
        firewall.set(at(1000), UdpFate::Blocked);
        assert_eq!(passed(&mut firewall, 1000, 100), 0);
    }
}
