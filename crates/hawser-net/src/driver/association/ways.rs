//! Which link each path of an association goes over.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use hawser_sctp::{LinkWord, PathSnapshot, Place};
use hawser_session::{Session, Side};
use hawser_types::LinkIndex;

use crate::clock;
use crate::driver::inner::{Inner, Meter};

/// Which of the client's links an address belongs to: of this end at the client, of the client at the
/// gateway, which sees no more of them.
#[derive(Debug, Default)]
pub(in crate::driver) struct Ways {
    links: BTreeMap<IpAddr, LinkIndex>,
    /// The client's links that TCP channels have come over.
    known: BTreeSet<LinkIndex>,
    /// This end's addresses of the association's paths, by the client's links.
    pub(super) homes: BTreeMap<LinkIndex, IpAddr>,
    /// What associations were told of links does not hold any more.
    pub(in crate::driver) stale: bool,
}

impl Ways {
    pub(super) fn link(&self, side: Side, path: &PathSnapshot) -> Option<LinkIndex> {
        let route = &path.route;
        match side {
            Side::Client if route.local.link != UNBOUND => Some(route.local.link),
            Side::Client => self.links.get(&route.local.address).copied(),
            Side::Gateway => {
                // Two links may come from one address, behind one translator; and no more are believed to be
                // there than have been seen.
                let named = path.peer_link.filter(|link| self.known.contains(link));
                let address = route.remote.ip().to_canonical();
                named.or_else(|| self.links.get(&address).copied())
            }
        }
    }

    /// There may be more known of where this path leads.
    pub(super) fn is_strange(&self, side: Side, path: &PathSnapshot) -> bool {
        let is_new = |link| side == Side::Gateway && !self.known.contains(&link);
        path.peer_link.is_some_and(is_new) || self.link(side, path).is_none()
    }

    /// This end's address of the association's paths over a link.
    pub(in crate::driver) fn home(&self, link: LinkIndex) -> Option<IpAddr> {
        self.homes.get(&link).copied()
    }

    pub(super) fn take_stale(&mut self) -> bool {
        std::mem::take(&mut self.stale)
    }

    /// What the association has to know of links.
    pub(super) fn words(&self, session: &Session, side: Side) -> Vec<LinkWord> {
        let rules: BTreeMap<_, _> = session.link_rules().collect();
        let word = |place, link: LinkIndex| LinkWord {
            place,
            link,
            terms: rules.get(&link).copied().unwrap_or_default(),
        };
        match side {
            Side::Client => {
                let bound = rules.keys().map(|link| word(Place::Link(*link), *link));
                // What is bound to no link is so since it leads nowhere but here.
                let unbound = self
                    .links
                    .iter()
                    .filter(|(address, _)| address.is_loopback());
                let unbound = unbound.map(|(_, link)| word(Place::Link(UNBOUND), *link));
                bound.chain(unbound).collect()
            }
            Side::Gateway => {
                let named = self.known.iter();
                let named = named.map(|link| word(Place::Peer(*link), *link));
                let seen = self.links.iter();
                let seen = seen.map(|(address, link)| word(Place::Remote(*address), *link));
                named.chain(seen).collect()
            }
        }
    }
}

impl Inner {
    /// Learns from the TCP channels which address belongs to which link. Whether there was something new.
    pub(super) fn learn_ways(&mut self, side: Side) -> bool {
        let mut learned = false;
        for channel in self.session.snapshot(clock::now(), 0).channels {
            let meter = self.channels.get(&channel.id).map(|handle| &handle.meter);
            let Some(Meter::Tcp(gauge)) = meter else {
                continue;
            };
            if self.ways.known.len() < MAX_WAYS {
                learned |= self.ways.known.insert(channel.link);
            }
            let address = match side {
                Side::Client => gauge.local,
                Side::Gateway => gauge.remote,
            };
            if let Some(address) = address
                && (self.ways.links.len() < MAX_WAYS || self.ways.links.contains_key(&address))
            {
                let before = self.ways.links.insert(address, channel.link);
                learned |= before != Some(channel.link);
            }
        }
        learned
    }
}

/// The link of a place that is bound to none.
const UNBOUND: LinkIndex = LinkIndex::new(0);
/// As many as a client can have links.
const MAX_WAYS: usize = 64;

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::time::Duration;

    use hawser_sctp::{Local, Route, Traffic};

    use hawser_types::{ByteCount, Instant, Rate};

    use super::*;

    /// A path from a translator's address, as the gateway sees it, over the link that the client says.
    fn path(port: u16, peer_link: Option<u32>) -> PathSnapshot {
        PathSnapshot {
            route: Route {
                local: Local {
                    link: LinkIndex::new(1),
                    address: [192, 0, 2, 1].into(),
                },
                remote: SocketAddr::from(([203, 0, 113, 9], port)),
            },
            peer_link: peer_link.map(LinkIndex::new),
            is_active: true,
            is_selected: true,
            is_suspect: false,
            rtt: None,
            rto: Duration::ZERO,
            window: ByteCount::ZERO,
            in_flight: ByteCount::ZERO,
            rate: Rate::ZERO,
            packet_size: 1200,
            sent: Traffic::default(),
            received: Traffic::default(),
        }
    }

    #[test]
    fn links_behind_one_address_are_told_apart_by_what_the_client_says_of_those_that_were_seen() {
        let [dsl, lte] = [2, 3].map(LinkIndex::new);
        let mut ways = Ways::default();
        ways.links.insert([203, 0, 113, 9].into(), lte);
        let link = |ways: &Ways, said| ways.link(Side::Gateway, &path(4000, said));
        assert_eq!(
            link(&ways, Some(2)),
            Some(lte),
            "no channel has come over it"
        );
        assert!(ways.is_strange(Side::Gateway, &path(4000, Some(2))));
        ways.known.extend([dsl, lte]);
        assert_eq!(
            [Some(2), Some(3), Some(9), None].map(|it| link(&ways, it)),
            [dsl, lte, lte, lte].map(Some)
        );
        assert!(!ways.is_strange(Side::Gateway, &path(4000, Some(2))));
        // A client knows its own.
        assert_eq!(
            ways.link(Side::Client, &path(4000, Some(2))),
            Some(LinkIndex::new(1))
        );
        let session = Session::new(Instant::from_nanos(1), Side::Gateway, Default::default());
        let words = ways.words(&session, Side::Gateway);
        let places: Vec<Place> = words.iter().map(|word| word.place).collect();
        let seen = Place::Remote([203, 0, 113, 9].into());
        assert_eq!(places, [Place::Peer(dsl), Place::Peer(lte), seen]);
    }
}
