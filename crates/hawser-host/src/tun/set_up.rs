//! Addresses and routes of a TUN device.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use futures_util::TryStreamExt as _;
use ipnet::IpNet;
use rtnetlink::packet_route::route::{RouteMessage, RouteScope, RouteType};
use rtnetlink::{Handle, LinkUnspec, RouteMessageBuilder};

use super::TunError;
use crate::routing_rules::MAIN;
use hawser_link::links::ask_kernel;

/// The addresses and properties of a TUN device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunAddresses {
    /// Addresses of the device, each with the network that is reached by it.
    pub addresses: Vec<IpNet>,
    /// Largest packet, in bytes.
    pub mtu: u16,
    /// Whether all other networks are reached by the device as well.
    pub is_default: bool,
}

/// Assigns addresses and routes to a device of this network namespace, and sets it up.
///
/// # Errors
/// The kernel's error.
pub async fn set_up(name: &str, wanted: &TunAddresses) -> Result<(), TunError> {
    let failed = |reason: String| TunError::SetUp {
        name: name.to_owned(),
        reason,
    };
    let done = ask_kernel(|handle| async move {
        let done = apply(&handle, name, wanted).await;
        Ok(done.map_err(|error| error.to_string()))
    });
    done.await
        .map_err(|error| failed(error.to_string()))?
        .map_err(failed)
}

/// Sets the loopback device of a new network namespace up.
pub(super) async fn set_loopback_up() -> Result<(), TunError> {
    let nothing = TunAddresses {
        addresses: Vec::new(),
        mtu: LOOPBACK_MTU,
        is_default: false,
    };
    set_up("lo", &nothing).await
}

async fn apply(handle: &Handle, name: &str, wanted: &TunAddresses) -> Result<(), rtnetlink::Error> {
    let mut found = handle.link().get().match_name(name.to_owned()).execute();
    let link = found.try_next().await?;
    let index = link.map_or(0, |link| link.header.index);
    let up = LinkUnspec::new_with_index(index)
        .mtu(wanted.mtu.into())
        .up();
    handle.link().set(up.build()).execute().await?;
    for net in &wanted.addresses {
        let adding = handle.address().add(index, net.addr(), net.prefix_len());
        match adding.execute().await {
            // A machine without IPv6 makes do with IPv4.
            Err(error) if net.addr().is_ipv6() => {
                tracing::debug!(%error, %net, "the TUN device has no IPv6 address");
                continue;
            }
            added => added?,
        }
        if wanted.is_default {
            let route = default_route(index, net.addr(), MAIN);
            handle.route().add(route).execute().await?;
        }
    }
    Ok(())
}

/// Builds a default route by a device, for the family of an address, in a table.
pub(crate) fn default_route(index: u32, family: IpAddr, table: u32) -> RouteMessage {
    match family {
        IpAddr::V4(_) => RouteMessageBuilder::<Ipv4Addr>::new()
            .output_interface(index)
            .table_id(table)
            .build(),
        IpAddr::V6(_) => RouteMessageBuilder::<Ipv6Addr>::new()
            .output_interface(index)
            .table_id(table)
            .build(),
    }
}

/// Builds a route that delivers all packets of a family to this machine itself, in a table.
pub(crate) fn local_route(index: u32, family: IpAddr, table: u32) -> RouteMessage {
    let mut route = default_route(index, family, table);
    route.header.kind = RouteType::Local;
    route.header.scope = RouteScope::Host;
    route
}

const LOOPBACK_MTU: u16 = u16::MAX;
