//! Routes that deliver packets to this machine itself.

use std::collections::BTreeSet;
use std::net::IpAddr;

use futures_util::TryStreamExt as _;
use ipnet::IpNet;
use rtnetlink::packet_route::AddressFamily;
use rtnetlink::packet_route::route::{RouteAddress, RouteAttribute, RouteMessage, RouteType};
use rtnetlink::packet_route::rule::{RuleAction, RuleAttribute, RuleFlags, RuleMessage};
use rtnetlink::{Handle, IpVersion};

use super::LinkError;
use super::netlink::each;
use crate::bind::OWN_MARK;

/// A route that delivers packets to this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LocalRoute {
    pub(super) network: IpNet,
    /// False for a broadcast or anycast address, which can't be the source of a connection.
    pub(super) is_unicast: bool,
}

/// Lists local routes, of the tables that the kernel looks up for this machine's own packets.
///
/// Leaves out tables that the kernel looks up only for packets with a foreign mark or from an
/// interface. Where TPROXY is used, such a table has a local default route, which does not make all
/// addresses of the internet this machine's.
pub(super) async fn local_routes(handle: &Handle) -> Result<Vec<LocalRoute>, LinkError> {
    let mut routes = Vec::new();
    for (version, family) in [
        (IpVersion::V4, AddressFamily::Inet),
        (IpVersion::V6, AddressFamily::Inet6),
    ] {
        let tables = asked_tables(handle, version).await;
        for kind in KINDS {
            let mut question = RouteMessage::default();
            question.header.address_family = family;
            // Linux before 4.20 ignores the filter and lists all routes.
            question.header.kind = kind;
            let found = handle.route().get(question).execute();
            each("local routes", found, |route| {
                let is_asked = tables.contains(&table_of(&route));
                routes.extend(is_asked.then(|| read(&route)).flatten());
            })
            .await?;
        }
    }
    Ok(routes)
}

/// Returns whether the route delivers packets to this machine.
pub(super) fn is_local(route: &RouteMessage) -> bool {
    KINDS.contains(&route.header.kind)
}

/// Returns the tables that rules refer to; the system's own tables if the rules can't be listed.
async fn asked_tables(handle: &Handle, version: IpVersion) -> BTreeSet<u32> {
    let listed: Result<Vec<RuleMessage>, _> =
        handle.rule().get(version).execute().try_collect().await;
    match listed {
        Ok(rules) => rules.iter().filter_map(leads_to).collect(),
        Err(error) => {
            tracing::debug!(%error, "cannot list routing rules");
            BTreeSet::from(SYSTEM_TABLES)
        }
    }
}

/// Returns the table that a rule may select for packets of this machine's programs.
///
/// Other conditions, such as the source, count as met: it is safer to treat too many addresses as
/// this machine's.
fn leads_to(rule: &RuleMessage) -> Option<u32> {
    let (mut table, mut mark, mut mask) = (u32::from(rule.header.table), 0, 0);
    let mut is_for_arriving = false;
    for attribute in &rule.attributes {
        match attribute {
            RuleAttribute::Table(number) => table = *number,
            RuleAttribute::FwMark(bits) => mark = *bits,
            RuleAttribute::FwMask(bits) => mask = *bits,
            // Packets that this machine sends match the loopback interface.
            RuleAttribute::Iifname(name) => is_for_arriving = name != LOOPBACK,
            // Programs connect from ports that the kernel chooses. A rule for a source port is for
            // answers: it delivers answers of a fronted service here, for all clients.
            RuleAttribute::L3MDev(true) | RuleAttribute::SourcePortRange(_) => return None,
            _ => {}
        }
    }
    let fits = |own: u32| (own ^ mark) & mask == 0;
    let may_apply = (fits(0) || fits(OWN_MARK)) && !is_for_arriving;
    let is_inverted = rule.header.flags.contains(RuleFlags::Invert);
    let is_choice = rule.header.action == RuleAction::ToTable;
    (is_choice && (may_apply || is_inverted)).then_some(table)
}

fn table_of(route: &RouteMessage) -> u32 {
    let mut attributes = route.attributes.iter();
    let number = attributes.find_map(|it| match it {
        RouteAttribute::Table(number) => Some(*number),
        _ => None,
    });
    number.unwrap_or(route.header.table.into())
}

fn read(route: &RouteMessage) -> Option<LocalRoute> {
    if !is_local(route) {
        return None;
    }
    let destination = route.attributes.iter().find_map(|it| match it {
        RouteAttribute::Destination(RouteAddress::Inet(address)) => Some(IpAddr::V4(*address)),
        RouteAttribute::Destination(RouteAddress::Inet6(address)) => Some(IpAddr::V6(*address)),
        _ => None,
    });
    // A route to all addresses has no destination attribute.
    let unspecified = match route.header.address_family {
        AddressFamily::Inet => IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED),
        AddressFamily::Inet6 => IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED),
        _ => return None,
    };
    let length = route.header.destination_prefix_length;
    let network = IpNet::new(destination.unwrap_or(unspecified), length).ok()?;
    Some(LocalRoute {
        network: network.trunc(),
        is_unicast: route.header.kind == RouteType::Local,
    })
}

/// Multicast is left out: no policy allows connections to it.
const KINDS: [RouteType; 3] = [RouteType::Local, RouteType::Broadcast, RouteType::Anycast];
/// `RT_TABLE_LOCAL`, `RT_TABLE_MAIN` and `RT_TABLE_DEFAULT`.
const SYSTEM_TABLES: [u32; 3] = [255, 254, 253];
const LOOPBACK: &str = "lo";

#[cfg(test)]
mod tests {
    use rtnetlink::packet_route::rule::RulePortRange;

    use super::*;

    fn rule(attributes: &[RuleAttribute]) -> RuleMessage {
        let mut rule = RuleMessage::default();
        rule.header.action = RuleAction::ToTable;
        rule.attributes = attributes.to_vec();
        rule.attributes.push(RuleAttribute::Table(7));
        rule
    }

    #[test]
    fn a_table_counts_if_this_machines_packets_may_use_it() {
        use RuleAttribute::{FwMark, FwMask, Iifname, L3MDev, Source, SourcePortRange};
        let port = RulePortRange { start: 7, end: 7 };
        let from = Source("192.0.2.1".parse().unwrap());
        let all = u32::MAX;
        for (conditions, counts) in [
            (vec![], true),
            (vec![from], true),
            (vec![Iifname("lo".to_owned())], true),
            (vec![Iifname("eth0".to_owned())], false),
            (vec![FwMark(1), FwMask(all)], false),
            (vec![FwMark(OWN_MARK), FwMask(all)], true),
            (vec![FwMark(0), FwMask(0xf0)], true),
            (vec![L3MDev(true)], false),
            (vec![Iifname("lo".to_owned()), SourcePortRange(port)], false),
        ] {
            let found = leads_to(&rule(&conditions));
            assert_eq!(found, counts.then_some(7), "{conditions:?}");
        }
        let mut inverted = rule(&[FwMark(1), FwMask(all)]);
        inverted.header.flags = RuleFlags::Invert;
        assert_eq!(leads_to(&inverted), Some(7));
        let mut refusing = rule(&[]);
        refusing.header.action = RuleAction::Prohibit;
        assert_eq!(leads_to(&refusing), None);
    }
}
