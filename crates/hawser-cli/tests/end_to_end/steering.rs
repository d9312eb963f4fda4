//! `hawser policy`, `hawser link` and `hawser rule add --now`: control of a daemon while
//! connections are open.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use hawser_skip::namespace::{Neighbour, in_namespace};
use serde_json::Value;

use super::choice::configured_gateway;
use super::connections::{connect_many, run, serve_echo, two_links};
use super::origin::page;
use super::program::{Daemon, Ended, Place, until};

#[test]
fn schedulers_and_links_change_under_a_transfer_that_loses_no_byte() {
    let name = "steering::schedulers_and_links_change_under_a_transfer_that_loses_no_byte";
    in_namespace(name, || {
        let scene = Scene::new();
        let up = scene.up();
        let transfer = Transfer::begin(&up, &scene);
        for scheduler in ["round-robin", "redundant", "ecf", "backlog", "least-rtt"] {
            scene.set(&["policy", "set", "--scheduler", scheduler]);
            assert_eq!(scene.session()["scheduler"], scheduler);
            assert_eq!(scene.policy()["sessions"], scheduler);
            let far_end = || scene.far_session()["scheduler"] == scheduler;
            until("the gateway does so too", far_end, || up.log());
            transfer.until_it_has_moved(&up);
            if scheduler == "redundant" {
                let twice = || scene.session()["counters"]["bytes-duplicated"].as_u64();
                let before = twice();
                until("chunks go twice", || twice() > before, || up.log());
            }
        }
        assert_eq!(scene.session()["peer_follows_scheduler"], true);
        for (gone, left) in [("dsl", "lte"), ("lte", "dsl")] {
            scene.set(&["link", gone, "--use", "never"]);
            let is_empty = || scene.paths() == [left];
            until("the link is empty", is_empty, || up.log());
            transfer.until_it_has_moved(&up);
            assert_eq!(scene.paths(), [left]);
            scene.set(&["link", gone, "--use", "normal"]);
            let is_back = || scene.paths().len() == 2;
            until("the link is back", is_back, || up.log());
        }
        scene.set(&["link", "lte", "--weight", "5", "--price", "2EUR/GB"]);
        scene.set(&["link", "lte", "--allowance", "900GB", "--up", "backup"]);
        transfer.until_it_has_moved(&up);
        transfer.end();
        let status = scene.place.status("client").unwrap();
        let mut links = status["links"].as_array().unwrap().iter();
        let lte = links.find(|link| link["name"] == "lte").unwrap();
        assert_eq!(lte["allowed"]["up"], "backup", "{lte}");
        assert_eq!(lte["allowed"]["down"], "normal", "{lte}");
        assert_eq!(lte["allowed"]["allowance_bytes"], 900_000_000_000_u64);
        up.end();
    });
}

#[test]
fn a_gateway_that_keeps_to_its_scheduler_is_named() {
    in_namespace(
        "steering::a_gateway_that_keeps_to_its_scheduler_is_named",
        || {
            let (place, neighbour) = (Place::new(), two_links());
            std::fs::write(
                place.path("gateway.toml"),
                "[serve]\nclient-schedulers = false\n",
            )
            .unwrap();
            let scene = Scene::with(place, neighbour, Some("gateway.toml"));
            let up = scene.up();
            let ended = said(&scene.place, &["policy", "set", "--scheduler", "redundant"]);
            assert!(
                ended.err.contains("does not follow this change"),
                "{ended:?}"
            );
            assert_eq!(scene.session()["scheduler"], "redundant");
            assert_eq!(scene.session()["peer_follows_scheduler"], false);
            assert_eq!(scene.far_session()["scheduler"], "auto");
            up.end();
        },
    );
}

#[test]
fn the_next_connections_go_by_the_policy_and_the_links_that_a_daemon_is_told() {
    let name =
        "steering::the_next_connections_go_by_the_policy_and_the_links_that_a_daemon_is_told";
    told(name, |stage| {
        stage.say("policy set --connection-scheduler only-one");
        let one = stage.next(3);
        assert!(
            one.iter().all(|it| it["scheduler"] == "only-one"),
            "{one:?}"
        );
        assert!(one.iter().all(|it| it["link"] == one[0]["link"]), "{one:?}");
        stage.say("policy set --connection-scheduler round-robin");
        let turns = stage.next(4);
        assert!(turns.iter().all(|it| it["scheduler"] == "round-robin"));
        let of = |link: &str| turns.iter().filter(|it| it["link"] == link).count();
        assert_eq!((of("dsl"), of("lte")), (2, 2), "{turns:?}");
        stage.say("link dsl --use never");
        let is_left = || stage.next(2).iter().all(|it| it["link"] == "lte");
        until("dsl is left alone", is_left, || stage.up.log());
        let shown = stage.say("policy");
        assert!(shown.contains("connections  round-robin, or: "), "{shown}");
        let link = stage.say("link dsl");
        assert!(link.contains("never") && !link.contains("lte"), "{link}");
        let unknown = stage.place.run("client", &["link", "sat"]);
        assert!(unknown.err.contains("no link is called sat; there are"));
    });
}

#[test]
fn a_rule_that_a_daemon_is_told_comes_first_beside_a_profile() {
    let name = "steering::a_rule_that_a_daemon_is_told_comes_first_beside_a_profile";
    told(name, |stage| {
        let own = &stage.own;
        stage.say("policy set --profile calls");
        stage.say(&format!("rule add --now --program {own} --only lte"));
        for one in stage.next(3) {
            assert_eq!(one["link"], "lte", "{one}");
            assert_eq!(one["rules"][0]["source"], "session", "{one}");
        }
        let list = stage.say("rule list");
        let first = format!("1 session: program {own}: only lte");
        assert!(list.contains(&first), "{list}");
        let tested = stage.say(&format!(
            "rule test --json --program {own} --to 10.99.0.1:80"
        ));
        let tested: Value = serde_json::from_str(&tested).unwrap();
        assert_eq!(tested["verdict"]["links"]["value"], "only lte");
        assert_eq!(tested["verdict"]["links"]["rule"], 1);
        // The profile holds with it.
        let tested = stage.say("rule test --program restic --to 10.99.0.1:80");
        assert!(tested.contains("avoid   calls"), "{tested}");
        assert!(tested.contains(" profile"), "{tested}");
        let shown = stage.say("policy");
        assert!(
            shown.contains("profile      calls, or: speed saver"),
            "{shown}"
        );
        assert!(shown.contains("only lte"), "{shown}");

        // One that is written down comes behind, and numbers are those of the list.
        stage.say(&format!("rule add --program {own} --only dsl"));
        let list = stage.say("rule list");
        assert!(list.contains("2 user: "), "{list}");
        assert_eq!(stage.next(1)[0]["link"], "lte");
        let removed = stage.say("rule remove 1");
        assert!(
            removed.contains("removed from the running daemon: "),
            "{removed}"
        );
        let is_followed = || stage.next(1)[0]["link"] == "dsl";
        until("the written rule is read", is_followed, || stage.up.log());
        stage.say("rule remove 1");
        let list = stage.say("rule list");
        assert!(list.contains("no rule of your own"), "{list}");
    });
}

#[test]
fn what_is_saved_is_there_after_a_restart_and_every_remark_too() {
    let place = Place::new();
    let path = place.path("hawser.toml");
    let example = include_str!("../../../../docs/hawser.example.toml");
    std::fs::write(&path, example).unwrap();
    let config = path.to_str().unwrap();
    let up = place.up("client", &["--config", config]);
    let save = |line: &str, times: usize| {
        let words: Vec<&str> = line.split(' ').chain(["--save"]).collect();
        let out = format!("saved to {config}\n").repeat(times);
        assert_eq!(said(&place, &words).out, out);
    };
    save("policy set --scheduler ecf --transport sctp", 2);
    save(
        "policy set --connection-scheduler only-one --profile saver",
        2,
    );
    save("link lo --use prefer --price 1EUR/GB --allowance 5GB", 1);
    let policy = || said(&place, &["policy", "--json"]).out;
    let before = policy();
    up.end();
    let written = std::fs::read_to_string(&path).unwrap();
    for line in example.lines() {
        let is_changed = [
            "scheduler = \"auto\"",
            "profile = \"speed\"",
            "transport = \"auto\"",
        ]
        .contains(&line);
        assert!(
            is_changed || written.contains(line),
            "{line} is gone:\n{written}"
        );
    }
    assert_eq!(written.lines().count(), example.lines().count() + 6);
    let up = place.up("client", &["--config", config]);
    assert_eq!(policy(), before);
    let parsed: Value = serde_json::from_str(&before).unwrap();
    assert_eq!(parsed["sessions"], "ecf");
    assert_eq!(parsed["transport"], "sctp");
    assert_eq!(parsed["connections"], "only-one");
    assert_eq!(parsed["profile"], "saver");
    assert_eq!(parsed["file"], config);
    up.end();
}

/// Runs a command that has to succeed, for the client.
fn said(place: &Place, arguments: &[&str]) -> Ended {
    let ended = place.run("client", arguments);
    assert_eq!(ended.code, 0, "{arguments:?}: {ended:?}");
    ended
}

/// A client with two links and no gateway, and a server behind them.
pub(crate) struct Stage {
    pub(crate) place: Place,
    pub(crate) up: Daemon,
    /// The program that connects.
    own: String,
    _neighbour: Neighbour,
}

/// Runs `body` if links can be created.
pub(crate) fn told(name: &str, body: impl FnOnce(&Stage)) {
    in_namespace(name, || {
        let (place, neighbour) = (Place::new(), two_links());
        serve_echo(&neighbour);
        let up = place.start("client", &["up", "--listen", "127.0.0.1:0"]);
        let own = std::fs::read_to_string("/proc/self/comm").unwrap();
        let stage = Stage {
            place,
            up,
            own: own.trim_end().to_owned(),
            _neighbour: neighbour,
        };
        body(&stage);
        stage.up.end();
    });
}

impl Stage {
    /// Returns the output of a command, whose words are separated by blanks.
    pub(crate) fn say(&self, line: &str) -> String {
        let words: Vec<&str> = line.split(' ').collect();
        said(&self.place, &words).out
    }

    /// Returns the next connections, as in `hawser why`.
    pub(crate) fn next(&self, count: usize) -> Vec<Value> {
        let proxy = self.up.listen(&self.place).unwrap().parse().unwrap();
        let open = run(connect_many(proxy, count, Duration::from_millis(10)));
        assert_eq!(open.len(), count, "{}", self.up.log());
        let why = self.say(&format!("why --json --connections {count}"));
        let report: Value = serde_json::from_str(&why).unwrap();
        let placed = &report["placed"]["connections"];
        placed.as_array().unwrap().clone()
    }
}

/// A client with two links, a gateway behind them, and a server beside it that echoes.
pub(crate) struct Scene {
    pub(crate) place: Place,
    _neighbour: Neighbour,
    _gateway: Daemon,
}

impl Scene {
    pub(crate) fn new() -> Self {
        Self::with(Place::new(), two_links(), None)
    }

    fn with(place: Place, neighbour: Neighbour, config: Option<&str>) -> Self {
        serve_echo(&neighbour);
        let gateway = configured_gateway(&place, &neighbour, config);
        Self {
            place,
            _neighbour: neighbour,
            _gateway: gateway,
        }
    }

    /// Uses TCP channels, because a session does not count the association's repetitions.
    pub(crate) fn up(&self) -> Daemon {
        let arguments = [
            "up",
            "--listen",
            "127.0.0.1:0",
            "--transport",
            "tcp",
            "--gateway",
        ];
        let invite = self.place.invite();
        let up = self
            .place
            .start("client", &[&arguments[..], &[&invite]].concat());
        let is_there = || self.paths().len() == 2;
        until("both links are in a session", is_there, || up.log());
        up
    }

    pub(crate) fn set(&self, arguments: &[&str]) {
        assert_eq!(said(&self.place, arguments).out, "");
    }

    fn policy(&self) -> Value {
        serde_json::from_str(&said(&self.place, &["policy", "--json"]).out).unwrap()
    }

    pub(crate) fn session(&self) -> Value {
        self.place.status("client").unwrap()["sessions"][0].clone()
    }

    /// Returns the same session from the gateway's status.
    pub(crate) fn far_session(&self) -> Value {
        self.place.status("gateway").unwrap()["sessions"][0].clone()
    }

    /// The links that have channels.
    fn paths(&self) -> Vec<String> {
        let session = self.session();
        let paths = session["paths"].as_array().cloned().unwrap_or_default();
        let has_channels = |path: &&Value| {
            path["channels"]
                .as_array()
                .is_some_and(|channels| !channels.is_empty())
        };
        let with = paths.iter().filter(has_channels);
        with.map(|path| path["link"].as_str().unwrap().to_owned())
            .collect()
    }
}

/// A known pattern that is sent through the proxy to the server and back, at some 30 MB/s.
pub(crate) struct Transfer {
    is_over: Arc<AtomicBool>,
    received: Arc<AtomicU64>,
    writing: JoinHandle<u64>,
    reading: JoinHandle<()>,
}

impl Transfer {
    pub(crate) fn begin(up: &Daemon, scene: &Scene) -> Self {
        let mut stream = TcpStream::connect(up.listen(&scene.place).unwrap()).unwrap();
        // SOCKS5 to 10.99.0.1:7000.
        stream.write_all(&[5, 1, 0]).unwrap();
        stream.read_exact(&mut [0; 2]).unwrap();
        let [high, low] = 7000_u16.to_be_bytes();
        stream
            .write_all(&[5, 1, 0, 1, 10, 99, 0, 1, high, low])
            .unwrap();
        let mut reply = [0; 10];
        stream.read_exact(&mut reply).unwrap();
        assert_eq!(reply[1], 0, "{}", up.log());
        let (is_over, received) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let (over, count) = (Arc::clone(&is_over), Arc::clone(&received));
        let to = stream.try_clone().unwrap();
        Self {
            writing: std::thread::spawn(move || write(to, &over)),
            reading: std::thread::spawn(move || read(stream, &count)),
            is_over,
            received,
        }
    }

    /// Waits until two more megabytes have arrived.
    pub(crate) fn until_it_has_moved(&self, up: &Daemon) {
        let received = || self.received.load(Ordering::Relaxed);
        let enough = received() + 2_000_000;
        until("it goes on", || received() >= enough, || up.log());
    }

    /// Checks that everything sent has come back.
    pub(crate) fn end(self) {
        self.is_over.store(true, Ordering::Relaxed);
        let sent = self.writing.join().unwrap();
        self.reading.join().unwrap();
        assert_eq!(self.received.load(Ordering::Relaxed), sent);
    }
}

/// Writes the pattern until it is over; returns the number of bytes.
fn write(mut stream: TcpStream, is_over: &AtomicBool) -> u64 {
    let pattern = page(PIECE);
    let mut sent = 0;
    while !is_over.load(Ordering::Relaxed) {
        stream.write_all(&pattern).unwrap();
        sent += pattern.len() as u64;
        // No need to keep the processor busy.
        std::thread::sleep(Duration::from_millis(2));
    }
    stream.shutdown(Shutdown::Write).unwrap();
    sent
}

/// Reads to the end, and checks every byte.
fn read(mut stream: TcpStream, count: &AtomicU64) {
    let (pattern, mut piece) = (page(PIECE), vec![0; PIECE]);
    let mut at = 0;
    loop {
        let read = stream.read(&mut piece).unwrap();
        if read == 0 {
            return;
        }
        for byte in &piece[..read] {
            assert_eq!(*byte, pattern[at % PIECE], "at {at}");
            at += 1;
        }
        count.store(at as u64, Ordering::Relaxed);
    }
}

const PIECE: usize = 65_536;
