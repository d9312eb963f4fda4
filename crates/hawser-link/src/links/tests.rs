use std::net::IpAddr;
use std::sync::Arc;

use tokio::sync::watch::Receiver;
use tokio::time::timeout;

use super::*;
use hawser_skip::namespace::{in_namespace, ip};

/// Time for kernel notifications that are immediate, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn names(links: &[Link]) -> Vec<&str> {
    links.iter().map(|link| link.name.as_str()).collect()
}

/// Returns the names of the links that are used by default.
fn chosen(links: &[Link]) -> Vec<String> {
    let used = usable(links, &[]).into_iter();
    used.map(|link| link.name).collect()
}

/// Waits until `condition` holds; the panic shows the last list if it never does.
async fn until(links: &mut Receiver<Arc<Vec<Link>>>, condition: impl Fn(&[Link]) -> bool) {
    let waited = timeout(PATIENCE, links.wait_for(|links| condition(links)))
        .await
        .is_ok();
    assert!(waited, "{:#?}", links.borrow());
}

fn find<'a>(links: &'a [Link], name: &str) -> Option<&'a Link> {
    links.iter().find(|link| link.name == name)
}

#[tokio::test]
async fn this_machine_has_a_loopback_link_that_is_never_chosen() {
    let links = list_links().await.unwrap();
    let loopback = links.iter().find(|link| link.loopback).unwrap();
    assert_eq!(
        (loopback.name.as_str(), loopback.kind),
        ("lo", LinkKind::Loopback)
    );
    assert!(
        loopback
            .addresses
            .iter()
            .all(|address| !address.is_loopback())
    );
    assert!(!names(&usable(&links, &[])).contains(&"lo"));
}

#[test]
fn every_change_of_a_link_is_followed_live() {
    in_namespace(
        "links::tests::every_change_of_a_link_is_followed_live",
        || {
            tokio::runtime::Runtime::new()
                .unwrap()
                .block_on(follow_a_link_through_its_life());
        },
    );
}

async fn follow_a_link_through_its_life() {
    let (_monitor, mut links) = LinkMonitor::start().await.unwrap();
    assert_eq!(names(&links.borrow()), ["lo"]);

    ip("link add left type veth peer name right");
    until(&mut links, |links| {
        find(links, "left").is_some_and(|left| !left.enabled)
    })
    .await;
    assert_eq!(find(&links.borrow(), "left").unwrap().kind, LinkKind::Veth);

    ip("link set left up");
    until(&mut links, |links| {
        find(links, "left").is_some_and(|left| left.enabled && !left.up)
    })
    .await;
    ip("link set right up");
    until(&mut links, |links| {
        find(links, "left").is_some_and(|left| left.up)
    })
    .await;

    ip("address add 10.9.0.1/24 dev left");
    ip("address add 10.9.0.2/24 dev left");
    ip("-6 address add 2001:db8::1/64 dev left nodad");
    ip("address add 169.254.9.9/16 dev left scope link");
    until(&mut links, |links| {
        find(links, "left").is_some_and(|left| left.addresses.len() == 3)
    })
    .await;

    ip("route add default via 10.9.0.9 dev left src 10.9.0.2 metric 700");
    until(&mut links, |links| {
        find(links, "left").is_some_and(|left| left.has_default_route_v4)
    })
    .await;
    let left = find(&links.borrow(), "left").unwrap().clone();
    assert_eq!(
        left.addresses[0].to_string(),
        "10.9.0.2",
        "the route prefers it"
    );
    assert!(!left.has_default_route_v6);
    assert_eq!(chosen(&links.borrow()), ["left"]);

    ip("-6 route add default via 2001:db8::9 dev left table 77");
    until(&mut links, |links| {
        find(links, "left").is_some_and(|left| left.has_default_route_v6)
    })
    .await;
    ip("route del default");
    until(&mut links, |links| {
        find(links, "left").is_some_and(|left| !left.has_default_route_v4)
    })
    .await;

    ip("link set right down");
    until(&mut links, |links| {
        find(links, "left").is_some_and(|left| left.enabled && !left.up)
    })
    .await;
    ip("link del left");
    until(&mut links, |links| names(links) == ["lo"]).await;
}

#[test]
fn a_burst_of_events_ends_in_the_right_list() {
    in_namespace(
        "links::tests::a_burst_of_events_ends_in_the_right_list",
        || {
            tokio::runtime::Runtime::new().unwrap().block_on(async {
                let (_monitor, mut links) = LinkMonitor::start().await.unwrap();
                for n in 0..20 {
                    ip(&format!("link add left{n} type veth peer name right{n}"));
                    ip(&format!("address add 10.9.{n}.1/24 dev left{n}"));
                }
                until(&mut links, |links| {
                    links
                        .iter()
                        .filter(|link| !link.addresses.is_empty())
                        .count()
                        == 20
                })
                .await;
            });
        },
    );
}

#[test]
fn counters_and_routes_are_those_of_the_kernel() {
    in_namespace(
        "links::tests::counters_and_routes_are_those_of_the_kernel",
        || {
            tokio::runtime::Runtime::new()
                .unwrap()
                .block_on(ask_for_counters_and_routes());
        },
    );
}

async fn ask_for_counters_and_routes() {
    ip("link set lo up");
    ip("link add left type veth peer name right");
    ip("address add 10.9.0.1/24 dev left");
    ip("-6 address add 2001:db8::1/64 dev left nodad");
    ip("link set right up");
    ip("link set left up");
    ip("route add default via 10.9.0.9 dev left");
    ip("route add 10.77.0.0/16 via 10.9.0.9 dev left");
    let index = find(&list_links().await.unwrap(), "left").unwrap().index;
    let before = read_counters().await.unwrap()[&index];
    let socket = tokio::net::UdpSocket::bind("10.9.0.1:0").await.unwrap();
    // A broadcast, since no host would answer a neighbour query for a single address.
    socket.set_broadcast(true).unwrap();
    socket.send_to(&[0; 1000], "10.9.0.255:9").await.unwrap();
    let after = read_counters().await.unwrap()[&index];
    assert!(after[0].as_u64() >= before[0].as_u64() + 1000, "{after:?}");

    let routes = Routes::default();
    for (remote, expected) in [
        ("127.0.0.1", true),
        ("::1", true),
        ("::ffff:10.9.0.1", true),
        ("10.9.0.1", true),
        ("10.9.0.7", true),
        ("10.9.0.255", true),
        ("2001:db8::7", true),
        ("10.77.1.1", true),
        ("192.0.2.1", false),
        ("2001:db8:1::1", false),
    ] {
        let remote: IpAddr = remote.parse().unwrap();
        assert_eq!(routes.is_particular(remote).await, expected, "{remote}");
    }
}

#[test]
fn routes_that_come_and_go_are_followed() {
    in_namespace("links::tests::routes_that_come_and_go_are_followed", || {
        tokio::runtime::Runtime::new()
            .unwrap()
            .block_on(follow_routes());
    });
}

async fn follow_routes() {
    ip("link add left type veth peer name right");
    ip("link set right up");
    ip("link set left up");
    ip("address add 10.9.0.1/24 dev left");
    let mut monitor = PrefixMonitor::start().await.unwrap();
    let first = timeout(PATIENCE, monitor.changed()).await;
    let network = "10.9.0.0/24".parse().unwrap();
    assert!(first.unwrap().contains(&network));
    for (command, prefix, is_there) in [
        ("route add 10.77.0.0/16 via 10.9.0.9", "10.77.0.0/16", true),
        (
            "route add 10.78.0.0/16 via 10.9.0.9 table 7",
            "10.78.0.0/16",
            true,
        ),
        (
            "-6 route add 2001:db8:7::/48 dev left",
            "2001:db8:7::/48",
            true,
        ),
        ("route del 10.77.0.0/16", "10.77.0.0/16", false),
        // The kernel reports the link, but not the routes that vanish with it.
        ("link set left down", "10.78.0.0/16", false),
    ] {
        ip(command);
        let prefix = prefix.parse().unwrap();
        let follow = async { while monitor.changed().await.contains(&prefix) != is_there {} };
        let followed = timeout(PATIENCE, follow).await;
        assert!(followed.is_ok(), "{command}");
    }
}

#[test]
fn a_router_that_changes_while_its_link_does_not_is_told() {
    in_namespace(
        "links::tests::a_router_that_changes_while_its_link_does_not_is_told",
        || {
            tokio::runtime::Runtime::new()
                .unwrap()
                .block_on(follow_routers());
        },
    );
}

async fn follow_routers() {
    ip("link add left type veth peer name right");
    ip("link set right up");
    ip("link set left up");
    ip("address add 10.9.0.1/24 dev left");
    ip("route add default via 10.9.0.9 dev left metric 7");
    let (_links, links) = LinkMonitor::start().await.unwrap();
    let before = links.borrow().clone();
    let mut monitor = DefaultRouteMonitor::start().await.unwrap();
    let link = find(&before, "left").unwrap().index;
    for (command, expected) in [
        ("route show", Some("10.9.0.9")),
        (
            "route replace default via 10.9.0.8 dev left metric 7",
            Some("10.9.0.8"),
        ),
        ("route del default", None),
    ] {
        ip(command);
        let gateway = expected.map(|it| it.parse().unwrap());
        let route = DefaultRoute { link, gateway };
        let expected = Vec::from_iter(expected.map(|_| route));
        let follow = async { while monitor.changed().await != expected {} };
        assert!(timeout(PATIENCE, follow).await.is_ok(), "{command}");
    }
}

#[test]
fn a_tunnel_for_all_traffic_is_seen_however_it_was_made() {
    in_namespace(
        "links::tests::a_tunnel_for_all_traffic_is_seen_however_it_was_made",
        || {
            tokio::runtime::Runtime::new()
                .unwrap()
                .block_on(find_tunnels());
        },
    );
}

async fn find_tunnels() {
    ip("link set lo up");
    ip("link add left type veth peer name right");
    ip("address add 10.9.0.1/24 dev left");
    ip("-6 address add 2001:db8:9::1/64 dev left nodad");
    ip("link set right up");
    ip("link set left up");
    ip("route add default via 10.9.0.9 dev left metric 100");
    ip("-6 route add default via 2001:db8:9::9 dev left metric 100");
    ip("tuntap add vpn mode tun");
    ip("address add 10.8.0.1/24 dev vpn");
    ip("link set vpn up");
    let (_monitor, mut links) = LinkMonitor::start().await.unwrap();
    let held = |links: &[Link]| [false, true].map(|v6| full_tunnel(links, v6).is_some());
    assert_eq!(held(&links.borrow()), [false, false]);
    let ways: [&[&str]; 4] = [
        &["route add default dev vpn metric 1"],
        &[
            "route add 0.0.0.0/1 dev vpn",
            "route add 128.0.0.0/1 dev vpn",
        ],
        // The way of wg-quick.
        &[
            "route add default dev vpn table 51820",
            "rule add not fwmark 51820 table 51820",
        ],
        &[
            "rule add iif lo table 51821",
            "route add default dev vpn table 51821",
        ],
    ];
    for way in ways {
        for step in way {
            ip(step);
            // So that each following step must be noticed by itself.
            if step.starts_with("route") {
                let routed = |links: &[Link]| find(links, "vpn").unwrap().has_default_route_v4;
                until(&mut links, routed).await;
            }
        }
        until(&mut links, |links| held(links) == [true, false]).await;
        for step in way.iter().rev() {
            ip(&step.replace(" add ", " del "));
        }
        until(&mut links, |links| held(links) == [false, false]).await;
    }
    ip("-6 route add ::/1 dev vpn");
    until(&mut links, |links| held(links) == [false, true]).await;
}

#[test]
fn an_address_is_own_while_an_interface_has_it() {
    in_namespace(
        "links::tests::an_address_is_own_while_an_interface_has_it",
        || {
            tokio::runtime::Runtime::new()
                .unwrap()
                .block_on(follow_own_addresses());
        },
    );
}

async fn follow_own_addresses() {
    let own = OwnAddresses::follow().await.unwrap();
    let becomes = async |address: &str, wanted: bool| {
        let address = address.parse().unwrap();
        let waited = timeout(PATIENCE, async {
            while own.contains(address) != wanted {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
        assert!(waited.await.is_ok(), "{address} is own: {wanted}");
    };
    ip("link add left type veth peer name right");
    assert!(!own.contains("11.9.0.1".parse().unwrap()));
    for (shown, address) in [
        ("11.9.0.1/24", "11.9.0.1"),
        ("11.9.0.1/24", "::ffff:11.9.0.1"),
        // The list of links leaves these out: they cannot reach other hosts.
        ("11.9.0.2/32 scope host", "11.9.0.2"),
        ("169.254.9.9/16 scope link", "169.254.9.9"),
        ("2600::7/64", "2600::7"),
        ("2600::7/64", "2600::"),
    ] {
        // The link is down, where IPv6 addresses stay tentative.
        ip(&format!("address add {shown} dev left"));
        becomes(address, true).await;
        let plain = shown.split(' ').next().unwrap();
        ip(&format!("address del {plain} dev left"));
        becomes(address, false).await;
    }
    ip("address add 11.9.0.1/24 dev left");
    becomes("11.9.0.1", true).await;
    ip("link del left");
    becomes("11.9.0.1", false).await;
}
