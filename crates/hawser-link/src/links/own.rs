//! Following this machine's own addresses.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use futures_util::{FutureExt as _, StreamExt as _};
use ipnet::IpNet;
use rtnetlink::packet_core::{NetlinkMessage, NetlinkPayload};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::packet_route::address::{AddressAttribute, AddressMessage};
use tokio::sync::watch;
use tokio::time::sleep;

use super::LinkError;
use super::local_routes::{is_local, local_routes};
use super::monitor::{Events, Follow, Following, RESTART_PAUSE, subscribe};
use super::netlink::{dump_filtered, each, is_up};

/// The addresses of this machine, kept current for as long as this or a clone of it lives.
///
/// The list has every address of every interface, whatever its scope or state, since the kernel
/// delivers packets to all of them here, and the subnet-router anycast address of every IPv6
/// network (RFC 4291 §2.6.1). It also has the addresses and networks of routes that end here:
/// broadcast and anycast routes, and local routes, with which a load balancer gives a machine
/// addresses that no interface has. The default value knows no address and follows no changes.
#[derive(Clone, Debug, Default)]
pub struct OwnAddresses {
    followed: Option<Followed>,
}

#[derive(Clone, Debug)]
struct Followed {
    known: watch::Receiver<Arc<OwnList>>,
    _following: Arc<Following>,
}

/// The list at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnList {
    /// Addresses that a connection can have as its source.
    addresses: BTreeSet<IpAddr>,
    /// All other addresses that are delivered here, by prefix length.
    networks: BTreeMap<u8, BTreeSet<IpNet>>,
}

type Sender = watch::Sender<Arc<OwnList>>;

impl OwnAddresses {
    /// Lists the addresses and follows them from then on.
    ///
    /// # Errors
    /// Fails if the kernel does not list them.
    pub async fn follow() -> Result<Self, LinkError> {
        // Subscribes once here, so that a permanent failure is an error and not a line in the log.
        drop(subscribe()?);
        let (sender, known) = watch::channel(Arc::new(list_own().await?));
        let followed = Followed {
            known,
            _following: Arc::new(Following::start(OwnFollower(sender))),
        };
        Ok(Self {
            followed: Some(followed),
        })
    }

    /// Returns whether `address`, or the IPv4 address that it maps, is in the list now.
    pub fn contains(&self, address: IpAddr) -> bool {
        let followed = self.followed.as_ref();
        followed.is_some_and(|it| it.known.borrow().contains(address))
    }

    /// Returns the list, as it changes; `None` for the default value. The list is followed for as
    /// long as this or a clone of it lives.
    pub fn all(&self) -> Option<watch::Receiver<Arc<OwnList>>> {
        Some(self.followed.as_ref()?.known.clone())
    }
}

impl OwnList {
    /// Returns whether `address`, or the IPv4 address that it maps, is in the list.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let is_in = |(length, networks): (&u8, &BTreeSet<IpNet>)| {
            let around = IpNet::new(address, *length);
            around.is_ok_and(|it| networks.contains(&it.trunc()))
        };
        self.addresses.contains(&address) || self.networks.iter().any(is_in)
    }

    /// Returns the single addresses that connections can be to and from.
    pub fn addresses(&self) -> impl Iterator<Item = &IpAddr> {
        self.addresses.iter()
    }

    fn add(&mut self, network: IpNet, is_unicast: bool) {
        let is_single = network.prefix_len() == network.max_prefix_len();
        if is_single && is_unicast {
            self.addresses.insert(network.addr());
        } else {
            let alike = self.networks.entry(network.prefix_len()).or_default();
            alike.insert(network);
        }
    }
}

struct OwnFollower(Sender);

impl Follow for OwnFollower {
    const WHAT: &'static str = "this machine's addresses";

    async fn follow(&self, events: Events<'_>) {
        loop {
            // Drops events that arrived by now: the next read of the list covers them.
            while let Some(Some(_)) = events.next().now_or_never() {}
            // Read before the first event: addresses may have changed before the subscription.
            self.publish().await;
            loop {
                match events.next().await {
                    None => return,
                    Some((message, _)) if matters(&message) => break,
                    Some(_) => {}
                }
            }
        }
    }
}

impl OwnFollower {
    async fn publish(&self) {
        let listed = loop {
            match list_own().await {
                Ok(listed) => break listed,
                Err(error) => tracing::warn!(%error, "cannot list own addresses, retrying"),
            }
            sleep(RESTART_PAUSE).await;
        };
        self.0.send_if_modified(|known| {
            let changed = **known != listed;
            if changed {
                tracing::debug!(addresses = ?listed, "list of this machine's addresses changed");
                *known = Arc::new(listed);
            }
            changed
        });
    }
}

/// Returns whether the list may differ after `message`.
fn matters(message: &NetlinkMessage<RouteNetlinkMessage>) -> bool {
    match &message.payload {
        NetlinkPayload::InnerMessage(inner) => match inner {
            RouteNetlinkMessage::NewAddress(_)
            | RouteNetlinkMessage::DelAddress(_)
            | RouteNetlinkMessage::NewRule(_)
            | RouteNetlinkMessage::DelRule(_)
            | RouteNetlinkMessage::DelLink(_) => true,
            // The kernel does not report routes that vanish with the link.
            RouteNetlinkMessage::NewLink(link) => !is_up(link.header.flags),
            RouteNetlinkMessage::NewRoute(route) | RouteNetlinkMessage::DelRoute(route) => {
                is_local(route)
            }
            _ => false,
        },
        // An overrun: the kernel had more events than the socket could hold.
        _ => true,
    }
}

async fn list_own() -> Result<OwnList, LinkError> {
    dump_filtered(|handle| async move {
        let mut own = OwnList::default();
        let found = handle.address().get().execute();
        each("addresses", found, |message| {
            own.addresses.extend(delivered(&message))
        })
        .await?;
        for route in local_routes(&handle).await? {
            own.add(route.network, route.is_unicast);
        }
        Ok(own)
    })
    .await
}

/// Returns the addresses that the kernel delivers to this machine because of `message`.
fn delivered(message: &AddressMessage) -> Vec<IpAddr> {
    let (mut own, mut shown) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            // On a point-to-point link the other attribute is the peer's address.
            AddressAttribute::Local(address) => own = Some(*address),
            AddressAttribute::Address(address) => shown = Some(*address),
            _ => {}
        }
    }
    let Some(address) = own.or(shown) else {
        return Vec::new();
    };
    let anycast = match address {
        IpAddr::V6(address) => routers_anycast(address, message.header.prefix_len),
        IpAddr::V4(_) => None,
    };
    [Some(address), anycast].into_iter().flatten().collect()
}

/// Returns the routers' anycast address of a network, which is its first address. Networks of one
/// or two addresses have no such address.
///
/// Source: RFC 4291 §2.6.1, RFC 6164 §5.1.
fn routers_anycast(address: Ipv6Addr, prefix_length: u8) -> Option<IpAddr> {
    if !(1..127).contains(&prefix_length) {
        return None;
    }
    let mask = u128::MAX << (128 - u32::from(prefix_length));
    Some(Ipv6Addr::from_bits(address.to_bits() & mask).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routers_of_a_network_answer_at_its_first_address() {
        let anycast = |address: &str, length| {
            let found = routers_anycast(address.parse().unwrap(), length);
            found.map(|it| it.to_string())
        };
        assert_eq!(anycast("2001:db8::7", 64).as_deref(), Some("2001:db8::"));
        assert_eq!(anycast("2001:db8:1::7", 127), None);
        assert_eq!(anycast("2001:db8::7", 128), None);
        assert_eq!(anycast("2001:db8::7", 0), None);
    }

    #[test]
    fn an_address_in_a_network_that_ends_here_is_one_of_them() {
        let mut own = OwnList::default();
        for (network, is_unicast) in [
            ("198.51.100.7/32", true),
            ("203.0.113.0/24", true),
            ("192.0.2.255/32", false),
            ("2001:db8::/48", true),
        ] {
            own.add(network.parse().unwrap(), is_unicast);
        }
        for (address, is_own) in [
            ("198.51.100.7", true),
            ("::ffff:198.51.100.7", true),
            ("198.51.100.8", false),
            ("203.0.113.254", true),
            ("203.0.114.0", false),
            ("192.0.2.255", true),
            ("192.0.2.254", false),
            ("2001:db8:0:7::1", true),
            ("2001:db8:1::1", false),
        ] {
            assert_eq!(own.contains(address.parse().unwrap()), is_own, "{address}");
        }
        let single: Vec<_> = own.addresses().map(ToString::to_string).collect();
        assert_eq!(single, ["198.51.100.7"]);
    }

    #[test]
    fn the_default_value_has_no_address() {
        assert!(!OwnAddresses::default().contains("127.0.0.1".parse().unwrap()));
    }
}
