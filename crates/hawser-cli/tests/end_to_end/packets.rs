//! Packets of programs in networks of their own, over a gateway to a third network.

use std::process::{Command, Output, Stdio};

use hawser_skip::name_server::serve_names_if_asked;
use hawser_skip::namespace::{Neighbour, in_namespace, in_namespace_of_root, ip};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, UdpSocket};

use super::connections::{add_link, serve_there};
use super::program::{Daemon, Ended, Place, until};
use super::silent_link::{GATEWAY, HAWSER, Net, has_mounts};

/// Two links to a gateway, behind which there is an internet.
struct Internet {
    place: Place,
    gateway: Neighbour,
    server: Neighbour,
}

impl Internet {
    /// None where a program is missing, which is told for `test`.
    fn new(test: &str) -> Option<Self> {
        if let Some(missing) = missing() {
            hawser_skip::skip(&format!("end_to_end::{test}"), missing);
            return None;
        }
        let (gateway, server) = (Neighbour::start(), Neighbour::start());
        ip("link set lo up");
        gateway.ip("link set lo up");
        add_link(&gateway, 1, "dsl");
        add_link(&gateway, 2, "lte");
        ip("link add wan type veth peer name far");
        gateway.take("wan");
        server.take("far");
        gateway.ip("link set wan up");
        server.ip("link set far up");
        gateway.ip("address add 11.0.0.1/24 dev wan");
        server.ip(&format!("address add {SERVER}/24 dev far"));
        serve_echoes(&server);
        let place = Place::new();
        Some(Self {
            place,
            gateway,
            server,
        })
    }

    fn serve(&self) -> Daemon {
        let invite = self.place.path("invite");
        let mut serve = self.gateway.command(HAWSER);
        serve.arg("--state").arg(self.place.path("gateway"));
        serve.args(["serve", "--listen", "0.0.0.0:7443", "--packet-exit", "nat"]);
        serve.args(["--advertise", "10.1.0.1", "--advertise", "10.2.0.1"]);
        serve.arg("--invite-file").arg(&invite);
        let gateway = self.place.launch_command("gateway", serve);
        let listens = || gateway.listen(&self.place).is_some();
        until("the gateway listens", listens, || gateway.log());
        gateway
    }

    /// Has the client enrol.
    fn enrol(&self) {
        let arguments = ["up", "--listen", "127.0.0.1:0", "--gateway"];
        let invite = self.place.invite();
        let up = self
            .place
            .launch("client", &[&arguments[..], &[&invite]].concat());
        let is_enrolled = || {
            let status = self.place.status("client").unwrap_or_default();
            status["sessions"][0]["state"] == "established"
        };
        until("the client is enrolled", is_enrolled, || up.log());
        up.end();
    }

    /// A script of Python in a network of its own.
    fn enclosed(&self, script: &str) -> Command {
        let run = ["run", "--tun", "--", "python3", "-c", script];
        self.place.hawser("client", &run)
    }

    fn counter(&self, name: &str) -> u64 {
        let status = self.place.status("gateway").unwrap();
        status["counters"][name].as_u64().unwrap()
    }

    fn setting(&self, name: &str) -> String {
        said(self.gateway.command("cat").arg(format!("/proc/sys/{name}")))
    }

    fn rules(&self) -> String {
        said(self.gateway.command("nft").args(["list", "ruleset"]))
    }
}

/// What packets need and this machine has not.
fn missing() -> Option<&'static str> {
    let has = |program: &str| Command::new(program).arg("-V").output().is_ok();
    let tun = || std::fs::OpenOptions::new().write(true).open("/dev/net/tun");
    let needs: [(&str, bool); 4] = [
        ("no nft here", has("nft")),
        ("no python3 here", has("python3")),
        ("no mount namespace here", has_mounts()),
        ("no /dev/net/tun here", tun().is_ok()),
    ];
    needs
        .into_iter()
        .find(|(_, is_here)| !is_here)
        .map(|(what, _)| what)
}

/// Mirrors datagrams and bytes, each at port 7.
fn serve_echoes(server: &Neighbour) {
    serve_there(server, async move |ready| {
        let datagrams = UdpSocket::bind((SERVER, 7)).await.unwrap();
        let listener = TcpListener::bind((SERVER, 7)).await.unwrap();
        ready.send(()).unwrap();
        let mirror = async {
            let mut bytes = vec![0; 65_536];
            while let Ok((length, from)) = datagrams.recv_from(&mut bytes).await {
                let _ = datagrams.send_to(&bytes[..length], from).await;
            }
        };
        let echo = async {
            while let Ok((mut stream, from)) = listener.accept().await {
                tokio::spawn(async move {
                    // Whom the server sees.
                    let seen = format!("{}\n", from.ip());
                    let _ = stream.write_all(seen.as_bytes()).await;
                    let (mut read, mut write) = stream.split();
                    let mut bytes = vec![0; 65_536];
                    while let Ok(length @ 1..) = read.read(&mut bytes).await {
                        let _ = write.write_all(&bytes[..length]).await;
                    }
                });
            }
        };
        tokio::join!(mirror, echo);
    });
}

fn said(command: &mut Command) -> String {
    let output = command.output().unwrap();
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[test]
fn a_program_has_a_network_of_its_own_and_leaves_the_machines_alone() {
    let test = "packets::a_program_has_a_network_of_its_own_and_leaves_the_machines_alone";
    in_namespace(test, || {
        let Some(net) = Internet::new(test) else {
            return;
        };
        let before = [net.setting("net/ipv4/ip_forward"), net.rules()];
        let gateway = net.serve();
        net.enrol();
        let own = said(Command::new("ip").args(["-4", "route", "list", "table", "all"]));
        let ended = Ended::of(
            net.enclosed(&with_udp(&format!("{SIZES}{STREAM}sys.exit(7)")))
                .output()
                .unwrap(),
        );
        assert_eq!(ended.code, 7, "{ended:?}\n{}", gateway.log());
        assert_eq!(
            ended.out, "[1, 1392, 1393, 9000]\n11.0.0.1 True\n",
            "{ended:?}"
        );
        assert_eq!(
            said(Command::new("ip").args(["-4", "route", "list", "table", "all"])),
            own
        );
        assert!(net.counter("packets-packets-up") > 8);
        assert!(net.counter("packets-packets-down") > 8);
        assert_eq!(net.setting("net/ipv4/ip_forward"), "1");
        // The kernel cleans up for one that is killed, and a guard does.
        gateway.kill();
        let after = || [net.setting("net/ipv4/ip_forward"), net.rules()];
        until(
            "all is as before",
            || after() == before,
            || format!("{:?}", after()),
        );
        let gateway = net.serve();
        assert_ne!(net.rules(), before[1]);
        gateway.end();
        assert_eq!(after(), before);
    });
}

#[test]
fn clients_send_by_their_own_addresses_to_where_their_streams_may_go() {
    let test = "packets::clients_send_by_their_own_addresses_to_where_their_streams_may_go";
    in_namespace(test, || {
        let Some(net) = Internet::new(test) else {
            return;
        };
        let gateway = net.serve();
        net.enrol();
        let ended = Ended::of(net.enclosed(&with_udp(REFUSED)).output().unwrap());
        assert_eq!(ended.out, "False False False False True\n", "{ended:?}");
        let log = gateway.log();
        assert!(net.counter("packets-refused") >= 3, "{log}");
        assert!(net.counter("packets-spoofed") >= 1, "{log}");
        assert_eq!(net.counter("packets-malformed"), 0, "{log}");
    });
}

#[test]
fn a_flow_outlives_its_links_and_its_gateway() {
    let test = "packets::a_flow_outlives_its_links_and_its_gateway";
    in_namespace(test, || {
        let Some(net) = Internet::new(test) else {
            return;
        };
        let gateway = net.serve();
        net.enrol();
        let done = net.place.path("done");
        let script = with_udp(FLOW).replace("DONE", done.to_str().unwrap());
        let mut program = net.enclosed(&script);
        let program = program
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let program = program.unwrap();
        let heard = net.place.path("done.heard");
        let count = || std::fs::read_to_string(&heard).unwrap_or_default().len();
        let goes_on = |what: &str, log: &dyn Fn() -> String| {
            let before = count();
            until(what, || count() > before + 5, log);
        };
        goes_on("it begins", &|| gateway.log());
        ip("link set dsl down");
        goes_on("it goes on over the other link", &|| gateway.log());
        ip("link set dsl up");
        ip("route add default via 10.1.0.1 dev dsl metric 100");
        gateway.kill();
        let gateway = net.serve();
        goes_on("it goes on over another gateway", &|| gateway.log());
        std::fs::write(&done, "").unwrap();
        let Output { status, stderr, .. } = program.wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&stderr);
        assert!(status.success(), "{errors}\n{}", gateway.log());
        // Still the machine's own network.
        drop(net.server);
    });
}

#[test]
fn a_program_in_its_own_network_finds_names_although_any_one_link_is_silent() {
    let test = "packets::a_program_in_its_own_network_finds_names_although_any_one_link_is_silent";
    in_namespace(test, || {
        serve_names_if_asked();
        if let Some(missing) = missing() {
            return hawser_skip::skip(&format!("end_to_end::{test}"), missing);
        }
        for silent in ["dsl", "lte"] {
            let net = Net::new(test);
            let gateway = net.gateway_with(&["--packet-exit", "nat"]);
            let client = net.up(&["--gateway", &net.place.invite()]);
            net.until_complete(&client);
            client.end();
            net.set_silent(silent);
            let mut run = net.command(HAWSER);
            run.arg("--state").arg(net.place.path("client"));
            run.args([
                "run",
                "--tun",
                "--",
                "getent",
                "ahostsv4",
                "first.example.org",
            ]);
            let ended = Ended::of(run.output().unwrap());
            assert!(
                ended.out.starts_with(GATEWAY),
                "{ended:?}\n{}",
                gateway.log()
            );
        }
    });
}

#[test]
fn all_packets_of_a_machine_go_over_the_gateway_and_its_links_answer_by_themselves() {
    let test = "packets::all_packets_of_a_machine_go_over_the_gateway_and_its_links_answer_by_\
                themselves";
    in_namespace_of_root(test, || {
        let tried = Place::new().run("try", &["run", "--via", "kernel", "--", "true"]);
        if tried.code != 0 {
            hawser_skip::skip(&format!("end_to_end::{test}"), tried.err.trim());
            return;
        }
        let Some(net) = Internet::new(test) else {
            return;
        };
        let ways = || {
            let way = |arguments: &[&str]| said(Command::new("ip").args(arguments));
            [
                way(&["-4", "route", "get", SERVER]),
                way(&["rule"]),
                way(&["-6", "rule"]),
            ]
        };
        let before = ways();
        let gateway = net.serve();
        let invite = net.place.invite();
        let up = |arguments: &[&str]| {
            let always = ["up", "--listen", "127.0.0.1:0", "--capture", "system"];
            let up = net
                .place
                .launch("client", &[&always[..], arguments].concat());
            let are_carried =
                || up.listen(&net.place).is_some() && ways()[0].contains("dev hawser0");
            until("packets are carried", are_carried, || up.log());
            up
        };
        let client = up(&["--gateway", &invite]);
        let log = || format!("{}\n{}", client.log(), gateway.log());
        // Whatever does not go by the tunnel, the gateway's machine drops.
        let python = |script: &str| said(Command::new("python3").args(["-c", &with_udp(script)]));
        assert_eq!(python(DATAGRAMS), "True True", "{}", log());
        let packets = net.counter("packets-packets-up");
        assert!(packets >= 2, "{}", log());
        // TCP goes as streams.
        assert_eq!(python(STREAM), "11.0.0.1 True", "{}", log());
        let after = net.counter("packets-packets-up");
        assert!(after < packets + 50, "{packets}, {after}: {}", log());
        // Who comes by a link is answered by it.
        let listener = std::net::TcpListener::bind("10.2.0.2:8000").unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let _ = std::io::Write::write_all(&mut stream.unwrap(), b"here");
            }
        });
        let call = "exec 3<>/dev/tcp/10.2.0.2/8000 && cat <&3";
        let call = || {
            said(
                net.gateway
                    .command("timeout")
                    .args(["5", "bash", "-c", call]),
            )
        };
        assert_eq!(call(), "here", "{}", log());
        let own = ways()[0].clone();
        client.kill();
        assert_eq!(ways()[0], before[0], "what is left leads nowhere else");
        let client = up(&[]);
        assert_eq!(ways()[0], own, "the address lasts");
        client.end();
        assert_eq!(ways(), before);
    });
}

#[test]
fn what_a_tunnel_lacks_is_told() {
    let test = "packets::what_a_tunnel_lacks_is_told";
    in_namespace(test, || {
        let Some(net) = Internet::new(test) else {
            return;
        };
        let run = |arguments: &[&str]| {
            net.place
                .run("client", &[&["run", "--tun"], arguments].concat())
        };
        run(&["--", "true"]).expect(1, "no gateway is enrolled");
        run(&["--via", "shim", "--", "true"]).expect(2, "cannot be used with");
        let gateway = net.serve();
        net.enrol();
        run(&["--", "no-such-program"]).expect(127, "can't run no-such-program");
        assert_eq!(run(&["--", "sh", "-c", "exit 9"]).code, 9);
        gateway.end();
        // One that carries no packets.
        let mut serve = net.gateway.command(HAWSER);
        serve.arg("--state").arg(net.place.path("gateway"));
        serve.args(["serve", "--listen", "0.0.0.0:7443"]);
        let gateway = net.place.launch_command("gateway", serve);
        let listens = || gateway.listen(&net.place).is_some();
        until("the gateway listens", listens, || gateway.log());
        run(&["--", "true"]).expect(1, "--packet-exit nat");
    });
}

fn with_udp(script: &str) -> String {
    format!("{UDP}\n{script}")
}

const SERVER: &str = "11.0.0.2";
/// A datagram that comes back; it is sent again if that takes long.
const UDP: &str = "
import socket, sys, os, time
def udp():
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
def echo(s, to, payload, tries=20, patience=0.5):
    s.settimeout(patience)
    for i in range(tries):
        try:
            s.sendto(payload, to)
            got = s.recvfrom(65536)[0]
            if got == payload:
                return True
        except OSError:
            time.sleep(0.05)
    return False
";
const SIZES: &str = "
s = udp()
print([n for n in [1, 1392, 1393, 9000] if echo(s, ('11.0.0.2', 7), os.urandom(n))])
";
const DATAGRAMS: &str = "
unconnected = echo(udp(), ('11.0.0.2', 7), b'unconnected')
s = udp()
s.connect(('11.0.0.2', 7))
print(unconnected, echo(s, ('11.0.0.2', 7), b'connected'))
";
const STREAM: &str = "
t = socket.create_connection(('11.0.0.2', 7))
f = t.makefile('rb')
seen = f.readline().decode().strip()
payload = os.urandom(300000)
import threading
threading.Thread(target=lambda: t.sendall(payload), daemon=True).start()
print(seen, f.read(300000) == payload)
";
const REFUSED: &str = "
once = dict(tries=1, patience=0.3)
private = echo(udp(), ('10.1.0.1', 7), b'private', **once)
inner = echo(udp(), ('10.83.0.1', 7), b'inner', **once)
others = echo(udp(), ('10.83.0.77', 7), b'other', **once)
import subprocess
subprocess.run('ip address add 10.83.0.99/32 dev hawser0', shell=True)
s = udp()
s.bind(('10.83.0.99', 0))
spoofed = echo(s, ('11.0.0.2', 7), b'spoofed', **once)
print(private, inner, others, spoofed, echo(udp(), ('11.0.0.2', 7), b'own'))
";
const FLOW: &str = "
s = udp()
s.settimeout(0.05)
heard = open('DONE.heard', 'w')
number = 0
while not os.path.exists('DONE'):
    number += 1
    try:
        s.sendto(b'%d' % number, ('11.0.0.2', 7))
        s.recvfrom(100)
        heard.write('.')
        heard.flush()
        time.sleep(0.01)
    except OSError:
        pass
";
