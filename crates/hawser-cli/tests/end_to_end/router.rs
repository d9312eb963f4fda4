//! `hawser up --capture lan:INTERFACE`: hosts behind a router with two links, over a gateway to a
//! third network. They have an address and a default route, and nothing of Hawser.

mod closed;
mod overlap;
pub(crate) mod scripts;
mod shares;
pub(crate) mod stage;

use std::net::IpAddr;
use std::process::Command;

use hawser_config::IpNet;
use hawser_skip::name_server::serve_names_if_asked;
use hawser_skip::namespace::{in_namespace, in_namespace_of_root, ip};
use rustix::process::{Pid, Signal, kill_process};

use super::connections::serve_there;
use super::internet::{STREAM, local_python, said, with_udp};
use super::packets::below;
use super::program::{Ended, kernel_captures, until};
use super::silent_link::HAWSER;
use scripts::{
    ALL, ALL_SAY, ASK, CALL, HELD, MUCH, OWN, OWN_SAYS, REACHED, REFUSED, STREAM_ONLY, TALK,
};
use stage::{Router, answer_names_here, doctor, serve_here, state, v4, v6};

#[test]
fn hosts_behind_a_router_use_it_unconfigured_and_its_network_is_as_before_in_the_end() {
    let test = "router::hosts_behind_a_router_use_it_unconfigured_and_its_network_is_as_before_in_\
                the_end";
    in_namespace(test, || {
        serve_names_if_asked();
        let Some(router) = Router::new(test, 3) else {
            return;
        };
        let before = state();
        let gateway = router.net.serve();
        let up = router.up(&["--gateway", &router.place().invite()]);
        let log = || format!("{}\n{}", up.log(), gateway.log());
        let during = state();
        for said in router.at_all(ALL) {
            assert_eq!(said, ALL_SAY, "{}", log());
        }
        assert!(router.net.counter("packets-packets-up") > 9, "{}", log());
        hosts_are_told_apart(&router, log);
        // While a host has a connection, it is a stream, and nothing of it goes as packets.
        let mut talking = router.begin(1, TALK);
        let is_stream = || router.of_streams().contains(&v4(1));
        until("a stream of the host's", is_stream, || {
            format!("{:?}\n{}", router.of_streams(), log())
        });
        let status = router.place().status("client").unwrap();
        let taken = &status["counters"]["lan-accepted"];
        assert!(taken.as_u64() >= Some(7), "{status}");
        let packets = router.net.counter("packets-packets-up");
        assert_eq!(router.python(2, STREAM_ONLY), "True");
        let after = router.net.counter("packets-packets-up");
        assert!(after < packets + 50, "{packets}, {after}: {}", log());
        let _ = talking.kill();
        let _ = talking.wait();
        up.kill();
        let is_as_before = || state() == before;
        until("all is as before", is_as_before, || {
            format!("{:#?}", state())
        });
        let up = router.up(&[]);
        assert_eq!(state()[..2], during[..2]);
        assert_eq!(router.python(0, ALL), ALL_SAY, "{}", up.log());
        up.end();
        assert_eq!(state(), before);
    });
}

/// Each of three hosts has an address in the tunnel, with the same last bits as its own address.
fn hosts_are_told_apart(router: &Router, log: impl Fn() -> String) {
    for (to, own, pool) in [
        ("11.0.0.2:7", [0, 1, 2].map(v4), "10.83.128.0/17"),
        (
            "[2a00:11::2]:7",
            [0, 1, 2].map(v6),
            "fd48:6177:7365:72::/64",
        ),
    ] {
        let inner: Vec<IpAddr> = router.in_tunnel(to).into_iter().collect();
        let last: Vec<u8> = inner.iter().map(|it| last_bits(*it)).collect();
        let own = own.map(|it| last_bits(it.parse().unwrap()));
        assert_eq!(last, own, "{inner:?}\n{}", log());
        let pool: IpNet = pool.parse().unwrap();
        assert!(inner.iter().all(|it| pool.contains(it)), "{inner:?}");
    }
}

/// Returns the bits of an address that always distinguish hosts.
fn last_bits(address: IpAddr) -> u8 {
    let last = match address {
        IpAddr::V4(address) => address.octets()[3],
        IpAddr::V6(address) => address.octets()[15],
    };
    last & 0x3f
}

#[test]
fn twenty_hosts_call_ask_and_transfer_at_the_same_time() {
    let test = "router::twenty_hosts_call_ask_and_transfer_at_the_same_time";
    in_namespace(test, || {
        serve_names_if_asked();
        let Some(router) = Router::new(test, 20) else {
            return;
        };
        let gateway = router.net.serve();
        let up = router.up(&["--gateway", &router.place().invite()]);
        let log = || format!("{}\n{}", up.log(), gateway.log());
        for said in router.at_all(ALL) {
            assert_eq!(said, ALL_SAY, "{}", log());
        }
        for (script, what) in [(CALL, "packets of a call"), (MUCH, "bytes by TCP")] {
            let said = router.at_all(script).into_iter();
            let got: Vec<f64> = said.map(|it| it.parse().unwrap()).collect();
            assert!(got.iter().all(|it| *it > 0.0), "{what}: {got:?}\n{}", log());
            let least = got.iter().copied().fold(f64::INFINITY, f64::min);
            let most = got.iter().copied().fold(0.0, f64::max);
            println!(
                "{what}: {least} to {most} a host, Jain's index {:.3}",
                jain(&got)
            );
        }
        up.end();
    });
}

#[test]
fn tcp_of_hosts_goes_as_packets_where_a_rule_says_so_and_what_has_begun_goes_on() {
    let test =
        "router::tcp_of_hosts_goes_as_packets_where_a_rule_says_so_and_what_has_begun_goes_on";
    in_namespace(test, || {
        serve_names_if_asked();
        let Some(router) = Router::new(test, 1) else {
            return;
        };
        let rule = ["rule", "add", "--address", "11.0.0.0/24", "--mode"];
        let add = |arguments: &[&str]| {
            let added = router
                .place()
                .run("client", &[&rule[..], arguments].concat());
            assert_eq!(added.code, 0, "{added:?}");
        };
        add(&["packet", "--port", "1-100"]);
        let gateway = router.net.serve();
        let up = router.up(&["--gateway", &router.place().invite()]);
        let log = || format!("{}\n{}", up.log(), gateway.log());
        // The server itself refuses, and answers.
        assert_eq!(router.python(0, REFUSED), "111", "{}", log());
        assert_eq!(router.python(0, STREAM), "11.0.0.1 True", "{}", log());
        let status = router.place().status("client").unwrap();
        assert_eq!(status["counters"]["lan-accepted"], 0, "{status}");
        let flows = status["sessions"][0]["packet_flows"].as_array().unwrap();
        let is_it =
            |it: &serde_json::Value| it["protocol"] == "tcp" && it["destination"] == "11.0.0.2:7";
        assert!(flows.iter().any(is_it), "{status}");
        // Other rules hold for what begins after them, in either direction.
        let done = router.place().path("done");
        let begin = || router.begin(0, &HELD.replace("DONE", done.to_str().unwrap()));
        let as_packets = begin();
        until("it has begun", || done.with_extension("1").exists(), log);
        add(&["bonded", "--now"]);
        let is_taken = || router.python(0, REFUSED) == "0";
        until("hosts' TCP goes as streams", is_taken, log);
        let as_stream = begin();
        until(
            "another one has begun",
            || done.with_extension("2").exists(),
            log,
        );
        let removed = router.place().run("client", &["rule", "remove", "1"]);
        assert_eq!(removed.code, 0, "{removed:?}");
        let is_packets = || router.python(0, REFUSED) == "111";
        until("it goes as packets again", is_packets, log);
        std::fs::write(&done, "").unwrap();
        for held in [as_packets, as_stream] {
            let ended = Ended::of(held.wait_with_output().unwrap());
            assert_eq!(ended.out, "True\n", "{ended:?}\n{}", log());
        }
        up.end();
    });
}

/// Returns the evenness of shares, from 0 to 1 (Jain's index).
fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|it| it * it).sum();
    sum * sum / (shares.len() as f64 * squares)
}

#[test]
fn hosts_reach_no_more_of_the_router_than_without_hawser() {
    let test = "router::hosts_reach_no_more_of_the_router_than_without_hawser";
    in_namespace(test, || {
        serve_names_if_asked();
        let Some(router) = Router::new(test, 1) else {
            return;
        };
        // The router forwards, and the provider knows the way back.
        std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
        router
            .net
            .gateway
            .ip("route add 192.168.77.0/24 via 10.1.0.2");
        serve_here("127.0.0.1:8000");
        serve_here("10.1.0.2:8001");
        serve_here("0.0.0.0:8002");
        serve_there(&router.net.gateway, async move |ready| {
            let listener = tokio::net::TcpListener::bind("10.1.0.1:7").await.unwrap();
            ready.send(()).unwrap();
            while let Ok((mut stream, from)) = listener.accept().await {
                let seen = format!("{}\n", from.ip());
                let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, seen.as_bytes()).await;
            }
        });
        let before = router.python(0, REACHED);
        assert_eq!(before, "no here no no no no 192.168.77.10");
        let gateway = router.net.serve();
        let up = router.up(&["--gateway", &router.place().invite()]);
        let log = || format!("{}\n{}", up.log(), gateway.log());
        assert_eq!(router.python(0, REACHED), before, "{}", log());
        // A program of the router that finds the port leads nowhere by it.
        let table = said(Command::new("nft").args(["list", "table", "inet", "hawser_lan_hawser0"]));
        let port = table.split("to 127.0.0.1:").nth(1).unwrap();
        let port: String = port.chars().take_while(char::is_ascii_digit).collect();
        let stream = std::net::TcpStream::connect(format!("127.0.0.1:{port}"));
        let read = stream.and_then(|mut it| std::io::Read::read(&mut it, &mut [0]));
        assert!(!matches!(read, Ok(1..)), "{read:?}");
        // Who comes from outside finds no host.
        let mut ping = router.net.gateway.command("python3");
        let from_outside = format!("print(echo(udp(), ('{}', 9), b'x', tries=1))", v4(0));
        ping.args(["-c", &with_udp(&from_outside)]);
        assert_eq!(said(&mut ping), "False");
        up.end();
        assert_eq!(router.python(0, REACHED), before);
        // Without its table, which goes with the guard, TCP leads nowhere.
        let up = router.up(&[]);
        for process in below(up.process()) {
            let process = i32::try_from(process).ok().and_then(Pid::from_raw);
            let _ = kill_process(process.unwrap(), Signal::KILL);
        }
        let is_gone = || said(Command::new("nft").args(["list", "ruleset"])).is_empty();
        until("the table is gone", is_gone, || up.log());
        assert_eq!(router.python(0, REACHED), before, "{}", up.log());
    });
}

#[test]
fn what_a_router_lacks_is_told() {
    let test = "router::what_a_router_lacks_is_told";
    in_namespace(test, || {
        serve_names_if_asked();
        let Some(router) = Router::new(test, 1) else {
            return;
        };
        let up = |arguments: &[&str]| {
            let always = ["up", "--listen", "127.0.0.1:0"];
            router
                .place()
                .run("client", &[&always[..], arguments].concat())
        };
        up(&["--capture", "lan:lan"]).expect(2, "--capture lan: needs a gateway");
        up(&["--capture", "lan:lan", "--direct"]).expect(2, "--capture lan: needs a gateway");
        up(&["--capture", "lan:eth9"]).expect(
            1,
            "--capture lan:eth9: no interface is called eth9; there are lo, ",
        );
        let config = router.place().path("hawser.toml");
        std::fs::write(&config, "[up]\ncapture = \"lan:eth8\"\n").unwrap();
        up(&["--config", config.to_str().unwrap()])
            .expect(1, "--capture lan:eth8: no interface is called eth8");
        up(&["--capture", "lan:dsl"]).expect(1, "dsl is a link: a default route leads by it");
        up(&["--capture", "lan:lan", "--link", "lan"]).expect(1, "one of the links that are");
        ip("link add bridged type bridge");
        let on_bridge = up(&["--capture", "lan:bridged"]);
        match std::fs::read_to_string("/proc/sys/net/bridge/bridge-nf-call-iptables") {
            Ok(value) if value == "1\n" => on_bridge.expect(1, "bridged is a bridge whose frames"),
            // Next in line.
            _ => on_bridge.expect(2, "--capture lan: needs a gateway"),
        }
        up(&["--capture", "lan:"]).expect(2, "expected `system`, `cgroup:/PATH` or");
        up(&["--capture", "system", "--capture", "cgroup:/x"]).expect(2, "one of them");
        let mut without = router
            .place()
            .hawser("client", &["up", "--capture", "lan:lan"]);
        let ended = Ended::of(without.env("PATH", "/nowhere").output().unwrap());
        ended.expect(1, "cannot run nft, which the package nftables has");
        let mut without = router.place().hawser("client", &["doctor", "--json"]);
        let check = doctor(without.env("PATH", "/nowhere"));
        assert_eq!(check["status"], "warn", "{check}");
        assert!(check.to_string().contains("cannot run nft"), "{check}");
        let mut powerless = Command::new("setpriv");
        powerless.args(["--bounding-set", "-all", "--inh-caps", "-all", "--", HAWSER]);
        powerless.arg("--state").arg(router.place().path("client"));
        powerless.args(["up", "--capture", "lan:lan"]);
        let ended = Ended::of(powerless.output().unwrap());
        ended.expect(1, "this needs root, or CAP_NET_ADMIN");
    });
}

#[test]
fn while_the_gateway_carries_no_packets_hosts_are_left_alone() {
    let test = "router::while_the_gateway_carries_no_packets_hosts_are_left_alone";
    in_namespace(test, || {
        serve_names_if_asked();
        let Some(router) = Router::new(test, 1) else {
            return;
        };
        let before = state();
        let gateway = router.serve_streams();
        let arguments = ["up", "--listen", "127.0.0.1:0", "--capture", "lan:lan"];
        let invite = ["--gateway", &router.place().invite()];
        let arguments = [&arguments[..], &invite].concat();
        let up = router.place().launch("client", &arguments);
        let complaints = || {
            up.log()
                .matches("needs `hawser serve --packet-exit nat`")
                .count()
        };
        until("it is told", || complaints() > 0, || up.log());
        assert_eq!(state(), before);
        gateway.end();
        let gateway = router.net.serve();
        let is_routed = || up.log().contains("hosts are routed");
        until("hosts are routed", is_routed, || up.log());
        assert_eq!(router.python(0, STREAM_ONLY), "True", "{}", gateway.log());
        gateway.end();
        let told = complaints();
        let gateway = router.serve_streams();
        until("it is told again", || complaints() > told, || up.log());
        until(
            "all is as before",
            || state() == before,
            || format!("{:#?}", state()),
        );
        up.end();
        gateway.end();
    });
}

#[test]
fn a_name_server_of_the_router_goes_on_answering() {
    let test = "router::a_name_server_of_the_router_goes_on_answering";
    in_namespace(test, || {
        serve_names_if_asked();
        let Some(router) = Router::new(test, 1) else {
            return;
        };
        answer_names_here("192.168.77.1:53");
        let gateway = router.net.serve();
        let up = router.up(&["--gateway", &router.place().invite()]);
        let said = router.python(0, ASK);
        assert_eq!(said, "9.9.9.9 1.2.3.4", "{}\n{}", up.log(), gateway.log());
        let problem = "DNS queries at port 53 are not answered address=192.168.77.1";
        assert!(up.log().contains(problem), "{}", up.log());
        up.end();
    });
}

#[test]
fn a_router_sends_its_own_packets_by_the_same_tunnel_if_that_is_wanted() {
    let test = "router::a_router_sends_its_own_packets_by_the_same_tunnel_if_that_is_wanted";
    in_namespace_of_root(test, || {
        serve_names_if_asked();
        if !kernel_captures(test) {
            return;
        }
        let Some(router) = Router::new(test, 2) else {
            return;
        };
        let before = state();
        let gateway = router.net.serve();
        let up = router.up(&["--capture", "system", "--gateway", &router.place().invite()]);
        let log = || format!("{}\n{}", up.log(), gateway.log());
        for said in router.at_all(ALL) {
            assert_eq!(said, ALL_SAY, "{}", log());
        }
        let own = said(&mut local_python(&format!("{OWN}{STREAM}")));
        assert_eq!(own, OWN_SAYS, "{}", log());
        let way = said(Command::new("ip").args(["route", "get", "11.0.0.2"]));
        assert!(way.contains("dev hawser0"), "{way}");
        up.end();
        assert_eq!(state(), before);
    });
}
