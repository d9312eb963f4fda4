//! A gateway whose own addresses change while it runs.

use hawser_skip::namespace::{Neighbour, in_namespace, ip};

use super::connections::{add_link, serve_there};
use super::origin::{self, status_of};
use super::program::{Daemon, Place, until};

/// Services that listen on all of a gateway's addresses are closed to its clients, whenever an
/// address appears; and an address that the gateway has lost is an ordinary one.
#[test]
fn an_address_that_comes_is_closed_to_clients_and_one_that_goes_is_open() {
    let name =
        "own_addresses::an_address_that_comes_is_closed_to_clients_and_one_that_goes_is_open";
    in_namespace(name, || {
        if origin::is_without_curl(name) {
            return;
        }
        let neighbour = neighbour();
        neighbour.ip(&format!("address add {BEFORE}/32 dev lo"));
        let asker = Asker::start(&neighbour);
        let says = |address: &str, status| asker.is_told(address, status);
        says(BEFORE, REFUSED);
        // No route leads there.
        says(LATER, UNREACHABLE);
        neighbour.ip(&format!("address add {LATER}/32 dev lo"));
        says(LATER, REFUSED);
        says(ADVERTISED, REFUSED);
        for address in [BEFORE, LATER] {
            neighbour.ip(&format!("address del {address}/32 dev lo"));
            says(address, UNREACHABLE);
        }
        asker.end();
    });
}

/// A load balancer's agent gives a machine addresses without an interface, even whole networks.
#[test]
fn an_address_that_only_a_route_gives_is_closed_to_clients_while_the_route_is_there() {
    let name = "own_addresses::\
                an_address_that_only_a_route_gives_is_closed_to_clients_while_the_route_is_there";
    in_namespace(name, || {
        if origin::is_without_curl(name) {
            return;
        }
        let neighbour = neighbour();
        neighbour.ip("route add local 11.22.34.0/28 dev lo");
        neighbour.ip("-6 route add local 2600:44::/64 dev lo");
        // As transparent proxies have it: what bears the mark ends here, and nothing else.
        neighbour.ip("rule add fwmark 1 lookup 100");
        neighbour.ip("route add local default dev lo table 100");
        let asker = Asker::start(&neighbour);
        asker.is_told("11.22.34.7", REFUSED);
        asker.is_told("[2600:44::7]", REFUSED);
        asker.is_told("11.22.35.7", UNREACHABLE);
        for (route, address) in [
            ("11.22.35.7/32", "11.22.35.7"),
            ("11.22.36.0/24", "11.22.36.9"),
            ("2600:45::/48", "[2600:45:0:9::9]"),
            ("11.22.37.0/24 table 101", "11.22.37.9"),
        ] {
            neighbour.ip(&format!("route add local {route} dev lo"));
            if route.contains("table") {
                asker.is_told(address, UNREACHABLE);
                neighbour.ip("rule add lookup 101");
            }
            asker.is_told(address, REFUSED);
            neighbour.ip(&format!("route del local {route} dev lo"));
            asker.is_told(address, UNREACHABLE);
        }
        asker.end();
    });
}

/// The gateway's network, where a service listens on all addresses.
fn neighbour() -> Neighbour {
    let neighbour = Neighbour::start();
    ip("link set lo up");
    neighbour.ip("link set lo up");
    add_link(&neighbour, 1, "dsl");
    serve_there(&neighbour, async |ready| {
        origin::start_at("[::]:81");
        ready.send(()).unwrap();
    });
    neighbour
}

/// A gateway, and a client that asks it for the service.
struct Asker {
    _place: Place,
    gateway: Daemon,
    up: Daemon,
    proxy: String,
}

impl Asker {
    fn start(neighbour: &Neighbour) -> Self {
        let place = Place::new();
        let gateway = gateway(&place, neighbour);
        let invite = place.invite();
        let arguments = ["up", "--listen", "127.0.0.1:0", "--gateway", &invite];
        let up = place.start("client", &arguments);
        let proxy = format!("http://{}", up.listen(&place).unwrap());
        Self {
            _place: place,
            gateway,
            up,
            proxy,
        }
    }

    fn is_told(&self, address: &str, status: u16) {
        let what = format!("{address} gets {status}");
        let is_said = || status_of(&self.proxy, &format!("http://{address}:81/5")) == status;
        let log = || format!("{}{}", self.up.log(), self.gateway.log());
        until(&what, is_said, log);
    }

    fn end(self) {
        self.up.end();
        self.gateway.end();
    }
}

fn gateway(place: &Place, neighbour: &Neighbour) -> Daemon {
    let invite = place.path("invite");
    let mut serve = neighbour.command(env!("CARGO_BIN_EXE_hawser"));
    serve.arg("--state").arg(place.path("gateway"));
    serve.args(["serve", "--listen", "0.0.0.0:7443"]);
    serve.args(["--advertise", "10.1.0.1", "--advertise", ADVERTISED]);
    serve.arg("--invite-file").arg(&invite);
    let gateway = place.launch_command("gateway", serve);
    until("an invite is written", || invite.exists(), || gateway.log());
    gateway
}

/// Public addresses: others would be refused for other reasons.
const BEFORE: &str = "11.22.33.44";
const LATER: &str = "11.22.33.45";
const ADVERTISED: &str = "11.22.33.46";
const REFUSED: u16 = 403;
const UNREACHABLE: u16 = 502;
