//! Associations over IPv4, IPv6 and both, on two real links.

use std::net::SocketAddr;

use hawser_skip::namespace::{Neighbour, in_namespace, ip};

use super::connections::serve_there;
use super::origin::{self, fetch, page};
use super::program::{Daemon, Place, until};
use super::top::shape;
use super::transport::carried;

#[test]
fn an_association_takes_both_links_where_there_is_only_ipv6() {
    let name = "families::an_association_takes_both_links_where_there_is_only_ipv6";
    let links = [Families::V6, Families::V6];
    in_namespace(name, || takes_both_links(name, links));
}

#[test]
fn an_association_takes_a_link_of_ipv4_and_one_of_ipv6() {
    let name = "families::an_association_takes_a_link_of_ipv4_and_one_of_ipv6";
    let links = [Families::V4, Families::V6];
    in_namespace(name, || takes_both_links(name, links));
}

#[test]
fn an_association_takes_both_links_where_both_families_are_on_each() {
    let name = "families::an_association_takes_both_links_where_both_families_are_on_each";
    let links = [Families::BOTH, Families::BOTH];
    in_namespace(name, || takes_both_links(name, links));
}

/// A link that becomes silent in one family is usable by the other, and no byte is lost.
#[test]
fn a_download_goes_on_when_ipv4_passes_no_more() {
    let name = "families::a_download_goes_on_when_ipv4_passes_no_more";
    in_namespace(name, || {
        let Some(scene) = Scene::new(name, [Families::BOTH, Families::V6]) else {
            return;
        };
        scene.download(2_000_000);
        scene.neighbour.ip("address del 10.99.0.1/32 dev lo");
        for number in [1, 2] {
            scene
                .neighbour
                .ip(&format!("route add unreachable 10.{number}.0.0/25"));
        }
        scene.download(8_000_000);
    });
}

fn takes_both_links(name: &str, links: [Families; 2]) {
    let Some(scene) = Scene::new(name, links) else {
        return;
    };
    // Where the machine is busy, some of it may go over TCP.
    let is_carried = || {
        scene.download(4_000_000);
        let by = scene.received(Some("association"));
        by.iter().all(|received| *received > Some(3_000_000))
    };
    until(
        "the association has carried much by each link",
        is_carried,
        || {
            let by = scene.received(Some("association"));
            format!("{by:?} {}", scene.up.log())
        },
    );
}

/// Addresses of a link.
#[derive(Clone, Copy, Debug)]
struct Families {
    v4: bool,
    v6: bool,
}

impl Families {
    const V4: Self = Self::new(true, false);
    const V6: Self = Self::new(false, true);
    const BOTH: Self = Self::new(true, true);

    const fn new(v4: bool, v6: bool) -> Self {
        Self { v4, v6 }
    }
}

/// Two links of 20 Mbit/s to a neighbour with a gateway and a web server, and a client whose
/// session has an association.
struct Scene {
    up: Daemon,
    _gateway: Daemon,
    origin: SocketAddr,
    place: Place,
    neighbour: Neighbour,
}

impl Scene {
    /// `None`, with a report, if something is missing.
    fn new(name: &str, families: [Families; 2]) -> Option<Self> {
        if origin::is_without_curl(name) {
            return None;
        }
        let neighbour = Neighbour::start();
        ip("link set lo up");
        neighbour.ip("link set lo up");
        neighbour.ip(&format!("address add {SERVER_V4}/32 dev lo"));
        neighbour.ip(&format!("address add {SERVER_V6}/128 dev lo nodad"));
        for ((net, link), families) in (1..).zip(LINKS).zip(families) {
            add_link(&neighbour, net, link, families);
            if !shape(&neighbour, link, "20mbit") {
                hawser_skip::skip(&format!("end_to_end::{name}"), "links can't be shaped");
                return None;
            }
        }
        let (tell, told) = std::sync::mpsc::channel();
        serve_there(&neighbour, async move |ready| {
            tell.send(origin::start()).unwrap();
            ready.send(()).unwrap();
        });
        let place = Place::new();
        let gateway = gateway(&place, &neighbour, families);
        let up = place.start(
            "client",
            &[
                "up",
                "--listen",
                "127.0.0.1:0",
                "--gateway",
                &place.invite(),
                "--transport",
                "sctp",
            ],
        );
        let scene = Self {
            up,
            _gateway: gateway,
            origin: told.recv().unwrap(),
            place,
            neighbour,
        };
        let rides = || carried(&scene.place, "client", "association").is_some();
        until("an association", rides, || scene.up.log());
        let both = || scene.received(None).iter().all(Option::is_some);
        until("both links are in the session", both, || scene.up.log());
        Some(scene)
    }

    fn download(&self, size: usize) {
        let proxy = format!("socks5h://{}", self.up.listen(&self.place).unwrap());
        let got = fetch(&proxy, self.origin, size);
        assert!(got.unwrap() == page(size), "{}", self.up.log());
    }

    /// Returns the bytes that the client received over each link of its session, over channels of
    /// one transport or of any.
    fn received(&self, transport: Option<&str>) -> [Option<u64>; 2] {
        let status = self.place.status("client").unwrap();
        let paths = status["sessions"][0]["paths"].as_array();
        LINKS.map(|link| {
            let path = paths?.iter().find(|path| path["link"] == link)?;
            let channels = path["channels"].as_array()?.iter();
            let wanted =
                channels.filter(|it| transport.is_none_or(|wanted| it["transport"] == wanted));
            wanted.map(|it| it["bytes_received"].as_u64()).sum()
        })
    }
}

/// Adds a link to a neighbour, each end with an address of each family.
fn add_link(neighbour: &Neighbour, net: u8, name: &str, families: Families) {
    ip(&format!("link add {name} type veth peer name far"));
    ip(&format!("link set {name} addrgenmode none"));
    neighbour.take("far");
    neighbour.ip(&format!("link set far name {name}"));
    neighbour.ip(&format!("link set {name} addrgenmode none"));
    neighbour.ip(&format!("link set {name} up"));
    ip(&format!("link set {name} up"));
    if families.v4 {
        neighbour.ip(&format!("address add 10.{net}.0.1/24 dev {name}"));
        ip(&format!("address add 10.{net}.0.2/24 dev {name}"));
        ip(&format!(
            "route add default via 10.{net}.0.1 dev {name} metric {net}00"
        ));
    }
    if families.v6 {
        // Without one of these the kernel does not check whether a neighbour is still there.
        neighbour.ip(&format!("address add fe80::1/64 dev {name} nodad"));
        ip(&format!("address add fe80::2/64 dev {name} nodad"));
        let at = format!("2001:db8:{net}::");
        neighbour.ip(&format!("address add {at}1/64 dev {name} nodad"));
        ip(&format!("address add {at}2/64 dev {name} nodad"));
        ip(&format!(
            "route add default via {at}1 dev {name} metric {net}00"
        ));
    }
}

/// A gateway in the neighbour, whose invite has its address of each family that a link has.
fn gateway(place: &Place, neighbour: &Neighbour, links: [Families; 2]) -> Daemon {
    let invite = place.path("invite");
    let mut serve = neighbour.command(env!("CARGO_BIN_EXE_hawser"));
    serve.arg("--state").arg(place.path("gateway"));
    serve.args(["serve", "--listen", "[::]:7443"]);
    if links.iter().any(|link| link.v4) {
        serve.args(["--advertise", &format!("{SERVER_V4}:7443")]);
    }
    if links.iter().any(|link| link.v6) {
        serve.args(["--advertise", &format!("[{SERVER_V6}]:7443")]);
    }
    serve.args(["--allow-destination", "127.0.0.0/8"]);
    serve.arg("--invite-file").arg(&invite);
    let gateway = place.launch_command("gateway", serve);
    until("an invite is written", || invite.exists(), || gateway.log());
    gateway
}

const LINKS: [&str; 2] = ["dsl", "lte"];
const SERVER_V4: &str = "10.99.0.1";
const SERVER_V6: &str = "2001:db8:99::1";
