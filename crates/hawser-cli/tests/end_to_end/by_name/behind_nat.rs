//! Two hosts that are both behind a translator of addresses, so that neither reaches the other.

use hawser_skip::namespace::in_namespace;

use super::super::program::{Daemon, until};
use super::TIMED_OUT;
use super::stage::{Stage, echo};

/// The two, who know each other and have enrolled with the gateway in the middle.
struct Pair {
    stage: Stage,
    gateway: Daemon,
    alice: Daemon,
    bob: Daemon,
}

impl Pair {
    /// `is_fickle`: whether Alice's translator, and Bob's, gives another port for each host.
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
        let connected = pair.stage.connect(&pair.alice, "bob.example.org", 7000);
        let mut stream = connected.unwrap_or_else(|code| panic!("{code}: {}", pair.said()));
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
            .filter(|line| line.contains("not reached in time"));
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
        let connected = pair.stage.connect(&pair.alice, "bob.example.org", 7000);
        let mut stream = connected.unwrap_or_else(|code| panic!("{code}: {}", pair.said()));
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
