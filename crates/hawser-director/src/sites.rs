//! Recent destinations: the route of connections to each, and the rates reached.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use hawser_sched::connection::{By, Reached};
use hawser_types::{ByteCount, Instant, Rate};

use super::request::ConnectionRequest;

/// Recent destinations, if there is a gateway: the route of connections to them, and the rates
/// reached over either route.
#[derive(Debug, Default)]
pub(crate) struct Sites {
    known: BTreeMap<Site, SiteRecord>,
    /// Bytes sent and received by all connections over each route.
    moved: [[ByteCount; 2]; 2],
}

/// A destination that recognises its visitors: the hosts of one domain, or an address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Site {
    Domain(String),
    Address(IpAddr),
}

#[derive(Debug)]
struct SiteRecord {
    /// Route of the latest connection, and the time when a connection last used it.
    by: By,
    used: Instant,
    ways: [BestRates; 2],
}

/// Rates reached with one site over one route, sent and received.
#[derive(Debug, Default)]
struct BestRates {
    /// Bytes moved between the two marks.
    moved: [ByteCount; 2],
    since: Mark,
    latest: Mark,
    best: [Option<(Rate, Instant)>; 2],
}

/// A moment, and the bytes of all connections over the same route up to then.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    at: Instant,
    all: [ByteCount; 2],
}

impl Site {
    /// Returns the destination of a connection, if known.
    pub(crate) fn of(request: &ConnectionRequest) -> Option<Self> {
        match (&request.domain, request.remote) {
            (Some(name), _) => Some(Self::Domain(domain(name))),
            (None, remote) => Some(Self::Address(remote?.to_canonical())),
        }
    }
}

impl Sites {
    /// Returns the route that connections to the site keep for now, so that the site does not see
    /// two addresses of one visitor.
    pub(crate) fn kept(&self, site: &Site, now: Instant) -> Option<By> {
        let known = self.known.get(site)?;
        (now.since(known.used) < KEEP).then_some(known.by)
    }

    /// Records the start or the end of a connection to the site.
    pub(crate) fn note(&mut self, site: &Site, by: By, now: Instant) {
        if let Some(known) = self.known.get_mut(site) {
            (known.by, known.used) = (by, now);
            return;
        }
        if self.known.len() >= MAX_SITES {
            let eldest = self.known.iter().min_by_key(|(_, known)| known.used);
            let eldest = eldest.map(|(site, _)| site.clone());
            eldest.and_then(|site| self.known.remove(&site));
        }
        let known = SiteRecord {
            by,
            used: now,
            ways: Default::default(),
        };
        self.known.insert(site.clone(), known);
    }

    /// Records the bytes that a connection to the site has moved since the last report, and how
    /// many of these certainly arrived.
    pub(crate) fn on_moved(
        &mut self,
        site: &Site,
        by: By,
        now: Instant,
        moved: [ByteCount; 2],
        arrived: [ByteCount; 2],
    ) {
        let all = &mut self.moved[index(by)];
        *all = [all[0] + moved[0], all[1] + moved[1]];
        if let Some(known) = self.known.get_mut(site) {
            known.used = known.used.max(now);
            let mark = Mark { at: now, all: *all };
            known.ways[index(by)].on_moved(mark, arrived);
        }
    }

    /// Returns the highest recent rates with the site; `None` if too few bytes were moved, or too
    /// many with other sites at the same time.
    pub(crate) fn reached(&self, site: &Site, now: Instant) -> Reached {
        let best = |by| {
            let known = self.known.get(site);
            known.map_or([None; 2], |known| known.ways[index(by)].best(now))
        };
        Reached {
            by_link: best(By::Link),
            by_gateway: best(By::Gateway),
        }
    }
}

const fn index(by: By) -> usize {
    match by {
        By::Link => 0,
        By::Gateway => 1,
    }
}

impl BestRates {
    fn on_moved(&mut self, now: Mark, moved: [ByteCount; 2]) {
        if now.at > self.latest.at {
            let pause = now.at.since(self.latest.at);
            if let Some(rates) = self.full() {
                for (best, rate) in self.best.iter_mut().zip(rates) {
                    *best = better(*best, rate, self.latest.at);
                }
                (self.since, self.moved) = (self.latest, [ByteCount::ZERO; 2]);
            }
            if pause > PAUSE {
                // The time since when these bytes were in flight is unknown.
                (self.since, self.moved) = (now, [ByteCount::ZERO; 2]);
            }
        }
        self.latest = now;
        if self.since.at < now.at {
            let [up, down] = moved;
            self.moved = [self.moved[0] + up, self.moved[1] + down];
        } else {
            // Bytes up to this time do not count, neither the site's nor the total.
            self.since = now;
        }
    }

    /// Returns the rates since the mark, once that is long enough ago: a rate reached beside other
    /// sites says nothing about this one.
    fn full(&self) -> Option<[Option<Rate>; 2]> {
        let span = self.latest.at.since(self.since.at);
        let rate = |way: usize| {
            let (bytes, all) = (self.moved[way], self.latest.all[way] - self.since.all[way]);
            let was_alone = bytes.as_u64().saturating_mul(8) >= all.as_u64().saturating_mul(7);
            (bytes >= ENOUGH && was_alone).then(|| Rate::over(bytes, span))
        };
        (span >= SPAN).then(|| [rate(0), rate(1)])
    }

    /// Returns the best recent rates, sent and received.
    fn best(&self, now: Instant) -> [Option<Rate>; 2] {
        let latest = self.full().unwrap_or_default();
        let [up, down] = self.best;
        let recent = |best, rate| {
            let best = better(best, rate, self.latest.at);
            let recent = best.filter(|(_, at)| now.since(*at) < FORGET);
            recent.map(|(rate, _)| rate)
        };
        [recent(up, latest[0]), recent(down, latest[1])]
    }
}

/// Returns the better of the earlier and the new rate; an old rate never counts.
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

/// Returns the registrable part of a name, as far as recognisable: two labels, or three if the
/// second-last is short, as in `co.uk`.
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

/// Users log in, and sites may tie the login to their address.
const KEEP: Duration = Duration::from_secs(600);
/// The rates of a site may change.
const FORGET: Duration = Duration::from_secs(3600);
const MAX_SITES: usize = 1024;
/// Minimum span of a rate.
const SPAN: Duration = Duration::from_secs(1);
/// A site without traffic for this long starts anew. It is half as long again as the interval of
/// reports, so that the time between two pages does not count.
const PAUSE: Duration = Duration::from_millis(750);
/// A smaller transfer ends before its rate matters.
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

    /// Moves bytes that all arrive.
    fn carry(sites: &mut Sites, site: &Site, by: By, now: Instant, moved: [ByteCount; 2]) {
        sites.on_moved(site, by, now, moved, moved);
    }

    /// Returns the highest rate received from the site, in Mbit/s.
    fn megabits(sites: &Sites, site: &Site, by: By, now: Instant) -> Option<u64> {
        let reached = sites.reached(site, now);
        let [up, down] = match by {
            By::Link => reached.by_link,
            By::Gateway => reached.by_gateway,
        };
        assert_eq!(up, None);
        down.map(|rate| rate.bits_per_second() / 1_000_000)
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
        carry(&mut sites, &site, By::Gateway, at(300_000), down(1));
        assert_eq!(sites.kept(&site, at(899_000)), Some(By::Gateway));
        assert_eq!(sites.kept(&site, at(900_000)), None);
        sites.note(&site, By::Link, at(900_000));
        assert_eq!(sites.kept(&site, at(900_001)), Some(By::Link));
    }

    #[test]
    fn what_was_reached_is_the_most_of_a_second_and_small_things_say_nothing() {
        let (mut sites, site) = (Sites::default(), site("example.org"));
        let reached = |sites: &Sites, by, now| megabits(sites, &site, by, now);
        sites.note(&site, By::Link, at(0));
        // A page from time to time.
        for second in 0..20 {
            carry(&mut sites, &site, By::Link, at(second * 1000), down(20_000));
        }
        assert_eq!(reached(&sites, By::Link, at(20_000)), None);
        // Two downloads at once, reported every half second; the first report does not count.
        for tick in 0..10 {
            let now = at(60_000 + tick * 500);
            carry(&mut sites, &site, By::Gateway, now, down(625_000));
            carry(&mut sites, &site, By::Gateway, now, down(625_000));
        }
        assert_eq!(reached(&sites, By::Gateway, at(65_000)), Some(20));
        assert_eq!(reached(&sites, By::Link, at(65_000)), None);
        let later = at(65_000 + 3_600_000);
        assert_eq!(reached(&sites, By::Gateway, later), None);
    }

    #[test]
    fn a_rate_reached_beside_others_says_nothing_about_a_site() {
        let (mut sites, slow, other) = (Sites::default(), site("slow.org"), site("other.org"));
        sites.note(&slow, By::Link, at(0));
        sites.note(&other, By::Link, at(0));
        let mut over = |since: u64, bytes: [u64; 3]| {
            for tick in 0..10 {
                let now = at(since + tick * 500);
                // In any order of reports.
                carry(&mut sites, &other, By::Link, now, down(bytes[1]));
                carry(&mut sites, &slow, By::Link, now, down(bytes[0]));
                carry(&mut sites, &other, By::Link, now, down(bytes[2]));
            }
            let reached = |site| megabits(&sites, site, By::Link, at(since + 5000));
            [reached(&slow), reached(&other)]
        };
        assert_eq!(over(60_000, [625_000, 312_500, 312_500]), [None, None]);
        // A small flow does not matter.
        assert_eq!(over(120_000, [625_000, 30_000, 30_000]), [Some(10), None]);
        // Traffic over the other route, or in the other direction, does not compete.
        let mut sites = Sites::default();
        sites.note(&slow, By::Gateway, at(0));
        for tick in 0..10 {
            let now = at(tick * 500);
            carry(&mut sites, &other, By::Link, now, down(625_000));
            carry(
                &mut sites,
                &other,
                By::Gateway,
                now,
                [ByteCount::new(625_000), ByteCount::ZERO],
            );
            carry(&mut sites, &slow, By::Gateway, now, down(625_000));
        }
        assert_eq!(megabits(&sites, &slow, By::Gateway, at(5000)), Some(10));
    }

    #[test]
    fn unacknowledged_bytes_say_nothing_about_a_site_but_compete() {
        let (mut sites, site, other) = (Sites::default(), site("a.org"), site("b.org"));
        sites.note(&site, By::Link, at(0));
        sites.note(&other, By::Link, at(0));
        let sent = |bytes| [ByteCount::new(bytes), ByteCount::ZERO];
        for tick in 0..10 {
            sites.on_moved(&site, By::Link, at(tick * 500), sent(625_000), sent(0));
            carry(&mut sites, &other, By::Link, at(tick * 500), sent(625_000));
        }
        for site in [&site, &other] {
            assert_eq!(sites.reached(site, at(5000)).by_link, [None; 2]);
        }
    }

    #[test]
    fn pages_with_pauses_between_them_are_no_rate() {
        let (mut sites, site) = (Sites::default(), site("example.org"));
        sites.note(&site, By::Link, at(0));
        for click in 0..20 {
            carry(&mut sites, &site, By::Link, at(click * 1500), down(75_000));
            carry(
                &mut sites,
                &site,
                By::Link,
                at(click * 1500 + 200),
                down(75_000),
            );
        }
        assert_eq!(megabits(&sites, &site, By::Link, at(30_000)), None);
    }

    #[test]
    fn sites_without_end_take_no_more_room_and_the_stillest_goes() {
        let mut sites = Sites::default();
        let of = |n: u32| Site::Address(std::net::Ipv4Addr::from_bits(n).into());
        for n in 0..3 * MAX_SITES as u32 {
            sites.note(&of(n), By::Link, at(n.into()));
            // The first site is used all the time.
            carry(&mut sites, &of(0), By::Link, at(n.into()), down(1));
        }
        assert_eq!(sites.known.len(), MAX_SITES);
        assert!(sites.known.contains_key(&of(0)));
    }
}
