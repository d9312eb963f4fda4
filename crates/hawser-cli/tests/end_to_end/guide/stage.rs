//! The machines of the guide: a client with two links, a gateway, a server on the internet, and a
//! host behind the client.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use hawser_skip::namespace::{Neighbour, ip};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::super::connections::add_link;
use super::super::program::{Ended, Place, read, until};
use super::super::silent_link::HAWSER;
use super::page::Machine;

/// The machines, and what runs on them.
pub(super) struct Stage {
    place: Place,
    gateway: Neighbour,
    host: Neighbour,
    /// Ended with its namespace.
    _server: (Web, Neighbour),
    running: BTreeMap<Machine, Running>,
}

/// A command that runs until it is ended.
struct Running {
    child: Child,
    line: String,
    log: PathBuf,
}

/// The web server; it is killed when dropped.
struct Web(Child);

impl Stage {
    pub(super) fn new() -> Self {
        let (gateway, server, host) = (Neighbour::start(), Neighbour::start(), Neighbour::start());
        ip("link set lo up");
        add_link(&gateway, 1, "eth0");
        add_link(&gateway, 2, "wwan0");
        connect(&gateway, &server);
        plug_in(&host);
        let place = Place::new();
        let hosts = "127.0.0.1 localhost\n10.1.0.1 gw.example\n10.2.0.1 gw.example\n\
                     11.0.0.2 example.org\n";
        std::fs::write(place.path("hosts"), hosts).unwrap();
        std::fs::write(place.path("resolv.conf"), "nameserver 11.0.0.2\n").unwrap();
        for machine in Machine::ALL {
            equip(&place, machine);
        }
        let web = Web::start(&place, &server);
        Self {
            place,
            gateway,
            host,
            _server: (web, server),
            running: BTreeMap::new(),
        }
    }

    /// Lets the host reach the gateway without Hawser.
    pub(super) fn forward(&self) {
        std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
        self.gateway
            .ip("route add 192.168.7.0/24 via 10.1.0.2 dev eth0");
    }

    /// Starts Hawser on the machines that a page expects.
    pub(super) fn begin(&mut self, machines: &[Machine]) {
        let by = "at the beginning";
        if machines.contains(&Machine::Gateway) {
            let serve = "hawser serve --advertise gw.example --packet-exit nat";
            self.run(Machine::Gateway, serve, by);
        }
        if machines.contains(&Machine::Client) {
            let up = "hawser up --gateway 'hawser://gw.example:7443/#…'";
            self.run(Machine::Client, up, by);
        }
    }

    /// Runs a command of the page to its end, or until it is ready if it runs until it is ended.
    pub(super) fn run(&mut self, machine: Machine, line: &str, by: &str) {
        let line = self.filled_in(line);
        let words = line.trim_start_matches("sudo ");
        let runs_on = ["hawser up", "hawser serve", "hawser receive"]
            .iter()
            .any(|it| words.starts_with(it));
        if runs_on {
            self.start(machine, &line, by);
        } else {
            let ended = Ended::of(self.command(machine, &line).output().unwrap());
            let log = self.logs();
            assert_eq!(ended.code, 0, "{by}: {line}\n{ended:?}\n{log}");
        }
    }

    /// Ends all running commands, in order, clients first.
    pub(super) fn end(mut self) {
        while let Some((machine, running)) = self.running.pop_first() {
            running.end(machine);
        }
    }

    fn start(&mut self, machine: Machine, line: &str, by: &str) {
        if let Some(before) = self.running.remove(&machine) {
            before.end(machine);
        }
        let (out, log) = (self.of(machine, "out"), self.of(machine, "log"));
        let mut command = self.command(machine, &format!("exec {line}"));
        command.stdout(File::create(&out).unwrap());
        command.stderr(File::create(&log).unwrap());
        let running = Running {
            child: command.spawn().unwrap(),
            line: line.to_owned(),
            log,
        };
        self.running.insert(machine, running);
        let is_ready = || {
            if line.contains("hawser receive") {
                self.has_said_an_invite(machine)
            } else {
                self.is_ready(machine, line)
            }
        };
        let is_over = || is_ready() || self.has_ended(machine);
        until(&format!("{by}: {line} is ready"), is_over, || self.logs());
        assert!(!self.has_ended(machine), "{by}: {line}\n{}", self.logs());
    }

    /// Whether the process is a zombie.
    fn has_ended(&self, machine: Machine) -> bool {
        let process = self.running[&machine].child.id();
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat"));
        stat.is_ok_and(|it| it.contains(") Z "))
    }

    fn is_ready(&self, machine: Machine, line: &str) -> bool {
        let Some(status) = self.status(machine) else {
            return false;
        };
        let listens = status["listen"][0].is_string();
        let is_enrolled = self.place.path(name(machine)).join("client.json").exists();
        let may_have_session = is_enrolled && self.running.contains_key(&Machine::Gateway);
        let has_session = !may_have_session || status["sessions"][0]["state"] == "established";
        listens && has_session && self.carries_packets(line)
    }

    /// Whether the packets that this command captures go through the tunnel.
    fn carries_packets(&self, line: &str) -> bool {
        if line.contains("--capture lan:") {
            return self.logs().contains("hosts are routed");
        }
        let way = Command::new("ip")
            .args(["route", "get", "11.0.0.2"])
            .output();
        let way = String::from_utf8_lossy(&way.unwrap().stdout).into_owned();
        !line.contains("--capture system") || way.contains("hawser0")
    }

    fn status(&self, machine: Machine) -> Option<Value> {
        let ended = self.place.run(name(machine), &["status", "--json"]);
        (ended.code == 0).then(|| serde_json::from_str(&ended.out).unwrap())
    }

    fn has_said_an_invite(&self, machine: Machine) -> bool {
        read(&self.of(machine, "out")).contains("hawser://")
    }

    /// Replaces placeholders of the guide.
    fn filled_in(&self, line: &str) -> String {
        let mut line = line.to_owned();
        if line.contains(INVITE) {
            line = line.replace(INVITE, &format!("'{}'", self.invite()));
        }
        if line.ends_with(" ID") {
            line = line.replace(" ID", &format!(" {}", self.last("invite list", "id")));
        }
        if line.ends_with(" KEY") {
            line = line.replace(" KEY", &format!(" {}", self.last("peers", "key")));
        }
        for (placeholder, machine) in KEYS {
            if line.ends_with(placeholder) {
                let key = self.command(machine, "hawser peers key").output();
                line = line.replace(placeholder, Ended::of(key.unwrap()).out.trim());
            }
        }
        line
    }

    /// Returns the invite that a reader copies from the gateway.
    fn invite(&self) -> String {
        if self.has_said_an_invite(Machine::Gateway) {
            let out = read(&self.of(Machine::Gateway, "out"));
            let receives = self.running.get(&Machine::Gateway);
            if receives.is_some_and(|it| it.line.contains("hawser receive")) {
                let mut words = out.split_whitespace();
                return words.find(|it| it.starts_with("hawser://")).unwrap().into();
            }
        }
        let made = self.command(Machine::Gateway, "hawser invite").output();
        Ended::of(made.unwrap()).out.trim().to_owned()
    }

    /// This field of the last row that a command at the gateway lists.
    fn last(&self, command: &str, field: &str) -> String {
        let line = format!("hawser {command} --json");
        let listed = Ended::of(self.command(Machine::Gateway, &line).output().unwrap());
        let listed: Value = serde_json::from_str(&listed.out).unwrap();
        let rows = listed.as_array().or_else(|| {
            let tables = listed.as_object()?.values();
            tables.filter_map(Value::as_array).find(|it| !it.is_empty())
        });
        let row = rows.unwrap().last().unwrap();
        row[field]
            .as_str()
            .unwrap_or_else(|| panic!("{row}"))
            .into()
    }

    /// A shell that runs a line on a machine, with its names, in its folder.
    fn command(&self, machine: Machine, line: &str) -> Command {
        let mut command = match machine {
            Machine::Client => Command::new("unshare"),
            Machine::Gateway => self.gateway.command("unshare"),
            Machine::Host | Machine::Bob => self.host.command("unshare"),
        };
        let covers = ["hosts", "resolv.conf"].map(|file| {
            let own = self.place.path(file);
            format!("mount --bind {} /etc/{file}", own.display())
        });
        let script = format!("{} && exec timeout 300 sh -c \"$0\"", covers.join(" && "));
        let script = if line.starts_with("exec ") {
            script.replace("timeout 300 ", "")
        } else {
            script
        };
        command.args(["--mount", "--", "sh", "-c", &script, line]);
        let path = std::env::var("PATH").unwrap();
        let tools = self.of(machine, "bin");
        command.env("PATH", format!("{}:{path}", tools.display()));
        command.env("CURL_CA_BUNDLE", self.place.path("certificate.pem"));
        command.env("SSL_CERT_FILE", self.place.path("certificate.pem"));
        command.env("HOME", self.of(machine, "home"));
        command.current_dir(self.of(machine, "home"));
        command.stdin(Stdio::null());
        command
    }

    fn of(&self, machine: Machine, file: &str) -> PathBuf {
        self.place.path(&format!("of-{}", name(machine))).join(file)
    }

    fn logs(&self) -> String {
        let log = |it: &Running| format!("{}:\n{}", it.line, read(&it.log));
        self.running.values().map(log).collect()
    }
}

impl Running {
    /// Ends it as Ctrl-C does.
    fn end(mut self, machine: Machine) {
        let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(id.unwrap(), Signal::INT).unwrap();
        let mut code = None;
        let has_ended = || {
            code = self.child.try_wait().unwrap();
            code.is_some()
        };
        let what = format!("{} ends at {machine:?}", self.line);
        until(&what, has_ended, || read(&self.log));
        assert!(code.unwrap().success(), "{what}\n{}", read(&self.log));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Web {
    /// Serves a file of any name by HTTP and HTTPS.
    fn start(place: &Place, server: &Neighbour) -> Self {
        let (certificate, key) = (place.path("certificate.pem"), place.path("key.pem"));
        let made = Command::new("openssl")
            .args([
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:P-256",
            ])
            .args(["-nodes", "-subj", "/CN=example.org", "-days", "30"])
            .args(["-addext", "subjectAltName=DNS:example.org", "-keyout"])
            .arg(&key)
            .arg("-out")
            .arg(&certificate)
            .output();
        assert!(made.unwrap().status.success(), "openssl req");
        let mut python = server.command("python3");
        python.args(["-c", WEB]).arg(&certificate).arg(&key);
        let mut web = Self(python.stdout(Stdio::piped()).spawn().unwrap());
        let mut out = BufReader::new(web.0.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        web
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Connects the gateway to the internet, and has it forward as a router of a provider does.
fn connect(gateway: &Neighbour, server: &Neighbour) {
    ip("link add wan type veth peer name far");
    gateway.take("wan");
    server.take("far");
    gateway.ip("link set lo up");
    gateway.ip("link set wan up");
    gateway.ip("address add 11.0.0.1/24 dev wan");
    gateway.ip("route add default via 11.0.0.2 dev wan");
    server.ip("link set lo up");
    server.ip("link set far up");
    server.ip("address add 11.0.0.2/24 dev far");
    server.ip("route add default via 11.0.0.1 dev far");
    let set = gateway
        .command("sh")
        .args(["-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"])
        .status();
    assert!(set.unwrap().success());
}

/// Connects the host to the client's interface `eth1`.
fn plug_in(host: &Neighbour) {
    ip("link add eth1 type veth peer name lan");
    host.take("lan");
    ip("link set eth1 up");
    ip("address add 192.168.7.1/24 dev eth1");
    host.ip("link set lo up");
    host.ip("link set lan up");
    host.ip("address add 192.168.7.2/24 dev lan");
    host.ip("route add default via 192.168.7.1 dev lan");
}

/// Gives a machine `hawser` with its own state, and `sudo`, since all is run as root.
fn equip(place: &Place, machine: Machine) {
    let own = format!("of-{}", name(machine));
    let state = place.path(name(machine));
    let tools = place.folder(&format!("{own}/bin"));
    place.folder(&format!("{own}/home"));
    let hawser = format!("exec {HAWSER} --state {} \"$@\"", state.display());
    for (tool, does) in [("hawser", hawser.as_str()), ("sudo", "exec \"$@\"")] {
        let file = tools.join(tool);
        std::fs::write(&file, format!("#!/bin/sh\n{does}\n")).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
}

fn name(machine: Machine) -> &'static str {
    match machine {
        Machine::Client => "client",
        Machine::Gateway => "gateway",
        Machine::Host => "host",
        Machine::Bob => "bob",
    }
}

/// Keys that a reader gets from another machine.
const KEYS: [(&str, Machine); 2] = [
    ("KEY-OF-BOB", Machine::Bob),
    ("KEY-OF-ALICE", Machine::Client),
];
const INVITE: &str = "'hawser://gw.example:7443/#…'";
/// A web server: each file has a megabyte.
const WEB: &str = "
import http.server, ssl, sys, threading
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header('Content-Length', '1000000')
        self.end_headers()
        self.wfile.write(bytes(1000000))
    def log_message(self, *_):
        pass
plain = http.server.ThreadingHTTPServer(('0.0.0.0', 80), Handler)
sealed = http.server.ThreadingHTTPServer(('0.0.0.0', 443), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1], sys.argv[2])
sealed.socket = context.wrap_socket(sealed.socket, server_side=True)
threading.Thread(target=plain.serve_forever, daemon=True).start()
print('ready', flush=True)
sealed.serve_forever()
";
