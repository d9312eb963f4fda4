//! The links as the kernel's program sees them.

use std::net::IpAddr;

use hawser_capture::LinkEntry;
use hawser_director::{DirectorReport, Health, LinkReport};
use hawser_types::LinkIndex;

pub(super) fn index(link: &LinkReport) -> LinkIndex {
    link.link.index
}

/// Returns the links as the kernel's program sees them. For each address family, only the most
/// preferred ones are usable. No link is usable for a family that a VPN takes.
pub(super) fn entries(report: &DirectorReport) -> Vec<LinkEntry> {
    let links = &report.links;
    let [vpn4, vpn6] = report.tunnels.each_ref().map(Option::is_some);
    let leads = |link: &LinkReport, remote: IpAddr| {
        let is_left = if remote.is_ipv6() { vpn6 } else { vpn4 };
        !is_left
            && link.health == Health::Sound
            && !link.permission.is_forbidden()
            && link.link.has_default_route(remote)
            && link.link.source_address(remote).is_some()
    };
    let best = |remote: IpAddr| {
        let leading = links.iter().filter(|link| leads(link, remote));
        leading.map(|link| link.permission.rank()).min()
    };
    let [best4, best6] = ANYWHERE.map(best);
    let entry = |link: &LinkReport| {
        let [to4, to6] = ANYWHERE;
        let rank = Some(link.permission.rank());
        let (ipv4, ipv6) = (
            leads(link, to4) && rank == best4,
            leads(link, to6) && rank == best6,
        );
        LinkEntry {
            index: index(link),
            name: link.link.name.clone(),
            up: link.counts_for[0],
            down: link.counts_for[1],
            latency: link.latency,
            usable: ipv4 || ipv6,
            ipv4,
            ipv6,
            metered: !link.is_free,
        }
    };
    links.iter().map(entry).collect()
}

/// Documentation addresses, which no network has.
const ANYWHERE: [IpAddr; 2] = [
    IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1)),
    IpAddr::V6(std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
];

#[cfg(test)]
mod tests {
    use hawser_link::links::{Link, LinkKind};
    use hawser_sched::connection::ConnectionPolicy;

    use super::super::super::SharedDirector;
    use super::super::super::testing::link;
    use super::*;

    #[tokio::test]
    async fn the_kernel_gets_no_links_of_a_family_that_a_vpn_takes() {
        let vpn = Link {
            kind: LinkKind::Tunnel,
            takes_ordinary_v4: true,
            ..Link::clone(&link("vpn"))
        };
        for (wanted, expected) in [
            (vec![], (false, true)),
            (vec!["a".to_owned()], (true, true)),
        ] {
            let director = SharedDirector::new(ConnectionPolicy::default(), wanted);
            director.set_links(&[Link::clone(&link("a")), vpn.clone()]);
            let entries = entries(&director.report());
            let entry = entries.iter().find(|entry| entry.name == "a").unwrap();
            assert_eq!((entry.ipv4, entry.ipv6), expected);
        }
    }
}
