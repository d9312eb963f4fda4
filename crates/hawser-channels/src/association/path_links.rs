//! The link of each path of an association.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use hawser_sctp::{LinkInfo, PathSelector, PathSnapshot};
use hawser_session::{Session, Side};
use hawser_types::LinkIndex;

/// The client's links below the paths of a session's associations.
///
/// A client identifies them by the binding of its sockets. A gateway identifies them by the source
/// addresses of the client's TCP channels, and by what the client reports about its paths.
#[derive(Debug)]
pub struct PathLinks {
    side: Side,
    /// Links by address: at the client, by its own addresses; at the gateway, by the client's
    /// addresses.
    by_address: BTreeMap<IpAddr, LinkIndex>,
    /// The client's links from which TCP channels arrived.
    seen: BTreeSet<LinkIndex>,
    /// This end's address of the paths, by link.
    own_addresses: BTreeMap<LinkIndex, IpAddr>,
    /// This end's addresses of all paths that answer.
    in_use: BTreeSet<IpAddr>,
    /// Whether the announcements to associations are outdated.
    is_stale: bool,
}

impl PathLinks {
    /// Creates an empty table. `side` is this end.
    pub fn new(side: Side) -> Self {
        Self {
            side,
            by_address: BTreeMap::new(),
            seen: BTreeSet::new(),
            own_addresses: BTreeMap::new(),
            in_use: BTreeSet::new(),
            is_stale: false,
        }
    }

    /// Records that a TCP channel uses `link`; `address` is the client's end, as this end sees it.
    /// Returns true if that was unknown.
    pub fn learn(&mut self, link: LinkIndex, address: Option<IpAddr>) -> bool {
        let mut is_new = self.seen.len() < MAX_LINKS && self.seen.insert(link);
        if let Some(address) = address
            && (self.by_address.len() < MAX_LINKS || self.by_address.contains_key(&address))
        {
            is_new |= self.by_address.insert(address, link) != Some(link);
        }
        is_new
    }

    /// Marks the announcements to associations as outdated.
    pub fn mark_stale(&mut self) {
        self.is_stale = true;
    }

    /// Returns this end's address of the paths over a link.
    pub fn own_address(&self, link: LinkIndex) -> Option<IpAddr> {
        self.own_addresses.get(&link).copied()
    }

    /// Returns this end's addresses of all paths that answered at the association's last report.
    pub fn in_use(&self) -> &BTreeSet<IpAddr> {
        &self.in_use
    }

    /// Returns the session's link for a link of the policies, [`LinkIndex::ALL`] if it is unknown.
    /// `paths` are those of the association.
    pub fn of_session(&self, paths: &[PathSnapshot], link: LinkIndex) -> LinkIndex {
        let path = paths.iter().find(|path| path.link == link);
        let link = match path {
            Some(path) => self.link(path),
            None => {
                let is_known = match self.side {
                    Side::Client => link != UNBOUND,
                    Side::Gateway => self.seen.contains(&link),
                };
                is_known.then_some(link)
            }
        };
        link.unwrap_or(LinkIndex::ALL)
    }

    /// Returns the announcements of all links for an association, if the earlier ones are outdated.
    pub fn take_announcements(&mut self, session: &Session) -> Option<Vec<LinkInfo>> {
        std::mem::take(&mut self.is_stale).then(|| self.announcements(session))
    }

    /// Returns the link of a path; `None` if it is unknown.
    pub(super) fn link(&self, path: &PathSnapshot) -> Option<LinkIndex> {
        let route = &path.route;
        match self.side {
            Side::Client if route.local.link != UNBOUND => Some(route.local.link),
            Side::Client => self.by_address.get(&route.local.address).copied(),
            Side::Gateway => {
                // Two links may have one address, behind one translator; and a client's claim
                // counts only for links from which TCP channels arrived.
                let named = path.peer_link.filter(|link| self.seen.contains(link));
                let address = route.remote.ip().to_canonical();
                named.or_else(|| self.by_address.get(&address).copied())
            }
        }
    }

    /// True if TCP channels may tell more about the link of a path.
    pub(super) fn is_unknown(&self, path: &PathSnapshot) -> bool {
        let is_new = |link| self.side == Side::Gateway && !self.seen.contains(&link);
        path.peer_link.is_some_and(is_new) || self.link(path).is_none()
    }

    /// Sets the current paths of an association.
    pub(super) fn set_paths(&mut self, paths: &[PathSnapshot]) {
        let own_address = |path: &PathSnapshot| Some((self.link(path)?, path.route.local.address));
        self.own_addresses = paths.iter().filter_map(own_address).collect();
        let answering = paths.iter().filter(|path| path.is_active);
        self.in_use = answering.map(|path| path.route.local.address).collect();
    }

    fn announcements(&self, session: &Session) -> Vec<LinkInfo> {
        let rules: BTreeMap<_, _> = session.link_rules().collect();
        let announcement = |paths, link: LinkIndex| LinkInfo {
            paths,
            link,
            rules: rules.get(&link).copied().unwrap_or_default(),
        };
        match self.side {
            Side::Client => {
                let bound = rules
                    .keys()
                    .map(|link| announcement(PathSelector::Link(*link), *link));
                // A socket has no link if it reaches only this machine.
                let by_address = self.by_address.iter();
                let loopback = by_address.filter(|(address, _)| address.is_loopback());
                let unbound =
                    loopback.map(|(_, link)| announcement(PathSelector::Link(UNBOUND), *link));
                bound.chain(unbound).collect()
            }
            Side::Gateway => {
                let named = self.seen.iter();
                let named = named.map(|link| announcement(PathSelector::Peer(*link), *link));
                let by_address = self.by_address.iter();
                let seen = by_address
                    .map(|(address, link)| announcement(PathSelector::Remote(*address), *link));
                named.chain(seen).collect()
            }
        }
    }
}

/// Link of an unbound socket.
const UNBOUND: LinkIndex = LinkIndex::new(0);
/// Limit of remembered links of a client, and of their addresses.
const MAX_LINKS: usize = 64;

#[cfg(test)]
mod tests {
    use hawser_types::Instant;

    use super::*;
    use crate::association::sample::testing::path;

    #[test]
    fn links_behind_one_address_are_told_apart_by_what_the_client_says_of_those_that_were_seen() {
        let [dsl, lte] = [2, 3].map(LinkIndex::new);
        let address: IpAddr = [203, 0, 113, 9].into();
        let mut links = PathLinks::new(Side::Gateway);
        assert!(links.learn(lte, Some(address)));
        let link = |links: &PathLinks, said| links.link(&path(4000, said));
        let unseen = link(&links, Some(2));
        assert_eq!(unseen, Some(lte), "no channel has come over it");
        assert!(links.is_unknown(&path(4000, Some(2))));
        assert!(links.learn(dsl, None) && !links.learn(dsl, None));
        assert_eq!(
            [Some(2), Some(3), Some(9), None].map(|said| link(&links, said)),
            [dsl, lte, lte, lte].map(Some)
        );
        assert!(!links.is_unknown(&path(4000, Some(2))));
        let session = Session::new(Instant::from_nanos(1), Side::Gateway, Default::default());
        assert_eq!(links.take_announcements(&session), None);
        links.mark_stale();
        let announced = links.take_announcements(&session).unwrap();
        let selectors: Vec<PathSelector> = announced.iter().map(|it| it.paths).collect();
        assert_eq!(
            selectors,
            [
                PathSelector::Peer(dsl),
                PathSelector::Peer(lte),
                PathSelector::Remote(address)
            ]
        );
        assert_eq!(links.take_announcements(&session), None);
    }

    #[test]
    fn a_client_knows_its_links_by_what_its_sockets_are_bound_to() {
        let links = PathLinks::new(Side::Client);
        assert_eq!(
            links.link(&path(4000, Some(2))),
            Some(LinkIndex::new(1)),
            "whatever the peer says"
        );
    }

    #[test]
    fn every_address_that_an_answering_path_comes_to_is_in_use() {
        let mut links = PathLinks::new(Side::Gateway);
        let address: IpAddr = path(4000, None).route.local.address;
        links.set_paths(&[PathSnapshot {
            is_active: false,
            ..path(4000, None)
        }]);
        assert!(links.in_use().is_empty());
        // Regardless of the client's link.
        links.set_paths(&[path(4000, None)]);
        assert_eq!(links.in_use(), &BTreeSet::from([address]));
    }

    #[test]
    fn no_more_links_are_remembered_than_a_client_can_have() {
        let mut links = PathLinks::new(Side::Gateway);
        for number in 0..100 {
            let address = [10, 0, 0, number as u8].into();
            links.learn(LinkIndex::new(number), Some(address));
        }
        assert_eq!(
            (links.seen.len(), links.by_address.len()),
            (MAX_LINKS, MAX_LINKS)
        );
        assert!(links.learn(LinkIndex::new(1), Some([10, 0, 0, 0].into())));
    }
}
