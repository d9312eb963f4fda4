use hawser_types::Rate;

use crate::{LinkStatus, LinkTraffic, StatusSnapshot};

impl StatusSnapshot {
    /// Returns the rate that leaves by all links now.
    pub fn up(&self) -> Rate {
        self.links.iter().map(|link| link.traffic.up).sum()
    }

    /// Returns the rate that arrives by all links now.
    pub fn down(&self) -> Rate {
        self.links.iter().map(|link| link.traffic.down).sum()
    }

    /// Returns the current rate of all links divided by that of the busiest one, both directions
    /// together: 1 if one link carries everything. `None` while no data moves.
    pub fn gain(&self) -> Option<f64> {
        let all = self.links.iter().map(|link| link.traffic.both());
        let busiest = all.max()?;
        quotient(self.up() + self.down(), busiest)
    }

    /// Returns the share of `link` in the current rate of all links, both directions together, from
    /// 0 to 1. `None` while no data moves.
    pub fn share(&self, link: &LinkStatus) -> Option<f64> {
        quotient(link.traffic.both(), self.up() + self.down())
    }
}

impl LinkTraffic {
    /// Returns the rate that leaves and arrives by the link now.
    pub fn both(&self) -> Rate {
        self.up + self.down
    }
}

fn quotient(part: Rate, whole: Rate) -> Option<f64> {
    let whole = whole.bits_per_second();
    (whole > 0).then(|| part.bits_per_second() as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(up: u64, down: u64) -> LinkStatus {
        LinkStatus {
            traffic: LinkTraffic {
                up: Rate::from_bits_per_second(up * 1_000_000),
                down: Rate::from_bits_per_second(down * 1_000_000),
                ..LinkTraffic::default()
            },
            ..LinkStatus::default()
        }
    }

    fn snapshot(links: Vec<LinkStatus>) -> StatusSnapshot {
        StatusSnapshot {
            links,
            ..StatusSnapshot::default()
        }
    }

    #[test]
    fn the_gain_is_what_all_links_carry_by_what_the_busiest_does() {
        let two = snapshot(vec![link(1, 49), link(0, 30), link(0, 0)]);
        assert_eq!(two.gain(), Some(1.6));
        assert_eq!(two.share(&two.links[1]), Some(0.375));
        assert_eq!(
            (two.up().bits_per_second(), two.down().bits_per_second()),
            (1_000_000, 79_000_000)
        );
        assert_eq!(snapshot(vec![link(0, 7), link(0, 0)]).gain(), Some(1.0));
    }

    #[test]
    fn nothing_has_no_gain() {
        for idle in [snapshot(Vec::new()), snapshot(vec![link(0, 0)])] {
            assert_eq!(idle.gain(), None);
            assert_eq!(idle.share(&link(0, 0)), None);
        }
    }
}
