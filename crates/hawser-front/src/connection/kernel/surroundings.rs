use std::collections::BTreeMap;
use std::future::pending;
use std::net::IpAddr;

use hawser_capture::LinkEntry;
use hawser_director::DirectorReport;
use hawser_net::links::particular_prefixes;
use hawser_types::LinkIndex;
use ipnet::IpNet;
use tokio::task::JoinHandle;

use super::entries::index;

/// What is on the links themselves: those of which that is not known yet are not to be used.
///
/// Routes are listed beside everything else, since there may be many of them.
#[derive(Debug, Default)]
pub(super) struct NearNetworks {
    /// The links of which it is known, as they were then.
    known: Addresses,
    listing: Option<Listing>,
}

/// Links, with their own addresses.
pub(super) type Addresses = BTreeMap<LinkIndex, Vec<IpAddr>>;

#[derive(Debug)]
struct Listing {
    /// The links that were there when it began.
    links: Addresses,
    found: JoinHandle<Option<Vec<IpNet>>>,
}

impl NearNetworks {
    /// It is known what is on these links.
    pub(super) fn know(&mut self, links: Addresses) {
        self.known = links;
    }

    /// Takes links out of use of which nothing is known yet, and has that found out. Needs a tokio
    /// runtime.
    pub(super) fn hold_back(&mut self, entries: &mut [LinkEntry], report: &DirectorReport) {
        for entry in entries {
            if !self.known.contains_key(&entry.index) {
                (entry.usable, entry.ipv4, entry.ipv6) = (false, false, false);
            }
        }
        let links = addresses(report);
        self.known.retain(|link, _| links.contains_key(link));
        if self.known != links && self.listing.is_none() {
            self.listing = Some(Listing {
                links,
                found: tokio::spawn(list()),
            });
        }
    }

    /// Waits until it has been found out, and gives the destinations that are to be left alone;
    /// `None` where they could not be listed, and links are used all the same. Nothing is lost when
    /// the future is dropped.
    pub(super) async fn listed(&mut self) -> Option<Vec<IpNet>> {
        let Some(listing) = &mut self.listing else {
            return pending().await;
        };
        let found = (&mut listing.found).await;
        if let Some(listing) = self.listing.take() {
            self.known = listing.links;
        }
        found.ok().flatten()
    }
}

/// The links there are.
pub(super) fn addresses(report: &DirectorReport) -> Addresses {
    let links = report.links.iter();
    links
        .map(|link| (index(link), link.link.addresses.clone()))
        .collect()
}

/// Destinations that are left alone, as routes are now; `None`, and says so, where nobody tells.
pub(super) async fn list() -> Option<Vec<IpNet>> {
    let listed = particular_prefixes().await;
    listed
        .inspect_err(|error| tracing::warn!(%error, "routes can't be listed now"))
        .ok()
}

#[cfg(test)]
mod tests {
    use hawser_net::links::Link;
    use hawser_sched::connection::ConnectionPolicy;

    use super::super::super::SharedDirector;
    use super::super::super::testing::link;
    use super::super::entries::entries;
    use super::*;

    /// The links that may be used.
    fn usable(surroundings: &mut NearNetworks, director: &SharedDirector) -> Vec<String> {
        let report = director.report();
        let mut entries = entries(&report);
        surroundings.hold_back(&mut entries, &report);
        let usable = entries.into_iter().filter(|entry| entry.usable);
        usable.map(|entry| entry.name).collect()
    }

    #[tokio::test]
    async fn a_link_is_used_when_it_is_known_what_is_on_it() {
        let director = SharedDirector::new(ConnectionPolicy::default(), Vec::new());
        let links = ["a", "b"].map(|name| Link::clone(&link(name)));
        director.set_links(&links[..1]);
        let mut surroundings = NearNetworks::default();
        surroundings.know(addresses(&director.report()));
        assert_eq!(usable(&mut surroundings, &director), ["a"]);
        director.set_links(&links);
        assert_eq!(usable(&mut surroundings, &director), ["a"]);
        assert!(surroundings.listed().await.is_some());
        assert_eq!(usable(&mut surroundings, &director), ["a", "b"]);
        assert!(surroundings.listing.is_none(), "once is enough");
        // One that has gone is another when it comes back.
        director.set_links(&links[..1]);
        assert_eq!(usable(&mut surroundings, &director), ["a"]);
        director.set_links(&links);
        assert_eq!(usable(&mut surroundings, &director), ["a"]);
        assert!(surroundings.listed().await.is_some());
        // With another address it goes on, and is looked at again.
        let moved = links.map(|link| Link {
            addresses: vec!["192.0.2.77".parse().unwrap()],
            ..link
        });
        director.set_links(&moved);
        assert_eq!(usable(&mut surroundings, &director), ["a", "b"]);
        assert!(surroundings.listing.is_some());
    }
}
