//! Routing policy rules of the system (`ip rule`), and their removal.

use std::net::IpAddr;

use futures_util::TryStreamExt as _;
use rtnetlink::packet_route::rule::{RuleAction, RuleAttribute, RuleMessage};
use rtnetlink::{Handle, IpVersion, RuleAddRequest};

/// Starts the request for a rule with this preference and table; callers add conditions.
pub(crate) fn new(handle: &Handle, preference: u32, table: u32) -> RuleAddRequest {
    let request = handle.rule().add().priority(preference).table_id(table);
    request.action(RuleAction::ToTable)
}

/// Makes the rule ignore default routes of its table.
pub(crate) fn without_default_routes(mut rule: RuleAddRequest) -> RuleAddRequest {
    let suppress = RuleAttribute::SuppressPrefixLen(0);
    rule.message_mut().attributes.push(suppress);
    rule
}

/// Adds a rule for a family.
pub(crate) async fn add(rule: RuleAddRequest, version: IpVersion) -> Result<(), rtnetlink::Error> {
    match version {
        IpVersion::V4 => rule.v4().execute().await,
        IpVersion::V6 => rule.v6().execute().await,
    }
}

/// Removes the rules of a family that satisfy `is_meant`.
pub(crate) async fn remove(
    handle: &Handle,
    version: IpVersion,
    is_meant: impl Fn(&RuleMessage) -> bool,
) {
    // A machine may lack one of the families.
    let listed: Result<Vec<RuleMessage>, _> =
        handle.rule().get(version).execute().try_collect().await;
    for rule in listed.unwrap_or_default() {
        if is_meant(&rule)
            && let Err(error) = handle.rule().del(rule).execute().await
        {
            tracing::debug!(%error, "cannot remove a routing rule");
        }
    }
}

/// Returns whether the kernel refuses because such a route or rule already exists.
pub(crate) fn is_there(error: &rtnetlink::Error) -> bool {
    matches!(error, rtnetlink::Error::NetlinkError(said) if said.raw_code() == -libc::EEXIST)
}

/// Returns the preference of a rule.
pub(crate) fn preference(rule: &RuleMessage) -> Option<u32> {
    rule.attributes.iter().find_map(|it| match it {
        RuleAttribute::Priority(preference) => Some(*preference),
        _ => None,
    })
}

/// Returns the input interface of a rule.
pub(crate) fn way_in(rule: &RuleMessage) -> Option<&str> {
    rule.attributes.iter().find_map(|it| match it {
        RuleAttribute::Iifname(name) => Some(name.as_str()),
        _ => None,
    })
}

/// Returns the family of an address.
pub(crate) const fn version_of(address: IpAddr) -> IpVersion {
    match address {
        IpAddr::V4(_) => IpVersion::V4,
        IpAddr::V6(_) => IpVersion::V6,
    }
}

/// The main routing table.
pub(crate) const MAIN: u32 = 254;
