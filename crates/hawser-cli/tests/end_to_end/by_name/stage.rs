//! Alice with two links, Bob with two links, and a directory between them.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use hawser_sip::digest::Algorithm;
use hawser_skip::namespace::{Neighbour, ip};
use serde_json::Value;
use tokio::net::TcpListener;

use crate::connections::{serve_there, two_links};
use crate::directory::write_private;
use crate::program::{Daemon, Place, until};
use crate::registration::kamailio::Kamailio;
use crate::silent_link::HAWSER;

/// Alice is in the test's own network, Bob in one of his own, and a router with the directory
/// connects them.
pub(crate) struct Stage {
    pub(crate) place: Place,
    router: Neighbour,
    bob: Neighbour,
    /// Further machines between them.
    _between: Vec<Neighbour>,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let (router, bob) = (two_links(), Neighbour::start());
        lead_bob_to(&router, &bob);
        forward(&router);
        Self::furnish(router, bob, Vec::new())
    }

    /// Creates the stage with a translator in front of each host, which admits only answers and
    /// uses other ports: one port per socket, or, if `fickle`, one per destination. `None` if that
    /// is impossible here.
    pub(super) fn behind_nat(is_fickle: [bool; 2]) -> Option<Self> {
        let (at_alice, at_bob) = (two_links(), Neighbour::start());
        let (router, bob) = (Neighbour::start(), Neighbour::start());
        at_alice.ip("address delete 10.99.0.1/32 dev lo");
        at_bob.ip("link set lo up");
        router.ip("link set lo up");
        router.ip("address add 10.99.0.1/32 dev lo");
        lead_bob_to(&at_bob, &bob);
        let place = Place::new();
        let translators = [
            (&at_alice, ["dsl", "lte"], 11),
            (&at_bob, ["cable", "radio"], 13),
        ];
        for ((translator, links, net), is_fickle) in translators.into_iter().zip(is_fickle) {
            for (link, net) in links.into_iter().zip(net..) {
                lead_out(translator, &router, link, net);
            }
            let rules = place.path("translator");
            std::fs::write(&rules, translation(is_fickle)).unwrap();
            let mut nft = translator.command("nft");
            nft.arg("-f").arg(rules);
            if !nft.status().is_ok_and(|status| status.success()) {
                return None;
            }
            forward(translator);
        }
        forward(&router);
        Some(Self::furnish(router, bob, vec![at_alice, at_bob]))
    }

    fn furnish(router: Neighbour, bob: Neighbour, between: Vec<Neighbour>) -> Self {
        let place = Place::new();
        for port in [7000, 7001] {
            serve_there(&bob, async move |ready| {
                let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
                ready.send(()).unwrap();
                while let Ok((mut stream, _)) = listener.accept().await {
                    tokio::spawn(async move {
                        let (mut from, mut to) = stream.split();
                        tokio::io::copy(&mut from, &mut to).await.map(drop)
                    });
                }
            });
        }
        write_private(&place.path("users"), "alice:a\nbob:b\n");
        write_private(&place.path("alice-password"), "a\n");
        write_private(&place.path("bob-password"), "b\n");
        Self {
            place,
            router,
            bob,
            _between: between,
        }
    }

    pub(super) fn key(&self, state: &str) -> String {
        let ended = self.place.run(state, &["peers", "key"]);
        ended.out.trim().to_owned()
    }

    /// Makes one host know the other, by a key or by `--trust-first`.
    pub(super) fn know(&self, state: &str, name: &str, key: &str) {
        let added = self.place.run(state, &["peers", "add", name, key]);
        assert_eq!(added.code, 0, "{added:?}");
    }

    pub(crate) fn know_each_other(&self) {
        self.know("alice", "bob@example.org", &self.key("bob"));
        self.know("bob", "alice@example.org", &self.key("alice"));
    }

    pub(crate) fn serve(&self) -> Daemon {
        self.serve_with(&[])
    }

    /// Starts a gateway with a directory, with these arguments.
    pub(super) fn serve_with(&self, arguments: &[&str]) -> Daemon {
        let mut serve = self.router.command(HAWSER);
        serve.arg("--state").arg(self.place.path("directory"));
        // Its users are called at all of their links, whichever they have registered by.
        let config = "[directory]\nallow-contact = [\"10.0.0.0/8\"]\n";
        std::fs::write(self.place.path("directory.toml"), config).unwrap();
        serve.arg("--config").arg(self.place.path("directory.toml"));
        serve.args(["serve", "--listen", "10.99.0.1:7443"]);
        serve.args(["--directory", "example.org"]);
        serve.args(["--directory-listen", "10.99.0.1:5060"]);
        serve.arg("--directory-users").arg(self.place.path("users"));
        serve.arg("--invite-file").arg(self.place.path("invite"));
        serve.args(arguments);
        let directory = self.place.launch_command("directory", serve);
        let is_ready = || {
            let status = self.place.status("directory");
            status.is_some_and(|it| !it["directory"].is_null())
        };
        until("the directory is ready", is_ready, || directory.log());
        directory
    }

    /// Starts Kamailio instead of the directory, if it is installed.
    pub(super) fn kamailio(&self) -> Option<Kamailio> {
        let at = "10.99.0.1:5060".parse().unwrap();
        Kamailio::start(Algorithm::Sha256, at, |program| {
            self.router.command(program)
        })
    }

    pub(crate) fn up_alice(&self, arguments: &[&str]) -> Daemon {
        let mut up = self.place.hawser("alice", &[]);
        self.up(&mut up, "alice", arguments);
        self.launch("alice", up)
    }

    pub(crate) fn up_bob(&self, arguments: &[&str]) -> Daemon {
        let mut up = self.bob.command(HAWSER);
        up.arg("--state").arg(self.place.path("bob"));
        self.up(&mut up, "bob", arguments);
        self.launch("bob", up)
    }

    /// Returns an invite to the gateway, for one of them.
    pub(super) fn invite(&self) -> String {
        let made = self.place.run("directory", &["invite"]);
        assert_eq!(made.code, 0, "{made:?}");
        made.out.trim().to_owned()
    }

    /// Returns a counter of the gateway.
    pub(super) fn counted(&self, name: &str) -> u64 {
        let status = self.place.status("directory").unwrap();
        status["counters"][name].as_u64().unwrap()
    }

    fn up(&self, up: &mut Command, name: &str, arguments: &[&str]) {
        up.args(["--log", "debug"]);
        up.args(["up", "--listen", "127.0.0.1:0"]);
        up.args(["--name", &format!("{name}@example.org")]);
        up.args(["--directory", "sip:10.99.0.1"]);
        let password = self.place.path(&format!("{name}-password"));
        up.arg("--directory-password-file").arg(password);
        up.args(arguments);
        if !arguments.contains(&"--gateway") {
            up.arg("--direct");
        }
    }

    fn launch(&self, state: &str, up: Command) -> Daemon {
        let daemon = self.place.launch_command(state, up);
        let listens = || daemon.listen(&self.place).is_some();
        until("the daemon listens", listens, || daemon.log());
        daemon
    }

    pub(crate) fn until_registered(&self, alice: &Daemon, bob: &Daemon) {
        let is_known = |state: &str| {
            let status = self.place.status(state).unwrap_or_default();
            status["registration"]["is_registered"] == true
        };
        let both = || is_known("alice") && is_known("bob");
        until("both are registered", both, || alice.log() + &bob.log());
    }

    /// Opens a connection through Alice's proxy, by SOCKS5; or returns the code of the refusal.
    pub(crate) fn connect(&self, alice: &Daemon, host: &str, port: u16) -> Result<TcpStream, u8> {
        let mut stream = TcpStream::connect(alice.listen(&self.place).unwrap()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(&[5, 1, 0]).unwrap();
        stream.read_exact(&mut [0; 2]).unwrap();
        let mut request = vec![5, 1, 0, 3, host.len() as u8];
        request.extend(host.bytes());
        request.extend(port.to_be_bytes());
        stream.write_all(&request).unwrap();
        let mut reply = [0; 10];
        stream.read_exact(&mut reply).unwrap();
        match reply[1] {
            0 => Ok(stream),
            code => Err(code),
        }
    }

    /// Returns the number of links with channels in a session of a daemon.
    pub(super) fn links_of_session(&self, state: &str) -> usize {
        let sessions = self.sessions(state);
        let paths = sessions.first().map(|it| it["paths"].clone());
        let paths = paths.and_then(|paths| paths.as_array().cloned());
        let has_channels = |path: &&Value| {
            let channels = path["channels"].as_array();
            channels.is_some_and(|channels| !channels.is_empty())
        };
        paths
            .unwrap_or_default()
            .iter()
            .filter(has_channels)
            .count()
    }

    /// Returns the number of sessions that other hosts have opened with a daemon.
    pub(super) fn sessions_begun(&self, state: &str) -> u64 {
        let status = self.place.status(state).unwrap();
        status["counters"]["door-sessions"].as_u64().unwrap()
    }

    /// Replaces Alice's addresses by others, which end in this number.
    pub(super) fn move_alice(&self, last: u8) {
        for (net, name) in [(1, "dsl"), (2, "lte")] {
            ip(&format!("address flush dev {name}"));
            ip(&format!("address add 10.{net}.0.{last}/24 dev {name}"));
            ip(&format!(
                "route add default via 10.{net}.0.1 dev {name} metric {net}00"
            ));
        }
    }

    pub(super) fn move_bob(&self, last: u8) {
        for (net, name) in [(3, "cable"), (4, "radio")] {
            self.bob.ip(&format!("address flush dev {name}"));
            let address = format!("address add 10.{net}.0.{last}/24 dev {name}");
            self.bob.ip(&address);
            let route = format!("route add default via 10.{net}.0.1 dev {name} metric {net}00");
            self.bob.ip(&route);
        }
    }

    /// Blocks UDP between the two, or admits it again. The router's own ports stay reachable.
    pub(super) fn drop_udp(&self, is_dropped: bool) {
        let verdict = if is_dropped { "drop" } else { "accept" };
        let rules = format!(
            "table ip u\ndelete table ip u\ntable ip u {{\nchain f {{\n\
             type filter hook forward priority 0\nmeta l4proto udp {verdict}\n}}\n}}\n"
        );
        std::fs::write(self.place.path("udp"), rules).unwrap();
        let mut nft = self.router.command("nft");
        nft.arg("-f").arg(self.place.path("udp"));
        assert!(nft.status().unwrap().success());
    }

    /// Returns the sessions of a daemon, as it shows them.
    pub(super) fn sessions(&self, state: &str) -> Vec<Value> {
        let status = self.place.status(state).unwrap_or_default();
        status["sessions"].as_array().cloned().unwrap_or_default()
    }

    /// Puts a firewall in front of one host, which admits only answers. Returns whether that is
    /// possible.
    pub(super) fn refuses_all(&self, state: &str) -> bool {
        assert_eq!(state, "bob");
        let rules = "table inet f {\nchain i {\ntype filter hook input priority 0\n\
                     iifname lo accept\nct state established,related accept\n\
                     udp sport 5060 accept\ndrop\n}\n}\n";
        std::fs::write(self.place.path("rules"), rules).unwrap();
        let mut nft = self.bob.command("nft");
        nft.arg("-f").arg(self.place.path("rules"));
        nft.status().is_ok_and(|status| status.success())
    }
}

/// Gives Bob two links to a router.
fn lead_bob_to(router: &Neighbour, bob: &Neighbour) {
    bob.ip("link set lo up");
    for (net, name) in [(3, "cable"), (4, "radio")] {
        ip(&format!("link add {name} type veth peer name far"));
        router.take("far");
        router.ip(&format!("link set far name {name} up"));
        router.ip(&format!("address add 10.{net}.0.1/24 dev {name}"));
        bob.take(name);
        bob.ip(&format!("link set {name} up"));
        bob.ip(&format!("address add 10.{net}.0.2/24 dev {name}"));
        let route = format!("route add default via 10.{net}.0.1 dev {name} metric {net}00");
        bob.ip(&route);
    }
}

/// Gives each link of a translator its own line to the router.
fn lead_out(translator: &Neighbour, router: &Neighbour, link: &str, net: u8) {
    ip(&format!("link add wan{net} type veth peer name far"));
    translator.take(&format!("wan{net}"));
    router.take("far");
    router.ip(&format!("link set far name line{net} up"));
    router.ip(&format!("address add {net}.0.0.1/24 dev line{net}"));
    translator.ip(&format!("link set wan{net} up"));
    translator.ip(&format!("address add {net}.0.0.2/24 dev wan{net}"));
    translator.ip(&format!("rule add iif {link} table {net}"));
    translator.ip(&format!("route add default via {net}.0.0.1 table {net}"));
}

fn forward(router: &Neighbour) {
    let script = "cd /proc/sys/net/ipv4; echo 1 > ip_forward; \
                  for it in conf/*/rp_filter; do echo 0 > $it; done";
    let mut forward = router.command("sh");
    assert!(forward.args(["-c", script]).status().unwrap().success());
}

/// Returns the rules of a translator. Without `fully-random` Linux uses the same port for all of a
/// socket's destinations.
fn translation(is_fickle: bool) -> String {
    let random = if is_fickle { " fully-random" } else { "" };
    format!(
        "table ip t {{\n\
         chain out {{\ntype nat hook postrouting priority 100\n\
         oifname \"wan*\" meta l4proto {{ tcp, udp }} masquerade to :20000-49999{random}\n}}\n\
         chain own {{\ntype filter hook input priority 0\n\
         iifname \"wan*\" ct state new drop\n}}\n\
         chain through {{\ntype filter hook forward priority 0\n\
         iifname \"wan*\" ct state new drop\n}}\n}}\n"
    )
}

/// Sends this many bytes and reads them back.
pub(crate) fn echo(stream: &mut TcpStream, length: usize) {
    let sent: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
    let mut writing = stream.try_clone().unwrap();
    let copy = sent.clone();
    let writer = std::thread::spawn(move || writing.write_all(&copy));
    let mut came = vec![0; length];
    stream.read_exact(&mut came).unwrap();
    writer.join().unwrap().unwrap();
    assert!(came == sent);
}

const PATIENCE: Duration = Duration::from_secs(60);
