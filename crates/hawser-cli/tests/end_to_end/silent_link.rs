//! A gateway given by name, while the link that the system's resolver uses is silent.

use std::process::Command;
use std::time::Instant;

use hawser_skip::name_server::{NameServer, serve_names_if_asked};
use hawser_skip::namespace::{Neighbour, in_namespace, ip};
use serde_json::Value;

use super::connections::{add_link, serve_there};
use super::origin;
use super::program::{Daemon, Place, read, tcp_channels, until};

/// Two links to a router, where a gateway and a name server run.
pub(crate) struct Net {
    pub(crate) place: Place,
    pub(crate) router: Neighbour,
    /// Ended before its namespace.
    _server: NameServer,
}

impl Net {
    pub(crate) fn new(test: &str) -> Self {
        let router = Neighbour::start();
        ip("link set lo up");
        router.ip("link set lo up");
        add_link(&router, 1, "dsl");
        add_link(&router, 2, "lte");
        router.ip(&format!("address add {GATEWAY}/32 dev lo"));
        router.ip(&format!("address add {SERVER}/32 dev lo"));
        for (net, link) in [(1, "dsl"), (2, "lte")] {
            // The name server answers by the address that it was asked at.
            router.ip(&format!(
                "route replace 10.{net}.0.0/24 dev {link} src {SERVER}"
            ));
        }
        let names = ["gw", "socks5h", "http", "first", "second", "third"];
        let names = names.map(|name| format!("{name}.example.org={GATEWAY}"));
        let zone = names.join(",");
        let server = NameServer::start(&router, test, &zone);
        let place = Place::new();
        std::fs::write(place.path("resolv.conf"), format!("nameserver {SERVER}\n")).unwrap();
        Self {
            place,
            router,
            _server: server,
        }
    }

    /// Loses all packets on this link from now on, both ways. It keeps its carrier and routes.
    pub(crate) fn set_silent(&self, link: &str) {
        let net = if link == "dsl" { 1 } else { 2 };
        // A neighbour's unused hardware address.
        let unused = format!("lladdr 02:00:00:00:00:ff nud permanent dev {link}");
        ip(&format!("neighbour replace 10.{net}.0.1 {unused}"));
        self.router
            .ip(&format!("neighbour replace 10.{net}.0.2 {unused}"));
    }

    /// Reverts [`Net::set_silent`].
    pub(super) fn set_heard(&self, link: &str) {
        let net = if link == "dsl" { 1 } else { 2 };
        ip(&format!("neighbour del 10.{net}.0.1 dev {link}"));
        self.router
            .ip(&format!("neighbour del 10.{net}.0.2 dev {link}"));
    }

    /// Starts a gateway that advertises its name; `asks`: its system uses the name server.
    pub(super) fn gateway(&self, asks: bool) -> Daemon {
        self.launch_gateway(asks, &[])
    }

    /// Starts a gateway with these further arguments, whose system uses no name server.
    pub(super) fn gateway_with(&self, arguments: &[&str]) -> Daemon {
        self.launch_gateway(false, arguments)
    }

    fn launch_gateway(&self, asks: bool, arguments: &[&str]) -> Daemon {
        let invite = self.place.path("invite");
        let mut serve = if asks {
            let mut command = self.router.command("unshare");
            cover(&self.place, &mut command, HAWSER);
            command
        } else {
            self.router.command(HAWSER)
        };
        serve.arg("--state").arg(self.place.path("gateway"));
        serve.args(["serve", "--listen", &format!("{GATEWAY}:7443")]);
        serve.args(["--allow-destination", &format!("{SERVER}/32")]);
        serve.args(["--advertise", "gw.example.org", "--invite-file"]);
        serve.arg(&invite).args(arguments);
        let gateway = self.place.launch_command("gateway", serve);
        until("an invite is written", || invite.exists(), || gateway.log());
        gateway
    }

    /// Starts `hawser up`, whose system asks the name server over the first link.
    pub(crate) fn up(&self, arguments: &[&str]) -> Daemon {
        self.place
            .launch_command("client", self.up_command(arguments))
    }

    pub(crate) fn up_command(&self, arguments: &[&str]) -> Command {
        let mut up = self.command(HAWSER);
        up.arg("--state").arg(self.place.path("client"));
        up.args(["up", "--listen", "127.0.0.1:0"]).args(arguments);
        up
    }

    /// Returns `program`, which asks the name server over the first link.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("unshare");
        cover(&self.place, &mut command, program);
        command
    }

    /// Returns the client's stored knowledge about its gateways.
    fn client_state(&self) -> Value {
        let state = self.place.path("client").join("client.json");
        serde_json::from_str(&read(&state)).unwrap_or_default()
    }

    /// Returns the client's session in which the gateway has answered.
    fn session(&self) -> Option<String> {
        let status = self.place.status("client")?;
        let session = &status["sessions"][0];
        let mut paths = session["paths"].as_array()?.iter();
        let has_answered = paths.any(|path| path["bytes_received"].as_u64() > Some(0));
        let is_up = session["state"] == "established" && has_answered;
        is_up.then(|| session["id"].to_string())
    }

    pub(super) fn until_complete(&self, client: &Daemon) {
        let is_complete = || {
            let status = self.place.status("client").unwrap_or_default();
            let paths = status["sessions"][0]["paths"].as_array().cloned();
            let paths = paths.unwrap_or_default();
            paths.len() == 2 && paths.iter().all(|path| tcp_channels(path) == 2)
        };
        until("both links have their channels", is_complete, || {
            client.log()
        });
    }

    /// Waits until the client has another session than `before`, and prints how long that took.
    fn until_connected(&self, what: &str, before: Option<String>, [client, gateway]: [&Daemon; 2]) {
        let begun = Instant::now();
        let says = || format!("client:\n{}\ngateway:\n{}", client.log(), gateway.log());
        let is_connected = || self.session().is_some_and(|now| Some(now) != before);
        until(what, is_connected, says);
        println!(
            "{what}: connected after {:.2} s",
            begun.elapsed().as_secs_f64()
        );
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for link in ["dsl", "lte"] {
            ip(&format!("link del {link}"));
        }
    }
}

/// Sets the default source addresses of the router's programs over each link.
pub(crate) fn answer_from(router: &Neighbour, addresses: [&str; 2]) {
    for ((net, link), address) in [(1, "dsl"), (2, "lte")].into_iter().zip(addresses) {
        let network = format!("10.{net}.0.0/24");
        router.ip(&format!("route replace {network} dev {link} src {address}"));
    }
}

/// Runs `body` with either link silent.
pub(crate) fn with_either_silent(test: &str, body: impl Fn(&Net, &str)) {
    in_namespace(test, || each_silent(test, body));
}

pub(crate) fn each_silent(test: &str, body: impl Fn(&Net, &str)) {
    serve_names_if_asked();
    if !has_mounts() {
        hawser_skip::skip(&format!("end_to_end::{test}"), "no mount namespace here");
        return;
    }
    for silent in ["dsl", "lte"] {
        body(&Net::new(test), silent);
    }
}

/// Adds arguments of `unshare` that run `program` with the file `resolv.conf` of the place as the
/// system's.
pub(crate) fn cover(place: &Place, unshare: &mut Command, program: &str) {
    let config = place.path("resolv.conf");
    let cover = format!("mount --bind {} /etc/resolv.conf", config.display());
    unshare.args(["--mount", "--", "sh", "-c"]);
    unshare.args([&format!("{cover} && exec \"$@\""), "sh", program]);
}

pub(crate) fn has_mounts() -> bool {
    let tried = Command::new("unshare")
        .args(["--mount", "--", "true"])
        .status();
    tried.is_ok_and(|status| status.success())
}

#[test]
fn a_client_starts_and_restarts_although_any_one_link_is_silent() {
    let test = "silent_link::a_client_starts_and_restarts_although_any_one_link_is_silent";
    with_either_silent(test, |net, silent| {
        let gateway = net.gateway(false);
        net.set_silent(silent);
        let invite = net.place.invite();
        let client = net.up(&["--gateway", &invite]);
        net.until_connected(
            &format!("{silent} silent, first start"),
            None,
            [&client, &gateway],
        );
        let reached = serde_json::json!([format!("{GATEWAY}:7443")]);
        let known = || net.client_state()["gateways"][0].clone();
        let is_known = || known()["reached"] == reached;
        until("it is known where the gateway was", is_known, || {
            client.log()
        });
        let given = serde_json::json!(["gw.example.org:7443"]);
        assert_eq!(known()["addresses"], given);
        client.kill();
        let client = net.up(&[]);
        net.until_connected(
            &format!("{silent} silent, restart"),
            None,
            [&client, &gateway],
        );
        client.kill();
    });
}

#[test]
fn a_gateway_that_restarts_is_found_although_any_one_link_is_silent() {
    let test = "silent_link::a_gateway_that_restarts_is_found_although_any_one_link_is_silent";
    with_either_silent(test, |net, silent| {
        let gateway = net.gateway(true);
        let client = net.up(&["--gateway", &net.place.invite()]);
        net.until_connected("both links well, first start", None, [&client, &gateway]);
        net.until_complete(&client);
        let expected = ["gw.example.org:7443", &format!("{GATEWAY}:7443")];
        let expected = serde_json::json!(expected);
        let had_both = || net.client_state()["gateways"][0]["addresses"] == expected;
        until("the invite had both", had_both, || client.log());
        let before = net.session();
        net.set_silent(silent);
        gateway.kill();
        let gateway = net.gateway(true);
        let what = format!("{silent} silent, gateway restarted");
        net.until_connected(&what, before, [&client, &gateway]);
        client.kill();
    });
}

#[test]
fn programs_reach_servers_by_name_although_any_one_link_is_silent() {
    let test = "silent_link::programs_reach_servers_by_name_although_any_one_link_is_silent";
    with_either_silent(test, |net, silent| {
        serve_there(&net.router, async |ready| {
            origin::start_at("0.0.0.0:80");
            ready.send(()).unwrap();
        });
        net.set_silent(silent);
        let client = net.up(&["--direct"]);
        let listens = || client.listen(&net.place).is_some();
        until("the port is open", listens, || client.log());
        let proxy = client.listen(&net.place).unwrap();
        for scheme in ["socks5h", "http"] {
            let begun = Instant::now();
            let output = Command::new("curl")
                .args(["--silent", "--fail", "--max-time", "60", "--noproxy", ""])
                .args(["--proxy", &format!("{scheme}://{proxy}")])
                .arg(format!("http://{scheme}.example.org/5"))
                .output()
                .unwrap();
            let took = begun.elapsed().as_secs_f64();
            assert_eq!(output.stdout, origin::page(5), "{}", client.log());
            println!("{silent} silent, a new name by {scheme}: {took:.2} s");
        }
        client.kill();
    });
}

pub(crate) const HAWSER: &str = env!("CARGO_BIN_EXE_hawser");
/// Addresses as on the internet, behind either link.
pub(crate) const GATEWAY: &str = "11.22.33.44";
pub(crate) const SERVER: &str = "11.22.33.53";
