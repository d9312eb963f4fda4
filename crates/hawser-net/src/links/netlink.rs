//! Netlink sockets, and what the kernel's messages say.

use std::time::Duration;

use futures_util::{Stream, TryStreamExt as _};
use rtnetlink::Handle;
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::link::LinkFlags;
use rtnetlink::packet_route::route::{RouteMessage, RouteType};
use rtnetlink::sys::AsyncSocket as _;
use tokio::time::timeout;

use super::LinkError;

/// Asks the kernel by a socket of its own: events on the monitor's cannot be mistaken for answers,
/// nor crowd them.
pub(crate) async fn dump<T, F: Future<Output = Result<T, LinkError>>>(
    list: impl FnOnce(Handle) -> F,
) -> Result<T, LinkError> {
    let (connection, handle, _no_events) = rtnetlink::new_connection()?;
    listed(connection, list(handle)).await
}

/// The same, by a socket for which the kernel keeps to the kind and the table that a question for
/// routes names, since Linux 4.20: a router may have a million others.
pub(super) async fn dump_filtered<T, F: Future<Output = Result<T, LinkError>>>(
    list: impl FnOnce(Handle) -> F,
) -> Result<T, LinkError> {
    let (mut connection, handle, _no_events) = rtnetlink::new_connection()?;
    // A kernel that does not know it lists more.
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

/// Takes in the routes of all tables, IPv4 first.
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

/// Takes in what the kernel lists of `what`.
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

/// Whether a link with these flags carries packets.
pub(super) fn is_up(flags: LinkFlags) -> bool {
    // Running says in addition that nothing above the carrier, such as a wireless key exchange, is
    // still missing.
    flags.contains(LinkFlags::Up | LinkFlags::LowerUp | LinkFlags::Running)
}

/// Whether `route` leads to all addresses of its family, or nearly so.
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

/// The kernel answers at once; this long means that it never will.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
