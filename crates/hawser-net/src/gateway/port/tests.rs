//! A gateway and a client with two links between them, each in a network namespace of its own.

use std::env;
use std::time::Duration;

use hawser_session::SessionConfig;
use hawser_types::LinkIndex;

use super::*;
use crate::client::{Client, ClientConfig};
use crate::gateway::AdmitAll;
use crate::gateway::port_links::MAX_LINKS;
use crate::gateway::{AcceptLimits, Gateway, GatewayConfig};
use hawser_keys::host_port::HostPort;
use hawser_keys::identity::Identity;
use hawser_link::links::LinkMonitor;
use hawser_skip::namespace::{Neighbour, in_namespace, ip};

#[test]
fn two_links_with_the_same_network_and_addresses_are_both_answered() {
    let test = "gateway::port::tests::\
                two_links_with_the_same_network_and_addresses_are_both_answered";
    let lay = |client: &Neighbour| {
        for (own, far) in PAIRS {
            ip(&format!("address add 192.168.8.1/24 dev {own}"));
            client.ip(&format!("address add 192.168.8.100/24 dev {far}"));
        }
    };
    both_links_are_joined(test, "192.168.8.1:7443", lay);
}

#[test]
fn the_link_without_the_default_route_is_answered_by_itself() {
    let test = "gateway::port::tests::the_link_without_the_default_route_is_answered_by_itself";
    let lay = |client: &Neighbour| {
        for (number, (own, far)) in PAIRS.into_iter().enumerate() {
            ip(&format!("address add 10.0.{number}.1/24 dev {own}"));
            // The best way back to the client leads over the first link, whichever it came by.
            client.ip(&format!(
                "address add 198.51.100.{}/32 dev {far}",
                7 + number
            ));
            client.ip(&format!("route add 10.0.{number}.0/24 dev {far}"));
        }
        client.ip("address add 10.0.0.2/24 dev uno");
        ip("route add default via 10.0.0.2 dev one");
        // By the second link the client reaches the first link's address as well.
        client.ip("route add 10.0.0.1/32 dev due metric 9");
    };
    both_links_are_joined(test, "10.0.0.1:7443", lay);
}

/// Joins a gateway at `address` over both links; `lay` gives the links their addresses and routes.
fn both_links_are_joined(test: &str, address: &str, lay: impl FnOnce(&Neighbour)) {
    if env::var_os(CLIENT).is_some() {
        return run(join_over_both(address));
    }
    in_namespace(test, || {
        let client = Neighbour::start();
        for (own, far) in PAIRS {
            ip(&format!("link add {own} type veth peer name {far}"));
            client.take(far);
            client.ip(&format!("link set {far} up"));
        }
        ip("link set one up");
        lay(&client);
        run(async {
            let _gateway = gateway(address).await;
            // A link may come up while the gateway runs already.
            ip("link set two up");
            for filter in ["0", "2"] {
                for name in ["all", "one", "two"] {
                    let path = format!("/proc/sys/net/ipv4/conf/{name}/rp_filter");
                    std::fs::write(path, filter).unwrap();
                }
                let mut child = tokio::process::Command::from(client.command("env"));
                let there = child
                    .arg(format!("{CLIENT}=1"))
                    .arg(env::current_exe().unwrap())
                    .args(["--exact", test, "--nocapture"]);
                assert!(
                    there.status().await.unwrap().success(),
                    "rp_filter={filter}"
                );
            }
        });
    });
}

/// A gateway that listens everywhere and knows the client.
async fn gateway(address: &str) -> (Gateway, LinkMonitor) {
    let (monitor, links) = LinkMonitor::start().await.unwrap();
    let port = address.parse::<SocketAddr>().unwrap().port();
    // As by default, where IPv6 is there.
    let listener = bind::listen(SocketAddr::from(([0_u16; 8], port)))
        .or_else(|_| bind::listen(SocketAddr::from(([0_u8; 4], port))))
        .unwrap();
    let config = GatewayConfig {
        identity: Identity::from_seed([1; 32]),
        session: SessionConfig::default(),
        limits: AcceptLimits::default(),
        congestion: None,
        predecessor: None,
    };
    let gateway = Gateway::start(config, vec![listener], Arc::new(AdmitAll)).unwrap();
    (gateway.with_links(links), monitor)
}

/// The client's side: fails unless both links get both of their channels.
async fn join_over_both(address: &str) {
    let (_monitor, links) = LinkMonitor::start().await.unwrap();
    let config = ClientConfig {
        links: PAIRS.map(|(_, far)| far.to_owned()).to_vec(),
        ..ClientConfig::new(
            Identity::from_seed([2; 32]),
            Identity::from_seed([1; 32]).public(),
            vec![address.parse::<HostPort>().unwrap()],
        )
    };
    let client = Client::start(config, links);
    let joined = async {
        while client.snapshot(0).session.map_or(0, |s| s.channels.len()) < 4 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let joined = tokio::time::timeout(PATIENCE, joined).await;
    assert!(joined.is_ok(), "{:?}", client.snapshot(0));
}

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Runtime::new().unwrap().block_on(work)
}

fn link(index: u32, up: bool) -> Link {
    Link {
        addresses: vec![[192, 0, 2, 1].into()],
        up,
        has_default_route_v4: true,
        ..Link::new(LinkIndex::new(index), format!("eth{index}"))
    }
}

#[test]
fn a_single_link_needs_a_socket_of_its_own_only_beside_those_of_a_process_before() {
    let indices = |own: OwnSockets, links: &[Link]| {
        let indices = own.wanted(links).map(|link| link.index.value());
        indices.collect::<Vec<_>>()
    };
    let (several, always) = (OwnSockets::WhereSeveral, OwnSockets::Always);
    let one = [link(2, true), link(3, false)];
    assert!(indices(several, &one).is_empty());
    assert_eq!(indices(always, &one), [2]);
    assert_eq!(indices(several, &[link(2, true), link(3, true)]), [2, 3]);
    let many: Vec<Link> = (1..=1000).map(|index| link(index, true)).collect();
    assert_eq!(indices(several, &many).len(), MAX_LINKS);
}

const PAIRS: [(&str, &str); 2] = [("one", "uno"), ("two", "due")];
const CLIENT: &str = "HAWSER_TEST_CLIENT";
const PATIENCE: Duration = Duration::from_secs(20);
