//! Two hosts that are both behind address translators, so that neither can reach the other.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use hawser_skip::namespace::in_namespace;
use serde_json::Value;

use super::super::program::{Daemon, until};
use super::TIMED_OUT;
use super::stage::{Stage, echo};

/// Both hosts, which know each other and have enrolled with the gateway in the middle.
struct Pair {
    stage: Stage,
    gateway: Daemon,
    alice: Daemon,
    bob: Daemon,
}

impl Pair {
    /// `is_fickle`: whether Alice's translator, and Bob's, use another port for each destination.
    fn new(test: &str, is_fickle: [bool; 2], serving: &[&str], up: &[&str]) -> Option<Self> {
        let Some(stage) = Stage::behind_nat(is_fickle) else {
            hawser_skip::skip(&format!("end_to_end::{test}"), "no nft here");
            return None;
        };
        let gateway = stage.serve_with(serving);
        stage.know_each_other();
        let (for_bob, for_alice) = (stage.invite(), stage.invite());
        let up_bob = ["--offer", "7000", "--gateway", &for_bob];
        let bob = stage.up_bob(&[&up_bob, up].concat());
        let alice = stage.up_alice(&[&["--gateway", &for_alice], up].concat());
        stage.until_registered(&alice, &bob);
        Some(Self {
            stage,
            gateway,
            alice,
            bob,
        })
    }

    fn until_both_may_be_met(&self) {
        let both = || self.stage.counted("meeting-hosts") == 2;
        until("both may be met", both, || self.said());
    }

    /// A connection from Alice to a port that Bob offers.
    fn connect(&self) -> TcpStream {
        let connected = self.stage.connect(&self.alice, "bob.example.org", 7000);
        connected.unwrap_or_else(|code| panic!("{code}: {}", self.said()))
    }

    /// Whether both ends of the session of Alice with Bob send large amounts past the gateway. Each
    /// end decides for the data that it sends.
    fn is_direct(&self) -> bool {
        self.route("alice") == "direct" && self.route("bob") == "direct"
    }

    /// Returns the route of the session of both, as a daemon shows it.
    fn route(&self, state: &str) -> Value {
        let sessions = self.stage.sessions(state);
        let mut routes = sessions.iter().map(|it| it["route"].clone());
        routes.find(|route| !route.is_null()).unwrap_or_default()
    }

    fn until_direct(&self) {
        until("UDP goes straight", || self.is_direct(), || self.said());
    }

    /// Returns the bytes that the gateway has relayed, in both directions.
    fn relayed(&self) -> u64 {
        let moved = ["up", "down"].map(|it| self.stage.counted(&format!("meeting-bytes-{it}")));
        moved.iter().sum()
    }

    fn said(&self) -> String {
        let logs = [&self.gateway, &self.alice, &self.bob].map(Daemon::log);
        format!(
            "gateway:\n{}\nalice:\n{}\nbob:\n{}",
            logs[0], logs[1], logs[2]
        )
    }

    fn end(self) {
        self.alice.end();
        self.bob.end();
        self.gateway.end();
    }
}

#[test]
fn a_gateway_that_both_know_passes_on_what_they_say() {
    let test = "by_name::behind_nat::a_gateway_that_both_know_passes_on_what_they_say";
    in_namespace(test, || {
        let arguments = ["--transport", "tcp"];
        let Some(pair) = Pair::new(test, [true; 2], &["--meet"], &arguments) else {
            return;
        };
        pair.until_both_may_be_met();
        let mut stream = pair.connect();
        echo(&mut stream, 1_000_000);
        let [there, back] =
            ["up", "down"].map(|it| pair.stage.counted(&format!("meeting-bytes-{it}")));
        assert!(there > 1_000_000 && back > 1_000_000, "{there} {back}");
        // What is said beside that, and no more.
        assert!(there + back < 2_200_000, "{there} {back}");
        pair.end();
    });
}

#[test]
fn without_a_gateway_that_does_so_one_line_says_what_is_missing() {
    let test = "by_name::behind_nat::without_a_gateway_that_does_so_one_line_says_what_is_missing";
    in_namespace(test, || {
        let Some(pair) = Pair::new(test, [true; 2], &[], &[]) else {
            return;
        };
        let connected = pair.stage.connect(&pair.alice, "bob.example.org", 7000);
        assert_eq!(connected.unwrap_err(), TIMED_OUT, "{}", pair.said());
        let log = pair.alice.log();
        let lines = log
            .lines()
            .filter(|line| line.contains("timed out connecting to the host"));
        let lines: Vec<_> = lines.collect();
        assert_eq!(lines.len(), 1, "{log}");
        assert!(lines[0].contains("needs `hawser serve --meet`"), "{log}");
        pair.end();
    });
}

#[test]
fn a_stream_goes_on_when_both_move_at_the_same_moment() {
    let test = "by_name::behind_nat::a_stream_goes_on_when_both_move_at_the_same_moment";
    in_namespace(test, || {
        let Some(pair) = Pair::new(test, [true; 2], &["--meet"], &[]) else {
            return;
        };
        pair.until_both_may_be_met();
        let mut stream = pair.connect();
        echo(&mut stream, 100_000);
        let begun = pair.stage.sessions_begun("bob");
        // No address of either end outlives this, and no port of a translator.
        pair.stage.move_alice(7);
        pair.stage.move_bob(7);
        echo(&mut stream, 300_000);
        assert_eq!(pair.stage.sessions_begun("bob"), begun, "{}", pair.said());
        pair.end();
    });
}

#[test]
fn udp_goes_straight_where_translators_keep_a_port_for_each_socket() {
    let test =
        "by_name::behind_nat::udp_goes_straight_where_translators_keep_a_port_for_each_socket";
    in_namespace(test, || {
        let Some(pair) = Pair::new(test, [false; 2], &["--meet"], &[]) else {
            return;
        };
        pair.until_both_may_be_met();
        let mut stream = pair.connect();
        echo(&mut stream, 10_000);
        pair.until_direct();
        let before = pair.relayed();
        echo(&mut stream, 3_000_000);
        // Reports of the session's state and the like go there still.
        let relayed = pair.relayed() - before;
        assert!(relayed < 300_000, "{relayed}: {}", pair.said());
        pair.end();
    });
}

#[test]
fn what_goes_straight_comes_back_to_the_gateway_and_leaves_it_again() {
    let test =
        "by_name::behind_nat::what_goes_straight_comes_back_to_the_gateway_and_leaves_it_again";
    in_namespace(test, || {
        let Some(pair) = Pair::new(test, [false; 2], &["--meet"], &[]) else {
            return;
        };
        pair.until_both_may_be_met();
        let mut stream = pair.connect();
        echo(&mut stream, 10_000);
        pair.until_direct();
        let begun = pair.stage.sessions_begun("bob");
        let before = pair.relayed();
        let mut writing = stream.try_clone().unwrap();
        let sent: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
        let copy = sent.clone();
        let (dropped, is_dropped) = std::sync::mpsc::channel();
        let writer = std::thread::spawn(move || {
            // All of the first half may have come back before the other program has dropped UDP.
            let (before, after) = copy.split_at(copy.len() / 2);
            writing.write_all(before)?;
            is_dropped.recv().unwrap();
            writing.write_all(after)
        });
        let mut came = vec![0; sent.len()];
        let (first, rest) = came.split_at_mut(500_000);
        stream.read_exact(first).unwrap();
        pair.stage.drop_udp(true);
        dropped.send(()).unwrap();
        stream.read_exact(rest).unwrap();
        writer.join().unwrap().unwrap();
        assert!(came == sent);
        assert!(pair.relayed() - before > 500_000, "{}", pair.said());
        pair.stage.drop_udp(false);
        pair.until_direct();
        let before = pair.relayed();
        echo(&mut stream, 1_000_000);
        let relayed = pair.relayed() - before;
        assert!(relayed < 200_000, "{relayed}: {}", pair.said());
        assert_eq!(pair.stage.sessions_begun("bob"), begun, "{}", pair.said());
        pair.end();
    });
}

#[test]
fn everything_stays_with_the_gateway_where_both_translators_are_fickle() {
    let test =
        "by_name::behind_nat::everything_stays_with_the_gateway_where_both_translators_are_fickle";
    in_namespace(test, || {
        let Some(pair) = Pair::new(test, [true; 2], &["--meet"], &[]) else {
            return;
        };
        pair.until_both_may_be_met();
        let mut stream = pair.connect();
        echo(&mut stream, 10_000);
        let told = |what: &str| pair.alice.log().matches(what).count();
        let again = || told("UDP still does not pass between the hosts") > 0;
        until("it is tried again", again, || pair.said());
        let once = told("UDP does not pass between the hosts: the gateway relays their data");
        assert_eq!(once, 1, "{}", pair.said());
        let before = pair.relayed();
        echo(&mut stream, 300_000);
        assert!(pair.relayed() - before > 600_000, "{}", pair.said());
        assert_eq!(pair.route("alice"), "relayed");
        assert_eq!(pair.route("bob"), "relayed");
        pair.end();
    });
}
