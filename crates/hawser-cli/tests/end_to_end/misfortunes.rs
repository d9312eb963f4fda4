//! Interference with packet mode: devices that disappear, daemons and networks that conflict,
//! firewalls beside it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Command, Stdio};

use hawser_skip::namespace::{in_namespace, in_namespace_of_root, ip};

use super::internet::{Internet, STREAM, local_python, said, with_udp};
use super::program::{Daemon, Ended, Place, until};
use super::silent_link::HAWSER;

#[test]
fn a_device_that_is_removed_renamed_or_set_down_is_made_again() {
    let test = "misfortunes::a_device_that_is_removed_renamed_or_set_down_is_made_again";
    in_namespace_of_root(test, || {
        let Some(net) = Internet::captured(test) else {
            return;
        };
        let gateway = net.serve();
        let client = net.up(&["--gateway", &net.place.invite()]);
        let log = || format!("{}\n{}", client.log(), gateway.log());
        for changes in [
            &["link del hawser0"][..],
            &["link set hawser0 down"],
            &[
                "link set hawser0 down",
                "link set hawser0 name mine",
                "link set mine up",
            ],
        ] {
            let begun = || client.log().matches("packets go over the gateway").count();
            let mut before = 0;
            // The daemon may have made it again between two of them.
            let is_changed = || {
                before = begun();
                changed_at_once(changes)
            };
            until("the device is changed", is_changed, log);
            until("the device is made again", || begun() > before, log);
            let way = || said(Command::new("ip").args(["route", "get", "11.0.0.2"]));
            until("routes lead to it", || way().contains("dev hawser0"), log);
            assert_eq!(echoed("11.0.0.2"), "True", "{changes:?}\n{}", log());
            let devices = || said(Command::new("ip").args(["-br", "link"]));
            until(
                "it is not left behind",
                || !devices().contains("mine"),
                devices,
            );
        }
        client.end();
        assert_eq!(
            said(Command::new("ip").args(["route", "list", "table", "5210"])),
            ""
        );
    });
}

#[test]
fn a_gateways_device_that_is_removed_or_set_down_is_made_again() {
    let test = "misfortunes::a_gateways_device_that_is_removed_or_set_down_is_made_again";
    in_namespace(test, || {
        let Some(net) = Internet::new(test) else {
            return;
        };
        let gateway = net.serve();
        net.enrol();
        let mut enclosed = net.enclosed(&with_udp(ECHO_BY_LINE));
        let enclosed = enclosed.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut program = enclosed.spawn().unwrap();
        let mut asks = program.stdin.take().unwrap();
        let mut answers = BufReader::new(program.stdout.take().unwrap()).lines();
        let mut is_echoed = || {
            writeln!(asks).unwrap();
            answers.next().unwrap().unwrap() == "True"
        };
        assert!(is_echoed(), "{}", gateway.log());
        for change in ["link del hawser0", "link set hawser0 down"] {
            let begun = || gateway.log().matches("packets are carried again").count();
            let before = begun();
            net.gateway.ip(change);
            until(
                "the device is made again",
                || begun() > before,
                || gateway.log(),
            );
            // By the same tunnel, with the same address.
            assert!(is_echoed(), "{change}\n{}", gateway.log());
        }
        // Not beside a network that has come meanwhile.
        net.gateway.ip("address add 10.83.9.1/32 dev wan");
        net.gateway.ip("link del hawser0");
        let told = "packet-pool is 10.83.0.0/16, and wan of this machine has 10.83.9.1";
        let is_told = || gateway.log().contains(told);
        until("the clash is told", is_told, || gateway.log());
        net.gateway.ip("address del 10.83.9.1/32 dev wan");
        assert!(is_echoed(), "{}", gateway.log());
        drop(asks);
        let _ = program.wait();
        gateway.end();
        let left = net.rules();
        assert!(!left.contains("hawser_"), "{left}");
    });
}

#[test]
fn a_second_daemon_leaves_the_packets_of_the_first_alone() {
    let test = "misfortunes::a_second_daemon_leaves_the_packets_of_the_first_alone";
    in_namespace_of_root(test, || {
        let Some(net) = Internet::captured(test) else {
            return;
        };
        let gateway = net.serve();
        let first = net.up(&["--gateway", &net.place.invite()]);
        let invite = said(
            net.gateway
                .command(HAWSER)
                .arg("--state")
                .args([net.place.path("gateway").to_str().unwrap(), "invite"]),
        );
        let rules = || said(Command::new("ip").arg("rule"));
        let before = rules();
        let arguments = [
            "up",
            "--listen",
            "127.0.0.1:0",
            "--capture",
            "system",
            "--gateway",
        ];
        let place = Place::new();
        let second = place.launch("client", &[&arguments[..], &[&invite]].concat());
        let is_told = || {
            let log = second.log();
            log.contains("another Hawser on this machine carries its packets already")
        };
        until("the second one is told", is_told, || second.log());
        let listens = || second.listen(&place).is_some();
        until("it listens all the same", listens, || second.log());
        assert_eq!(rules(), before, "{}", second.log());
        assert_eq!(
            echoed("11.0.0.2"),
            "True",
            "{}\n{}",
            first.log(),
            gateway.log()
        );
        second.end();
        assert_eq!(rules(), before);
        assert_eq!(
            echoed("11.0.0.2"),
            "True",
            "{}\n{}",
            first.log(),
            gateway.log()
        );
        first.end();
    });
}

#[test]
fn a_pool_that_is_used_up_is_told_and_has_room_again_later() {
    let test = "misfortunes::a_pool_that_is_used_up_is_told_and_has_room_again_later";
    in_namespace(test, || {
        let Some(net) = Internet::new(test) else {
            return;
        };
        let gateway = serve_with(&net, "packet-pool = [\"10.83.0.0/29\"]\n");
        net.enrol();
        let begin = || {
            let mut program = net.enclosed("print('here', flush=True); input()");
            let program = program.stdin(Stdio::piped()).stdout(Stdio::piped());
            program.stderr(Stdio::piped()).spawn().unwrap()
        };
        let mut here = vec![0; 5];
        let mut running = Vec::new();
        let refused = loop {
            assert!(
                running.len() < 8,
                "the pool has eight addresses: {}",
                gateway.log()
            );
            let mut program = begin();
            match program.stdout.as_mut().unwrap().read_exact(&mut here) {
                Ok(()) => running.push(program),
                Err(_) => break Ended::of(program.wait_with_output().unwrap()),
            }
        };
        refused.expect(1, "the gateway has no address left");
        assert!(running.len() > 3, "{}", gateway.log());
        let mut first = running.remove(0);
        drop(first.stdin.take());
        let _ = first.wait();
        let has_room = || {
            let mut program = begin();
            drop(program.stdin.take());
            Ended::of(program.wait_with_output().unwrap()).out == "here\n"
        };
        until("it has room again", has_room, || gateway.log());
        for mut program in running {
            let _ = program.kill();
            let _ = program.wait();
        }
    });
}

#[test]
fn a_pool_with_a_network_of_the_gateway_is_refused_and_one_of_the_client_is_not() {
    let test = "misfortunes::a_pool_with_a_network_of_the_gateway_is_refused_and_one_of_the_client_\
                is_not";
    in_namespace(test, || {
        let Some(net) = Internet::new(test) else {
            return;
        };
        let gateway = serve_with(&net, "packet-pool = [\"11.0.0.0/16\"]\n");
        let told = "packet-pool is 11.0.0.0/16, and wan of this machine has 11.0.0.1";
        assert!(gateway.log().contains(told), "{}", gateway.log());
        gateway.end();
        // The client's network has the inner addresses of both ends.
        ip("address add 10.83.0.2/16 dev lte");
        let gateway = net.serve();
        net.enrol();
        let output = net.enclosed(&with_udp(STREAM)).output().unwrap();
        let ended = Ended::of(output);
        assert_eq!(ended.out, "11.0.0.1 True\n", "{ended:?}\n{}", gateway.log());
    });
}

#[test]
fn packets_go_over_links_that_have_only_ipv6() {
    let test = "misfortunes::packets_go_over_links_that_have_only_ipv6";
    in_namespace(test, || {
        let Some(net) = Internet::new(test) else {
            return;
        };
        net.add_ipv6();
        for (number, link) in (1..).zip(["dsl", "lte"]) {
            ip(&format!("-4 address flush dev {link}"));
            let at = format!("2001:db8:{number}::");
            ip(&format!("address add {at}2/64 dev {link} nodad"));
            net.gateway
                .ip(&format!("address add {at}1/64 dev {link} nodad"));
            ip(&format!(
                "route add default via {at}1 dev {link} metric {number}00"
            ));
        }
        let mut serve = net.gateway.command(HAWSER);
        serve.arg("--state").arg(net.place.path("gateway"));
        serve.args(["serve", "--listen", "[::]:7443", "--packet-exit", "nat"]);
        serve.args([
            "--advertise",
            "2001:db8:1::1",
            "--advertise",
            "2001:db8:2::1",
        ]);
        serve.arg("--invite-file").arg(net.place.path("invite"));
        let gateway = net.place.launch_command("gateway", serve);
        let listens = || gateway.listen(&net.place).is_some();
        until("the gateway listens", listens, || gateway.log());
        net.enrol();
        let script = format!("print(echo(udp(), ('11.0.0.2', 7), os.urandom(1300)))\n{STREAM}");
        let ended = Ended::of(net.enclosed(&with_udp(&script)).output().unwrap());
        assert_eq!(
            ended.out,
            "True\n11.0.0.1 True\n",
            "{ended:?}\n{}",
            gateway.log()
        );
        assert!(net.counter("packets-packets-up") > 8, "{}", gateway.log());
    });
}

#[test]
fn a_firewall_that_drops_what_is_forwarded_is_told_and_one_with_a_rule_lets_it_pass() {
    let test = "misfortunes::a_firewall_that_drops_what_is_forwarded_is_told_and_one_with_a_rule_\
                lets_it_pass";
    in_namespace(test, || {
        let Some(net) = Internet::new(test) else {
            return;
        };
        // As Docker has it.
        let rules = |more: &str| {
            let rules = format!(
                "add table ip filter; flush table ip filter; add chain ip filter DOCKER-USER; \
                 add chain ip filter FORWARD {{ type filter hook forward priority 0; policy drop; \
                 }}; add rule ip filter FORWARD jump DOCKER-USER; {more}"
            );
            assert_eq!(said(net.gateway.command("nft").arg(rules)), "");
        };
        rules("");
        let gateway = net.serve();
        net.enrol();
        let once = "print(echo(udp(), ('11.0.0.2', 7), b'once', tries=2))";
        let echo = || said(&mut net.enclosed(&with_udp(once)));
        assert_eq!(echo(), "False", "{}", gateway.log());
        for told in [
            "a firewall drops packets that it has no rule for",
            "ip filter FORWARD",
        ] {
            until(told, || gateway.log().contains(told), || gateway.log());
        }
        rules(
            "add rule ip filter DOCKER-USER iifname hawser0 accept; \
             add rule ip filter DOCKER-USER oifname hawser0 accept",
        );
        assert_eq!(echo(), "True", "{}", gateway.log());
        gateway.end();
        let left = net.rules();
        assert!(
            left.contains("DOCKER-USER") && !left.contains("hawser_"),
            "{left}"
        );
    });
}

#[test]
fn packets_reach_the_gateway_itself_only_where_its_owner_allows_that() {
    let test = "misfortunes::packets_reach_the_gateway_itself_only_where_its_owner_allows_that";
    in_namespace(test, || {
        let Some(net) = Internet::new(test) else {
            return;
        };
        super::connections::serve_there(&net.gateway, async move |ready| {
            let socket = tokio::net::UdpSocket::bind("11.0.0.1:7").await.unwrap();
            ready.send(()).unwrap();
            let mut bytes = [0; 2000];
            while let Ok((length, from)) = socket.recv_from(&mut bytes).await {
                let _ = socket.send_to(&bytes[..length], from).await;
            }
        });
        let reached = |is_public: bool| {
            let python = if is_public { "True" } else { "False" };
            let script = with_udp(&HAIRPIN.replace("PUBLIC", python));
            Ended::of(net.enclosed(&script).output().unwrap()).out
        };
        let gateway = net.serve();
        net.enrol();
        assert_eq!(reached(false), "False False False\n", "{}", gateway.log());
        assert!(net.counter("packets-refused") >= 3, "{}", gateway.log());
        gateway.end();
        let gateway = serve_with(&net, "allow-destination = [\"11.0.0.1/32\"]\n");
        assert_eq!(reached(true), "True False False\n", "{}", gateway.log());
    });
}

/// Makes one attempt for each input line.
const ECHO_BY_LINE: &str = "
own = udp()
for line in sys.stdin:
    print(echo(own, ('11.0.0.2', 7), b'here'), flush=True)
";

/// Expected answers are waited for.
const HAIRPIN: &str = "
once = dict(tries=4, patience=0.3)
public = echo(udp(), ('11.0.0.1', 7), b'public', **(dict() if PUBLIC else once))
private = echo(udp(), ('10.1.0.1', 7), b'private', **once)
inner = echo(udp(), ('10.83.0.1', 7), b'inner', **once)
print(public, private, inner)
";

fn command(net: &Internet, config: &str) -> Command {
    let mut serve = net.gateway.command(HAWSER);
    serve.arg("--state").arg(net.place.path("gateway"));
    serve.args(["--config", config]);
    serve.args(["serve", "--listen", "0.0.0.0:7443", "--packet-exit", "nat"]);
    serve.args(["--advertise", "10.1.0.1", "--advertise", "10.2.0.1"]);
    serve.arg("--invite-file").arg(net.place.path("invite"));
    serve
}

/// A gateway with keys of `[serve]`.
fn serve_with(net: &Internet, keys: &str) -> Daemon {
    let config = net.place.path("gateway.toml");
    std::fs::write(&config, format!("[serve]\n{keys}")).unwrap();
    let serve = command(net, config.to_str().unwrap());
    let gateway = net.place.launch_command("gateway", serve);
    let listens = || gateway.listen(&net.place).is_some();
    until("the gateway listens", listens, || gateway.log());
    gateway
}

/// Changes devices in one run of `ip`; false if a command fails.
fn changed_at_once(commands: &[&str]) -> bool {
    let mut ip = Command::new("ip")
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .spawn();
    let ip = ip.as_mut().unwrap();
    let written = ip
        .stdin
        .take()
        .unwrap()
        .write_all(commands.join("\n").as_bytes());
    written.unwrap();
    ip.wait().unwrap().success()
}

/// Whether a datagram of a program here comes back.
fn echoed(to: &str) -> String {
    let script = format!("print(echo(udp(), ('{to}', 7), b'here'))");
    said(&mut local_python(&script))
}
