//! A gateway whose own addresses change while it runs.

use hawser_skip::namespace::{Neighbour, in_namespace, ip};

use super::connections::{add_link, serve_there};
use super::origin::{self, status_of};
use super::program::{Daemon, Place, until};

/// Services that listen on all of a gateway's addresses are not for its clients, whenever the
/// address came; and an address that it has lost is one like any other.
#[test]
fn an_address_that_comes_is_closed_to_clients_and_one_that_goes_is_open() {
    let name =
        "own_addresses::an_address_that_comes_is_closed_to_clients_and_one_that_goes_is_open";
    in_namespace(name, || {
        if origin::is_without_curl(name) {
            return;
        }
        let place = Place::new();
        let neighbour = Neighbour::start();
        ip("link set lo up");
        neighbour.ip("link set lo up");
        add_link(&neighbour, 1, "dsl");
        neighbour.ip(&format!("address add {BEFORE}/32 dev lo"));
        serve_there(&neighbour, async |ready| {
            origin::start_at("0.0.0.0:81");
            ready.send(()).unwrap();
        });
        let gateway = gateway(&place, &neighbour);
        let arguments = [
            "up",
            "--listen",
            "127.0.0.1:0",
            "--gateway",
            &place.invite(),
        ];
        let up = place.start("client", &arguments);
        let proxy = format!("http://{}", up.listen(&place).unwrap());
        let says = |address: &str, status: u16| {
            let what = format!("{address} gets {status}");
            let is_said = || status_of(&proxy, &format!("http://{address}:81/5")) == status;
            until(&what, is_said, || format!("{}{}", up.log(), gateway.log()));
        };
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
        up.end();
        gateway.end();
    });
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

/// Addresses as on the internet: others are refused for what they are.
const BEFORE: &str = "11.22.33.44";
const LATER: &str = "11.22.33.45";
const ADVERTISED: &str = "11.22.33.46";
const REFUSED: u16 = 403;
const UNREACHABLE: u16 = 502;
