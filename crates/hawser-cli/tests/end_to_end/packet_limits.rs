//! Limits of one client's packets at a gateway, which protect other clients.

use std::process::Stdio;

use hawser_skip::namespace::in_namespace;

use super::internet::{Internet, said, with_udp};
use super::program::{Ended, until};

/// The kernel's connection table is shared: the gateway's own connections are in it, too.
#[test]
fn one_clients_flows_are_bounded_and_others_go_on() {
    let test = "packet_limits::one_clients_flows_are_bounded_and_others_go_on";
    in_namespace(test, || {
        let Some(net) = Internet::new(test) else {
            return;
        };
        net.add_ipv6();
        let fast = "1000000";
        let limits = [
            "--packet-exit",
            "nat",
            "--packet-flows-per-client",
            "2000",
            "--packet-flows-per-second",
            fast,
        ];
        let gateway = net.serve_with(&limits);
        net.enrol();
        net.enrol_another("other");
        let done = net.done();
        let flood = with_udp(FLOOD).replace("DONE", done.to_str().unwrap());
        let mut flooding = net.enclosed(&flood);
        let flooding = flooding.stdout(Stdio::piped()).stderr(Stdio::piped());
        let flooding = flooding.spawn().unwrap();
        let has_begun = || done.with_extension("begun").exists();
        until("flows begin", has_begun, || gateway.log());
        let is_short = || established(&net).is_some_and(|it| (7000..=7440).contains(&it));
        if std::fs::exists(TRACKED).unwrap() {
            let said = || format!("{:?}", established(&net));
            until("idle connections are known for two hours", is_short, said);
        }
        let asking = net.enclosed_as("other", &with_udp(ASKING));
        let ended = Ended::of({ asking }.output().unwrap());
        let answered: u32 = ended.out.trim().parse().unwrap_or(0);
        assert!(answered >= 98, "{ended:?}\n{}", gateway.log());
        let flooded = Ended::of(flooding.wait_with_output().unwrap());
        let answered: u32 = flooded.out.trim().parse().unwrap_or(0);
        assert!(answered >= 1000, "those that may begin go on: {flooded:?}");
        let tracked = net.setting("net/netfilter/nf_conntrack_count");
        let tracked: u32 = tracked.parse().unwrap();
        assert!((1500..2500).contains(&tracked), "{tracked}, {flooded:?}");
        // It is counted while packets pass.
        let is_counted = || {
            let ping = net.enclosed_as("other", &with_udp(ONE)).output().unwrap();
            ping.status.success() && net.counter("packets-refused-flows") > 10_000
        };
        until("what was refused is counted", is_counted, || gateway.log());
        gateway.end();
    });
}

#[test]
fn flows_that_begin_too_fast_are_only_late() {
    let test = "packet_limits::flows_that_begin_too_fast_are_only_late";
    in_namespace(test, || {
        let Some(net) = Internet::new(test) else {
            return;
        };
        let gateway = net.serve_with(&["--packet-exit", "nat", "--packet-flows-per-second", "20"]);
        net.enrol();
        let ended = Ended::of(net.enclosed(&with_udp(BURST)).output().unwrap());
        let [at_once, later] = ["True True", "100"].map(|said| ended.out.contains(said));
        assert!(at_once && later, "{ended:?}\n{}", gateway.log());
    });
}

/// Returns the seconds for which the kernel keeps the client's TCP connection; `None` without it.
fn established(net: &Internet) -> Option<u32> {
    let listed = said(net.gateway.command("cat").arg(TRACKED));
    let is_meant = |line: &&str| line.contains("ESTABLISHED") && line.contains("dport=7 ");
    let line = listed.lines().find(is_meant)?;
    line.split_whitespace().nth(4)?.parse().ok()
}

/// Some kernels have no list.
const TRACKED: &str = "/proc/net/nf_conntrack";
/// 50,000 flows to answering destinations, in both families; then the number of answers.
const FLOOD: &str = "
import struct
v4 = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_UDP)
v6 = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_UDP)
v6.setsockopt(socket.IPPROTO_IPV6, 7, 6)
for s in (v4, v6):
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    s.setblocking(False)
answered = set()
def hear():
    for s, skip in ((v4, 20), (v6, 0)):
        try:
            while True:
                packet = s.recv(100)[skip:]
                answered.add((skip, packet[2:4]))
        except OSError:
            pass
echo(udp(), ('11.0.0.2', 7), b'begin')
t = socket.create_connection(('11.0.0.2', 7))
open('DONE.begun', 'w')
for port in range(10000, 35000):
    message = struct.pack('!HHHH', port, 7, 9, 0) + b'x'
    for s, to in ((v4, '11.0.0.2'), (v6, '2a00:11::2')):
        try:
            s.sendto(message, (to, 0))
        except OSError:
            pass
    hear()
    if port % 100 == 0:
        time.sleep(0.02)
for i in range(20):
    hear()
    time.sleep(0.05)
print(len(answered))
";
/// Fifty datagrams, each from its own socket, and fifty connections: the number of answers.
const ASKING: &str = "
def connects():
    try:
        return socket.create_connection(('11.0.0.2', 7), 10).recv(1) != b''
    except OSError:
        return False
asked = [echo(udp(), ('11.0.0.2', 7), b'%d' % i, 3, 3) for i in range(50)]
print(sum(asked) + sum(connects() for i in range(50)))
";
const ONE: &str = "
sys.exit(0 if echo(udp(), ('11.0.0.2', 7), b'one') else 1)
";
/// A hundred flows at once, some of which are answered at once; then a retry of the others.
const BURST: &str = "
sockets = [udp() for i in range(100)]
for s in sockets:
    s.setblocking(False)
    s.sendto(b'x', ('11.0.0.2', 7))
time.sleep(1)
def is_answered(s):
    try:
        return s.recv(10) == b'x'
    except OSError:
        return False
answered = sum(is_answered(s) for s in sockets)
print(answered > 10, answered < 90)
print(sum(echo(s, ('11.0.0.2', 7), b'y', 200, 0.5) for s in sockets))
";
