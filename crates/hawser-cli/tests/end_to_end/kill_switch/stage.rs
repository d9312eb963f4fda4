//! A machine with programs that try to bypass Hawser, and captures of its links.

use std::fs::File;
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use hawser_skip::namespace::{Neighbour, ip};

use crate::internet::{Internet, said};
use crate::program::{Daemon, Ended, Place, read, until};

/// Packets that leave by the links, as tcpdump shows them, from before Hawser starts.
pub(crate) struct Watch {
    place: Place,
    watchers: Vec<Child>,
}

impl Watch {
    /// Watches the ends here. `None` without tcpdump, with a report for `test`.
    pub(crate) fn start(test: &str) -> Option<Self> {
        Self::start_by(test, || Command::new("tcpdump"), "out")
    }

    /// Watches the far ends, where a link that goes down here stays up.
    pub(super) fn start_at(test: &str, neighbour: &Neighbour) -> Option<Self> {
        Self::start_by(test, || neighbour.command("tcpdump"), "in")
    }

    fn start_by(test: &str, tcpdump: impl Fn() -> Command, direction: &str) -> Option<Self> {
        if Command::new("tcpdump").arg("--version").output().is_err() {
            hawser_skip::skip(&format!("end_to_end::{test}"), "no tcpdump here");
            return None;
        }
        let place = Place::new();
        let watch = |link: &str| {
            let heard = File::create(place.path(link)).unwrap();
            let ready = File::create(place.path(&format!("{link}.ready"))).unwrap();
            let mut tcpdump = tcpdump();
            tcpdump.args([
                "-n",
                "-l",
                "--immediate-mode",
                "-Z",
                "root",
                "-Q",
                direction,
            ]);
            tcpdump.args(["-i", link, ALL_BUT_NEIGHBOURS]);
            tcpdump.stdout(heard).stderr(ready).spawn().unwrap()
        };
        let watchers = LINKS.map(watch).into();
        for link in LINKS {
            let ready = place.path(&format!("{link}.ready"));
            let listens = || read(&ready).contains("listening on");
            until("tcpdump listens", listens, || read(&ready));
        }
        Some(Self { place, watchers })
    }

    /// The packets of a link so far.
    pub(crate) fn packets(&self, link: &str) -> Vec<String> {
        let text = read(&self.place.path(link));
        // The last line may not be whole yet.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().map(str::to_owned).collect()
    }

    /// Returns a link's packets from `since` on that are neither Hawser's nor allowed.
    pub(super) fn leaked_since(&self, since: usize, link: &str) -> Vec<String> {
        let packets = self.packets(link).into_iter().skip(since);
        packets.filter(|it| is_leak(it)).collect()
    }

    /// Returns a link's packets, since Hawser's first one, that are neither Hawser's nor allowed.
    pub(crate) fn leaked(&self, link: &str) -> Vec<String> {
        let packets = self.packets(link).into_iter();
        let since = packets.skip_while(|it| !it.contains(".7443: "));
        since.filter(|it| is_leak(it)).collect()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        for watcher in &mut self.watchers {
            let _ = watcher.kill();
            let _ = watcher.wait();
        }
    }
}

/// Whether a packet is not Hawser's, direct by rule, DHCP, or an answer of the server here.
fn is_leak(packet: &str) -> bool {
    let may_leave = [".7443: ", ".4000: ", ".67: ", ".8000 > "];
    !may_leave.iter().any(|it| packet.contains(it))
}

/// A program that is ended with this.
pub(super) struct Program(Child);

impl Program {
    fn start(mut command: Command) -> Self {
        Self(command.stdin(Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A machine with two links, IPv6 on one of them, and a container whose packets it forwards.
pub(super) struct Machine {
    pub(super) net: Internet,
    container: Neighbour,
    config: String,
}

impl Machine {
    pub(super) fn new(test: &str) -> Option<Self> {
        let net = Internet::captured(test)?;
        ip("address add fd01::2/64 dev dsl nodad");
        net.gateway.ip("address add fd01::1/64 dev dsl nodad");
        ip("route add default via fd01::1 dev dsl");
        let container = Neighbour::start();
        ip("link add inside type veth peer name eth0");
        container.take("eth0");
        ip("link set inside up");
        ip("address add 10.9.0.1/24 dev inside");
        container.ip("link set eth0 up");
        container.ip("address add 10.9.0.2/24 dev eth0");
        container.ip("route add default via 10.9.0.1");
        std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
        // Another program's rule that routes packets again, around the other devices.
        ip("route add default via 10.1.0.1 dev dsl table 100");
        ip("rule add fwmark 7 lookup 100 priority 100");
        let rules = "add table ip other { chain out { type route hook output priority -150; \
                     udp sport 9103 meta mark set 7; }; }";
        assert!(Command::new("nft").arg(rules).status().unwrap().success());
        let config = net.place.path("hawser.toml");
        let rule = "[[rule]]\nport = 4000\nmode = \"direct\"\n";
        std::fs::write(&config, rule).unwrap();
        Some(Self {
            config: config.to_str().unwrap().to_owned(),
            container,
            net,
        })
    }

    pub(super) fn launch(&self, arguments: &[&str]) -> Daemon {
        let always = ["--config", &self.config, "up", "--listen", "127.0.0.1:0"];
        let arguments = [&always[..], &["--capture", "system"], arguments].concat();
        self.net.place.launch("client", &arguments)
    }

    /// Starts it, and waits until packets are carried.
    pub(super) fn up(&self, arguments: &[&str]) -> Daemon {
        let up = self.launch(arguments);
        self.until_carried(&up);
        up
    }

    pub(super) fn until_carried(&self, up: &Daemon) {
        let way = || said(Command::new("ip").args(["route", "get", "11.0.0.2"]));
        let are_carried = || up.listen(&self.net.place).is_some() && way().contains("hawser0");
        until("packets are carried", are_carried, || up.log());
    }

    /// `hawser kill-switch …`.
    pub(super) fn switch(&self, arguments: &[&str]) -> Ended {
        let arguments = [&["kill-switch"], arguments].concat();
        self.net.place.run("client", &arguments)
    }

    pub(super) fn is_on(&self) -> bool {
        self.switch(&[]).out.contains("kill switch: on for")
    }

    /// Starts programs that try to bypass Hawser again and again, and one with an older connection
    /// to a neighbour that sends all the time.
    pub(super) fn leakers(&self) -> [Program; 4] {
        let mut here = Command::new("python3");
        here.args(["-c", LEAKS]).arg(self.net.place.path("rounds"));
        let mut inside = self.container.command("bash");
        inside.args(["-c", FORWARDED]);
        let mut neighbour = self.net.gateway.command("python3");
        neighbour.args(["-c", TALKS]);
        let mut listener = Command::new("python3");
        listener.args(["-c", LISTENS]);
        [here, inside, neighbour, listener].map(Program::start)
    }

    /// Waits until the programs have tried everything again.
    pub(super) fn let_them_try(&self) {
        let rounds = || read(&self.net.place.path("rounds")).len();
        let before = rounds();
        until("the programs try", || rounds() > before + 2, String::new);
    }
}

/// Returns the number of packets to the gateway on a link so far.
pub(crate) fn of_hawser(watch: &Watch, link: &str) -> usize {
    let packets = watch.packets(link);
    packets.iter().filter(|it| it.contains(".7443: ")).count()
}

/// Returns the errors of connecting to a neighbour over each link, and of a datagram to the first.
pub(super) fn refused() -> String {
    said(Command::new("python3").args(["-c", REFUSED]))
}

/// Opens a connection from the neighbour to this machine, which prints one line there. Later
/// connections are told that the port is in use.
pub(super) fn logged_in(neighbour: &Neighbour) -> (TcpStream, Child) {
    let listener = TcpListener::bind("10.2.0.2:8000").unwrap();
    let read = "exec 3<>/dev/tcp/10.2.0.2/8000 && head -n 1 <&3";
    let terminal = neighbour
        .command("timeout")
        .args(["300", "bash", "-c", read])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let login = listener.accept().unwrap().0;
    for listener in [listener, TcpListener::bind("[fd01::2]:8000").unwrap()] {
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let _ = stream.unwrap().write_all(b"here");
            }
        });
    }
    (login, terminal.unwrap())
}

/// Returns what the neighbour receives from this machine over either family, after both have
/// forgotten the other's link address.
pub(super) fn call(neighbour: &Neighbour) -> [String; 2] {
    ["10.2.0.2", "fd01::2"].map(|to| {
        for link in LINKS {
            let forget = format!("neigh flush dev {link}");
            ip(&forget);
            neighbour.ip(&forget);
        }
        let call = format!("exec 3<>/dev/tcp/{to}/8000 && cat <&3");
        said(
            neighbour
                .command("timeout")
                .args(["20", "bash", "-c", &call]),
        )
    })
}

pub(crate) const LINKS: [&str; 2] = ["dsl", "lte"];
/// ARP, neighbour discovery, and the reports of listeners, which have a hop-by-hop header.
const ALL_BUT_NEIGHBOURS: &str = "not arp and not (ip6 and (ip6[6] == 0 or (ip6[6] == 58 and \
                                  ip6[40] >= 133 and ip6[40] <= 136)))";
/// Marks in the packets of the programs' attempts below.
pub(super) const SIGNS: [&str; 10] = [
    "10.1.0.2.9101 > 11.0.0.2.7: UDP",
    "10.2.0.2.9102 > 11.0.0.2.7: UDP",
    ".9103 > 11.0.0.2.7: UDP",
    "10.9.0.2.",
    "fd99::2.7: UDP",
    "11.0.0.2.7: Flags [S]",
    "fd99::2.7: Flags [S]",
    "ICMP echo request",
    "10.1.0.1.9: UDP",
    "10.1.0.1.8001: Flags [.]",
];
const LEAKS: &str = "
import sys, time
from socket import *
def attempt(family, kind, to, device=None, port=0, connect=False, protocol=0, payload=b'leak'):
    try:
        with socket(family, kind, protocol) as s:
            s.setblocking(False)
            s.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
            if device:
                s.setsockopt(SOL_SOCKET, 25, device)
            if port:
                s.bind(('', port))
            if kind == SOCK_STREAM:
                s.connect(to)
            elif connect:
                s.connect(to)
                s.send(payload)
            else:
                s.sendto(payload, to)
    except OSError:
        pass
far, far6, near = ('11.0.0.2', 7), ('fd99::2', 7), ('10.1.0.1', 9)
ping = bytes.fromhex('0800f7fe00010000')
rounds = open(sys.argv[1], 'w')
while True:
    rounds.write('.')
    rounds.flush()
    attempt(AF_INET, SOCK_DGRAM, far)
    attempt(AF_INET, SOCK_DGRAM, far, connect=True)
    attempt(AF_INET, SOCK_DGRAM, far, device=b'dsl', port=9101)
    attempt(AF_INET, SOCK_DGRAM, far, device=b'lte', port=9102)
    attempt(AF_INET, SOCK_DGRAM, far, port=9103)
    attempt(AF_INET6, SOCK_DGRAM, far6)
    attempt(AF_INET6, SOCK_DGRAM, far6, device=b'dsl', connect=True)
    attempt(AF_INET, SOCK_STREAM, far)
    attempt(AF_INET, SOCK_STREAM, far, device=b'lte')
    attempt(AF_INET6, SOCK_STREAM, far6)
    attempt(AF_INET6, SOCK_STREAM, far6, device=b'dsl')
    attempt(AF_INET, SOCK_RAW, ('11.0.0.2', 0), protocol=1, payload=ping, device=b'dsl')
    attempt(AF_INET, SOCK_DGRAM, near)
    attempt(AF_INET, SOCK_STREAM, near)
    attempt(AF_INET, SOCK_DGRAM, ('224.0.0.251', 5353), device=b'dsl')
    time.sleep(0.02)
";
const FORWARDED: &str = "while :; do echo leak > /dev/udp/11.0.0.2/7; sleep 0.05; done 2>/dev/null";
const TALKS: &str = "
import socket, time
s = socket.create_server(('10.1.0.1', 8001)).accept()[0]
while True:
    s.send(b'talk')
    time.sleep(0.05)
";
const LISTENS: &str = "
import socket, time
while True:
    try:
        s = socket.create_connection(('10.1.0.1', 8001))
        while s.recv(100):
            pass
    except OSError:
        time.sleep(0.05)
";
pub(super) const DIRECT: &str = "
from socket import *
for kind in [SOCK_STREAM, SOCK_DGRAM]:
    s = socket(AF_INET, kind)
    s.settimeout(0.1)
    try:
        s.connect(('11.0.0.2', 4000))
        s.send(b'direct')
    except OSError:
        pass
s = socket(AF_INET, SOCK_DGRAM)
s.setsockopt(SOL_SOCKET, 25, b'dsl')
s.bind(('', 68))
s.sendto(b'dhcp', ('10.1.0.1', 67))
";
const REFUSED: &str = "
from socket import *
def error(f):
    try:
        f()
        return 0
    except OSError as error:
        return error.errno
def connect(to):
    s = socket(AF_INET, SOCK_STREAM)
    s.settimeout(20)
    return error(lambda: s.connect(to))
u = socket(AF_INET, SOCK_DGRAM)
print([connect(('10.1.0.1', 9)), connect(('10.2.0.1', 9)), error(lambda: u.sendto(b'', ('10.1.0.1', 9)))])
";
