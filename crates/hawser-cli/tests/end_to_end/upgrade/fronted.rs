//! A server that hosts reach without enrolment, and a client that has discovered it.

use hawser_skip::namespace::in_namespace_of_root;

use super::super::internet::{Internet, said, serve_echoes};
use super::super::program::{Daemon, Place, until};
use super::super::silent_link::HAWSER;
use super::traffic::{Traffic, Way};
use super::{BY_LTE, standing, until_alone, upgrade};

/// Both are replaced while a connection and new ones go over sessions without enrolment. In
/// between, a link is lost and returns: its channels join through the new process's port, and those
/// of the older session are passed to the old process. The service sees other hosts through rules
/// that stay when the old process ends.
#[test]
fn sessions_with_a_server_that_was_discovered_go_on() {
    let test = "upgrade::fronted::sessions_with_a_server_that_was_discovered_go_on";
    in_namespace_of_root(test, || {
        let Some(net) = Internet::new(test) else {
            return;
        };
        net.gateway.ip(&format!("address add {AT}/32 dev lo"));
        serve_echoes(&net.gateway, "0.0.0.0");
        let server = serve(&net);
        let client = up(&net.place, &[]);
        until_bonded(&net.place, &client, &server);
        client.end();
        // Whatever goes without a session now is refused, and so lost.
        let client = up(&net.place, &["--require-bonded"]);
        let log = || format!("{}\n{}", client.log(), server.log());
        let traffic = begin(&net.place, &client);
        traffic.until_moved(10, log);

        upgrade(&net.place, "server", &server);
        net.gateway.ip("link set lte down");
        let by_lte = || standing(net.gateway.command("ss"), Some(&server), BY_LTE);
        until("the link is lost", || !by_lte(), log);
        net.gateway.ip("link set lte up");
        until("the old process has the link again", by_lte, log);
        traffic.until_moved(10, log);
        assert!(front(&net.place, "connected") > 0, "{}", log());
        upgrade(&net.place, "client", &client);
        traffic.until_moved(20, log);

        println!("{}", traffic.end(log));
        until_alone(&net.place, "client", log);
        until_alone(&net.place, "server", log);
        until_bonded(&net.place, &client, &server);
        assert!(rules(&net).contains("sport 7"), "{}", rules(&net));
        client.end();
        server.end();
        assert!(!rules(&net).contains("sport 7"), "{}", rules(&net));
    });
}

fn serve(net: &Internet) -> Daemon {
    let mut serve = net.gateway.command(HAWSER);
    serve.arg("--state").arg(net.place.path("server"));
    serve.args(["serve", "--front", "7"]);
    let server = net.place.launch_command("server", serve);
    let listens = || server.listen(&net.place).is_some();
    until("the server listens", listens, || server.log());
    server
}

fn up(place: &Place, more: &[&str]) -> Daemon {
    let always = ["up", "--listen", "127.0.0.1:0", "--discover"];
    place.start("client", &[&always[..], more].concat())
}

fn begin(place: &Place, client: &Daemon) -> Traffic {
    let proxy = client.listen(place).unwrap();
    Traffic::begin(place, Way::Proxy(&proxy, AT))
}

/// Opens connections until one of them is a stream of a session.
fn until_bonded(place: &Place, client: &Daemon, server: &Daemon) {
    let log = || format!("{}\n{}", client.log(), server.log());
    let before = front(place, "connected");
    let traffic = begin(place, client);
    let is_bonded = || front(place, "connected") > before;
    until("one is bonded", is_bonded, log);
    traffic.end(log);
}

/// Returns a counter of the listening process about unknown clients.
fn front(place: &Place, name: &str) -> u64 {
    let status = place.status("server").unwrap();
    let count = &status["counters"][format!("front-{name}")];
    count.as_u64().unwrap_or_default()
}

fn rules(net: &Internet) -> String {
    said(net.gateway.command("ip").arg("rule"))
}

/// An address of the server that both links lead to.
const AT: &str = "203.0.113.1";
