//! Packets of programs in networks of their own, over a gateway to a third network.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::Ordering;

use hawser_skip::name_server::serve_names_if_asked;
use hawser_skip::namespace::{in_namespace, ip};
use rustix::process::{Pid, Signal, kill_process};

use super::internet::{Internet, STREAM, missing, said, serve_discard, serve_echoes, with_udp};
use super::program::{Ended, read, until};
use super::silent_link::{GATEWAY, HAWSER, Net};

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
        // As a service manager does it: a signal to all of them.
        let all = || below(gateway.process());
        until(
            "there are a guard and nft",
            || all().len() == 2,
            || format!("{:?}", all()),
        );
        all().into_iter().for_each(terminate);
        assert_ne!(net.rules(), before[1]);
        gateway.end();
        assert_eq!(after(), before);
    });
}

#[test]
fn a_gateway_that_was_killed_may_still_be_putting_things_back_when_the_next_begins() {
    let test =
        "packets::a_gateway_that_was_killed_may_still_be_putting_things_back_when_the_next_begins";
    in_namespace(test, || {
        let Some(net) = Internet::new(test) else {
            return;
        };
        // What is left of the first: its guard, which is late.
        let mut guard = net.gateway.command(HAWSER);
        let guard = guard.arg("guard").stdin(Stdio::piped()).spawn();
        let mut guard = guard.unwrap();
        let table = "table inet hawser_hawser0 { flags owner; }";
        let mut input = guard.stdin.take().unwrap();
        writeln!(input, "set net/ipv4/ip_forward 0 1\nrules {table}").unwrap();
        until("it has a table", || !net.rules().is_empty(), String::new);
        let forwards = "echo 1 > /proc/sys/net/ipv4/ip_forward";
        said(net.gateway.command("sh").args(["-c", forwards]));
        let gateway = net.begin_serving(&["--packet-exit", "nat"]);
        let has_begun = || !below(gateway.process()).is_empty();
        until("the next one has a guard", has_begun, || gateway.log());
        drop(input);
        assert!(guard.wait().unwrap().success());
        let listens = || gateway.listen(&net.place).is_some();
        until("the gateway listens", listens, || gateway.log());
        assert_eq!(net.setting("net/ipv4/ip_forward"), "1");
        net.enrol();
        let ended = Ended::of(net.enclosed(&with_udp(STREAM)).output().unwrap());
        assert_eq!(ended.out, "11.0.0.1 True\n", "{ended:?}\n{}", gateway.log());
    });
}

#[test]
fn what_a_program_sends_last_arrives_although_it_does_not_wait() {
    let test = "packets::what_a_program_sends_last_arrives_although_it_does_not_wait";
    in_namespace(test, || {
        let Some(net) = Internet::new(test) else {
            return;
        };
        let gateway = net.serve();
        net.enrol();
        let swallowed = serve_discard(&net.server);
        let ended = Ended::of(net.enclosed(&with_udp(HASTY)).output().unwrap());
        let given: u64 = ended.out.trim().parse().unwrap();
        assert!(given > 300_000, "{ended:?}");
        let count = || swallowed.load(Ordering::Relaxed);
        let said = || format!("{} of {given}\n{}", count(), gateway.log());
        until("all of it arrives", || count() == given, said);
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
        let told = "113 113 113 111\n";
        let expected = format!("False False False False True\n{told}");
        assert_eq!(ended.out, expected, "{ended:?}");
        let log = gateway.log();
        assert!(net.counter("packets-refused") >= 3, "{log}");
        assert!(net.counter("packets-spoofed") >= 1, "{log}");
        assert_eq!(net.counter("packets-malformed"), 0, "{log}");
    });
}

#[test]
fn packets_reach_nothing_of_the_gateways_own_however_it_has_the_address() {
    let test = "packets::packets_reach_nothing_of_the_gateways_own_however_it_has_the_address";
    in_namespace(test, || {
        let Some(net) = Internet::new(test) else {
            return;
        };
        net.add_ipv6();
        serve_echoes(&net.gateway, "::");
        net.gateway.ip("route add local 11.22.33.0/24 dev lo");
        net.gateway.ip("-6 route add local 2600:44::/64 dev lo");
        // What comes from clients alone ends here, of which the list of addresses knows nothing: so
        // it is with an address that has come a moment ago.
        for (version, network) in [("-4", "11.22.40.0/24"), ("-6", "2600:50::/64")] {
            net.gateway
                .ip(&format!("{version} rule add iif hawser0 lookup 100"));
            let route = format!("{version} route add local {network} dev lo table 100");
            net.gateway.ip(&route);
        }
        let gateway = net.serve();
        net.enrol();
        net.gateway.ip("route add local 11.22.34.7 dev lo");
        net.gateway.ip("-6 route add local 2600:45::7 dev lo");
        let ended = Ended::of(net.enclosed(&with_udp(OWN)).output().unwrap());
        assert_eq!(ended.out, "[]\n[]\n6\n", "{ended:?}\n{}", gateway.log());
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
        let over_association = || {
            let status = net.place.status("gateway").unwrap_or_default();
            status["counters"]["sessions-packets-received"].as_u64()
        };
        let is_carried = || over_association().is_some_and(|count| count > 20);
        until("the association carries it", is_carried, || gateway.log());
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

/// Returns the descendants of a process.
pub(crate) fn below(process: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).into_iter();
    let lists = tasks
        .flatten()
        .map(|task| task.unwrap().path().join("children"));
    let lists: String = lists.map(|list| read(&list)).collect();
    let children = lists.split_whitespace().map(|id| id.parse().unwrap());
    let of_child = |child| [vec![child], below(child)].concat();
    children.flat_map(of_child).collect()
}

fn terminate(process: u32) {
    let process = i32::try_from(process).ok().and_then(Pid::from_raw);
    let _ = kill_process(process.unwrap(), Signal::TERM);
}

/// Leaves everything to the system that the system takes from it.
const HASTY: &str = "
t = socket.socket()
t.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 400000)
t.connect(('11.0.0.2', 9))
t.setblocking(False)
print(t.send(bytes(600000)))
";
const SIZES: &str = "
s = udp()
print([n for n in [1, 1392, 1393, 9000] if echo(s, ('11.0.0.2', 7), os.urandom(n))])
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
def error(kind, to):
    s = socket.socket(socket.AF_INET, kind)
    s.settimeout(30)
    try:
        s.connect(to)
        s.send(b'refused')
        s.recv(1)
    except OSError as error:
        return error.errno
datagrams, stream = socket.SOCK_DGRAM, socket.SOCK_STREAM
private, inner, names = ('10.1.0.1', 7), ('10.83.0.1', 80), ('10.83.0.1', 53)
print(error(datagrams, private), error(stream, private), error(stream, inner), error(stream, names))
";
/// Which of the gateway's addresses answer a datagram, and which a connection; and the number of
/// answers that are expected: from the internet, and to pings of the inner addresses.
const OWN: &str = "
def answers(kind, to, protocol=0, message=b'x'):
    family = socket.AF_INET6 if ':' in to else socket.AF_INET
    s = socket.socket(family, kind, protocol)
    s.settimeout(2)
    try:
        s.connect((to, 7))
        s.send(message)
        return bool(s.recv(100))
    except OSError:
        return False
kinds = [socket.SOCK_DGRAM, socket.SOCK_STREAM]
inner = ['10.83.0.1', 'fd48:6177:7365:72::1']
own = ['11.22.33.9', '11.22.34.7', '11.22.40.9', '2600:44::9', '2600:45::7', '2600:50::9']
for kind in kinds:
    print([to for to in own + ['11.0.0.1', '2a00:11::1'] + inner if answers(kind, to)])
asked = [(kind, to) for kind in kinds for to in ['11.0.0.2', '2a00:11::2']]
asked += [(kinds[0], inner[0], socket.IPPROTO_ICMP, bytes([8, 0, 0, 0, 0, 0, 0, 1]))]
asked += [(kinds[0], inner[1], socket.IPPROTO_ICMPV6, bytes([128, 0, 0, 0, 0, 0, 0, 1]))]
print(sum(any(answers(*it) for i in range(5)) for it in asked))
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
