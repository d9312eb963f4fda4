use super::*;
use crate::scenario::no_files;

const EVENT: &str = "[[event]]\nat = \"1s\"\nlink = 2\naction = \"black-hole\"\n";

/// Links of 10 Mbit/s with these one-way delays, then `more` text.
fn scenario(delays: &[&str], more: &str) -> Scenario {
    let link = |delay: &&str| format!("[[link]]\nrate = \"10Mbit/s\"\ndelay = \"{delay}\"\n");
    let links: String = delays.iter().map(link).collect();
    let text = format!("payload = \"1MB\"\n{links}{more}");
    Scenario::parse("test", &text, &no_files).unwrap()
}

fn summary(singles: &[f64], mptcp: f64, warm: f64) -> Summary {
    Summary {
        direction: Direction::Put,
        payload: 1_000_000,
        singles: singles.iter().copied().map(Some).collect(),
        sum: Some(singles.iter().sum()),
        best_single: singles.iter().copied().reduce(f64::max),
        mptcp: Some(mptcp),
        hawser_first: None,
        hawser_warm: Some(warm),
        first_bonded: None,
        warm_bonded: None,
        tcp_wire: None,
        hawser_first_wire: None,
        hawser_warm_wire: None,
        overhead: None,
    }
}

/// Which base, how much of it is asked, and whether that is met.
fn judged(scenario: &Scenario, summary: &Summary) -> Vec<(String, f64, bool)> {
    let all = of(scenario, summary).into_iter();
    all.map(|verdict| {
        let Asked::AtLeast(least) = verdict.asked else {
            panic!("{verdict:?}");
        };
        let base = verdict.what.strip_prefix("put warm: of ").unwrap();
        (base.to_owned(), least, verdict.met)
    })
    .collect()
}

fn asked(scenario: &Scenario, summary: &Summary, base: &str) -> Option<(f64, bool)> {
    let all = judged(scenario, summary).into_iter();
    all.filter(|(name, ..)| name == base)
        .map(|(_, least, met)| (least, met))
        .next()
}

#[test]
fn like_links_are_set_against_best_sum_mptcp_and_rates() {
    let found = judged(
        &scenario(&["10ms", "10ms"], ""),
        &summary(&[9.5, 9.5], 18.5, 18.7),
    );
    let found: Vec<_> = found
        .iter()
        .map(|(base, least, met)| (base.as_str(), *least, *met))
        .collect();
    assert_eq!(
        found,
        [
            ("the best link", 0.98, true),
            ("the sum", 0.98, true),
            ("mptcp", 1.0, true),
            ("the links' rates", 0.97, false),
        ]
    );
}

#[test]
fn what_is_asked_of_the_sum_falls_as_round_trips_part() {
    let of = |delays: &[&str]| {
        let found = asked(
            &scenario(delays, ""),
            &summary(&[9.5, 9.5], 18.5, 18.0),
            "the sum",
        );
        found.map(|(least, _)| least)
    };
    assert_eq!(of(&["0ms", "0ms"]), Some(0.97));
    assert_eq!(of(&["10ms", "50ms"]), Some(0.98));
    assert_eq!(of(&["10ms", "51ms"]), Some(0.95));
    assert_eq!(of(&["5ms", "100ms"]), Some(0.95));
    assert_eq!(of(&["5ms", "101ms"]), None);
}

#[test]
fn a_link_of_less_than_a_twentieth_is_asked_for_nothing() {
    let found = asked(
        &scenario(&["10ms", "10ms"], ""),
        &summary(&[9.6, 0.4], 9.0, 9.5),
        "the sum",
    );
    assert_eq!(found, None);
}

#[test]
fn hawser_has_to_be_well_ahead_of_an_mptcp_that_leaves_room() {
    let links = scenario(&["10ms", "10ms"], "");
    let of = |mptcp| asked(&links, &summary(&[10.0, 10.0], mptcp, 19.0), "mptcp");
    assert_eq!(of(18.59), Some((1.05, false)));
    assert_eq!(of(18.61), Some((1.0, true)));
}

#[test]
fn with_events_only_mptcp_and_untouched_links_are_a_measure() {
    let found = judged(
        &scenario(&["10ms", "10ms"], EVENT),
        &summary(&[9.0, 9.5], 12.0, 9.1),
    );
    let found: Vec<_> = found
        .iter()
        .map(|(base, _, met)| (base.as_str(), *met))
        .collect();
    assert_eq!(found, [("the best link", true), ("mptcp", false)]);
}

#[test]
fn a_faulty_link_may_not_make_the_sound_ones_slower() {
    let links = scenario(&["10ms", "10ms", "10ms"], "loss = \"5%\"\n");
    let of = |own| {
        asked(
            &links,
            &summary(&[9.0, 9.0, 1.0], 9.0, own),
            "the links without loss",
        )
    };
    assert_eq!(of(17.9), Some((1.0, false)));
    assert_eq!(of(18.0), Some((1.0, true)));
}

#[test]
fn many_equal_links_are_set_against_one_of_them_when_the_payload_is_long() {
    let links = scenario(&["10ms"; 6], "");
    let mut found = summary(&[9.0; 6], 9.0, 49.5);
    assert_eq!(asked(&links, &found, "one of these links"), None);
    found.payload = 4_000_000;
    assert_eq!(
        asked(&links, &found, "one of these links"),
        Some((5.5, true))
    );
}

#[test]
fn a_first_transfer_is_set_against_a_recorded_one_of_no_smaller_payload() {
    let links = Scenario {
        name: "eq-50".to_owned(),
        ..scenario(&["10ms", "10ms"], "")
    };
    let mut found = summary(&[47.0, 47.0], 90.0, 94.0);
    found.hawser_first = Some(92.0);
    let recorded = |summary: &Summary| {
        let all = of(&links, summary).into_iter();
        all.filter(|verdict| verdict.what == "put first: Mbit/s, a VPN's")
            .map(|verdict| verdict.met)
            .collect::<Vec<_>>()
    };
    assert_eq!(recorded(&found), [false]);
    found.payload += 1;
    assert!(recorded(&found).is_empty());
}

#[test]
fn connections_to_a_discovered_server_must_be_bonded_and_carry_the_sum() {
    let links = scenario(&["10ms", "10ms"], "");
    let mut found = summary(&[10.0, 10.0], 18.0, 19.1);
    let met = |all: Vec<Verdict>| all.into_iter().map(|it| (it.what, it.met)).collect();
    let judged = |found: &Summary| -> Vec<_> { met(of_discovered(&links, found)) };
    let captured = |found: &Summary| -> Vec<_> { met(of_captured(&links, found)) };
    let of = |which: &str, bonded, sum| {
        let part = format!("put {which}: part that was bonded");
        [(part, bonded), (format!("put {which}: of the sum"), sum)]
    };
    let both = |first: [(String, bool); 2], later| [first, later].concat();
    // Whether they were bonded is not known.
    let unknown = both(of("first", false, false), of("later", false, true));
    assert_eq!(judged(&found), unknown);
    (found.first_bonded, found.warm_bonded) = (Some(0.0), Some(1.0));
    found.hawser_first = Some(9.8);
    let over_one = both(of("first", false, false), of("later", true, true));
    assert_eq!(judged(&found), over_one);
    // The kernel has placed the first one.
    assert_eq!(captured(&found), of("later", true, true));
    (found.first_bonded, found.hawser_first) = (Some(1.0), Some(19.5));
    found.hawser_warm = Some(18.9);
    let slow = both(of("first", true, true), of("later", true, false));
    assert_eq!(judged(&found), slow);
    assert_eq!(captured(&found), of("later", true, false));
}
