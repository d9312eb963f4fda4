use std::collections::BTreeMap;
use std::future::pending;
use std::net::IpAddr;

use hawser_capture::LinkEntry;
use hawser_director::DirectorReport;
use hawser_link::links::particular_prefixes;
use hawser_types::LinkIndex;
use ipnet::IpNet;
use tokio::task::JoinHandle;

use super::entries::index;

/// The networks on the links themselves. A link whose networks are not known yet is not used.
///
/// Routes are listed in the background, since there may be many of them.
#[derive(Debug, Default)]
pub(super) struct NearNetworks {
    /// Links whose networks are known, with the addresses that these links had when listed.
    known: Addresses,
    listing: Option<Listing>,
}

/// Links, with their own addresses.
pub(super) type Addresses = BTreeMap<LinkIndex, Vec<IpAddr>>;

#[derive(Debug)]
struct Listing {
    /// The links that existed when the listing began.
    links: Addresses,
    found: JoinHandle<Option<Vec<IpNet>>>,
}

impl NearNetworks {
    /// Records that the networks on these links are known.
    pub(super) fn know(&mut self, links: Addresses) {
        self.known = links;
    }

    /// Takes links out of use whose networks are not known yet, and begins to list these. Needs a
    /// tokio runtime.
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

    /// Waits for the listing to end, and returns the destinations whose connections must not be
    /// captured; `None` if listing failed: links are used nevertheless. Cancel safe.
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

/// Returns the present links with their addresses.
pub(super) fn addresses(report: &DirectorReport) -> Addresses {
    let links = report.links.iter();
    links
        .map(|link| (index(link), link.link.addresses.clone()))
        .collect()
}

/// Lists the destinations whose connections must not be captured. Logs a failure, and returns
/// `None` then.
pub(super) async fn list() -> Option<Vec<IpNet>> {
    let listed = particular_prefixes().await;
    listed
        .inspect_err(|error| tracing::warn!(%error, "can't list the system's routes"))
        .ok()
}

#[cfg(test)]
mod tests {
    use hawser_link::links::Link;
    use hawser_sched::connection::ConnectionPolicy;

    use super::super::super::SharedDirector;
    use super::super::super::testing::link;
    use super::super::entries::entries;
    use super::*;

    /// Returns the links that may be used.
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
        // A link that disappears and returns counts as a new one.
        director.set_links(&links[..1]);
        assert_eq!(usable(&mut surroundings, &director), ["a"]);
        director.set_links(&links);
        assert_eq!(usable(&mut surroundings, &director), ["a"]);
        assert!(surroundings.listed().await.is_some());
        // A link with another address stays in use, and is listed again.
        let moved = links.map(|link| Link {
            addresses: vec!["192.0.2.77".parse().unwrap()],
            ..link
        });
        director.set_links(&moved);
        assert_eq!(usable(&mut surroundings, &director), ["a", "b"]);
        assert!(surroundings.listing.is_some());
    }
}
