//! Rules and routes that lead this machine's packets to a TUN device.
//!
//! A separate table has the default routes by the device. Before it, a rule looks up the main table
//! without its default routes, so that neighbours and networks with specific routes stay reachable
//! as before. For packets from a link's own address, a rule looks up the whole main table, so that
//! a machine answers by the link on which it is reached. Sockets bound to a link find no route by
//! another device, and use the main table as before.
//!
//! The routes vanish with the device. The rules have no effect without the routes, so the rules
//! that a killed daemon leaves do no harm until the next daemon removes them.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use rtnetlink::packet_route::rule::{RuleAttribute, RuleMessage};
use rtnetlink::{Handle, IpVersion};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::TunError;
use super::set_up::default_route;
use crate::routing_rules::{self, MAIN, is_there, preference, version_of, way_in};
use hawser_link::links::{Link, LinkError, ask_kernel};

/// Routes this machine's packets to the device, until [`Self::end`] or the end of this value.
#[derive(Debug)]
pub struct TunRoutes {
    following: JoinHandle<()>,
}

impl TunRoutes {
    /// Begins for the device `name`, with a default route for each family of `families`, and
    /// follows the addresses of `links`.
    ///
    /// # Errors
    /// The kernel refuses.
    pub async fn begin(
        name: &str,
        families: impl Iterator<Item = IpAddr>,
        mut links: watch::Receiver<Arc<Vec<Link>>>,
    ) -> Result<Self, TunError> {
        let families: Vec<IpAddr> = families.collect();
        let mut known = addresses(&links.borrow_and_update());
        let begun = ask_kernel(|handle| async move {
            let carried = match add_routes(&handle, name, &families).await {
                // The existing rules belong to the other Hawser, too.
                Err(error) if is_there(&error) => return Ok((Err(TunError::Taken), known)),
                added => added,
            };
            let begun = match carried {
                Ok(carried) => add_rules(&handle, &carried, &known).await,
                Err(error) => Err(error),
            };
            if begun.is_err() {
                let _ = remove_all(&handle).await;
            }
            let failed = |error: rtnetlink::Error| TunError::SetUp {
                name: name.to_owned(),
                reason: error.to_string(),
            };
            Ok((begun.map_err(failed), known))
        });
        let failed = |reason: String| TunError::SetUp {
            name: name.to_owned(),
            reason,
        };
        let (begun, listed) = begun.await.map_err(|error| failed(error.to_string()))?;
        known = listed;
        begun?;
        let following = tokio::spawn(async move {
            while links.changed().await.is_ok() {
                let mut now = addresses(&links.borrow_and_update());
                while now != known {
                    match change(&known, &now).await {
                        Ok(()) => known = now.clone(),
                        Err(error) => {
                            tracing::warn!(%error, "cannot update rules for links, retrying");
                            sleep(AGAIN).await;
                            now = addresses(&links.borrow_and_update());
                        }
                    }
                }
            }
        });
        Ok(Self { following })
    }

    /// Ends the routing: the rules are removed when this returns.
    pub async fn end(mut self) {
        self.following.abort();
        // The task may be about to add a rule.
        let _ = (&mut self.following).await;
        let gone = ask_kernel(|handle| async move {
            let gone = remove_all(&handle).await;
            Ok(gone.map_err(|error| error.to_string()))
        });
        match gone.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "cannot remove routing rules"),
            Err(error) => tracing::warn!(%error, "cannot remove routing rules"),
        }
    }
}

impl Drop for TunRoutes {
    fn drop(&mut self) {
        self.following.abort();
    }
}

/// Returns the addresses at which links are reached.
fn addresses(links: &[Link]) -> BTreeSet<IpAddr> {
    let links = links.iter().filter(|link| !link.loopback);
    links
        .flat_map(|link| link.addresses.iter().copied())
        .collect()
}

/// Adds a default route of each family by the device. Returns the families that now have one.
async fn add_routes(
    handle: &Handle,
    name: &str,
    families: &[IpAddr],
) -> Result<Vec<IpAddr>, rtnetlink::Error> {
    let mut found = handle.link().get().match_name(name.to_owned()).execute();
    let index = found.try_next().await?.map_or(0, |link| link.header.index);
    let mut carried = Vec::new();
    for family in families {
        let route = default_route(index, *family, TABLE);
        match handle.route().add(route).execute().await {
            // A machine without IPv6 makes do with IPv4.
            Err(error) if family.is_ipv6() && !is_there(&error) => {
                tracing::debug!(%error, "cannot route IPv6 by the tunnel");
            }
            added => {
                added?;
                carried.push(*family);
            }
        }
    }
    Ok(carried)
}

/// Adds the rules that use these routes, and replaces those that a killed daemon has left.
async fn add_rules(
    handle: &Handle,
    carried: &[IpAddr],
    links: &BTreeSet<IpAddr>,
) -> Result<(), rtnetlink::Error> {
    remove_all(handle).await?;
    let is_carried = |address: &IpAddr| {
        let mut carried = carried.iter();
        carried.any(|family| family.is_ipv4() == address.is_ipv4())
    };
    for address in links.iter().filter(|address| is_carried(address)) {
        add(handle, *address, Rule::OfLink).await?;
    }
    for family in carried {
        add(handle, *family, Rule::NotByDefault).await?;
        add(handle, *family, Rule::ToDevice).await?;
    }
    Ok(())
}

async fn change(before: &BTreeSet<IpAddr>, now: &BTreeSet<IpAddr>) -> Result<(), LinkError> {
    ask_kernel(|handle| async move {
        for address in now.difference(before) {
            let version = version_of(*address);
            // Removes the rule that a half-failed change may have added.
            remove(&handle, version, |rule| is_of(rule, *address)).await;
            match add(&handle, *address, Rule::OfLink).await {
                Err(error) if address.is_ipv6() => {
                    tracing::debug!(%error, %address, "cannot add a rule for an address");
                }
                added => added.map_err(|error| LinkError::Dump {
                    what: "rules",
                    reason: error.to_string(),
                })?,
            }
        }
        for address in before.difference(now) {
            let version = version_of(*address);
            remove(&handle, version, |rule| is_of(rule, *address)).await;
        }
        Ok(())
    })
    .await
}

/// A rule of Hawser.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rule {
    /// Routes packets from a link's address by the main table.
    OfLink,
    /// Routes packets with a specific route in the main table by that route.
    NotByDefault,
    /// Routes all other packets of this machine to the device.
    ToDevice,
}

async fn add(handle: &Handle, address: IpAddr, rule: Rule) -> Result<(), rtnetlink::Error> {
    let (priority, table) = match rule {
        Rule::OfLink => (OF_LINK, MAIN),
        Rule::NotByDefault => (NOT_BY_DEFAULT, MAIN),
        Rule::ToDevice => (TO_DEVICE, TABLE),
    };
    // Forwarded packets are routed as before.
    let mut request = routing_rules::new(handle, priority, table).input_interface(OWN.to_owned());
    if rule == Rule::NotByDefault {
        request = routing_rules::without_default_routes(request);
    }
    match address {
        IpAddr::V4(address) if rule == Rule::OfLink => {
            request.v4().source_prefix(address, 32).execute().await
        }
        IpAddr::V6(address) if rule == Rule::OfLink => {
            request.v6().source_prefix(address, 128).execute().await
        }
        _ => routing_rules::add(request, version_of(address)).await,
    }
}

async fn remove_all(handle: &Handle) -> Result<(), rtnetlink::Error> {
    for version in [IpVersion::V4, IpVersion::V6] {
        remove(handle, version, |_| true).await;
    }
    Ok(())
}

/// Removes those of Hawser's rules that satisfy `is_meant`.
async fn remove(handle: &Handle, version: IpVersion, is_meant: impl Fn(&RuleMessage) -> bool) {
    let ours = [OF_LINK, NOT_BY_DEFAULT, TO_DEVICE];
    routing_rules::remove(handle, version, |rule| {
        let is_ours = preference(rule).is_some_and(|it| ours.contains(&it));
        is_ours && way_in(rule) == Some(OWN) && is_meant(rule)
    })
    .await;
}

fn is_of(rule: &RuleMessage, address: IpAddr) -> bool {
    let mut attributes = rule.attributes.iter();
    attributes.any(|it| matches!(it, RuleAttribute::Source(source) if *source == address))
}

/// Input interface of packets that this machine itself sends.
const OWN: &str = "lo";
const TABLE: u32 = 5210;
/// Before the main table (32766), and in this order.
const OF_LINK: u32 = 5208;
const NOT_BY_DEFAULT: u32 = 5209;
const TO_DEVICE: u32 = 5210;
/// Delay before a failed change of rules is retried.
const AGAIN: Duration = Duration::from_secs(1);
