//! What links can carry: recalled from earlier runs, kept for later ones, and supposed where nothing
//! was seen.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use hawser_net::links::{DefaultRoute, Link};
use hawser_path::{Capacity, KnownLink, KnownRate, LinkKey};
use hawser_sched::connection::FALLBACK_RATE;
use hawser_types::{Instant, Rate};

use super::director::{Director, Inner};
use super::link_book::LinkBook;

/// What is known of links beyond what was seen in this run.
#[derive(Debug, Default)]
pub(super) struct Rates {
    /// From earlier runs, the newest last.
    earlier: Vec<(LinkKey, KnownLink)>,
    /// As the system prefers them.
    routes: Vec<DefaultRoute>,
    /// What was last taken for later runs, and when the rates in it were seen.
    written: BTreeMap<LinkKey, [Option<(KnownRate, Instant)>; 2]>,
}

impl Rates {
    /// What is known of the link: in this network, or else by its name alone, which is half as good.
    fn recall(&self, key: &LinkKey) -> Option<KnownLink> {
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

    /// What tells the network of the link from others: its router, or else the network of its own
    /// address.
    fn network(&self, link: &Link) -> String {
        let mut routes = self.routes.iter().filter(|route| route.link == link.index);
        let gateway = routes.find_map(|route| route.gateway);
        let own = || link.addresses.first().copied().map(neighbourhood);
        let address = gateway.or_else(own);
        address.map_or(String::new(), |address| address.to_string())
    }

    /// What was learned of one direction, if it is worth writing down after what was written last.
    fn news(written: &mut Option<(KnownRate, Instant)>, capacity: &Capacity) -> Option<KnownRate> {
        let (known, seen) = capacity.learned()?;
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
}

impl Director {
    /// What was known of links at the end of earlier runs, the newest last.
    pub fn load_rates(&self, known: Vec<(LinkKey, KnownLink)>) {
        let now = self.now();
        let mut inner = self.lock();
        inner.rates.earlier = known;
        inner.recall_rates(now);
    }

    /// The default routes, the one that the system prefers first: they tell which network a link is
    /// attached to, and which link has to be thought the best while nothing is known of any.
    pub fn set_default_routes(&self, routes: Vec<DefaultRoute>) {
        let now = self.now();
        let mut inner = self.lock();
        inner.rates.routes = routes;
        inner.recall_rates(now);
    }

    /// What was learned of links since this was last asked, where it has changed noticeably.
    pub fn take_rates(&self) -> BTreeMap<LinkKey, KnownLink> {
        let mut inner = self.lock();
        let Inner { links, rates, .. } = &mut *inner;
        let mut news = BTreeMap::new();
        for book in links.values() {
            let Some(network) = &book.network else {
                continue;
            };
            let key = (book.link.name.clone(), network.clone());
            let [up, down] = rates.written.entry(key.clone()).or_default();
            let known = KnownLink {
                up: Rates::news(up, &book.up),
                down: Rates::news(down, &book.down),
                latency: book.latency.lowest(),
            };
            if known.up.is_some() || known.down.is_some() {
                news.insert(key, known);
            }
        }
        news
    }
}

impl Inner {
    /// Looks up the links of which it was not yet known what network they are attached to. A link
    /// that is attached to another one by now can do something else.
    pub(super) fn recall_rates(&mut self, now: Instant) {
        if self.rates.routes.is_empty() && self.rates.earlier.is_empty() {
            return;
        }
        for book in self.links.values_mut() {
            let network = self.rates.network(&book.link);
            let has_router = self
                .rates
                .routes
                .iter()
                .any(|it| it.link == book.link.index);
            match &book.network {
                Some(known) if *known == network => {}
                // Its routes come back.
                Some(_) if !has_router => continue,
                Some(_) => book.forget(),
                None => {}
            }
            let known = self
                .rates
                .recall(&(book.link.name.clone(), network.clone()));
            if let Some(known) = known {
                book.recall(now, &known);
            }
            book.network = Some(network);
        }
    }

    /// What links count for at this moment.
    ///
    /// Where the system's own link is not known it is taken for an ordinary one. Any other is not
    /// trusted with more than a third of the best before it has shown more: that is enough to be
    /// tried, and to be seen.
    pub(super) fn counting(&self, now: Instant) -> Counting {
        let is_here = |route: &&DefaultRoute| self.links.contains_key(&route.link);
        let system = self.rates.routes.iter().find(is_here).map(|it| it.link);
        let is_ordinary = |index: u32| system.is_none_or(|system| system == index);
        let best = |way: fn(&LinkBook) -> &Capacity| {
            let trusted = self
                .links
                .iter()
                .filter_map(|(index, book)| match is_ordinary(*index) {
                    true => Some(way(book).counts_for(now, FALLBACK_RATE)),
                    false => way(book).seen(),
                });
            trusted.max().unwrap_or(FALLBACK_RATE)
        };
        let doubtful = |best: Rate| Rate::from_bytes_per_second(best.bytes_per_second() / DOUBT);
        Counting {
            now,
            system,
            doubtful: [best(|book| &book.up), best(|book| &book.down)].map(doubtful),
        }
    }
}

/// What links count for at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counting {
    now: Instant,
    /// The system's own link, where that is known.
    system: Option<u32>,
    /// What any other counts for of which nothing is known, sent and received.
    doubtful: [Rate; 2],
}

impl Counting {
    /// What a link counts for, sent and received.
    pub(super) fn of(&self, book: &LinkBook) -> [Rate; 2] {
        let is_ordinary = self.system.is_none_or(|system| system == book.link.index);
        let [up, down] = match is_ordinary {
            true => [FALLBACK_RATE; 2],
            false => self.doubtful,
        };
        [
            book.up.counts_for(self.now, up),
            book.down.counts_for(self.now, down),
        ]
    }
}

/// The network of an address, as wide as such are where nothing is known of it.
fn neighbourhood(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(own) => IpAddr::V4((u32::from(own) & (u32::MAX << 8)).into()),
        IpAddr::V6(own) => IpAddr::V6((u128::from(own) & (u128::MAX << 64)).into()),
    }
}

/// What is still so is written again, lest it be thought old.
const RENEW_AFTER: Duration = Duration::from_secs(3600);
/// A link of which nothing is known counts for this part of the best.
const DOUBT: u64 = 3;

#[cfg(test)]
mod tests {
    use hawser_sched::connection::ConnectionPolicy;
    use hawser_types::{ByteCount, LinkIndex};

    use super::super::decision::tests::link;
    use super::*;

    fn director(names: &[&str], routes: &[(&str, &str)]) -> Director {
        let director = Director::new(ConnectionPolicy::MaxThroughput, Vec::new());
        let links: Vec<Link> = names.iter().map(|name| Link::clone(&link(name))).collect();
        director.set_links(&links);
        let route = |&(name, gateway): &(&str, &str)| DefaultRoute {
            link: link(name).index,
            gateway: gateway.parse().ok(),
        };
        director.set_default_routes(routes.iter().map(route).collect());
        director
    }

    /// What the links count for downwards, in kbit/s.
    fn counts_for(director: &Director) -> Vec<u64> {
        let links = director.report().links;
        let kilobits = |rate: Rate| rate.bits_per_second() / 1000;
        links
            .iter()
            .map(|link| kilobits(link.counts_for[1]))
            .collect()
    }

    fn measure(director: &Director, name: &str, bytes: u64) {
        let index = LinkIndex::new(link(name).index);
        let second = Duration::from_secs(1);
        director.handle_probe(index, false, ByteCount::new(bytes), second);
    }

    #[tokio::test(start_paused = true)]
    async fn while_nothing_is_known_the_systems_own_link_is_thought_the_best() {
        let director = director(&["a", "b", "c"], &[("b", "192.0.2.1"), ("a", "192.0.2.2")]);
        assert_eq!(counts_for(&director), [3_333, 10_000, 3_333]);
        measure(&director, "b", 5_000_000);
        assert_eq!(counts_for(&director), [13_333, 40_000, 13_333]);
        measure(&director, "a", 2_500_000);
        assert_eq!(counts_for(&director), [20_000, 40_000, 13_333]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_one_run_has_learned_the_next_one_begins_with() {
        let routes = [("a", "192.0.2.1"), ("b", "198.51.100.1")];
        let first = director(&["a", "b"], &routes);
        assert!(first.take_rates().is_empty());
        measure(&first, "b", 1_000_000);
        let learned = first.take_rates();
        let keys: Vec<_> = learned.keys().cloned().collect();
        assert_eq!(keys, [("b".to_owned(), "198.51.100.1".to_owned())]);
        assert!(first.take_rates().is_empty(), "nothing new");
        measure(&first, "b", 1_500_000);
        let learned = first.take_rates();
        let second = director(&["a", "b"], &routes);
        second.load_rates(learned.clone().into_iter().collect());
        assert_eq!(counts_for(&second), [10_000, 12_000]);
        assert!(second.take_rates().is_empty(), "it was not seen again");
        // Elsewhere the name alone is known, which is worth half.
        let elsewhere = director(&["b"], &[("b", "203.0.113.1")]);
        elsewhere.load_rates(learned.into_iter().collect());
        let confidence =
            |director: &Director| director.report().links.last().unwrap().confidence[1];
        assert_eq!(counts_for(&elsewhere), [12_000]);
        assert!(confidence(&elsewhere) < 0.6 * confidence(&second));
    }

    #[tokio::test(start_paused = true)]
    async fn a_link_in_another_network_is_another_link_and_one_without_routes_the_same() {
        let director = director(&["a"], &[("a", "192.0.2.1")]);
        measure(&director, "a", 5_000_000);
        director.set_default_routes(Vec::new());
        assert_eq!(counts_for(&director), [40_000]);
        director.set_default_routes(vec![DefaultRoute {
            link: link("a").index,
            gateway: "198.51.100.1".parse().ok(),
        }]);
        assert_eq!(counts_for(&director), [10_000]);
    }
}
