//! The UDP port: clients that have a session may begin associations there.
//!
//! Each address has a socket, so that answers leave from the address that was asked; if there are
//! several links, each socket is bound to its link, as those of the TCP port are.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use hawser_channels::association::association_config;
use hawser_sctp::Local;
use hawser_session::Side;
use hawser_session::seal::datagram::KeyId;
use hawser_types::{ByteCount, ChannelId, LinkIndex};

use super::port_links::OwnSockets;
use crate::association::AssociationEndpoint;
use crate::driver::Driver;
use crate::takeover::ToPredecessor;
use hawser_link::links::Link;

/// The sockets at the UDP port.
#[derive(Debug)]
pub(super) struct Associations {
    endpoint: AssociationEndpoint,
    /// The configured addresses: each stands for itself or, if unspecified, for its whole family.
    addresses: Vec<SocketAddr>,
    own: OwnSockets,
}

impl Associations {
    /// Opens the UDP port with the number of the TCP port of `addresses`, which the gateway listens
    /// on. As at the TCP port, `own` tells which links get sockets of their own.
    pub(super) fn open(
        addresses: &[SocketAddr],
        own: OwnSockets,
        predecessor: Option<ToPredecessor>,
    ) -> io::Result<Self> {
        let Some(first) = addresses.first() else {
            return Err(io::ErrorKind::AddrNotAvailable.into());
        };
        let same_port = addresses.iter().filter(|it| it.port() == first.port());
        let addresses: Vec<_> = same_port.copied().collect();
        let locals = locals(&addresses, &[], own);
        let endpoint = AssociationEndpoint::bind_after(predecessor, &[], first.port())?;
        let mut failed = endpoint.set_locals(&locals);
        match failed.pop() {
            // A machine may be without IPv4 or without IPv6.
            Some((_, error)) if failed.len() + 1 == locals.len() => Err(error),
            _ => Ok(Self {
                endpoint,
                addresses,
                own,
            }),
        }
    }

    /// Follows a change of the machine's links.
    pub(super) fn follow(&self, links: &[Link]) {
        let locals = locals(&self.addresses, links, self.own);
        let failed = self.endpoint.set_locals(&locals);
        self.endpoint
            .allow_detours(&detours(&self.addresses, links, &locals, self.own));
        for (local, error) in failed {
            tracing::debug!(address = %local.address, %error, "cannot bind UDP socket");
        }
    }

    /// Announces the UDP port to a session's client.
    pub(super) fn announce(&self, driver: &Driver) {
        if let Ok(port) = self.endpoint.port() {
            driver.with(|session, now| session.announce_datagram_port(now, port));
        }
    }

    /// The sockets.
    pub(super) fn endpoint(&self) -> &AssociationEndpoint {
        &self.endpoint
    }

    /// The associations of one session.
    pub(super) fn of_session(&self) -> OfSession<'_> {
        OfSession {
            endpoint: &self.endpoint,
            keys: Vec::new(),
        }
    }

    /// Ends the largest associations while all take more than `most`. Returns the approximate
    /// memory of the others.
    pub(super) fn bound(&self, most: ByteCount) -> ByteCount {
        for _ in 0..MAX_ENDED_AT_ONCE {
            match self.endpoint.held() {
                (held, Some(largest)) if held > most => {
                    tracing::warn!(%held, "associations take too much memory, ending the largest");
                    self.endpoint.abort(largest);
                    self.endpoint.forget_ended(&[largest]);
                }
                _ => break,
            }
        }
        self.endpoint.held().0
    }

    /// The memory that all associations take.
    pub(super) fn held(&self) -> ByteCount {
        self.endpoint.held().0
    }

    /// The number of keys that are known.
    #[cfg(test)]
    pub(super) fn known(&self) -> usize {
        self.endpoint.known()
    }
}

/// The associations of one session: the established ones, the expected one, and a few that are
/// over. Dropping this forgets all.
#[derive(Debug)]
pub(super) struct OfSession<'a> {
    endpoint: &'a AssociationEndpoint,
    /// The known keys, in the order in which they were announced.
    keys: Vec<KeyId>,
}

impl OfSession<'_> {
    /// Takes the association that the client has announced.
    pub(super) async fn take(&mut self, driver: &Driver, id: ChannelId) -> Result<(), String> {
        // The client begins another association, and has had time to learn that old ones are over.
        let excess = self.keys.len().saturating_sub(MAX_ENDED);
        let standing = self.endpoint.forget_ended(&self.keys[..excess]);
        self.keys.splice(..excess, standing);
        if self.keys.len() >= MAX_KEYS {
            return Err("the session has too many associations".to_owned());
        }
        let seal = driver.association_seal(id);
        let config = association_config(&driver.session_config(), Side::Gateway);
        let expected = self.endpoint.expect(config, seal);
        let expected = expected.map_err(|error| error.to_string())?;
        self.keys.extend(expected.key());
        let association = expected.accept().await;
        let established = association.established().await;
        established.map_err(|why| format!("{why:?}"))?;
        driver.add_association(id, association);
        Ok(())
    }
}

impl Drop for OfSession<'_> {
    fn drop(&mut self) {
        self.endpoint.disown(&self.keys);
    }
}

/// The places where packets arrive and leave: local addresses on links.
fn locals(addresses: &[SocketAddr], links: &[Link], own: OwnSockets) -> Vec<Local> {
    let mut locals: Vec<Local> = Vec::new();
    let mut add = |link: LinkIndex, address: IpAddr| {
        let is_new = |known: &Local| known.address != address || known.link != link;
        if locals.len() < MAX_LOCALS && locals.iter().all(is_new) {
            locals.push(Local { link, address });
        }
    };
    for address in addresses.iter().map(|it| it.ip().to_canonical()) {
        if !address.is_unspecified() {
            add(ANY, address);
            continue;
        }
        let takes = |own: &IpAddr| own.is_ipv4() || address.is_ipv6();
        for home in [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()] {
            if takes(&home) {
                add(ANY, home);
            }
        }
        let with_own: Vec<LinkIndex> = own.wanted(links).map(|link| link.index).collect();
        for link in links.iter().filter(|link| link.why_unusable().is_none()) {
            let bound = with_own.contains(&link.index);
            for address in link.addresses.iter().filter(|it| takes(it)) {
                add(if bound { link.index } else { ANY }, *address);
            }
        }
        // Addresses of the machine itself are reached over any link.
        for link in links.iter().filter(|link| link.loopback) {
            link.addresses
                .iter()
                .filter(|own| takes(own))
                .for_each(|own| add(ANY, *own));
        }
    }
    locals
}

/// Places where packets may arrive besides `locals`: every address of the machine by every link,
/// since a host takes packets for the address of one link by any other. If there are several links,
/// the sockets of `locals` are bound to them and do not see such packets.
fn detours(
    addresses: &[SocketAddr],
    links: &[Link],
    locals: &[Local],
    own_sockets: OwnSockets,
) -> Vec<Local> {
    let everywhere = addresses.iter().map(|it| it.ip().to_canonical());
    let everywhere: Vec<IpAddr> = everywhere.filter(IpAddr::is_unspecified).collect();
    let takes = |own: &IpAddr| {
        let is_taken = |it: &IpAddr| own.is_ipv4() || it.is_ipv6();
        !own.is_loopback() && everywhere.iter().any(is_taken)
    };
    let own = links.iter().flat_map(|link| &link.addresses);
    let own: Vec<IpAddr> = own.copied().filter(takes).collect();
    let by = own_sockets.wanted(links).map(|link| link.index);
    let mut detours: Vec<Local> = Vec::new();
    for link in by.chain([ANY]) {
        let places = own.iter().map(|address| Local {
            link,
            address: *address,
        });
        for place in places {
            // A socket that is bound to no link receives packets by any link.
            let home = Local { link: ANY, ..place };
            let is_served = locals.contains(&place) || locals.contains(&home);
            if !is_served && !detours.contains(&place) {
                detours.push(place);
            }
        }
    }
    detours
}

/// Most keys of a session: associations that are established, over or expected. A client needs one,
/// and another while it replaces the first.
const MAX_KEYS: usize = 6;
/// Most keys kept for the stragglers of associations that are over.
const MAX_ENDED: usize = 2;
/// Most associations that are ended in one go for the memory that they take.
const MAX_ENDED_AT_ONCE: usize = 16;

/// Most local addresses: an association has no more.
const MAX_LOCALS: usize = 16;

/// Local addresses that are not bound to a link.
const ANY: LinkIndex = LinkIndex::new(0);

#[cfg(test)]
mod tests {
    use super::*;

    fn link(index: u32, addresses: &[&str]) -> Link {
        Link {
            addresses: addresses.iter().map(|it| it.parse().unwrap()).collect(),
            has_default_route_v4: true,
            takes_ordinary_v4: true,
            ..Link::new(LinkIndex::new(index), format!("eth{index}"))
        }
    }

    fn shown(addresses: &[&str], links: &[Link]) -> Vec<String> {
        shown_with(addresses, links, OwnSockets::WhereSeveral)
    }

    fn shown_with(addresses: &[&str], links: &[Link], own: OwnSockets) -> Vec<String> {
        let addresses: Vec<SocketAddr> = addresses.iter().map(|it| it.parse().unwrap()).collect();
        let locals = locals(&addresses, links, own).into_iter();
        locals
            .map(|local| format!("{} {}", local.link.value(), local.address))
            .collect()
    }

    #[test]
    fn an_address_stands_for_itself_and_the_unspecified_one_for_all_of_its_family() {
        let one = [link(2, &["192.0.2.1", "2001:db8::1"])];
        assert_eq!(shown(&["192.0.2.9:7443"], &one), ["0 192.0.2.9"]);
        assert_eq!(
            shown(&["0.0.0.0:7443"], &one),
            ["0 127.0.0.1", "0 192.0.2.1"]
        );
        assert_eq!(
            shown(&["[::]:7443"], &one),
            ["0 127.0.0.1", "0 ::1", "0 192.0.2.1", "0 2001:db8::1"]
        );
    }

    #[test]
    fn an_address_of_the_loopback_interface_is_reached_over_any_link() {
        let loopback = Link {
            loopback: true,
            ..link(1, &["203.0.113.1", "2001:db8:5::1"])
        };
        assert_eq!(
            shown(&["0.0.0.0:7443"], &[loopback, link(2, &["192.0.2.1"])]),
            ["0 127.0.0.1", "0 192.0.2.1", "0 203.0.113.1"]
        );
    }

    #[test]
    fn several_links_have_a_socket_each_that_uses_no_other() {
        let two = [link(2, &["10.0.0.1"]), link(3, &["10.0.0.1"])];
        assert_eq!(
            shown(&["0.0.0.0:7443"], &two),
            ["0 127.0.0.1", "2 10.0.0.1", "3 10.0.0.1"]
        );
    }

    #[test]
    fn a_link_alone_has_a_socket_of_its_own_beside_those_of_a_process_before() {
        let addresses = ["0.0.0.0:7443"];
        let one = [link(2, &["10.0.0.1"])];
        let bound = shown_with(&addresses, &one, OwnSockets::Always);
        assert_eq!(bound, ["0 127.0.0.1", "2 10.0.0.1"]);
        // Packets for that address by another interface are not lost.
        let addresses = addresses.map(|it| it.parse().unwrap());
        let locals = locals(&addresses, &one, OwnSockets::Always);
        let detour = Local {
            link: ANY,
            address: one[0].addresses[0],
        };
        assert_eq!(
            detours(&addresses, &one, &locals, OwnSockets::Always),
            [detour]
        );
    }
}
