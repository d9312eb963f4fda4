//! Hosts behind a router whose kill switch is on.

use std::process::Child;

use hawser_skip::name_server::serve_names_if_asked;
use hawser_skip::namespace::in_namespace_of_root;

use super::super::internet::said;
use super::super::kill_switch::{LINKS, Watch, of_hawser};
use super::super::program::{kernel_captures, read, until};
use super::scripts::{ALL, ALL_SAY, ANSWERED};
use super::stage::{Router, answer_here};

#[test]
fn a_kill_switch_keeps_hosts_from_leaving_past_hawser_and_from_nothing_else() {
    let test = "router::closed::a_kill_switch_keeps_hosts_from_leaving_past_hawser_and_from_\
                nothing_else";
    in_namespace_of_root(test, || {
        serve_names_if_asked();
        if !kernel_captures(test) {
            return;
        }
        let Some(router) = Router::new(test, 2) else {
            return;
        };
        answer_here("192.168.77.1:67");
        // Without Hawser the router would forward.
        std::fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
        let Some(watch) = Watch::start(test) else {
            return;
        };
        let all = || LINKS.map(|link| watch.packets(link)).concat().join("\n");
        let rounds = router.place().path("rounds");
        let _leaking = Leaking(router.begin(1, &LEAKS.replace("ROUNDS", rounds.to_str().unwrap())));
        let let_it_try = || {
            let before = read(&rounds).len();
            until("the host tries", || read(&rounds).len() > before + 2, all);
        };
        for sign in SIGNS {
            until(sign, || all().contains(sign), all);
        }

        let gateway = router.net.serve();
        let closed = ["--capture", "system", "--kill-switch"];
        let invite = ["--gateway", &router.place().invite()];
        let up = router.up(&[&closed[..], &invite].concat());
        let log = || format!("{}\n{}", up.log(), gateway.log());
        assert_eq!(router.python(0, ALL), ALL_SAY, "{}", log());
        // What the router itself answers, such as the requests of DHCP.
        assert_eq!(router.python(0, ANSWERED), "True", "{}", log());
        let_it_try();
        let leaked = || LINKS.map(|link| leaked(&watch, link)).concat();
        assert_eq!(leaked(), [""; 0], "{}", log());

        gateway.kill();
        let before = LINKS.map(|link| of_hawser(&watch, link));
        let tries = || (0..LINKS.len()).all(|n| of_hawser(&watch, LINKS[n]) > before[n]);
        until("it tries to reach its gateway", tries, || up.log());
        let_it_try();
        assert_eq!(leaked(), [""; 0], "{}", up.log());

        up.kill();
        let_it_try();
        assert_eq!(router.python(0, ANSWERED), "True");
        let gateway = router.net.serve();
        let up = router.up(&closed);
        let log = || format!("{}\n{}", up.log(), gateway.log());
        assert_eq!(router.python(0, ALL), ALL_SAY, "{}", log());
        let_it_try();
        up.end();
        let_it_try();
        assert_eq!(leaked(), [""; 0], "{}", gateway.log());
        let off = router.place().run("client", &["kill-switch", "off"]);
        assert_eq!(off.code, 0, "{off:?}");
        for link in LINKS {
            let leaks = || !self::leaked(&watch, link).is_empty();
            // The default route is by one link, and the host has no other.
            if said(std::process::Command::new("ip").args(["route", "get", "11.0.0.2"]))
                .contains(&format!("dev {link}"))
            {
                until("hosts leave without it", leaks, all);
            }
        }
    });
}

/// Returns the packets that leave by a link since Hawser's first packet, except Hawser's own and
/// its queries to the links' name servers on behalf of hosts.
fn leaked(watch: &Watch, link: &str) -> Vec<String> {
    let packets = watch.leaked(link).into_iter();
    let own = |it: &String| NAME_SERVERS.iter().any(|server| it.contains(server));
    packets.filter(|it| !own(it)).collect()
}

/// A program that is ended with this.
struct Leaking(Child);

impl Drop for Leaking {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const NAME_SERVERS: [&str; 2] = [" > 10.1.0.1.53: ", " > 10.2.0.1.53: "];
/// Marks of the host's attempts below, without Hawser.
const SIGNS: [&str; 4] = [
    "192.168.77.11.9201 > 11.0.0.2.7: UDP",
    " > 11.0.0.2.53: ",
    " > 11.0.0.2.7: Flags [S]",
    "ICMP echo request",
];
const LEAKS: &str = "
def attempt(kind, to, port=0, protocol=0, payload=b'leak'):
    try:
        with socket.socket(socket.AF_INET, kind, protocol) as s:
            s.setblocking(False)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if port:
                s.bind(('', port))
            if kind == socket.SOCK_STREAM:
                s.connect(to)
            else:
                s.sendto(payload, to)
    except OSError:
        pass
ping = bytes.fromhex('0800f7fe00010000')
rounds = open('ROUNDS', 'w')
while True:
    rounds.write('.')
    rounds.flush()
    attempt(socket.SOCK_DGRAM, ('11.0.0.2', 7), port=9201)
    attempt(socket.SOCK_DGRAM, ('11.0.0.2', 53), payload=question('of.server'))
    attempt(socket.SOCK_DGRAM, ('10.1.0.1', 9))
    attempt(socket.SOCK_STREAM, ('11.0.0.2', 7))
    attempt(socket.SOCK_RAW, ('11.0.0.2', 0), protocol=1, payload=ping)
    time.sleep(0.02)
";
