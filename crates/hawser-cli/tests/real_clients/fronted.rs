//! Services of a machine that its clients have never met, over two links.

mod attacks;
mod bonds;
mod handshakes;
mod strangers;
mod vouched;

use std::process::Command;

use serde_json::Value;

use super::clients::{Done, is_without, noise, run};
use super::network::{SERVER, TwoLinks};
use super::nginx::Nginx;
use super::program::{Daemon, Place, until};

/// A web server with Hawser in front of it, and a client with two links.
struct Stage {
    place: Place,
    network: TwoLinks,
    nginx: Nginx,
}

#[test]
fn a_server_that_was_never_met_is_reached_over_both_links_and_sees_who_comes() {
    let test = "a_server_that_was_never_met_is_reached_over_both_links_and_sees_who_comes";
    let Some(stage) = Stage::new(test) else {
        return;
    };
    let (server, up) = (stage.serve(), stage.up(&[]));
    let content = noise(1, FILE);
    stage.nginx.put("file", &content);
    stage.until_bonded(&up, PLAIN);

    stage.until_over_both_links(&up, || {
        assert!(stage.download(&up, PLAIN, "file").out() == content);
    });
    // Not with an address of the server's own, neither as the source nor in the PROXY protocol.
    stage.nginx.put("as-source", b"x");
    assert_eq!(stage.download(&up, PLAIN, "as-source").out(), b"x");
    let line = stage.nginx.logged(&["GET /as-source "]);
    assert!(
        line.contains(" 10.7.1.2 ") || line.contains(" 10.7.2.2 "),
        "{line}"
    );
    stage.until_bonded(&up, PROXIED);
    stage.nginx.put("by-protocol", b"x");
    assert_eq!(stage.download(&up, PROXIED, "by-protocol").out(), b"x");
    let line = stage.nginx.logged(&["GET /by-protocol "]);
    assert!(
        line.ends_with(" 10.7.1.2") || line.ends_with(" 10.7.2.2"),
        "{line}"
    );
    up.end();
    server.end();
    let rules = stage.network.server.command("ip").arg("rule").output();
    let rules = String::from_utf8(rules.unwrap().stdout).unwrap();
    assert!(!rules.contains("sport"), "{rules}");
}

#[test]
fn a_stranger_reaches_no_other_port() {
    let test = "a_stranger_reaches_no_other_port";
    let Some(stage) = Stage::new(test) else {
        return;
    };
    stage.always_send_cookies();
    let (server, up) = (stage.serve(), stage.up(&[]));
    stage.nginx.put("file", b"x");
    stage.until_bonded(&up, PLAIN);
    let before = stage.front("connected");
    // A session is begun for this port, too, since whether it leads there shows when it is asked.
    let is_refused = || {
        assert_eq!(
            stage.download(&up, OTHER, "file").out(),
            b"x",
            "{}",
            up.log()
        );
        stage.front("refused-refused-by-policy") > 0
    };
    until("a stream is refused", is_refused, || server.log());
    assert_eq!(stage.front("connected"), before, "{}", server.log());
    let amiss = stage.not_bonded();
    assert_eq!(amiss["server"], format!("{SERVER}:{OTHER}"), "{amiss}");
    up.end();
    server.end();
}

#[test]
fn a_server_with_another_key_is_not_bonded_with_and_refused_only_where_that_is_wanted() {
    let test = "a_server_with_another_key_is_not_bonded_with_and_refused_only_where_that_is_wanted";
    let Some(stage) = Stage::new(test) else {
        return;
    };
    let (server, up) = (stage.serve(), stage.up(&[]));
    stage.nginx.put("file", b"x");
    stage.until_bonded(&up, PLAIN);
    up.end();
    server.end();
    std::fs::remove_file(stage.place.path("server/key")).unwrap();
    let (server, up) = (stage.serve(), stage.up(&[]));
    let is_told = || {
        assert_eq!(
            stage.download(&up, PLAIN, "file").out(),
            b"x",
            "{}",
            up.log()
        );
        // By its handshake or by what it proves, whichever is known first.
        let reason = stage.not_bonded()["reason"].to_string();
        reason.contains("names another key") || reason.contains("is pinned")
    };
    until("another key is noticed", is_told, || up.log());
    assert_eq!(stage.front("connected"), 0, "{}", server.log());
    let told = format!("not bonded with {SERVER}:{PLAIN}");
    let events = || stage.place.run("client", &["events"]).out;
    until("there is an event", || events().contains(&told), events);
    up.end();

    let up = stage.up(&["--require-bonded"]);
    let refused = stage.download(&up, PLAIN, "file");
    assert!(!refused.status.success(), "{}", up.log());
    up.end();
    server.end();
}

#[test]
fn a_port_that_is_not_fronted_goes_as_ever_where_sessions_are_required() {
    let test = "a_port_that_is_not_fronted_goes_as_ever_where_sessions_are_required";
    let Some(stage) = Stage::new(test) else {
        return;
    };
    stage.always_send_cookies();
    let (server, up) = (stage.serve(), stage.up(&["--require-bonded"]));
    stage.nginx.put("file", b"x");
    let fetch = |port| {
        let done = stage.download(&up, port, "file");
        assert_eq!(done.out(), b"x", "{}", up.log());
    };
    // So the server is known.
    stage.until_bonded(&up, PLAIN);
    let is_refused = || {
        fetch(OTHER);
        stage.front("refused-refused-by-policy") > 0
    };
    until("a stream is refused", is_refused, || server.log());
    // So is that it does not front this port.
    fetch(OTHER);
    fetch(OTHER);
    fetch(PLAIN);
    fetch(OTHER);
    up.end();
    server.end();

    // That lasts: without the door, one port has no way and the other one is as ever.
    let up = stage.up(&["--require-bonded"]);
    assert!(!stage.download(&up, PLAIN, "file").status.success());
    for _ in 0..2 {
        let done = stage.download(&up, OTHER, "file");
        assert_eq!(done.out(), b"x", "{}", up.log());
    }
    up.end();
}

impl Stage {
    /// `None`, with a report, if something is missing here.
    fn new(test: &str) -> Option<Self> {
        Self::with(test, |_| String::new())
    }

    /// The same with directives more of the web server.
    fn with(test: &str, more: impl FnOnce(&Place) -> String) -> Option<Self> {
        if is_without(&["nginx", "ip", "nsenter", "tc", "curl"], test) {
            return None;
        }
        let place = Place::new();
        let network = TwoLinks::new(test)?;
        network.shape([40, 40]);
        let address = format!("0.0.0.0:{PLAIN}").parse().unwrap();
        let more = more(&place);
        let directives = format!(
            "listen {PROXIED}; listen {OTHER}; listen 127.0.0.1:{BEHIND} proxy_protocol; {more}"
        );
        let nginx = Nginx::start_with(&network.server, &place, address, &directives);
        Some(Self {
            place,
            network,
            nginx,
        })
    }

    /// Makes the server refuse bonds on services' ports, so that clients ask at the port for
    /// unknown clients and learn its key there, for all ports.
    fn always_send_cookies(&self) {
        let set = "echo 2 > /proc/sys/net/ipv4/tcp_syncookies";
        let mut sh = self.network.server.command("sh");
        assert!(sh.args(["-c", set]).status().unwrap().success());
    }

    fn serve(&self) -> Daemon {
        self.serve_with(&[])
    }

    fn serve_with(&self, arguments: &[&str]) -> Daemon {
        let hawser = self.network.server.command(env!("CARGO_BIN_EXE_hawser"));
        let front = format!("{PLAIN},{PROXIED}:proxy={BEHIND},{SPEAKS_FIRST}");
        let always = ["serve", "--front", &front];
        self.start("server", hawser, &[&always[..], arguments].concat())
    }

    fn up(&self, arguments: &[&str]) -> Daemon {
        let hawser = self.network.client.command(env!("CARGO_BIN_EXE_hawser"));
        let always = ["up", "--listen", "127.0.0.1:0", "--discover"];
        self.start("client", hawser, &[&always[..], arguments].concat())
    }

    fn start(&self, state: &str, mut hawser: Command, arguments: &[&str]) -> Daemon {
        hawser.arg("--state").arg(self.place.path(state));
        hawser.args(arguments);
        let daemon = self.place.launch_command(state, hawser);
        let listens = || daemon.listen(&self.place).is_some();
        until("the daemon listens", listens, || daemon.log());
        daemon
    }

    /// Downloads a file by the client's proxy port.
    fn download(&self, up: &Daemon, port: u16, file: &str) -> Done {
        self.download_from(up, (SERVER, port), file)
    }

    /// The same from another address.
    fn download_from(&self, up: &Daemon, (address, port): (&str, u16), file: &str) -> Done {
        let proxy = format!("socks5://{}", up.listen(&self.place).unwrap());
        let mut curl = self.network.client.command("curl");
        curl.args(["--silent", "--show-error", "--fail", "--proxy", &proxy]);
        curl.arg(format!("http://{address}:{port}/{file}"));
        run(&self.place, &mut curl)
    }

    /// Connects to a port until a connection is bonded, and the session has both links.
    fn until_bonded(&self, up: &Daemon, port: u16) {
        self.nginx.put("little", b"x");
        let before = self.front("connected");
        let is_bonded = || {
            assert_eq!(
                self.download(up, port, "little").out(),
                b"x",
                "{}",
                up.log()
            );
            self.front("connected") > before && self.paths() == [2].repeat(self.paths().len())
        };
        until("one is bonded", is_bonded, || up.log());
    }

    /// The paths of each session of the client that are up.
    fn paths(&self) -> Vec<usize> {
        let status = self.place.status("client").unwrap();
        let sessions = status["sessions"].as_array().unwrap().iter();
        let up = |session: &Value| {
            let paths = session["paths"].as_array().unwrap().iter();
            paths.filter(|path| path["state"] == "up").count()
        };
        sessions.map(up).collect()
    }

    /// Runs a download of [`FILE`] bytes until each link carries at least a quarter of it: on a
    /// busy machine a link may be left out for a while.
    fn until_over_both_links(&self, up: &Daemon, mut download: impl FnMut()) {
        let are_used = || {
            let shares = self.shares(&mut download);
            println!("{shares:?} bytes by each link");
            shares.iter().all(|share| *share > FILE as u64 / 4)
        };
        until("both links carry a good part", are_used, || up.log());
    }

    /// Bytes that each link carries during a download.
    fn shares(&self, download: impl FnOnce()) -> [u64; 2] {
        let before = self.network.received();
        download();
        let after = self.network.received();
        [0, 1].map(|link| after[link] - before[link])
    }

    /// Returns a counter of the server about unknown clients.
    fn front(&self, name: &str) -> u64 {
        let status = self.place.status("server").unwrap();
        status["counters"][format!("front-{name}")]
            .as_u64()
            .unwrap_or_default()
    }

    /// Returns the first server that the client does not bond with.
    fn not_bonded(&self) -> Value {
        let status = self.place.status("client").unwrap();
        status["connections"]["not_bonded"][0].clone()
    }
}

/// Ports of the web server: one with clients' real addresses, one that reports them, the one behind
/// that, and one that is not fronted.
const PLAIN: u16 = 8000;
const PROXIED: u16 = 8001;
const BEHIND: u16 = 8002;
const OTHER: u16 = 8003;
/// A port of another service than the web server's.
const SPEAKS_FIRST: u16 = 8004;
const FILE: usize = 8_000_000;
