//! Gateways that are reached by unusual routes: at an address of another interface, and by two
//! links from behind one address.

use hawser_skip::namespace::{Neighbour, in_namespace, ip};

use super::connections::{add_link, serve_there};
use super::origin::{self, fetch, page};
use super::program::{Daemon, Place, read, until};
use super::transport::{carried, until_over_udp};

/// The gateway binds its sockets to its links. A packet for the address of one link may still
/// arrive on another.
#[test]
fn an_association_stands_at_an_address_of_another_interface_than_its_packets_come_by() {
    let name = "gateway_routes::\
        an_association_stands_at_an_address_of_another_interface_than_its_packets_come_by";
    in_namespace(name, || {
        if origin::is_without_curl(name) {
            return;
        }
        let (place, host) = (Place::new(), Neighbour::start());
        ip("link set lo up");
        host.ip("link set lo up");
        for (net, link) in [(1, "dsl"), (2, "lte")] {
            add_link(&host, net, link);
            let metric = 100 * u32::from(net);
            host.ip(&format!(
                "route add default via 10.{net}.0.2 dev {link} metric {metric}"
            ));
        }
        host.ip(&format!("address add {GATEWAY}/32 dev lte"));
        serve_origin(&host);
        let gateway = gateway(&place, &host, GATEWAY);
        let up = client(&place, &["--link", "dsl"]);
        download_over_udp(&place, &up, &gateway);
        up.end();
        gateway.end();
    });
}

#[test]
fn two_links_behind_one_address_translator_are_both_used() {
    let name = "gateway_routes::two_links_behind_one_address_translator_are_both_used";
    in_namespace(name, || {
        if origin::is_without_curl(name) {
            return;
        }
        let (place, router) = (Place::new(), Neighbour::start());
        ip("link set lo up");
        router.ip("link set lo up");
        add_link(&router, 1, "dsl");
        add_link(&router, 2, "lte");
        let host = Neighbour::start();
        add_host(&router, &host);
        if let Err(reason) = translate(&router) {
            return hawser_skip::skip(&format!("end_to_end::{name}"), &reason);
        }
        serve_origin(&host);
        let gateway = gateway(&place, &host, WAN);
        let up = client(&place, &[]);
        let set = place.run("client", &["policy", "set", "--scheduler", "round-robin"]);
        assert_eq!(set.code, 0, "{set:?}");
        // The association has its second path a moment after it stands.
        let are_used = || {
            let before = ["dsl", "lte"].map(received);
            download_over_udp(&place, &up, &gateway);
            let each = [0, 1].map(|n| received(["dsl", "lte"][n]) - before[n]);
            println!("received by each link: {each:?}");
            each.iter().all(|bytes| *bytes > SIZE as u64 / 5)
        };
        until("both links are used", are_used, || {
            up.log() + &gateway.log()
        });
        up.end();
        gateway.end();
    });
}

/// A network between the router and a host behind it.
fn add_host(router: &Neighbour, host: &Neighbour) {
    ip("link add wan type veth peer name far");
    router.take("wan");
    host.take("far");
    router.ip("address add 10.9.0.1/24 dev wan");
    router.ip("link set wan up");
    host.ip("link set lo up");
    host.ip(&format!("address add {WAN}/24 dev far"));
    host.ip("link set far up");
    host.ip("route add default via 10.9.0.1");
}

/// Lets the router forward, with its own address in place of the senders'.
fn translate(router: &Neighbour) -> Result<(), String> {
    let forward = router
        .command("sh")
        .args(["-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"])
        .status();
    assert!(forward.unwrap().success());
    let loaded = router.nft(RULES);
    loaded.map_err(|says| format!("no address translation here: {says}"))
}

fn serve_origin(host: &Neighbour) {
    host.ip(&format!("address add {ORIGIN}/32 dev lo"));
    serve_there(host, async |ready| {
        origin::start_at(&format!("{ORIGIN}:80"));
        ready.send(()).unwrap();
    });
}

fn gateway(place: &Place, host: &Neighbour, address: &str) -> Daemon {
    let invite = place.path("invite");
    let mut serve = host.command(env!("CARGO_BIN_EXE_hawser"));
    serve.arg("--state").arg(place.path("gateway"));
    serve.args(["serve", "--listen", "0.0.0.0:7443", "--advertise", address]);
    serve.args(["--allow-destination", &format!("{ORIGIN}/32")]);
    serve.arg("--invite-file").arg(&invite);
    let gateway = place.launch_command("gateway", serve);
    until("an invite is written", || invite.exists(), || gateway.log());
    gateway
}

fn client(place: &Place, more: &[&str]) -> Daemon {
    let always = ["up", "--listen", "127.0.0.1:0", "--transport", "sctp"];
    let invite = place.invite();
    place.start(
        "client",
        &[&always, &["--gateway", &invite][..], more].concat(),
    )
}

fn download_over_udp(place: &Place, up: &Daemon, gateway: &Daemon) {
    let rides = || carried(place, "client", "association").is_some();
    until("an association", rides, || up.log() + &gateway.log());
    let proxy = format!("socks5h://{}", up.listen(place).unwrap());
    let download = || {
        let got = fetch(&proxy, format!("{ORIGIN}:80").parse().unwrap(), SIZE);
        assert!(got.unwrap() == page(SIZE), "{}", up.log());
    };
    until_over_udp(place, SIZE as u64, download, up);
}

/// Returns the bytes received on an interface of this namespace.
fn received(link: &str) -> u64 {
    let all = read("/proc/thread-self/net/dev".as_ref());
    let mut lines = all.lines().filter_map(|line| line.split_once(':'));
    let (_, counters) = lines.find(|(name, _)| name.trim() == link).unwrap();
    let received = counters.split_whitespace().next();
    received.unwrap().parse().unwrap()
}

/// On the interface of the second link.
const GATEWAY: &str = "10.3.0.1";
const WAN: &str = "10.9.0.2";
/// Addresses as on the internet.
const ORIGIN: &str = "11.22.33.53";
const SIZE: usize = 5_000_000;
const RULES: &[u8] = b"table ip nat {
    chain out {
        type nat hook postrouting priority 100;
        oifname \"wan\" masquerade
    }
}
";
