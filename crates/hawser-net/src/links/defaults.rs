//! The default routes, as the system prefers them.

use std::net::IpAddr;

use hawser_types::LinkIndex;
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::route::{RouteAddress, RouteAttribute, RouteMessage};

use super::netlink::{dump, each_route, is_default_route};
use super::{DefaultRoute, LinkError};

/// The default routes of all tables; those of the main one first, as they are used without Hawser:
/// IPv4, then IPv6, each by rising metric.
pub async fn default_routes() -> Result<Vec<DefaultRoute>, LinkError> {
    dump(|handle| async move {
        let mut routes = Vec::new();
        each_route(&handle, |route| {
            if is_default_route(&route) {
                routes.extend(hops(&route));
            }
        })
        .await?;
        // Stable: of one table and family they stay as they are used.
        routes.sort_by_key(|(order, _)| *order);
        Ok(routes.into_iter().map(|(_, route)| route).collect())
    })
    .await
}

/// What comes first: the main table, then IPv4, then the lower metric.
type Order = (bool, bool, u32);

fn hops(route: &RouteMessage) -> Vec<(Order, DefaultRoute)> {
    let (mut link, mut gateway, mut metric) = (None, None, 0);
    let mut several = Vec::new();
    for attribute in &route.attributes {
        match attribute {
            RouteAttribute::Oif(index) => link = Some(*index),
            RouteAttribute::Gateway(address) => gateway = ip(address),
            RouteAttribute::Priority(priority) => metric = *priority,
            RouteAttribute::MultiPath(hops) => several.extend(hops.iter().map(|hop| {
                let is_gateway = |it: &RouteAttribute| match it {
                    RouteAttribute::Gateway(address) => ip(address),
                    _ => None,
                };
                (
                    hop.interface_index,
                    hop.attributes.iter().find_map(is_gateway),
                )
            })),
            _ => {}
        }
    }
    let is_other_table = route.header.table != MAIN;
    let is_v6 = route.header.address_family == AddressFamily::Inet6;
    let order = (is_other_table, is_v6, metric);
    let one = link.map(|link| (link, gateway));
    one.into_iter()
        .chain(several)
        .map(|(link, gateway)| {
            let link = LinkIndex::new(link);
            (order, DefaultRoute { link, gateway })
        })
        .collect()
}

const fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(address) => Some(IpAddr::V4(*address)),
        RouteAddress::Inet6(address) => Some(IpAddr::V6(*address)),
        _ => None,
    }
}

/// `RT_TABLE_MAIN`.
const MAIN: u8 = 254;
