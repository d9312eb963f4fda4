//! Rules and routes that lead packets from a network behind this machine to the TUN device, and its
//! TCP to this machine.
//!
//! All routes, the local one included, are bound to the device and vanish with it. Rules without
//! their routes have no effect.

use std::net::IpAddr;

use futures_util::TryStreamExt as _;
use rtnetlink::packet_route::rule::{RuleAttribute, RuleMessage};
use rtnetlink::{Handle, IpVersion, RuleAddRequest};

use crate::routing_rules::{
    self, MAIN, add, is_there, preference, version_of, way_in, without_default_routes,
};
use crate::tun::{default_route, local_route};
use hawser_link::links::{LinkError, ask_kernel};

/// Adds the routes of `families` by `device`, which have no effect without rules. Fails with the
/// kernel's reason, or because another Hawser has such routes.
pub(super) async fn add_routes(device: &str, families: &[IpAddr]) -> Result<(), String> {
    let done = ask_kernel(|handle| async move {
        let done = routes(&handle, device, families).await;
        Ok(done.map_err(|error| {
            if is_there(&error) {
                TAKEN_BY_ANOTHER.to_owned()
            } else {
                error.to_string()
            }
        }))
    });
    done.await.map_err(|error| error.to_string())?
}

/// Adds the rules of `families` for packets that arrive by `interfaces`, which use these routes.
/// Fails with the kernel's reason; then no rule is left.
pub(super) async fn add_rules(interfaces: &[String], families: &[IpAddr]) -> Result<(), String> {
    let done = ask_kernel(|handle| async move {
        let done = rules(&handle, interfaces, families).await;
        if done.is_err() {
            remove_all(&handle).await;
        }
        Ok(done.map_err(|error| error.to_string()))
    });
    done.await.map_err(|error| error.to_string())?
}

/// Removes all of these rules, also those of another run.
pub(crate) async fn take_back() -> Result<(), LinkError> {
    ask_kernel(|handle| async move {
        remove_all(&handle).await;
        Ok(())
    })
    .await
}

async fn routes(
    handle: &Handle,
    device: &str,
    families: &[IpAddr],
) -> Result<(), rtnetlink::Error> {
    let mut found = handle.link().get().match_name(device.to_owned()).execute();
    let index = found.try_next().await?.map_or(0, |link| link.header.index);
    for family in families {
        let local = local_route(index, *family, HERE_TABLE);
        handle.route().add(local).execute().await?;
        let out = default_route(index, *family, DEVICE_TABLE);
        handle.route().add(out).execute().await?;
    }
    Ok(())
}

async fn rules(
    handle: &Handle,
    interfaces: &[String],
    families: &[IpAddr],
) -> Result<(), rtnetlink::Error> {
    remove_all(handle).await;
    for family in families {
        let version = version_of(*family);
        let mut rules = of_taken(handle, OWN).to_vec();
        for name in interfaces {
            rules.extend(of_taken(handle, name));
            rules.extend(of_interface(handle, name));
        }
        for rule in rules {
            add(rule, version.clone()).await?;
        }
    }
    Ok(())
}

/// Builds the rules for marked packets: the main table routes them where it has a specific route,
/// and otherwise they go to this machine. They match taken packets that arrive by the interface
/// `name`, and with `lo` the `fib` lookups of the nftables table, which the kernel treats as this
/// machine's own. Packets of other interfaces may have the mark for other reasons.
fn of_taken(handle: &Handle, name: &str) -> [RuleAddRequest; 2] {
    let rule = |preference, table| {
        let mut rule = routing_rules::new(handle, preference, table)
            .input_interface(name.to_owned())
            .fw_mark(TAKEN);
        let mask = RuleAttribute::FwMask(TAKEN);
        rule.message_mut().attributes.push(mask);
        rule
    };
    [
        without_default_routes(rule(TAKEN_NOT_BY_DEFAULT, MAIN)),
        rule(TAKEN_HERE, HERE_TABLE),
    ]
}

/// Builds the rules that route all other packets from an interface to the device, in the same way.
fn of_interface(handle: &Handle, name: &str) -> [RuleAddRequest; 2] {
    let rule = |preference, table| {
        routing_rules::new(handle, preference, table).input_interface(name.to_owned())
    };
    [
        without_default_routes(rule(NOT_BY_DEFAULT, MAIN)),
        rule(TO_DEVICE, DEVICE_TABLE),
    ]
}

async fn remove_all(handle: &Handle) {
    for version in [IpVersion::V4, IpVersion::V6] {
        routing_rules::remove(handle, version, is_ours).await;
    }
}

fn is_ours(rule: &RuleMessage) -> bool {
    let is_marked = |it: &RuleAttribute| matches!(it, RuleAttribute::FwMark(TAKEN));
    match preference(rule) {
        Some(TAKEN_NOT_BY_DEFAULT | TAKEN_HERE) => rule.attributes.iter().any(is_marked),
        Some(NOT_BY_DEFAULT | TO_DEVICE) => way_in(rule).is_some_and(|name| name != OWN),
        _ => false,
    }
}

const TAKEN_BY_ANOTHER: &str = "another Hawser on this machine does that already";
/// Input interface of packets that this machine itself sends.
const OWN: &str = "lo";
/// Mark bit of packets that this machine takes over, if the routes agree.
pub(super) const TAKEN: u32 = 0x1000_0000;
/// Table whose routes deliver everything to this machine.
const HERE_TABLE: u32 = 5211;
/// Table whose routes send everything to the device.
const DEVICE_TABLE: u32 = 5212;
/// Before the rules for this machine's own packets (5208 to 5210), since the kernel treats `fib`
/// lookups as such.
const TAKEN_NOT_BY_DEFAULT: u32 = 5206;
const TAKEN_HERE: u32 = 5207;
/// Before the main table (32766), and in this order.
const NOT_BY_DEFAULT: u32 = 5211;
const TO_DEVICE: u32 = 5212;
