//! Netlink sockets, and the meaning of the kernel's messages.

use std::time::Duration;

use futures_util::{Stream, TryStreamExt as _};
use rtnetlink::Handle;
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::link::LinkFlags;
use rtnetlink::packet_route::route::{RouteMessage, RouteType};
use rtnetlink::sys::AsyncSocket as _;
use tokio::time::timeout;

use super::LinkError;

/// Queries the kernel over a separate socket: events on the monitor's socket can neither be
/// mistaken for answers nor delay them.
pub async fn dump<T, F: Future<Output = Result<T, LinkError>>>(
    list: impl FnOnce(Handle) -> F,
) -> Result<T, LinkError> {
    let (connection, handle, _no_events) = rtnetlink::new_connection()?;
    listed(connection, list(handle)).await
}

/// As [`dump`], over a socket for which the kernel filters by the kind and table in a route query,
/// since Linux 4.20: a router may have a million other routes.
pub(super) async fn dump_filtered<T, F: Future<Output = Result<T, LinkError>>>(
    list: impl FnOnce(Handle) -> F,
) -> Result<T, LinkError> {
    let (mut connection, handle, _no_events) = rtnetlink::new_connection()?;
    // A kernel without this option lists more routes.
    let socket = connection.socket_mut().socket_mut();
    let _ = socket.set_netlink_get_strict_chk(true);
    listed(connection, list(handle)).await
}

async fn listed<T>(
    connection: impl Future,
    list: impl Future<Output = Result<T, LinkError>>,
) -> Result<T, LinkError> {
    let listing = async {
        tokio::select! {
            listed = list => listed,
            _ = connection => Err(LinkError::Closed),
        }
    };
    match timeout(PATIENCE, listing).await {
        Ok(listed) => listed,
        Err(_) => Err(LinkError::TimedOut { after: PATIENCE }),
    }
}

/// Passes the routes of all tables to `take`, IPv4 first.
pub(super) async fn each_route(
    handle: &Handle,
    mut take: impl FnMut(RouteMessage),
) -> Result<(), LinkError> {
    for family in [AddressFamily::Inet, AddressFamily::Inet6] {
        let mut everything = RouteMessage::default();
        everything.header.address_family = family;
        each(
            "routes",
            handle.route().get(everything).execute(),
            &mut take,
        )
        .await?;
    }
    Ok(())
}

/// Passes each item that the kernel lists to `handle`; `what` names the list in errors.
pub(super) async fn each<T>(
    what: &'static str,
    found: impl Stream<Item = Result<T, rtnetlink::Error>>,
    mut handle: impl FnMut(T),
) -> Result<(), LinkError> {
    let mut found = std::pin::pin!(found);
    while let Some(item) = found.try_next().await.map_err(|e| LinkError::Dump {
        what,
        reason: e.to_string(),
    })? {
        handle(item);
    }
    Ok(())
}

/// Returns whether a link with these flags carries packets.
pub(super) fn is_up(flags: LinkFlags) -> bool {
    // `Running` additionally says that no step above the carrier, such as a wireless key exchange,
    // is still missing.
    flags.contains(LinkFlags::Up | LinkFlags::LowerUp | LinkFlags::Running)
}

/// Returns whether `route` leads to all addresses of its family, or nearly so.
pub(super) fn is_default_route(route: &RouteMessage) -> bool {
    let longest = match route.header.address_family {
        AddressFamily::Inet => 1,
        AddressFamily::Inet6 => 3,
        _ => return false,
    };
    route.header.kind == RouteType::Unicast
        && route.header.destination_prefix_length <= longest
        && route.header.source_prefix_length == 0
}

/// The kernel answers at once; a longer wait means that it never will.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
