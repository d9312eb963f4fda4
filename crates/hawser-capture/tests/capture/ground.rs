//! A host with two links to one server, each host in its own network namespace, and programs that
//! follow commands.
#![allow(dead_code, reason = "each test uses its own part")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use hawser_capture::{Capture, CaptureError, LinkEntry, RunGroup, Settings};
use hawser_skip::namespace::{Neighbour, no_ip, within};
use hawser_types::{LinkIndex, Rate};

use crate::relay::{Altered, Relay};

/// The server's addresses, behind both links.
pub(crate) const SERVER4: &str = "10.99.9.9";
pub(crate) const SERVER6: &str = "fd99::9";

/// The calling thread's own network namespace with links `west` and `east` to a server.
pub(crate) struct Ground {
    server: Child,
}

impl Ground {
    /// Moves the calling thread into it; `None`, with a report, where that is not possible.
    pub(crate) fn new(test: &str) -> Option<Self> {
        if let Some(reason) = no_ip() {
            hawser_skip::skip(test, &reason);
            return None;
        }
        // SAFETY: takes no memory; only this thread moves.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
            hawser_skip::skip(test, "no network namespace can be made here");
            return None;
        }
        let mut server = Command::new("unshare")
            .args(["--net", "--", "sh", "-c", "echo; cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // It prints a line when the namespace exists, and ends with its input.
        server
            .stdout
            .as_mut()
            .unwrap()
            .read_exact(&mut [0])
            .unwrap();
        let ground = Self { server };
        ip("link set lo up");
        ground.ip("link set lo up");
        ground.ip(&format!("addr add {SERVER4}/32 dev lo"));
        ground.ip(&format!("addr add {SERVER6}/128 dev lo nodad"));
        for (number, name) in LINKS.into_iter().enumerate() {
            ground.add_link(number + 1, name);
        }
        Some(ground)
    }

    pub(crate) fn add_link(&self, number: usize, name: &str) {
        let pid = self.server.id();
        ip(&format!(
            "link add {name} type veth peer name {name} netns {pid}"
        ));
        ground_side(number, name);
        self.server_side(number, name);
    }

    fn server_side(&self, number: usize, name: &str) {
        self.ip(&format!("link set {name} up"));
        self.ip(&format!("addr add 10.99.{number}.1/24 dev {name}"));
        self.ip(&format!("addr add fd99:{number}::1/64 dev {name} nodad"));
    }

    /// Puts a machine into a link that alters the passing segments.
    pub(crate) fn relay(&self, name: &str, altered: Altered) -> Relay {
        let number = LINKS.iter().position(|it| *it == name).unwrap() + 1;
        ip(&format!("link del {name}"));
        let machine = Neighbour::start();
        let (between, server) = (machine.process(), self.server.id());
        ip(&format!(
            "link add {name} type veth peer name near netns {between}"
        ));
        machine.ip(&format!(
            "link add far type veth peer name {name} netns {server}"
        ));
        // The machine has no address, not even an automatic one.
        for end in ["near", "far"] {
            machine.ip(&format!("link set {end} addrgenmode none"));
            machine.ip(&format!("link set {end} up"));
        }
        self.server_side(number, name);
        ground_side(number, name);
        Relay::begin(machine, altered)
    }

    /// Runs `ip` at the server.
    pub(crate) fn ip(&self, arguments: &str) {
        let pid = self.server.id().to_string();
        let status = Command::new("nsenter")
            .args(["--target", &pid, "--net", "--", "ip"])
            .args(arguments.split(' '))
            .status()
            .unwrap();
        assert!(status.success(), "ip {arguments} at the server");
    }

    /// Runs a function in the server's namespace.
    pub(crate) fn at_server<T: Send>(&self, body: impl FnOnce() -> T + Send) -> T {
        within(self.server.id(), body)
    }

    /// A host with this address that the server forwards to, and a service there on the same port.
    pub(crate) fn behind(&self, address: &'static str, port: u16) -> Behind {
        let host = Neighbour::start();
        let gateway = "10.99.77.1";
        let pid = host.process();
        self.ip(&format!(
            "link add inner type veth peer name outer netns {pid}"
        ));
        self.ip(&format!("addr add {gateway}/24 dev inner"));
        self.ip("link set inner up");
        host.ip(&format!("addr add {address}/24 dev outer"));
        host.ip("link set outer up");
        host.ip(&format!("route add default via {gateway}"));
        self.at_server(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap());
        let listener = within(pid, move || TcpListener::bind((address, port)).unwrap());
        Behind {
            listener,
            _host: host,
        }
    }

    /// A server that accepts connections on all its addresses, reports the clients, and keeps the
    /// connections.
    pub(crate) fn listener(&self) -> TcpListener {
        self.at_server(|| TcpListener::bind(("::", 0)).unwrap())
    }

    /// Datagrams sent to the server.
    pub(crate) fn datagrams(&self) -> UdpSocket {
        self.datagrams_to("::")
    }

    /// Datagrams sent to one address of the server's, which also answers by that one.
    pub(crate) fn datagrams_to(&self, address: &'static str) -> UdpSocket {
        let socket = self.at_server(move || UdpSocket::bind((address, 0)).unwrap());
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    }
}

/// A host behind the server.
pub(crate) struct Behind {
    pub(crate) listener: TcpListener,
    _host: Neighbour,
}

impl Drop for Ground {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// This host's end of a link. The first has the default route that counts.
fn ground_side(number: usize, name: &str) {
    ip(&format!("link set {name} up"));
    ip(&format!("addr add 10.99.{number}.2/24 dev {name}"));
    ip(&format!("addr add fd99:{number}::2/64 dev {name} nodad"));
    ip(&format!(
        "route add default via 10.99.{number}.1 dev {name} metric {number}00"
    ));
    ip(&format!(
        "route add default via fd99:{number}::1 dev {name} metric {number}00"
    ));
}

/// Runs `ip` in the calling thread's namespace.
pub(crate) fn ip(arguments: &str) {
    let mut command = Command::new("ip");
    let status = command.args(arguments.split(' ')).status().unwrap();
    assert!(status.success(), "ip {arguments}");
}

/// Returns a link's entry for the kernel's program.
pub(crate) fn entry(name: &str) -> LinkEntry {
    let c_name = std::ffi::CString::new(name).unwrap();
    // SAFETY: the name ends with a zero.
    let index = unsafe { libc::if_nametoindex(c_name.as_ptr()) };
    assert_ne!(index, 0, "{name}");
    LinkEntry {
        index: LinkIndex::new(index),
        name: name.to_owned(),
        up: Rate::from_bits_per_second(100_000_000),
        down: Rate::from_bits_per_second(100_000_000),
        latency: Duration::from_millis(10),
        usable: true,
        ipv4: true,
        ipv6: true,
        metered: false,
    }
}

/// Both links.
pub(crate) fn entries() -> Vec<LinkEntry> {
    LINKS.into_iter().map(entry).collect()
}

/// Captures a new group; `None`, with a report, where that is forbidden.
pub(crate) fn capture(test: &str, settings: &Settings) -> Option<(Capture, RunGroup)> {
    let started = RunGroup::create().and_then(|group| {
        let capture = Capture::start(group.path(), settings)?;
        Ok((capture, group))
    });
    match started {
        Ok(both) => Some(both),
        Err(
            error @ (CaptureError::NotPermitted(_)
            | CaptureError::NoControlGroups
            | CaptureError::KernelTooOld { .. }),
        ) => {
            hawser_skip::skip(test, &error.to_string());
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// A process that follows commands, line by line.
pub(crate) struct Puppet {
    pub(crate) child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Puppet {
    /// Starts one in `group`.
    pub(crate) fn new(group: Option<&RunGroup>) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", "puppet", "--nocapture", "--test-threads=1"])
            .env(PUPPET, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        if let Some(group) = group {
            group.enter(&mut command).unwrap();
        }
        let mut child = command.spawn().unwrap();
        let to = child.stdin.take().unwrap();
        let from = BufReader::new(child.stdout.take().unwrap());
        let mut puppet = Self { child, to, from };
        assert_eq!(puppet.answer(), "ready");
        puppet
    }

    /// Sends a command, and returns its answer.
    pub(crate) fn tell(&mut self, line: &str) -> String {
        self.begin(line);
        self.answer()
    }

    /// Sends a command that must succeed.
    pub(crate) fn ask(&mut self, line: &str) -> String {
        let answer = self.tell(line);
        assert!(!answer.starts_with("error"), "{line}: {answer}");
        answer
    }

    /// Sends a command whose answer is read later by [`Self::answer`].
    pub(crate) fn begin(&mut self, line: &str) {
        writeln!(self.to, "{line}").unwrap();
    }

    /// Makes it connect; returns its source address.
    pub(crate) fn connect(&mut self, kind: &str, to: impl std::fmt::Display) -> IpAddr {
        let answer = self.ask(&format!("{kind} {to}"));
        let from: SocketAddr = answer.split(' ').next().unwrap().parse().unwrap();
        from.ip().to_canonical()
    }

    /// Returns its next answer.
    pub(crate) fn answer(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(self.from.read_line(&mut line).unwrap(), 0, "it went");
            // The test runner prints other lines.
            if let Some((_, answer)) = line.split_once("> ") {
                return answer.trim_end().to_owned();
            }
        }
    }
}

impl Drop for Puppet {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until a condition holds.
pub(crate) fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let begin = std::time::Instant::now();
    while !is() {
        assert!(begin.elapsed() < PATIENCE, "{what}");
        std::thread::yield_now();
    }
}

/// Binds a socket once its port is free. A program that another test starts holds all descriptors
/// until it runs, including those that were closed here. Programs in the kernel live as long as one
/// of their descriptors.
pub(crate) fn when_free<T>(mut bind: impl FnMut() -> std::io::Result<T>) -> T {
    let mut bound = None;
    eventually("the port is free", || match bind() {
        Ok(socket) => bound.insert(Some(socket)).is_some(),
        Err(error) => {
            assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse, "{error}");
            false
        }
    });
    bound.flatten().unwrap()
}

/// Returns the number of the link with this host address.
pub(crate) fn link_of(from: IpAddr) -> u8 {
    match from {
        IpAddr::V4(from) => from.octets()[2],
        IpAddr::V6(from) => u8::try_from(from.segments()[1]).unwrap(),
    }
}

/// Tells whether this process is a puppet.
pub(crate) fn is_puppet() -> bool {
    std::env::var_os(PUPPET).is_some()
}

pub(crate) const LINKS: [&str; 2] = ["west", "east"];
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
const PUPPET: &str = "HAWSER_TEST_PUPPET";
