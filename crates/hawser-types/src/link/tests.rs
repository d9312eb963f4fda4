use super::*;

/// A hardware link that can be used, with a default route.
fn link(index: u32, name: &str) -> Link {
    Link {
        addresses: vec!["192.0.2.1".parse().unwrap()],
        has_default_route_v4: true,
        ..Link::new(LinkIndex::new(index), name)
    }
}

fn chosen(links: &[Link], wanted: &[&str]) -> Vec<String> {
    let wanted: Vec<String> = wanted.iter().map(|&name| name.to_owned()).collect();
    usable(links, &wanted)
        .into_iter()
        .map(|link| link.name)
        .collect()
}

#[test]
fn by_default_all_hardware_that_works_is_used_those_with_a_route_out_first() {
    let links = [
        Link {
            loopback: true,
            kind: LinkKind::Loopback,
            ..link(1, "lo")
        },
        Link {
            up: false,
            ..link(2, "unplugged")
        },
        Link {
            enabled: false,
            up: false,
            ..link(3, "off")
        },
        Link {
            addresses: Vec::new(),
            ..link(4, "bare")
        },
        Link {
            has_default_route_v4: false,
            ..link(5, "lan")
        },
        link(6, "dsl"),
        Link {
            has_default_route_v4: false,
            has_default_route_v6: true,
            ..link(7, "lte")
        },
    ];
    assert_eq!(chosen(&links, &[]), ["dsl", "lte", "lan"]);
}

#[test]
fn plumbing_is_used_only_if_it_leads_out_or_there_is_nothing_else() {
    let inner = |index, name, kind| Link {
        kind,
        has_default_route_v4: false,
        ..link(index, name)
    };
    let docker = inner(1, "docker0", LinkKind::Bridge);
    let veth = inner(2, "veth1", LinkKind::Veth);
    let vpn = inner(3, "wg0", LinkKind::Tunnel);
    let uplink = Link {
        kind: LinkKind::Bridge,
        ..link(4, "br0")
    };
    let card = link(5, "eth0");
    let all = [docker.clone(), veth.clone(), vpn, uplink, card];
    assert_eq!(chosen(&all, &[]), ["br0", "eth0"]);
    assert_eq!(chosen(&[docker, veth], &[]), ["docker0", "veth1"]);
}

#[test]
fn links_named_by_the_user_come_in_his_order_if_they_can_be_used() {
    let links = [
        link(1, "a"),
        Link {
            up: false,
            ..link(2, "b")
        },
        Link {
            kind: LinkKind::Tunnel,
            has_default_route_v4: false,
            ..link(3, "c")
        },
    ];
    assert_eq!(chosen(&links, &["c", "nowhere", "b", "a", "c"]), ["c", "a"]);
    assert_eq!(links[1].why_unusable(), Some(Unusable::NoCarrier));
}

#[test]
fn the_source_is_of_the_family_and_reach_of_the_remote() {
    let addresses = ["fd00::1", "2001:db8::1", "192.0.2.1", "10.0.0.1"];
    let addresses = addresses.iter().map(|a| a.parse().unwrap()).collect();
    let link = Link {
        addresses,
        ..link(1, "a")
    };
    let source = |remote: &str| {
        link.source_address(remote.parse().unwrap())
            .unwrap()
            .to_string()
    };
    assert_eq!(source("2001:db8::9"), "2001:db8::1");
    assert_eq!(source("fd99::9"), "fd00::1");
    assert_eq!(source("10.0.0.9"), "192.0.2.1");
    let v4_only = Link {
        addresses: vec!["192.0.2.1".parse().unwrap()],
        ..link.clone()
    };
    assert_eq!(v4_only.source_address("::9".parse().unwrap()), None);
}
