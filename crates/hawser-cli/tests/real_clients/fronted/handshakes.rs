//! Contents of handshakes: of a client that looks for Hawser, and of servers with it and without.

use std::cell::Cell;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::super::clients::{Done, Family, is_without, noise, run};
use super::super::network::SERVER;
use super::super::program::{Daemon, kernel_captures, until};
use super::{FILE, OTHER, PLAIN, Stage};

#[test]
fn a_captured_connection_asks_in_its_handshake_alone_and_later_ones_go_over_both_links() {
    let test =
        "a_captured_connection_asks_in_its_handshake_alone_and_later_ones_go_over_both_links";
    let Some(stage) = captured(test) else {
        return;
    };
    let server = stage.serve();
    let content = noise(1, FILE);
    stage.nginx.put("file", &content);
    stage.nginx.put("little", b"x");
    let wire = Wire::tap(&stage);
    assert_eq!(stage.fetch(PLAIN, "little").out(), b"x");
    let without = wire.handshakes(PLAIN);
    let up = stage.up(CAPTURING);
    assert_eq!(stage.fetch(PLAIN, "little").out(), b"x");
    let with = wire.handshakes(PLAIN)[without.len()..].to_vec();
    // The same segments with the same options but one.
    assert_eq!((without.len(), with.len()), (2, 2), "SYN and SYN-ACK");
    for (without, with) in without.iter().zip(&with) {
        assert_eq!(without.is_answer, with.is_answer);
        assert_eq!(without.options, with.options, "besides the one");
        assert!(!without.has_ours && with.has_ours, "{with:?}");
    }
    stage.until_captured_is_bonded(&up);
    stage.until_over_both_links(&up, || {
        assert!(stage.fetch(PLAIN, "file").out() == content);
    });
    let found = &stage.connections()["discovered"][0];
    assert_eq!(found["server"], format!("{SERVER}:{PLAIN}"), "{found}");
    assert_eq!(
        (&found["by"], &found["is_bonded"]),
        (&"handshake".into(), &true.into())
    );
    let counters = stage.place.status("server").unwrap()["counters"].clone();
    assert!(
        counters["front-handshakes-answered"].as_u64() >= Some(1),
        "{counters}"
    );
    up.end();
    server.end();
}

#[test]
fn one_program_alone_has_it_too() {
    let test = "one_program_alone_has_it_too";
    let Some(stage) = captured(test) else {
        return;
    };
    let server = stage.serve();
    stage.nginx.put("little", b"x");
    let script = format!("while curl --silent --fail http://{SERVER}:{PLAIN}/little; do :; done");
    let mut hawser = stage.network.client.command(env!("CARGO_BIN_EXE_hawser"));
    hawser.arg("--state").arg(stage.place.path("client"));
    hawser.args([
        "run",
        "--via",
        "kernel",
        "--discover",
        "--",
        "sh",
        "-c",
        &script,
    ]);
    hawser.stdin(Stdio::null()).stdout(Stdio::null());
    let said = std::fs::File::create(stage.place.path("run.err")).unwrap();
    let _running = Family::start(hawser.stderr(said));
    let said = || super::super::program::read(&stage.place.path("run.err"));
    until("one is bonded", || stage.front("connected") > 0, said);
    let wire = Wire::tap(&stage);
    assert_eq!(stage.fetch(OTHER, "little").out(), b"x");
    let of_others = wire.handshakes(OTHER);
    let asks = of_others.iter().map(|it| it.has_ours);
    assert_eq!(asks.collect::<Vec<_>>(), [false, false], "{of_others:?}");
    server.end();
}

#[test]
fn a_server_without_hawser_gets_no_packet_more() {
    let test = "a_server_without_hawser_gets_no_packet_more";
    let Some(stage) = captured(test) else {
        return;
    };
    stage
        .network
        .server
        .ip(&format!("address add {LEGACY}/32 dev lo"));
    let (server, up) = (stage.serve(), stage.up(CAPTURING));
    stage.nginx.put("little", b"x");
    let wire = Wire::tap(&stage);
    let (url, proxied) = (format!("http://{LEGACY}:{OTHER}/little"), stage.proxy(&up));
    for arguments in [&[][..], &["--proxy", &proxied]] {
        assert_eq!(stage.curl(arguments, &url).out(), b"x", "{}", up.log());
    }
    // Probes wait in line, so that of another server comes after.
    stage.until_captured_is_bonded(&up);
    let all = wire.all();
    let to_legacy = |port: u16| {
        let to = format!("> {LEGACY}.{port}:");
        all.lines().filter(|line| line.contains(&to)).count()
    };
    assert_eq!(to_legacy(745), 0, "{all}");
    let syns = all.lines().filter(|line| {
        line.contains(&format!("> {LEGACY}.{OTHER}: Flags [S]")) && line.contains(OURS)
    });
    assert_eq!(syns.count(), 2, "each asked once: {all}");
    up.end();
    server.end();
}

#[test]
fn what_drops_the_option_costs_one_repetition_until_the_network_is_another() {
    let test = "what_drops_the_option_costs_one_repetition_until_the_network_is_another";
    let Some(stage) = captured(test) else {
        return;
    };
    let rules = "table inet middlebox { chain input { type filter hook input priority 0; \
                 tcp option 254 exists drop; }; }";
    let nft = stage.network.server.command("nft").arg(rules).output();
    if !nft.is_ok_and(|output| output.status.success()) {
        let reason = "no nftables that know TCP's options";
        return hawser_skip::skip(&format!("real_clients::{test}"), reason);
    }
    // So that each link is taken soon, whatever is known of it.
    let in_turns = ["--connection-scheduler", "round-robin"];
    let up = stage.up(&[CAPTURING, &in_turns].concat());
    let server = stage.serve();
    stage.nginx.put("little", b"x");
    let fetch = || assert_eq!(stage.fetch(PLAIN, "little").out(), b"x", "{}", up.log());
    let wire = Wire::tap(&stage);
    fetch();
    assert_repeated_once(&wire.handshakes(PLAIN));
    let both_links = || {
        fetch();
        let not_asked = stage.connections()["not_asked"].clone();
        let places = not_asked.as_array().into_iter().flatten();
        let links: Vec<&Value> = places.map(|it| &it["link"]).collect();
        ["up1", "up2"]
            .iter()
            .all(|link| links.contains(&&Value::from(*link)))
    };
    until("both links are known", both_links, || up.log());
    let asked = || {
        let status = stage.place.status("client").unwrap();
        status["counters"]["handshakes-asked"].as_u64().unwrap()
    };
    let before = asked();
    let seen = wire.handshakes(PLAIN).len();
    for _ in 0..4 {
        fetch();
    }
    let later = wire.handshakes(PLAIN)[seen..].to_vec();
    assert_eq!(asked(), before);
    assert_not_repeated(&later);
    // The same link leads to another network.
    stage.network.server.ip("address add 10.7.9.1/24 dev far1");
    for change in [
        "address add 10.7.9.2/24 dev up1",
        "address del 10.7.1.2/24 dev up1",
        "route replace default via 10.7.9.1 dev up1 metric 101",
    ] {
        stage.network.client.ip(change);
    }
    let is_asked_anew = || {
        fetch();
        asked() > before
    };
    until("it is asked anew", is_asked_anew, || up.log());
    up.end();
    server.end();
}

/// Checks that one handshake asked, and was repeated without. In addition, there may be connections
/// that test whether links answer.
fn assert_repeated_once(handshakes: &[Handshake]) {
    let mut asking = handshakes.iter().filter(|it| it.has_ours);
    let (first, second) = (asking.next().unwrap(), asking.next());
    assert_eq!(second, None, "{handshakes:?}");
    let its = handshakes.iter().filter(|it| it.client == first.client);
    let asks: Vec<bool> = its.map(|it| it.has_ours).collect();
    assert_eq!(asks, [true, false, false], "SYN, SYN, SYN-ACK");
}

fn assert_not_repeated(handshakes: &[Handshake]) {
    let mut clients: Vec<&String> = handshakes
        .iter()
        .filter(|it| !it.is_answer)
        .map(|it| &it.client)
        .collect();
    let syns = clients.len();
    clients.sort();
    clients.dedup();
    assert_eq!(
        (clients.len(), syns >= 4),
        (syns, true),
        "none is repeated: {handshakes:?}"
    );
}

#[test]
fn a_client_without_hawser_has_the_service_itself() {
    let test = "a_client_without_hawser_has_the_service_itself";
    let Some(stage) = captured(test) else {
        return;
    };
    let server = stage.serve();
    let wire = Wire::tap(&stage);
    let script = format!("exec 3<>/dev/tcp/{SERVER}/{PLAIN} && read -u 3");
    let mut client = stage.network.client.command("bash");
    let _client = Ended(client.args(["-c", &script]).spawn().unwrap());
    let sockets = || {
        let mut ss = stage.network.server.command("ss");
        let filter = format!("sport = :{PLAIN}");
        ss.args(["-Htnp", "state", "established", &filter]);
        String::from_utf8(ss.output().unwrap().stdout).unwrap()
    };
    until(
        "it is accepted",
        || sockets().contains("users:"),
        || server.log(),
    );
    let sockets = sockets();
    assert_eq!(sockets.lines().count(), 1, "{sockets}");
    assert!(
        sockets.contains("nginx") && !sockets.contains("hawser"),
        "{sockets}"
    );
    let handshakes = wire.handshakes(PLAIN);
    assert_eq!(handshakes.len(), 2);
    assert!(handshakes.iter().all(|it| !it.has_ours), "{handshakes:?}");
    server.end();
}

/// Creates a stage for captured programs; `None`, with a report, if something is missing here.
fn captured(test: &str) -> Option<Stage> {
    if is_without(&["tcpdump", "bash", "ss"], test) || !kernel_captures(test) {
        return None;
    }
    Stage::new(test)
}

impl Stage {
    /// Downloads a file as a program without any knowledge of Hawser.
    pub(super) fn fetch(&self, port: u16, file: &str) -> Done {
        self.curl(&[], &format!("http://{SERVER}:{port}/{file}"))
    }

    fn curl(&self, arguments: &[&str], url: &str) -> Done {
        let mut curl = self.network.client.command("curl");
        curl.args(["--silent", "--show-error", "--fail"]);
        run(&self.place, curl.args(arguments).arg(url))
    }

    fn proxy(&self, up: &Daemon) -> String {
        format!("socks5://{}", up.listen(&self.place).unwrap())
    }

    /// Connects to the service as such a program until a connection is bonded, and the session has
    /// both links.
    fn until_captured_is_bonded(&self, up: &Daemon) {
        let before = self.front("connected");
        let is_bonded = || {
            let fetched = self.fetch(PLAIN, "little").out();
            assert_eq!(fetched, b"x", "{}", up.log());
            self.front("connected") > before && self.paths() == [2].repeat(self.paths().len())
        };
        until("one is bonded", is_bonded, || up.log());
    }

    fn connections(&self) -> Value {
        self.place.status("client").unwrap()["connections"].clone()
    }
}

/// tcpdump on both links of the client.
struct Wire<'a> {
    stage: &'a Stage,
    /// A port for the next mark.
    mark: Cell<u16>,
    _tcpdump: Ended,
}

/// A SYN or SYN-ACK.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Handshake {
    /// Address and port of the client.
    client: String,
    is_answer: bool,
    has_ours: bool,
    /// Names and sizes of its other options, and the values that are not random.
    options: Vec<String>,
}

impl<'a> Wire<'a> {
    fn tap(stage: &'a Stage) -> Self {
        let mut tcpdump = stage.network.client.command("tcpdump");
        tcpdump.args(["-i", "any", "-U", "--immediate-mode", "-Z", "root"]);
        // Headers are enough. Each packet takes the longest one's room in the kernel's buffer, and
        // what has none is not seen.
        tcpdump.args(["-s", "256", "-B", "16384", "-w"]);
        tcpdump.arg(stage.place.path(CAPTURE)).arg("tcp");
        let said = std::fs::File::create(stage.place.path("tcpdump.err")).unwrap();
        let tcpdump = tcpdump.stdin(Stdio::null()).stderr(said);
        let wire = Self {
            stage,
            mark: Cell::new(FIRST_MARK),
            _tcpdump: Ended(tcpdump.spawn().unwrap()),
        };
        let said = || super::super::program::read(&stage.place.path("tcpdump.err"));
        until("tcpdump listens", || said().contains("listening on"), said);
        wire
    }

    /// Returns the packets so far, one line each.
    fn all(&self) -> String {
        // Behind it there is a connection that is refused.
        let mark = self.mark.replace(self.mark.get() + 1);
        let url = format!("http://{SERVER}:{mark}/");
        let mut text = String::new();
        let has_passed = || {
            let mut curl = self.stage.network.client.command("curl");
            let _ = curl.arg("--silent").arg(&url).status();
            text = self.read();
            text.contains(&format!(".{mark}: Flags [S]"))
        };
        until("the mark passes", has_passed, String::new);
        text
    }

    fn read(&self) -> String {
        let mut tcpdump = Command::new("tcpdump");
        tcpdump
            .args(["-n", "-t", "-r"])
            .arg(self.stage.place.path(CAPTURE));
        // The last packet may be there in part.
        let output = tcpdump.stderr(Stdio::null()).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Returns the SYNs and SYN-ACKs of connections to a port of the server, as they passed a link.
    fn handshakes(&self, port: u16) -> Vec<Handshake> {
        let all = self.all();
        let ends = [
            format!("> {SERVER}.{port}: "),
            format!("{SERVER}.{port} > "),
        ];
        let its = all
            .lines()
            .filter(|line| ends.iter().any(|end| line.contains(end)));
        its.filter_map(Handshake::read).collect()
    }
}

impl Handshake {
    /// Reads a line of tcpdump.
    fn read(line: &str) -> Option<Self> {
        let is_answer = line.contains("Flags [S.]");
        if !is_answer && !line.contains("Flags [S]") {
            return None;
        }
        let (ends, rest) = line.split_once(": Flags")?;
        let mut ends = ends.rsplit(' ').filter(|it| *it != ">");
        let (to, from) = (ends.next()?, ends.next()?);
        let (_, options) = rest.split_once("options [")?;
        let options = options.split(']').next()?.split(',');
        let others = options.filter(|it| !it.starts_with(OURS) && *it != "nop" && *it != "eol");
        let name = |option: &str| {
            if option.starts_with("TS ") {
                "TS".to_owned()
            } else {
                option.to_owned()
            }
        };
        let client = if is_answer { to } else { from }.to_owned();
        Some(Self {
            client,
            is_answer,
            has_ours: line.contains(OURS),
            options: others.map(name).collect(),
        })
    }
}

/// A process that is ended when this is dropped.
pub(super) struct Ended(pub(super) Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let process = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        if let Some(process) = process {
            let _ = kill_process(process, Signal::KILL);
        }
        let _ = self.0.wait();
    }
}

const CAPTURING: &[&str] = &["--direct", "--capture", "system"];
/// An address of the server at which no port is fronted.
const LEGACY: &str = "203.0.113.2";
/// As tcpdump shows the option in binary form.
const OURS: &str = "exp-4857";
const CAPTURE: &str = "wire.pcap";
/// The server has no listeners from this port on.
const FIRST_MARK: u16 = 20_000;
