//! Rates of links: recalled from earlier runs, saved for later ones, and assumed while unknown.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use hawser_path::{KnownLink, KnownRate, LinkKey};
use hawser_sched::connection::FALLBACK_RATE;
use hawser_types::{DefaultRoute, Instant, Link, LinkIndex, Rate};

use super::link_record::LinkRecord;
use super::link_rules::AllLinkRules;
use super::links::Links;

/// Knowledge about links from outside this run.
#[derive(Debug, Default)]
pub(crate) struct LinkRates {
    /// Links of earlier runs, the newest last.
    earlier: Vec<(LinkKey, KnownLink)>,
    /// Default routes, in the system's order of preference.
    routes: Vec<DefaultRoute>,
    /// Rates last saved for later runs, and the times of their measurement.
    written: BTreeMap<LinkKey, [Option<(KnownRate, Instant)>; 2]>,
}

/// Effective rates of links in decisions at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EffectiveRates {
    now: Instant,
    /// The link that the system itself prefers, if known.
    system: Option<LinkIndex>,
    /// Rates, sent and received, of any other link without known rates.
    doubtful: [Rate; 2],
}

impl LinkRates {
    pub(crate) fn set_earlier(&mut self, known: Vec<(LinkKey, KnownLink)>) {
        self.earlier = known;
    }

    pub(crate) fn set_routes(&mut self, routes: Vec<DefaultRoute>) {
        self.routes = routes;
    }

    /// Identifies the networks of the links, and recalls the knowledge about these. A link that is
    /// now attached to another network may have other rates.
    pub(crate) fn recall(&self, now: Instant, links: &mut Links) {
        if self.routes.is_empty() && self.earlier.is_empty() {
            return;
        }
        for record in links.iter_mut() {
            let network = self.network(record.link());
            let is_other = record.network().is_some_and(|before| before != network);
            let index = record.link().index;
            if is_other && !self.routes.iter().any(|route| route.link == index) {
                // Its routes will come back.
                continue;
            }
            let known = self.known(&(record.link().name.clone(), network.clone()));
            record.attach(now, network, known.as_ref());
        }
    }

    /// Returns noticeable changes in the knowledge about links since the last call.
    pub(crate) fn take_news(&mut self, links: &Links) -> BTreeMap<LinkKey, KnownLink> {
        let mut news = BTreeMap::new();
        for record in links.iter() {
            let Some(network) = record.network() else {
                continue;
            };
            let key = (record.link().name.clone(), network.to_owned());
            let [up, down] = self.written.entry(key.clone()).or_default();
            let [sent, received] = record.estimates().learned();
            let known = KnownLink {
                up: renewed(up, sent),
                down: renewed(down, received),
                latency: record.estimates().lowest_latency(),
            };
            if known.up.is_some() || known.down.is_some() {
                news.insert(key, known);
            }
        }
        news
    }

    /// Returns the effective rates of links at this moment.
    ///
    /// If the system's preferred link is unknown, every link counts as ordinary. Any other link
    /// counts for at most five ninths of the best until it has shown more. This is less than the
    /// best, so a single connection takes the link with known rates. It is more than half, so the
    /// second of several equal connections takes the other link, and shows its rates.
    pub(crate) fn effective(&self, now: Instant, links: &Links) -> EffectiveRates {
        let is_here = |route: &&DefaultRoute| links.get(route.link).is_some();
        let system = self.routes.iter().find(is_here).map(|it| it.link);
        let mut rates = EffectiveRates {
            now,
            system,
            doubtful: [FALLBACK_RATE; 2],
        };
        let trusted = |record: &LinkRecord| {
            if rates.is_ordinary(record) {
                let rates = record.estimates().counts_for(now, [FALLBACK_RATE; 2]);
                rates.map(Some)
            } else {
                record.estimates().seen()
            }
        };
        let trusted: Vec<_> = links.iter().map(trusted).collect();
        let best = |direction: usize| {
            let rates = trusted.iter().filter_map(|rates| rates[direction]);
            let best = rates.max().unwrap_or(FALLBACK_RATE);
            Rate::from_bytes_per_second(best.bytes_per_second().saturating_mul(DOUBT.0) / DOUBT.1)
        };
        rates.doubtful = [best(0), best(1)];
        rates
    }

    /// Returns the knowledge about the link in this network, or else by its name alone with half
    /// the confidence.
    fn known(&self, key: &LinkKey) -> Option<KnownLink> {
        let here = self.earlier.iter().rfind(|(known, _)| known == key);
        if let Some((_, known)) = here {
            return Some(*known);
        }
        let named = self.earlier.iter().rfind(|((link, _), _)| *link == key.0);
        let half = |known: KnownRate| known.weighted(0.5);
        named.map(|(_, known)| KnownLink {
            up: known.up.map(half),
            down: known.down.map(half),
            latency: known.latency,
        })
    }

    /// Returns the identity of the link's network: its router, or else the network of the link's
    /// address.
    fn network(&self, link: &Link) -> String {
        let mut routes = self.routes.iter().filter(|route| route.link == link.index);
        let gateway = routes.find_map(|route| route.gateway);
        let own = || link.addresses.first().copied().map(neighbourhood);
        let address = gateway.or_else(own);
        address.map_or(String::new(), |address| address.to_string())
    }
}

impl EffectiveRates {
    /// Returns the moment of these rates.
    pub(crate) const fn now(&self) -> Instant {
        self.now
    }

    /// Returns the effective rates of a link, sent and received. A link with a weak signal and
    /// unknown rates counts for half.
    pub(crate) fn of(&self, record: &LinkRecord, rules: &AllLinkRules) -> [Rate; 2] {
        let unknown = if self.is_ordinary(record) {
            [FALLBACK_RATE; 2]
        } else {
            self.doubtful
        };
        let half = |rate: Rate| Rate::from_bytes_per_second(rate.bytes_per_second() / 2);
        let unknown = if rules.is_weak(record.link()) {
            unknown.map(half)
        } else {
            unknown
        };
        record.estimates().counts_for(self.now, unknown)
    }

    fn is_ordinary(&self, record: &LinkRecord) -> bool {
        let index = record.link().index;
        self.system.is_none_or(|system| system == index)
    }
}

/// Returns the knowledge about one direction, if it differs enough from the saved one.
fn renewed(
    written: &mut Option<(KnownRate, Instant)>,
    learned: Option<(KnownRate, Instant)>,
) -> Option<KnownRate> {
    let (known, seen) = learned?;
    let is_known = written.is_some_and(|(before, at)| {
        let (rate, old) = (
            known.rate.bytes_per_second(),
            before.rate.bytes_per_second(),
        );
        rate.abs_diff(old) < old / 8
            && (known.confidence - before.confidence).abs() < 0.1
            && seen.since(at) < RENEW_AFTER
    });
    if is_known {
        return None;
    }
    *written = Some((known, seen));
    Some(known)
}

/// Returns the network of an address, with the usual prefix length because the real one is unknown.
fn neighbourhood(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(own) => IpAddr::V4((u32::from(own) & (u32::MAX << 8)).into()),
        IpAddr::V6(own) => IpAddr::V6((u128::from(own) & (u128::MAX << 64)).into()),
    }
}

/// A valid rate is saved again after this time, so that it does not count as old.
const RENEW_AFTER: Duration = Duration::from_secs(3600);
/// Fraction of the best rate for which a link without known rates counts: 5/9.
const DOUBT: (u64, u64) = (5, 9);
