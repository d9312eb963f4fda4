//! What destinations have seen of this machine, and what was reached with them.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use hawser_sched::connection::By;
use hawser_types::{ByteCount, Instant, Rate};

use super::Origin;

/// The destinations of late, where there is a gateway: by which way connections went to them, and
/// what rates were reached by either.
#[derive(Debug, Default)]
pub(super) struct Sites {
    known: BTreeMap<Site, Known>,
}

/// A destination as it tells its visitors apart: the hosts of one domain, or an address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Site {
    Domain(String),
    Address(IpAddr),
}

#[derive(Debug)]
struct Known {
    /// How the latest connection went, and when that was last of use to it.
    by: By,
    used: Instant,
    reached: [Reached; 2],
}

/// What was reached one way or the other, sent and received.
#[derive(Debug, Default)]
struct Reached {
    /// What was moved since when, and up to when.
    moved: [ByteCount; 2],
    since: Instant,
    latest: Instant,
    best: [Option<(Rate, Instant)>; 2],
}

impl Site {
    /// Where a connection leads, as far as that is known.
    pub(super) fn of(origin: &Origin) -> Option<Self> {
        match (&origin.domain, origin.remote) {
            (Some(name), _) => Some(Self::Domain(domain(name))),
            (None, remote) => Some(Self::Address(remote?.to_canonical())),
        }
    }
}

impl Sites {
    /// The way that connections to the site keep to for now, lest it sees two addresses of one
    /// visitor.
    pub(super) fn kept(&self, site: &Site, now: Instant) -> Option<By> {
        let known = self.known.get(site)?;
        (now.since(known.used) < KEEP).then_some(known.by)
    }

    /// A connection went to the site, or is over.
    pub(super) fn note(&mut self, site: &Site, by: By, now: Instant) {
        if let Some(known) = self.known.get_mut(site) {
            (known.by, known.used) = (by, now);
            return;
        }
        if self.known.len() >= MAX_SITES {
            let eldest = self.known.iter().min_by_key(|(_, known)| known.used);
            let eldest = eldest.map(|(site, _)| site.clone());
            eldest.and_then(|site| self.known.remove(&site));
        }
        let known = Known {
            by,
            used: now,
            reached: Default::default(),
        };
        self.known.insert(site.clone(), known);
    }

    /// A connection to the site has moved so much since that was last said.
    pub(super) fn on_moved(&mut self, site: &Site, by: By, now: Instant, moved: [ByteCount; 2]) {
        if let Some(known) = self.known.get_mut(site) {
            known.used = known.used.max(now);
            known.reached[index(by)].on_moved(now, moved);
        }
    }

    /// The most that was reached with the site this way lately, sent and received; `None` where too
    /// little was moved to say so.
    pub(super) fn reached(&self, site: &Site, by: By, now: Instant) -> [Option<Rate>; 2] {
        let Some(known) = self.known.get(site) else {
            return [None; 2];
        };
        known.reached[index(by)].best(now)
    }
}

const fn index(by: By) -> usize {
    match by {
        By::Link => 0,
        By::Gateway => 1,
    }
}

impl Reached {
    fn on_moved(&mut self, now: Instant, moved: [ByteCount; 2]) {
        if now > self.latest {
            let pause = now.since(self.latest);
            if let Some(rates) = self.full() {
                for (best, rate) in self.best.iter_mut().zip(rates) {
                    *best = better(*best, rate, self.latest);
                }
                (self.since, self.moved) = (self.latest, [ByteCount::ZERO; 2]);
            }
            if pause > PAUSE {
                // Nobody knows since when this was under way.
                (self.since, self.moved) = (now, [ByteCount::ZERO; 2]);
            }
            self.latest = now;
        }
        if self.since < now {
            let [up, down] = moved;
            self.moved = [self.moved[0] + up, self.moved[1] + down];
        }
    }

    /// The rates of what was moved lately, once that is long enough.
    fn full(&self) -> Option<[Option<Rate>; 2]> {
        let span = self.latest.since(self.since);
        let rate = |bytes: ByteCount| (bytes >= ENOUGH).then(|| Rate::over(bytes, span));
        (span >= SPAN).then(|| self.moved.map(rate))
    }

    /// The best of late, sent and received.
    fn best(&self, now: Instant) -> [Option<Rate>; 2] {
        let latest = self.full().unwrap_or_default();
        let [up, down] = self.best;
        let recent = |best, rate| {
            let best = better(best, rate, self.latest);
            let recent = best.filter(|(_, at)| now.since(*at) < FORGET);
            recent.map(|(rate, _)| rate)
        };
        [recent(up, latest[0]), recent(down, latest[1])]
    }
}

/// The better of what was reached before and what was reached now; what is old is not.
fn better(
    best: Option<(Rate, Instant)>,
    rate: Option<Rate>,
    now: Instant,
) -> Option<(Rate, Instant)> {
    let Some(rate) = rate else {
        return best;
    };
    match best {
        Some((before, at)) if rate < before && now.since(at) < FORGET => Some((before, at)),
        _ => Some((rate, now)),
    }
}

/// The part of a name that its owner has registered, as far as that shows: two labels, or three
/// where the second is such as in `co.uk`.
fn domain(name: &str) -> String {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    let labels: Vec<&str> = name.split('.').collect();
    let count = match labels[..] {
        [.., second, country] if country.len() == 2 && second.len() <= SHORT_LABEL => 3,
        _ => 2,
    };
    let first = labels.len().saturating_sub(count);
    labels.get(first..).unwrap_or_default().join(".")
}

/// People log in, and sites tie that to their address.
const KEEP: Duration = Duration::from_secs(600);
/// What a site can do changes.
const FORGET: Duration = Duration::from_secs(3600);
const MAX_SITES: usize = 1024;
/// A rate is that of so long.
const SPAN: Duration = Duration::from_secs(1);
/// What stands still for so long has begun anew.
const PAUSE: Duration = Duration::from_secs(2);
/// Less is over before its rate is felt.
const ENOUGH: ByteCount = ByteCount::from_kib(128);
const SHORT_LABEL: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(10_000) + Duration::from_millis(milliseconds)
    }

    fn site(name: &str) -> Site {
        Site::Domain(domain(name))
    }

    fn down(bytes: u64) -> [ByteCount; 2] {
        [ByteCount::ZERO, ByteCount::new(bytes)]
    }

    #[test]
    fn hosts_of_one_domain_are_one_site() {
        for (name, expected) in [
            ("www.Example.org", "example.org"),
            ("login.accounts.example.org.", "example.org"),
            ("example.org", "example.org"),
            ("shop.example.co.uk", "example.co.uk"),
            ("www.ibm.com", "ibm.com"),
            ("nas", "nas"),
            ("", ""),
        ] {
            assert_eq!(domain(name), expected);
        }
    }

    #[test]
    fn a_site_is_reached_one_way_until_ten_minutes_after_it_was_last_of_use() {
        let (mut sites, site) = (Sites::default(), site("example.org"));
        assert_eq!(sites.kept(&site, at(0)), None);
        sites.note(&site, By::Gateway, at(0));
        sites.on_moved(&site, By::Gateway, at(300_000), down(1));
        assert_eq!(sites.kept(&site, at(899_000)), Some(By::Gateway));
        assert_eq!(sites.kept(&site, at(900_000)), None);
        sites.note(&site, By::Link, at(900_000));
        assert_eq!(sites.kept(&site, at(900_001)), Some(By::Link));
    }

    #[test]
    fn what_was_reached_is_the_most_of_a_second_and_small_things_say_nothing() {
        let (mut sites, site) = (Sites::default(), site("example.org"));
        let reached = |sites: &Sites, by, now| {
            let [up, down] = sites.reached(&site, by, now);
            assert_eq!(up, None);
            down.map(|rate| rate.bits_per_second() / 1_000_000)
        };
        sites.note(&site, By::Link, at(0));
        // A page now and then.
        for second in 0..20 {
            sites.on_moved(&site, By::Link, at(second * 1000), down(20_000));
        }
        assert_eq!(reached(&sites, By::Link, at(20_000)), None);
        // Two downloads at once, seen every half second, of which the first moment does not count.
        for tick in 0..10 {
            let now = at(60_000 + tick * 500);
            sites.on_moved(&site, By::Gateway, now, down(625_000));
            sites.on_moved(&site, By::Gateway, now, down(625_000));
        }
        assert_eq!(reached(&sites, By::Gateway, at(65_000)), Some(20));
        assert_eq!(reached(&sites, By::Link, at(65_000)), None);
        let later = at(65_000 + 3_600_000);
        assert_eq!(reached(&sites, By::Gateway, later), None);
    }

    #[test]
    fn sites_without_end_take_no_more_room_and_the_stillest_goes() {
        let mut sites = Sites::default();
        let of = |n: u32| Site::Address(std::net::Ipv4Addr::from_bits(n).into());
        for n in 0..3 * MAX_SITES as u32 {
            sites.note(&of(n), By::Link, at(n.into()));
            // The first one is used all the time.
            sites.on_moved(&of(0), By::Link, at(n.into()), down(1));
        }
        assert_eq!(sites.known.len(), MAX_SITES);
        assert!(sites.known.contains_key(&of(0)));
    }
}
