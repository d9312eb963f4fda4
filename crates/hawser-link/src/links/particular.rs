//! Destinations that have a route other than the default route.

use std::net::IpAddr;

use ipnet::IpNet;
use rtnetlink::packet_route::route::{
    RouteAddress, RouteAttribute, RouteMessage, RouteProtocol, RouteType,
};

use super::LinkError;
use super::netlink::{dump, each_route, is_default_route};

/// Returns the destinations of all non-default routes, and of routes that forward nowhere: this
/// machine's addresses, and networks on its links, behind VPNs and of containers.
pub async fn particular_prefixes() -> Result<Vec<IpNet>, LinkError> {
    prefixes_of(|_| true).await
}

/// Returns the networks on this machine's links: hosts there are reached without a router. The
/// kernel has derived them from the addresses of its links or from router advertisements.
pub async fn networks_on_links() -> Result<Vec<IpNet>, LinkError> {
    prefixes_of(|route| {
        let found = matches!(
            route.header.protocol,
            RouteProtocol::Kernel | RouteProtocol::Ra
        );
        let is_routed =
            |it: &RouteAttribute| matches!(it, RouteAttribute::Gateway(_) | RouteAttribute::Via(_));
        let is_network = route.header.kind == RouteType::Unicast && found;
        is_network && !route.attributes.iter().any(is_routed)
    })
    .await
}

async fn prefixes_of(is_wanted: impl Fn(&RouteMessage) -> bool) -> Result<Vec<IpNet>, LinkError> {
    dump(|handle| async move {
        let mut prefixes = Vec::new();
        let mut take = |route: RouteMessage| {
            prefixes.extend(particular(&route).filter(|_| is_wanted(&route)));
        };
        each_route(&handle, &mut take).await?;
        prefixes.sort_unstable();
        prefixes.dedup();
        Ok(prefixes)
    })
    .await
}

fn particular(route: &RouteMessage) -> Option<IpNet> {
    let length = route.header.destination_prefix_length;
    // A default route that leads nowhere is not a specific destination.
    if length == 0 || is_default_route(route) {
        return None;
    }
    let destination = route
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            RouteAttribute::Destination(RouteAddress::Inet(address)) => Some(IpAddr::V4(*address)),
            RouteAttribute::Destination(RouteAddress::Inet6(address)) => Some(IpAddr::V6(*address)),
            _ => None,
        });
    IpNet::new(destination?, length).ok()
}
