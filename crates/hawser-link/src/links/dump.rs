//! Reading the list of links from the kernel.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hawser_types::LinkIndex;
use rtnetlink::Handle;
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::address::{
    AddressAttribute, AddressFlags, AddressMessage, AddressScope,
};
use rtnetlink::packet_route::link::{InfoKind, LinkAttribute, LinkFlags, LinkInfo, LinkMessage};
use rtnetlink::packet_route::route::{
    RouteAddress, RouteAttribute, RouteFlags, RouteMessage, RouteNextHopFlags,
};

use super::netlink::{dump, each, each_route, is_default_route, is_up};
use super::route::chosen_link;
use super::{Link, LinkError, LinkKind};

/// Lists all links of this network namespace, by index.
pub async fn list_links() -> Result<Vec<Link>, LinkError> {
    dump(|handle| async move { list(&handle).await }).await
}

/// Returns whether a name is that of a TUN device that Hawser makes, in any process.
pub fn is_own(name: &str) -> bool {
    name.strip_prefix("hawser").is_some_and(|number| {
        !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit())
    })
}

async fn list(handle: &Handle) -> Result<Vec<Link>, LinkError> {
    let mut links = BTreeMap::new();
    let found = handle.link().get().execute();
    each("links", found, |message| {
        let link = link_of(&message);
        // Hawser's own tunnel uses the links, and is not a link itself.
        if !(link.kind == LinkKind::Tunnel && is_own(&link.name)) {
            links.insert(link.index, link);
        }
    })
    .await?;
    let mut last_choice = Vec::new();
    let found = handle.address().get().execute();
    each("addresses", found, |message| {
        let index = LinkIndex::new(message.header.index);
        if let Some((address, deprecated)) = usable_address(&message) {
            if deprecated {
                last_choice.push((index, address));
            } else if let Some(link) = links.get_mut(&index) {
                link.addresses.push(address);
            }
        }
    })
    .await?;
    for (index, address) in last_choice {
        if let Some(link) = links.get_mut(&index) {
            link.addresses.push(address);
        }
    }
    each_route(handle, |route| note_route(&mut links, &route)).await?;
    for remote in ORDINARY {
        let taken = chosen_link(handle, remote).await;
        if let Some(link) = taken.and_then(|index| links.get_mut(&index)) {
            match remote {
                IpAddr::V4(_) => link.takes_ordinary_v4 = true,
                IpAddr::V6(_) => link.takes_ordinary_v6 = true,
            }
        }
    }
    Ok(links.into_values().collect())
}

fn link_of(message: &LinkMessage) -> Link {
    let flags = message.header.flags;
    let loopback = flags.contains(LinkFlags::Loopback);
    let mut link = Link {
        enabled: flags.contains(LinkFlags::Up),
        up: is_up(flags),
        loopback,
        ..Link::new(LinkIndex::new(message.header.index), "")
    };
    if loopback {
        link.kind = LinkKind::Loopback;
    }
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => link.name.clone_from(name),
            LinkAttribute::LinkInfo(infos) => {
                for info in infos {
                    if let LinkInfo::Kind(kind) = info {
                        link.kind = kind_of(kind);
                    }
                }
            }
            _ => {}
        }
    }
    link
}

fn kind_of(kind: &InfoKind) -> LinkKind {
    match kind {
        InfoKind::Dummy | InfoKind::Ifb | InfoKind::Nlmon => LinkKind::Dummy,
        InfoKind::Bridge => LinkKind::Bridge,
        InfoKind::Veth | InfoKind::Netkit => LinkKind::Veth,
        InfoKind::Tun
        | InfoKind::Wireguard
        | InfoKind::Vxlan
        | InfoKind::Geneve
        | InfoKind::GreTap
        | InfoKind::GreTap6
        | InfoKind::GreTun
        | InfoKind::GreTun6
        | InfoKind::IpIp
        | InfoKind::Ip6Tnl
        | InfoKind::SitTun
        | InfoKind::Vti
        | InfoKind::Xfrm
        | InfoKind::Gtp => LinkKind::Tunnel,
        _ => LinkKind::Hardware,
    }
}

/// Returns the address, and whether it is deprecated.
fn usable_address(message: &AddressMessage) -> Option<(IpAddr, bool)> {
    let (mut own, mut shown) = (None, None);
    let mut flags = AddressFlags::from_bits_retain(u32::from(message.header.flags.bits()));
    for attribute in &message.attributes {
        match attribute {
            // On a point-to-point link the other attribute is the peer's address.
            AddressAttribute::Local(address) => own = Some(*address),
            AddressAttribute::Address(address) => shown = Some(*address),
            AddressAttribute::Flags(all) => flags = *all,
            _ => {}
        }
    }
    let not_ready = AddressFlags::Tentative | AddressFlags::Dadfailed;
    // An optimistic address may be used although it is tentative.
    let unready = flags.intersects(not_ready) && !flags.contains(AddressFlags::Optimistic);
    let reaches_out = matches!(
        message.header.scope,
        AddressScope::Universe | AddressScope::Site
    );
    let address = own.or(shown).filter(|_| reaches_out && !unready)?;
    Some((address, flags.contains(AddressFlags::Deprecated)))
}

fn note_route(links: &mut BTreeMap<LinkIndex, Link>, route: &RouteMessage) {
    if !is_default_route(route) || route.header.flags.contains(RouteFlags::Dead) {
        return;
    }
    let is_v4 = route.header.address_family == AddressFamily::Inet;
    let mut preferred = None;
    let mut outgoing = Vec::new();
    for attribute in &route.attributes {
        match attribute {
            RouteAttribute::Oif(index) => outgoing.push(LinkIndex::new(*index)),
            RouteAttribute::MultiPath(hops) => outgoing.extend(
                hops.iter()
                    .filter(|hop| !hop.flags.contains(RouteNextHopFlags::Dead))
                    .map(|hop| LinkIndex::new(hop.interface_index)),
            ),
            RouteAttribute::PrefSource(RouteAddress::Inet(ip)) => preferred = Some(IpAddr::V4(*ip)),
            RouteAttribute::PrefSource(RouteAddress::Inet6(ip)) => {
                preferred = Some(IpAddr::V6(*ip));
            }
            _ => {}
        }
    }
    for index in outgoing {
        let Some(link) = links.get_mut(&index) else {
            continue;
        };
        let first_seen = if is_v4 {
            !std::mem::replace(&mut link.has_default_route_v4, true)
        } else {
            !std::mem::replace(&mut link.has_default_route_v6, true)
        };
        // The kernel lists the main table's routes by rising metric: the first route decides.
        if first_seen && let Some(at) = link.addresses.iter().position(|a| Some(*a) == preferred) {
            link.addresses[..=at].rotate_right(1);
        }
    }
}

/// A sample address in each half of each family, since VPNs often have one route for each half.
/// Hawser sends nothing to them.
const ORDINARY: [IpAddr; 4] = [
    IpAddr::V4(Ipv4Addr::new(64, 0, 0, 1)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
    IpAddr::V6(Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 1)),
];
