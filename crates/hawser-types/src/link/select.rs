//! Which links to use.

use super::{Link, LinkKind};

/// The links to use, of those that are there now.
///
/// With names in `wanted`: these, in that order, as long as they can be used
/// ([`Link::why_unusable`]); whatever they are otherwise.
///
/// Without: every hardware link that can be used, and every virtual one (bridge, veth, tunnel,
/// dummy) that can be used and has a default route. So the bridges of containers and virtual
/// machines, and a VPN that does not take all traffic, stay out, while a bridge or a veth that is
/// this host's way to the internet is in. If that leaves nothing, every virtual link that can be
/// used. Those with a default route come first, then by interface index.
pub fn usable(links: &[Link], wanted: &[String]) -> Vec<Link> {
    let candidates = || links.iter().filter(|link| link.why_unusable().is_none());
    if !wanted.is_empty() {
        let mut chosen: Vec<Link> = Vec::new();
        for name in wanted {
            let link = candidates().find(|link| link.name == *name);
            // A name given twice is one link.
            chosen.extend(link.filter(|link| !chosen.contains(link)).cloned());
        }
        return chosen;
    }
    let leads_out = |link: &&Link| !link.kind.is_virtual() || has_any_default_route(link);
    let mut chosen: Vec<Link> = candidates().filter(leads_out).cloned().collect();
    if chosen.is_empty() {
        chosen = candidates().cloned().collect();
    }
    chosen.sort_by_key(|link| (!has_any_default_route(link), link.index));
    chosen
}

/// The tunnel by which the system's rules and routes send ordinary destinations of a family, where
/// there is one: a VPN for all traffic, which connections bypass only where the user says so.
///
/// Connections over PPP are hardware links, since most lead to a provider and not to a VPN.
pub fn full_tunnel(links: &[Link], is_ipv6: bool) -> Option<&Link> {
    links.iter().find(|link| {
        let is_taken = if is_ipv6 {
            link.takes_ordinary_v6
        } else {
            link.takes_ordinary_v4
        };
        is_taken && link.kind == LinkKind::Tunnel
    })
}

const fn has_any_default_route(link: &Link) -> bool {
    link.has_default_route_v4 || link.has_default_route_v6
}
