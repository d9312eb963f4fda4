//! The kill switch, with programs that try everything to bypass it.

mod stage;

use std::io::Write as _;
use std::process::Command;

use hawser_skip::namespace::{in_namespace_of_root, ip};

use super::internet::said;
use super::program::{Ended, until};
use stage::{DIRECT, Machine, SIGNS, call, logged_in, refused};

pub(crate) use stage::{LINKS, Watch, of_hawser};

#[test]
// long: one run, through all that may happen to Hawser
fn nothing_leaves_past_hawser_until_the_kill_switch_is_removed_by_name() {
    let test = "kill_switch::nothing_leaves_past_hawser_until_the_kill_switch_is_removed_by_name";
    in_namespace_of_root(test, || {
        let Some(machine) = Machine::new(test) else {
            return;
        };
        let net = &machine.net;
        let gateway = net.serve();
        net.enrol();
        gateway.kill();
        let (mut login, terminal) = logged_in(&net.gateway);
        let Some(watch) = Watch::start(test) else {
            return;
        };
        let all = || LINKS.map(|link| watch.packets(link)).concat().join("\n");
        let leaked = || LINKS.map(|link| watch.leaked(link)).concat();
        let _leakers = machine.leakers();
        for sign in SIGNS {
            let is_seen = || all().contains(sign);
            until(&format!("{sign} leaves without it"), is_seen, all);
        }

        // The gateway is not there: only the attempts to reach it leave.
        let client = machine.launch(&["--kill-switch"]);
        let tried = || LINKS.iter().all(|link| of_hawser(&watch, link) > 0);
        until("it tries to reach its gateway", tried, || client.log());
        let captures = || client.log().contains("connections are captured");
        until("connections are captured", captures, || client.log());
        machine.let_them_try();
        // A user who was logged in before still gets the terminal's output.
        login.write_all(b"still here\n").unwrap();
        let terminal = Ended::of(terminal.wait_with_output().unwrap());
        assert_eq!(terminal.out, "still here\n", "{}", client.log());
        let gateway = net.serve();
        machine.until_carried(&client);
        let status = net.place.status("client").unwrap();
        let since = status["kill_switch"]["since_unix_ms"].clone();
        assert!(since.as_u64().is_some(), "{status}");
        let told = net.place.run("client", &["status"]);
        assert!(told.out.contains("`hawser kill-switch off`"), "{told:?}");
        let told = net.place.run("client", &["doctor"]);
        assert!(told.out.contains("warn  kill switch: on for"), "{told:?}");
        // Other commands pass it, too.
        assert!(told.out.contains("ok    gateway over dsl: "), "{told:?}");
        // What rules call direct leaves, and so does DHCP; who calls is answered.
        said(Command::new("python3").args(["-c", DIRECT]));
        for sign in ["11.0.0.2.4000: Flags [S]", "11.0.0.2.4000: UDP", ".67: "] {
            until(
                sign,
                || all().contains(sign),
                || format!("{}\n{}", all(), client.log()),
            );
        }
        assert_eq!(call(&net.gateway), ["here"; 2], "{}", client.log());
        machine.let_them_try();
        assert_eq!(leaked(), [""; 0], "{}", client.log());

        // The gateway goes.
        gateway.kill();
        let before = LINKS.map(|link| of_hawser(&watch, link));
        let again = || (0..LINKS.len()).all(|n| of_hawser(&watch, LINKS[n]) > before[n]);
        until("it tries to reach its gateway again", again, || {
            client.log()
        });
        machine.let_them_try();
        assert_eq!(leaked(), [""; 0], "{}", client.log());

        // Hawser goes, at once and in order.
        client.kill();
        assert_eq!(refused(), "[113, 113, 1]", "programs are told at once");
        let told = net.place.run("client", &["status"]);
        told.expect(1, "kill switch: on for");
        assert_eq!(call(&net.gateway), ["here"; 2]);
        machine.let_them_try();
        let gateway = net.serve();
        let client = machine.up(&["--kill-switch"]);
        let status = net.place.status("client").unwrap();
        assert_eq!(status["kill_switch"]["since_unix_ms"], since, "{status}");
        machine.let_them_try();
        client.end();
        assert_eq!(refused(), "[113, 113, 1]");
        machine.let_them_try();
        // One that was not told of it goes by it.
        let client = machine.up(&[]);
        let status = net.place.status("client").unwrap();
        assert_eq!(status["kill_switch"]["since_unix_ms"], since, "{status}");
        machine.let_them_try();
        client.end();
        assert_eq!(leaked(), [""; 0], "{}", gateway.log());

        // The programs have tried all the time.
        let off = machine.switch(&["off"]);
        assert_eq!(off.code, 0, "{off:?}");
        for link in LINKS {
            until("it is off", || !watch.leaked(link).is_empty(), all);
        }
        let off = machine.switch(&["off"]);
        assert_eq!(off.out, "the kill switch was off already\n", "{off:?}");
    });
}

#[test]
fn the_kill_switch_comes_back_unless_it_is_removed_by_name() {
    let test = "kill_switch::the_kill_switch_comes_back_unless_it_is_removed_by_name";
    in_namespace_of_root(test, || {
        let Some(machine) = Machine::new(test) else {
            return;
        };
        let net = &machine.net;
        let refuse = |arguments: &[&str], about: &str| {
            let always = ["up", "--listen", "127.0.0.1:0", "--kill-switch"];
            let ended = net.place.run("client", &[&always, arguments].concat());
            ended.expect(2, about);
            assert!(!machine.is_on(), "{ended:?}");
        };
        refuse(&[], "needs --capture system");
        refuse(&["--capture", "cgroup:/x"], "needs --capture system");
        refuse(&["--capture", "system"], "needs a gateway");
        refuse(&["--capture", "system", "--direct"], "needs a gateway");
        let open = ["up", "--kill-switch-allow", "10.0.0.0/8"];
        net.place
            .run("client", &open)
            .expect(2, "needs --kill-switch");
        let _gateway = net.serve();
        let invite = net.place.invite();
        let near = ["--kill-switch-allow", "10.1.0.0/24"];
        let arguments = [&["--kill-switch", "--gateway", &invite], &near[..]].concat();
        let client = machine.up(&arguments);
        assert!(machine.is_on(), "{}", client.log());
        // The network of that link is open, the other one is not.
        assert_eq!(refused(), "[111, 113, 0]", "{}", client.log());
        said(Command::new("nft").args(["flush", "ruleset"]));
        until("it is back", || machine.is_on(), || client.log());
        assert_eq!(refused(), "[111, 113, 0]", "{}", client.log());
        let off = machine.switch(&["off"]);
        assert_eq!(off.code, 0, "{off:?}");
        assert!(!machine.is_on(), "{}", client.log());
        let is_told = || client.log().contains("removed on request");
        until("the daemon knows", is_told, || client.log());
        let status = net.place.status("client").unwrap();
        assert!(status["kill_switch"].is_null(), "{status}");
        assert_eq!(refused(), "[111, 111, 0]", "{}", client.log());
        client.end();
    });
}

/// It is closed like all others, even if it becomes a link after the switch was turned on.
fn a_link_is_no_network_behind_this_machine(machine: &Machine) {
    let place = &machine.net.place;
    let config = place.path("inside.toml");
    let inside = format!("[up]\ncapture = [\"lan:{}\"]\n", LINKS[0]);
    std::fs::write(&config, inside).unwrap();
    let with_config = |arguments: &[&str]| {
        let config = ["--config", config.to_str().unwrap()];
        place.run("client", &[&config, arguments].concat())
    };
    let is_a_link = "is a link: a default route leads by it";
    with_config(&["kill-switch", "on"]).expect(1, is_a_link);
    assert!(machine.is_on());
    assert_eq!(refused(), "[113, 113, 1]");
    // Before DHCP and IPv6 have told of a router.
    let tables = [("-4", "main"), ("-6", "main"), ("-4", "100")];
    let routes = tables.map(|(family, table)| {
        let of = [
            family, "route", "show", "default", "dev", LINKS[0], "table", table,
        ];
        let route = said(Command::new("ip").args(of));
        let rest = format!("{} dev {} table {table}", route.trim(), LINKS[0]);
        ip(&format!("{family} route del {rest}"));
        format!("{family} route add {rest}")
    });
    let on = with_config(&["kill-switch", "on"]);
    assert_eq!(on.code, 0, "{on:?}");
    assert_eq!(refused(), "[111, 113, 0]");
    routes.iter().for_each(|route| ip(route));
    with_config(&["up", "--listen", "127.0.0.1:0"]).expect(1, is_a_link);
    assert!(machine.is_on());
    assert_eq!(refused(), "[113, 113, 1]");
    let off = machine.switch(&["off"]);
    assert_eq!(off.code, 0, "{off:?}");
}

#[test]
fn a_kill_switch_from_before_the_network_is_taken_over() {
    let test = "kill_switch::a_kill_switch_from_before_the_network_is_taken_over";
    in_namespace_of_root(test, || {
        let Some(machine) = Machine::new(test) else {
            return;
        };
        let net = &machine.net;
        let gateway = net.serve();
        net.enrol();
        let Some(watch) = Watch::start_at(test, &net.gateway) else {
            return;
        };
        a_link_is_no_network_behind_this_machine(&machine);
        let _leakers = machine.leakers();
        for link in LINKS {
            let leaks = || !watch.leaked_since(0, link).is_empty();
            until("programs use the links", leaks, || {
                watch.packets(link).join("\n")
            });
            ip(&format!("link set {link} down"));
        }
        // As the machine boots: first the switch, then the links.
        let on = machine.switch(&["on"]);
        assert_eq!(on.code, 0, "{on:?}");
        let before = LINKS.map(|link| watch.packets(link).len());
        for (number, link) in (1..).zip(LINKS) {
            ip(&format!("link set {link} up"));
            let gateway = format!("10.{number}.0.1");
            ip(&format!(
                "route add default via {gateway} dev {link} metric {number}00"
            ));
        }
        machine.let_them_try();
        let on = machine.switch(&["on"]);
        assert_eq!(on.code, 0, "{on:?}");
        let client = machine.up(&["--kill-switch"]);
        let status = net.place.status("client").unwrap();
        assert!(status["kill_switch"]["since_unix_ms"].is_u64(), "{status}");
        machine.let_them_try();
        client.kill();
        machine.let_them_try();
        let leaked = (0..LINKS.len()).map(|n| watch.leaked_since(before[n], LINKS[n]));
        assert_eq!(
            leaked.collect::<Vec<_>>().concat(),
            [""; 0],
            "{}",
            gateway.log()
        );
        let off = machine.switch(&["off"]);
        assert_eq!(off.code, 0, "{off:?}");
        for (link, before) in LINKS.into_iter().zip(before) {
            let leaks = || !watch.leaked_since(before, link).is_empty();
            until("it is off", leaks, || watch.packets(link).join("\n"));
        }
    });
}
