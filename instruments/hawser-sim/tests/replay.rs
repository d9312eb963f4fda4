//! Recordings of simulated runs: replayed, and turned into scenarios.

use std::path::Path;
use std::time::Duration;

use hawser_scenario::{Action, Direction, Scenario, no_files};
use hawser_sched::chunk::ChunkPolicy;
use hawser_session::recorder::Recording;
use hawser_sim::bond::BondConfig;
use hawser_sim::experiment::{self, Options, Singles};
use hawser_sim::replay::{conditions::Conditions, replay};
use hawser_types::ByteCount;

fn scenario(name: &str) -> Scenario {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let path = path.join(name).with_extension("toml");
    Scenario::load(&path, &|file| std::fs::read_to_string(file)).unwrap()
}

fn options(policy: ChunkPolicy) -> Options {
    let mut bond = BondConfig::default();
    bond.session.scheduler = policy;
    bond.session.recorder = ByteCount::from_mib(16);
    Options {
        seed: 1,
        payload: Some(ByteCount::from_mib(8)),
        transfers: 1,
        singles: Singles::None,
        ticks: true,
        observer: None,
        bond,
    }
}

/// The recording of a run, by way of its file.
fn record(name: &str, direction: Direction, policy: ChunkPolicy) -> Recording {
    let (_, recording) = experiment::record(&scenario(name), direction, &options(policy));
    Recording::parse(&recording.to_bytes()).unwrap()
}

#[test]
fn every_policy_decides_again_what_it_decided() {
    for policy in ChunkPolicy::ALL {
        for (name, direction) in [("wifi-lte", Direction::Put), ("on-off", Direction::Get)] {
            let report = replay(&record(name, direction, policy), None);
            assert!(report.is_whole && report.decisions > 100, "{report}");
            assert_eq!(report.same, report.decisions, "{name}: {report}");
            assert_eq!(report.recorded, policy.name());
        }
    }
}

#[test]
fn another_policy_decides_otherwise_and_the_report_says_where() {
    let recording = record("wifi-lte", Direction::Put, ChunkPolicy::Auto);
    let report = replay(&recording, Some(ChunkPolicy::RoundRobin));
    assert!(report.same < report.decisions, "{report}");
    assert!(!report.differences.is_empty());
    let text = report.to_string();
    assert!(text.contains("auto recorded for"), "{text}");
    assert!(text.contains("round-robin asked"), "{text}");
    assert!(text.contains("l1: ") && text.contains("l2: "), "{text}");
}

#[test]
fn a_recording_tells_what_its_links_could_do() {
    let recording = record("wifi-lte", Direction::Put, ChunkPolicy::Auto);
    let text = Conditions::of(&recording).unwrap().to_string();
    let derived = Scenario::parse("recorded", &text, &no_files).unwrap();
    let original = scenario("wifi-lte");
    assert_eq!(derived.directions, [Direction::Put]);
    assert_eq!(derived.links.len(), 2, "{text}");
    for (derived, original) in derived.links.iter().zip(&original.links) {
        let rate = |link: &hawser_scenario::Link| link.up.rate.bits_per_second() as f64;
        let ratio = rate(derived) / rate(original);
        assert!((0.7..1.3).contains(&ratio), "{ratio} {text}");
        let delay = original.up.delay;
        let range = delay * 9 / 10..delay + Duration::from_millis(5);
        assert!(range.contains(&derived.up.delay), "{text}");
    }
    // It is a scenario like any other.
    let options = Options {
        payload: None,
        ..options(ChunkPolicy::Backlog)
    };
    let report = experiment::run(&derived, Direction::Put, &options);
    assert!(report.transfers[0].goodput.is_some(), "{report:?}");
}

#[test]
fn a_silence_becomes_an_event_of_the_scenario() {
    let mut options = options(ChunkPolicy::Auto);
    options.payload = None;
    let original = scenario("black-hole-20-20");
    let (_, recording) = experiment::record(&original, Direction::Put, &options);
    let text = Conditions::of(&recording).unwrap().to_string();
    let derived = Scenario::parse("recorded", &text, &no_files).unwrap();
    let hole = derived.events.iter().find(|event| event.link == 1);
    let hole = hole.unwrap_or_else(|| panic!("{text}"));
    assert_eq!(hole.action, Action::BlackHole, "{text}");
    let seconds = hole.at.as_secs_f64();
    assert!((2.5..3.5).contains(&seconds), "{seconds} {text}");
}
