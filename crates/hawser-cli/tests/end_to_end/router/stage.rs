//! A router with hosts behind it, two links, a gateway and an internet.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::process::{Child, Command, Stdio};

use hawser_skip::name_server::NameServer;
use hawser_skip::namespace::{Neighbour, ip};
use serde_json::Value;

use super::super::internet::{Internet, said, with_udp};
use super::super::program::{Daemon, Ended, Place, until};
use super::super::silent_link::{HAWSER, cover};
use super::scripts::ASKING;

/// A router with hosts behind it.
pub(crate) struct Router {
    /// Ended before their namespaces.
    _names: [NameServer; 2],
    pub(crate) net: Internet,
    hosts: Vec<Neighbour>,
    _switch: Neighbour,
}

impl Router {
    /// `None` if a program is missing, with a report for `test`.
    pub(crate) fn new(test: &str, hosts: usize) -> Option<Self> {
        let net = Internet::new(test)?;
        let permitted = doctor(&mut net.place.hawser("client", &["doctor", "--json"]));
        if permitted["status"] != "ok" {
            hawser_skip::skip(&format!("end_to_end::{test}"), &permitted.to_string());
            return None;
        }
        net.add_ipv6();
        let switch = Neighbour::start();
        ip("link add lan type veth peer name router");
        switch.take("router");
        switch.ip("link add switch type bridge");
        switch.ip("link set switch up");
        switch.ip("link set router master switch up");
        ip("link set lan up");
        ip("address add 192.168.77.1/24 dev lan");
        ip("address add fd77::1/64 dev lan nodad");
        // As distributions have it.
        std::fs::write("/proc/sys/net/ipv4/conf/all/rp_filter", "1").unwrap();
        let plug_in = |number: usize| {
            let host = Neighbour::start();
            ip(&format!("link add port{number} type veth peer name eth"));
            switch.take(&format!("port{number}"));
            host.take("eth");
            switch.ip(&format!("link set port{number} master switch up"));
            host.ip("link set lo up");
            host.ip("link set eth up");
            host.ip(&format!("address add {}/24 dev eth", v4(number)));
            host.ip(&format!("address add {}/64 dev eth nodad", v6(number)));
            host.ip("route add default via 192.168.77.1");
            host.ip("-6 route add default via fd77::1");
            host
        };
        let hosts = (0..hosts).map(plug_in).collect();
        let at_gateway = NameServer::start(&net.gateway, test, "of.router=1.2.3.4");
        let at_server = NameServer::start(&net.server, test, "of.server=5.6.7.8");
        std::fs::write(net.place.path("resolv.conf"), "nameserver 10.1.0.1\n").unwrap();
        Some(Self {
            _names: [at_gateway, at_server],
            net,
            hosts,
            _switch: switch,
        })
    }

    pub(crate) fn place(&self) -> &Place {
        &self.net.place
    }

    /// `hawser up` with these arguments, whose system asks the gateway's name server.
    pub(crate) fn up(&self, arguments: &[&str]) -> Daemon {
        let mut up = Command::new("unshare");
        cover(self.place(), &mut up, HAWSER);
        up.arg("--state").arg(self.place().path("client"));
        up.args(["up", "--listen", "127.0.0.1:0", "--capture", "lan:lan"]);
        up.args(arguments).stdin(Stdio::null());
        let up = self.place().launch_command("client", up);
        let is_routed = || up.log().contains("hosts are routed");
        until("hosts are routed", is_routed, || up.log());
        until(
            "the proxy listens",
            || up.listen(self.place()).is_some(),
            || up.log(),
        );
        up
    }

    /// A gateway that carries no packets.
    pub(super) fn serve_streams(&self) -> Daemon {
        let mut serve = self.net.gateway.command(HAWSER);
        serve.arg("--state").arg(self.place().path("gateway"));
        serve.args(["serve", "--listen", "0.0.0.0:7443"]);
        serve.args(["--advertise", "10.1.0.1", "--advertise", "10.2.0.1"]);
        serve.arg("--invite-file").arg(self.place().path("invite"));
        let gateway = self.place().launch_command("gateway", serve);
        let listens = || gateway.listen(self.place()).is_some();
        until("the gateway listens", listens, || gateway.log());
        gateway
    }

    /// A script of Python at a host.
    pub(crate) fn begin(&self, host: usize, script: &str) -> Child {
        let mut python = self.hosts[host].command("python3");
        python.args(["-c", &with_udp(&format!("{ASKING}{script}"))]);
        python.stdout(Stdio::piped()).stderr(Stdio::piped());
        python.spawn().unwrap()
    }

    pub(crate) fn python(&self, host: usize, script: &str) -> String {
        let ended = Ended::of(self.begin(host, script).wait_with_output().unwrap());
        assert_eq!(ended.code, 0, "{ended:?}");
        ended.out.trim().to_owned()
    }

    /// Returns a script's output at each host, all at the same time.
    pub(super) fn at_all(&self, script: &str) -> Vec<String> {
        let begun: Vec<Child> = (0..self.hosts.len())
            .map(|host| self.begin(host, script))
            .collect();
        let ended = begun
            .into_iter()
            .map(|it| Ended::of(it.wait_with_output().unwrap()));
        ended
            .map(|ended| {
                assert_eq!(ended.code, 0, "{ended:?}");
                ended.out.trim().to_owned()
            })
            .collect()
    }

    /// The addresses that hosts have in the tunnel, as flows of packets to the echo show them.
    pub(super) fn in_tunnel(&self, to: &str) -> BTreeSet<IpAddr> {
        let status = self.place().status("client").unwrap_or_default();
        let flows = status["sessions"][0]["packet_flows"].as_array();
        let flows = flows.into_iter().flatten();
        let flows = flows.filter(|it| it["protocol"] == "udp" && it["destination"] == to);
        let sources = flows.filter_map(|it| it["source"].as_str()?.parse::<SocketAddr>().ok());
        sources.map(|it| it.ip()).collect()
    }

    /// Returns the programs of open streams: of a host's stream, its address.
    pub(crate) fn of_streams(&self) -> Vec<String> {
        let streams = self.streams();
        let programs = streams.iter().filter_map(|it| it["program"].as_str());
        programs.map(str::to_owned).collect()
    }

    /// Returns the bytes that the program with this name has received on each of its open streams.
    pub(super) fn received_by(&self, program: &str) -> Vec<u64> {
        let streams = self.streams();
        let own = streams.iter().filter(|it| it["program"] == program);
        own.filter_map(|it| it["bytes_received"].as_u64()).collect()
    }

    fn streams(&self) -> Vec<Value> {
        let ended = self.place().run("client", &["streams", "--json"]);
        let report: Value = serde_json::from_str(&ended.out).unwrap_or_default();
        let sessions = report["sessions"].as_array().into_iter().flatten();
        let streams = sessions.flat_map(|it| it["streams"].as_array().into_iter().flatten());
        streams.cloned().collect()
    }
}

pub(crate) fn v4(host: usize) -> String {
    format!("192.168.77.{}", host + 10)
}

pub(super) fn v6(host: usize) -> String {
    format!("fd77::{:x}", host + 10)
}

/// Returns the output of `hawser doctor --json` about routers.
pub(super) fn doctor(command: &mut Command) -> Value {
    let report: Value = serde_json::from_str(&said(command)).unwrap();
    let mut checks = report["checks"].as_array().unwrap().iter();
    let check = checks.find(|it| it["name"] == "routing hosts behind this machine");
    check.unwrap().clone()
}

/// Returns everything that the program changes in the network of this namespace.
pub(crate) fn state() -> Vec<String> {
    let say = |program: &str, arguments: &str| {
        let text = said(Command::new(program).args(arguments.split(' ')));
        // Addresses of single links come a moment after the links.
        let lines = text.lines().filter(|line| !line.contains("fe80::"));
        let mut lines: Vec<String> = lines.map(str::to_owned).collect();
        lines.sort();
        format!("{program} {arguments}:\n{}", lines.join("\n"))
    };
    let settings = "for f in /proc/sys/net/ipv4/ip_forward \
                    /proc/sys/net/ipv[46]/conf/*/forwarding \
                    /proc/sys/net/ipv4/conf/*/rp_filter \
                    /proc/sys/net/ipv6/conf/*/accept_ra; do echo $f $(cat $f); done";
    vec![
        say("ip", "rule"),
        say("ip", "-6 rule"),
        say("ip", "-4 route show table all"),
        say("ip", "-6 route show table all"),
        say("nft", "list ruleset"),
        said(Command::new("sh").args(["-c", settings])),
    ]
}

/// Sends datagrams to this address back.
pub(super) fn answer_here(at: &'static str) {
    let socket = std::net::UdpSocket::bind(at).unwrap();
    std::thread::spawn(move || {
        let mut bytes = [0; 2000];
        while let Ok((length, from)) = socket.recv_from(&mut bytes) {
            // Where that is forbidden, the next one is not answered either.
            let _ = socket.send_to(&bytes[..length], from);
        }
    });
}

/// Answers all name queries here with the same address.
pub(super) fn answer_names_here(at: &'static str) {
    let socket = std::net::UdpSocket::bind(at).unwrap();
    std::thread::spawn(move || {
        let mut bytes = [0; 2000];
        while let Ok((length, from)) = socket.recv_from(&mut bytes) {
            let mut answer = bytes[..length].to_vec();
            answer[2] |= 0x80;
            answer[7] = 1;
            answer.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 9, 9, 9, 9]);
            socket.send_to(&answer, from).unwrap();
        }
    });
}

/// Answers every client with a greeting.
pub(super) fn serve_here(address: &'static str) {
    let listener = std::net::TcpListener::bind(address).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let _ = std::io::Write::write_all(&mut stream.unwrap(), b"here\n");
        }
    });
}
