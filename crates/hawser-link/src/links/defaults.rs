//! The default routes, in the system's order of preference.

use std::net::IpAddr;

use futures_util::{FutureExt as _, StreamExt as _};
use hawser_types::LinkIndex;
use rtnetlink::packet_core::NetlinkPayload;
use rtnetlink::packet_route::route::{RouteAddress, RouteAttribute, RouteMessage};
use rtnetlink::packet_route::{AddressFamily, RouteNetlinkMessage};
use tokio::sync::watch;
use tokio::time::sleep;

use super::monitor::{DEBOUNCE, Events, Follow, Following, subscribe};
use super::netlink::{dump, each_route, is_default_route};
use super::{DefaultRoute, LinkError};

/// The default routes, kept current for as long as this lives.
///
/// The gateway of a link may change while nothing else about the link does, which a
/// [`super::LinkMonitor`] does not report.
#[derive(Debug)]
pub struct DefaultRouteMonitor {
    _following: Following,
    routes: watch::Receiver<Vec<DefaultRoute>>,
}

impl DefaultRouteMonitor {
    /// Lists the routes and follows them from then on.
    ///
    /// # Errors
    /// Fails if the kernel does not list them.
    pub async fn start() -> Result<Self, LinkError> {
        // Subscribes once here, so that a permanent failure is an error and not a line in the log.
        drop(subscribe()?);
        let (sender, mut routes) = watch::channel(default_routes().await?);
        routes.mark_changed();
        Ok(Self {
            _following: Following::start(RouteList(sender)),
            routes,
        })
    }

    /// Waits until the list differs from the list that was returned last, and returns it; returns
    /// the first list at once.
    pub async fn changed(&mut self) -> Vec<DefaultRoute> {
        match self.routes.changed().await {
            Ok(()) => self.routes.borrow_and_update().clone(),
            // The task ends only when this value is dropped.
            Err(_) => std::future::pending().await,
        }
    }
}

struct RouteList(watch::Sender<Vec<DefaultRoute>>);

impl Follow for RouteList {
    const WHAT: &'static str = "default routes";

    async fn follow(&self, events: Events<'_>) {
        loop {
            // Read before the first event: routes may have changed before the subscription.
            match default_routes().await {
                Ok(listed) => {
                    self.0.send_if_modified(|known| {
                        let changed = *known != listed;
                        *known = listed;
                        changed
                    });
                }
                Err(error) => tracing::warn!(%error, "cannot list default routes"),
            }
            loop {
                match events.next().await {
                    None => return,
                    Some((message, _)) if matters(&message.payload) => break,
                    Some(_) => {}
                }
            }
            sleep(DEBOUNCE).await;
            while let Some(Some(_)) = events.next().now_or_never() {}
        }
    }
}

/// Returns whether the default routes may differ after a message with this content.
fn matters(content: &NetlinkPayload<RouteNetlinkMessage>) -> bool {
    match content {
        NetlinkPayload::InnerMessage(inner) => match inner {
            RouteNetlinkMessage::NewRoute(route) | RouteNetlinkMessage::DelRoute(route) => {
                is_default_route(route)
            }
            // The kernel does not report all routes that vanish with a link or an address.
            RouteNetlinkMessage::NewLink(_)
            | RouteNetlinkMessage::DelLink(_)
            | RouteNetlinkMessage::DelAddress(_) => true,
            _ => false,
        },
        // An overrun: the kernel had more events than the socket could hold.
        _ => true,
    }
}

/// Lists the default routes of all tables; those of the main table first, in their order of use
/// without Hawser: IPv4, then IPv6, each by rising metric.
pub async fn default_routes() -> Result<Vec<DefaultRoute>, LinkError> {
    dump(|handle| async move {
        let mut routes = Vec::new();
        each_route(&handle, |route| {
            if is_default_route(&route) {
                routes.extend(hops(&route));
            }
        })
        .await?;
        // A stable sort keeps the order of use within a table and family.
        routes.sort_by_key(|(order, _)| *order);
        Ok(routes.into_iter().map(|(_, route)| route).collect())
    })
    .await
}

/// Sort key: the main table first, then IPv4, then the lower metric.
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
