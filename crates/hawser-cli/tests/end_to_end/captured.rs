//! `hawser up --capture`: programs without any knowledge of Hawser, over two real links.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use hawser_capture::{CaptureError, RunGroup};
use hawser_skip::namespace::{Neighbour, in_namespace_of_root, ip};
use serde_json::Value;
use tokio::net::UdpSocket;

use super::connections::{serve_echo, serve_there, serve_web, two_links};
use super::program::{Daemon, Place, until};

#[test]
fn programs_in_a_captured_group_use_both_links_until_the_daemon_is_killed() {
    let name = "captured::programs_in_a_captured_group_use_both_links_until_the_daemon_is_killed";
    captured(name, |stage| {
        let (group, neighbour) = (&stage.group, &stage.neighbour);
        assert_eq!([(); 4].map(|()| from(group, SERVER)), [DSL, LTE, DSL, LTE]);
        // A network on a link is reached by that link alone.
        assert_eq!([(); 2].map(|()| from(group, "10.2.0.1")), [LTE, LTE]);
        let all_placed = || {
            let links = stage.links();
            links
                .iter()
                .all(|link| link["placed"].as_u64() >= Some(2) && link["open"] == 0)
        };
        until("the daemon has heard of all", all_placed, || stage.log());
        explained(&stage.place);
        gone(neighbour, group);
        neighbour.ip("link set lte up");
        until("lte is back", || from(group, SERVER) == LTE, || stage.log());
        stage.daemon.kill();
        assert_eq!(
            [(); 3].map(|()| from(group, SERVER)),
            [DSL; 3],
            "as without"
        );
    });
}

#[test]
fn a_link_that_falls_silent_is_left_out_until_it_answers_again() {
    let name = "captured::a_link_that_falls_silent_is_left_out_until_it_answers_again";
    captured(name, |stage| {
        let (group, neighbour) = (&stage.group, &stage.neighbour);
        // What would come back over dsl goes nowhere any more, and dsl keeps its carrier.
        neighbour.ip("route add blackhole 10.1.0.2/32");
        let mut codes = Vec::new();
        let mut in_a_row = 0;
        while in_a_row < 6 && codes.len() < 40 {
            let (code, address) = fetch(group, SERVER, 60);
            in_a_row = if address == LTE { in_a_row + 1 } else { 0 };
            codes.push(code);
        }
        assert_eq!(in_a_row, 6, "{codes:?} {}", stage.log());
        // Connections that waited for an answer over it got an error, and none had to wait for a
        // time-out.
        let told = codes.iter().filter(|code| **code == NOT_CONNECTED).count();
        assert!(told > 0 && !codes.contains(&TIMED_OUT), "{codes:?}");
        assert_eq!(stage.state("dsl"), "suspect");
        assert_eq!(stage.state("lte"), "sound");
        neighbour.ip("route del blackhole 10.1.0.2/32");
        until("dsl is back", || from(group, SERVER) == DSL, || stage.log());
        // The kernel's table is told before the daemon's own picture, or after it.
        let is_sound = || stage.state("dsl") == "sound";
        until("dsl is sound", is_sound, || stage.log());
        stage.daemon.end();
    });
}

#[test]
fn programs_hear_at_once_that_the_link_of_their_connection_is_switched_off() {
    let name = "captured::programs_hear_at_once_that_the_link_of_their_connection_is_switched_off";
    captured(name, |stage| {
        serve_echo(&stage.neighbour);
        // Connects, says so, and waits for what never comes.
        let script = "exec 3<>/dev/tcp/10.99.0.1/7000 && echo connected && read -u 3 && exit 9";
        let mut waiting = Command::new("bash");
        waiting.args(["-c", script]).stdout(Stdio::piped());
        stage.group.enter(&mut waiting).unwrap();
        let mut waiting = waiting.spawn().unwrap();
        let mut said = BufReader::new(waiting.stdout.take().unwrap());
        said.read_line(&mut String::new()).unwrap();
        let open = |name: &str| {
            let links = stage.links();
            let link = links.iter().find(|link| link["name"] == name).unwrap();
            link["open"].clone()
        };
        until("it is on the books", || open("dsl") == 1, || stage.log());
        ip("link set dsl down");
        until(
            "it has heard of it",
            || waiting.try_wait().unwrap().is_some(),
            || stage.log(),
        );
        assert_eq!(waiting.wait().unwrap().code(), Some(1), "{}", stage.log());
        stage.daemon.end();
    });
}

#[test]
fn a_server_that_answers_no_client_discredits_no_link() {
    let name = "captured::a_server_that_answers_no_client_discredits_no_link";
    captured(name, |stage| {
        let (group, neighbour) = (&stage.group, &stage.neighbour);
        neighbour.ip("route add blackhole 10.99.0.9/32");
        let codes = [(); 4].map(|()| fetch(group, "10.99.0.9", 2).0);
        assert_eq!(codes, [TIMED_OUT; 4], "{}", stage.log());
        assert_eq!(["dsl", "lte"].map(|link| stage.state(link)), ["sound"; 2]);
        let mut taken = [(); 4].map(|()| from(group, SERVER));
        taken.sort();
        assert_eq!(taken, [DSL, DSL, LTE, LTE]);
        stage.daemon.end();
    });
}

#[test]
fn connections_that_rules_keep_off_a_link_never_use_it() {
    let name = "captured::connections_that_rules_keep_off_a_link_never_use_it";
    captured(name, |stage| {
        let (group, neighbour) = (&stage.group, &stage.neighbour);
        neighbour.ip("route add blackhole 10.1.0.2/32");
        // Only a connection over lte could show that dsl is silent.
        let url = format!("http://{SERVER}:{KEPT_OFF_LTE}/");
        let codes = [(); 2].map(|()| ask(group, &url, 2).0);
        assert_eq!(codes, [TIMED_OUT; 2], "{}", stage.log());
        assert_eq!(stage.state("dsl"), "sound");
        stage.daemon.end();
    });
}

#[test]
fn the_kernel_follows_what_a_running_daemon_is_told() {
    let name = "captured::the_kernel_follows_what_a_running_daemon_is_told";
    captured(name, |stage| {
        let group = &stage.group;
        let say = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            let ended = stage.place.run("client", &words);
            assert_eq!(ended.code, 0, "{ended:?}");
        };
        let all = |expected: &str| {
            let is_so = || [(); 4].map(|()| from(group, SERVER)) == [expected; 4];
            until(expected, is_so, || stage.log());
        };
        let both = || {
            let is_so = || {
                let mut taken = [(); 4].map(|()| from(group, SERVER));
                taken.sort();
                taken == [DSL, DSL, LTE, LTE]
            };
            until("links take turns", is_so, || stage.log());
        };
        say("rule add --now --program curl --only lte");
        all(LTE);
        say("policy set --profile calls");
        say("rule add --now --program curl --only dsl");
        all(DSL);
        say("rule remove 1");
        all(LTE);
        say("rule remove 1");
        both();
        say("link lte --use never");
        all(DSL);
        say("link lte --use normal");
        both();
        say("link dsl --use backup");
        all(LTE);
        say("link dsl --use normal");
        say("policy set --connection-scheduler only-one");
        let is_one = || {
            let taken = [(); 4].map(|()| from(group, SERVER));
            taken.iter().all(|one| *one == taken[0])
        };
        until("one link takes all", is_one, || stage.log());
        say("policy set --connection-scheduler round-robin");
        both();
        stage.daemon.end();
    });
}

#[test]
fn datagrams_of_programs_count_for_the_allowances_of_links() {
    let name = "captured::datagrams_of_programs_count_for_the_allowances_of_links";
    captured(name, |stage| {
        serve_there(&stage.neighbour, async |ready| {
            let socket = UdpSocket::bind((SERVER, ECHO)).await.unwrap();
            ready.send(()).unwrap();
            let mut bytes = [0; 2000];
            while let Ok((length, from)) = socket.recv_from(&mut bytes).await {
                let _ = socket.send_to(&bytes[..length], from).await;
            }
        });
        // Eight flows of a question and its answer, 1000 bytes each.
        let ask =
            format!("exec 3<>/dev/udp/{SERVER}/{ECHO}; printf %1000s >&3; dd bs=2000 count=1 <&3");
        for _ in 0..8 {
            let mut bash = Command::new("bash");
            bash.args(["-c", &ask]);
            stage.group.enter(&mut bash).unwrap();
            assert_eq!(bash.output().unwrap().stdout.len(), 1000, "{}", stage.log());
        }
        // The connections that were made before sent less than one of these questions has.
        let is_counted = || {
            let [up, down] = stage.used();
            (8000..9000).contains(&up) && down >= 8000
        };
        until("all are on the links' accounts", is_counted, || {
            format!("{:?} {}", stage.used(), stage.log())
        });
        stage.daemon.end();
    });
}

#[test]
fn a_route_that_appears_is_kept_to() {
    let name = "captured::a_route_that_appears_is_kept_to";
    captured(name, |stage| {
        let (group, neighbour) = (&stage.group, &stage.neighbour);
        let office = "10.98.0.1";
        neighbour.ip("address add 10.98.0.1/32 dev lo");
        let is_spread = || {
            [(); 4]
                .map(|()| from(group, office))
                .contains(&LTE.to_owned())
        };
        assert!(is_spread());
        ip("route add 10.98.0.0/16 via 10.1.0.1 dev dsl");
        until("the route is kept to", || !is_spread(), || stage.log());
        assert_eq!([(); 8].map(|()| from(group, office)), [DSL; 8]);
        ip("route del 10.98.0.0/16");
        until("the route is forgotten", is_spread, || stage.log());
        stage.daemon.end();
    });
}

/// A daemon that captures a group whose connections take turns on two links, except those that a
/// rule for the group keeps off one of them.
struct Stage {
    place: Place,
    neighbour: Neighbour,
    group: RunGroup,
    daemon: Daemon,
}

/// Runs `body` if a group can be captured; otherwise reports that.
fn captured(name: &str, body: impl FnOnce(Stage)) {
    in_namespace_of_root(name, || {
        let group = match RunGroup::create() {
            Ok(group) => group,
            Err(error @ (CaptureError::NoControlGroups | CaptureError::NotPermitted(_))) => {
                return hawser_skip::skip(name, &error.to_string());
            }
            Err(error) => panic!("{error}"),
        };
        let (place, neighbour) = (Place::new(), two_links());
        serve_web(&neighbour);
        let scope = format!("cgroup:{}", group.path().display());
        let config = place.path("hawser.toml");
        let of_group = in_hierarchy(&group);
        let rule = format!("cgroup = \"{of_group}\"\nport = {KEPT_OFF_LTE}\nnever = \"lte\"");
        std::fs::write(&config, format!("[[rule]]\n{rule}\n")).unwrap();
        let config = ["--config", config.to_str().unwrap()];
        let arguments = ["up", "--listen", "127.0.0.1:0", "--capture", scope.as_str()];
        let policy = ["--connection-scheduler", "round-robin"];
        let daemon = place.start("client", &[&config[..], &arguments, &policy].concat());
        let is_known = || from(&group, SERVER) == LTE;
        until("the links are in the kernel's table", is_known, || {
            daemon.log()
        });
        body(Stage {
            place,
            neighbour,
            group,
            daemon,
        });
    });
}

impl Stage {
    fn links(&self) -> Vec<Value> {
        let status = &self.place.status("client").unwrap()["connections"];
        status["links"].as_array().unwrap().clone()
    }

    /// Returns the bytes that both links have sent and received this month.
    fn used(&self) -> [u64; 2] {
        let status = self.place.status("client").unwrap();
        ["sent_bytes", "received_bytes"].map(|key| {
            let links = status["links"].as_array().unwrap().iter();
            links.filter_map(|link| link["allowed"][key].as_u64()).sum()
        })
    }

    fn state(&self, name: &str) -> String {
        let links = self.links();
        let link = links.iter().find(|link| link["name"] == name).unwrap();
        link["state"].as_str().unwrap().to_owned()
    }

    fn log(&self) -> String {
        self.daemon.log()
    }
}

/// `hawser why` explains the connections that the kernel's program placed.
fn explained(place: &Place) {
    let ended = place.run("client", &["why", "--json", "--connections", "50"]);
    let report: Value = serde_json::from_str(&ended.out).unwrap();
    let placed = report["placed"]["connections"].as_array().unwrap();
    let to_server = placed.iter().filter(|it| it["address"] == SERVER);
    let to_server: Vec<_> = to_server.filter(|it| it["state"] == "ended").collect();
    assert!(to_server.len() >= 4, "{report}");
    for one in to_server {
        assert_eq!(
            (&one["program"], &one["in_kernel"]),
            (&"curl".into(), &true.into())
        );
        assert_eq!(one["scheduler"], "round-robin", "{one}");
        assert!(one["bytes_received"].as_u64() > Some(0), "{one}");
    }
    let by_turn = placed.iter().filter(|it| it["why"] == "turn");
    let links: std::collections::BTreeSet<_> = by_turn.map(|it| it["link"].as_str()).collect();
    assert_eq!(links, [Some("dsl"), Some("lte")].into());
}

/// A link without a carrier gets no more of them.
fn gone(neighbour: &Neighbour, group: &RunGroup) {
    neighbour.ip("link set lte down");
    until(
        "lte is left out",
        || [(); 3].map(|()| from(group, SERVER)) == [DSL; 3],
        String::new,
    );
}

/// Returns curl's source address in the group, as a server sees it.
fn from(group: &RunGroup, server: &str) -> String {
    fetch(group, server, 20).1
}

/// Returns curl's exit code and source address, after this many seconds at most.
fn fetch(group: &RunGroup, server: &str, seconds: u32) -> (i32, String) {
    ask(group, &format!("http://{server}:81/204"), seconds)
}

fn ask(group: &RunGroup, url: &str, seconds: u32) -> (i32, String) {
    let mut curl = Command::new("curl");
    curl.args(["-s", "-o", "/dev/null", "-m", &seconds.to_string()]);
    curl.args(["-w", "%{local_ip}", url]);
    group.enter(&mut curl).unwrap();
    let output = curl.output().unwrap();
    let address = String::from_utf8(output.stdout).unwrap();
    (output.status.code().unwrap(), address)
}

/// The group's path from the root of the hierarchy, as rules have it.
pub(crate) fn in_hierarchy(group: &RunGroup) -> String {
    let mount = hawser_capture::mount_point().unwrap();
    let path = group.path().strip_prefix(mount).unwrap();
    format!("/{}", path.display())
}

const SERVER: &str = "10.99.0.1";
/// No program listens there, so connections are refused.
const KEPT_OFF_LTE: u16 = 82;
/// The server sends datagrams to this port back.
const ECHO: u16 = 9007;
const DSL: &str = "10.1.0.2";
const LTE: &str = "10.2.0.2";
/// Exit codes of curl.
const NOT_CONNECTED: i32 = 7;
const TIMED_OUT: i32 = 28;
