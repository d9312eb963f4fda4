//! A strict parser of the text format, and invariants of every rendering.

use std::collections::{BTreeMap, BTreeSet};

use hawser_control::{ConnectionsStatus, LinkState, LinkTraffic, StatusSnapshot};
use hawser_monitor::metrics::{MAX_LINKS, render};
use hawser_types::ByteCount;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

use super::sample::{link, placing, rich};

/// The samples of one name.
#[derive(Debug)]
pub(crate) struct Family {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) samples: Vec<Sample>,
}

/// One line with a value.
#[derive(Debug)]
pub(crate) struct Sample {
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) value: f64,
}

/// Parses a text, and fails where strict readers would.
pub(crate) fn parse(text: &str) -> Vec<Family> {
    let mut families: Vec<Family> = Vec::new();
    let text = text.strip_suffix('\n').expect("the last line ends");
    let mut lines = text.split('\n').peekable();
    while let Some(line) = lines.next() {
        let (name, help) = head(line, "# HELP ");
        let (named, kind) = head(lines.next().unwrap(), "# TYPE ");
        assert_eq!(name, named);
        assert!(is_name(name) && name.starts_with("hawser_"), "{name}");
        assert!(!help.is_empty() && !help.contains('\\'), "{help}");
        assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
        assert!(["counter", "gauge"].contains(&kind), "{kind}");
        assert!(families.iter().all(|it| it.name != name), "twice: {name}");
        let mut samples: Vec<Sample> = Vec::new();
        while let Some(line) = lines.next_if(|line| !line.starts_with('#')) {
            let sample = sample(name, line);
            let is_new = samples.iter().all(|it| it.labels != sample.labels);
            assert!(is_new, "twice: {line}");
            assert!(kind == "gauge" || sample.value >= 0.0, "{line}");
            samples.push(sample);
        }
        families.push(Family {
            name: name.to_owned(),
            kind: kind.to_owned(),
            samples,
        });
    }
    families
}

fn head<'a>(line: &'a str, begin: &str) -> (&'a str, &'a str) {
    let rest = line.strip_prefix(begin).unwrap_or_else(|| panic!("{line}"));
    rest.split_once(' ').unwrap_or_else(|| panic!("{line}"))
}

fn sample(name: &str, line: &str) -> Sample {
    let rest = line.strip_prefix(name).unwrap_or_else(|| panic!("{line}"));
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(rest) => labels(rest),
        None => (BTreeMap::new(), rest),
    };
    let value = rest.strip_prefix(' ').unwrap_or_else(|| panic!("{line}"));
    let value = match value {
        "NaN" => f64::NAN,
        "+Inf" => f64::INFINITY,
        "-Inf" => f64::NEG_INFINITY,
        digits => {
            let is_plain = |c: char| c.is_ascii_digit() || "+-.e".contains(c);
            assert!(digits.chars().all(is_plain), "{line}");
            digits.parse().unwrap_or_else(|_| panic!("{line}"))
        }
    };
    Sample { labels, value }
}

/// Returns the labels behind `{`, and the text behind `}`.
fn labels(mut rest: &str) -> (BTreeMap<String, String>, &str) {
    let mut labels = BTreeMap::new();
    loop {
        let (name, behind) = rest.split_once("=\"").expect("a label has a value");
        assert!(is_name(name) && !name.contains(':'), "{name}");
        let (value, behind) = quoted(behind);
        assert!(labels.insert(name.to_owned(), value).is_none(), "{name}");
        match behind.strip_prefix(',') {
            Some(behind) => rest = behind,
            None => return (labels, behind.strip_prefix('}').expect("the labels end")),
        }
    }
}

/// Returns a label's value, and the text behind its closing quotation mark.
fn quoted(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (value, &text[at + 1..]),
            '\\' => value.push(match characters.next() {
                Some((_, 'n')) => '\n',
                Some((_, escaped @ ('\\' | '"'))) => escaped,
                other => panic!("an unknown escape: {other:?}"),
            }),
            other => value.push(other),
        }
    }
    panic!("the value does not end: {text}");
}

fn is_name(name: &str) -> bool {
    let is_inner = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.chars().all(is_inner) && name.starts_with(|c: char| c.is_ascii_alphabetic())
}

fn family(families: &[Family], name: &str) -> BTreeMap<String, f64> {
    let found = families.iter().find(|it| it.name == name).unwrap();
    let one = |it: &Sample| {
        let labels: Vec<_> = it.labels.values().map(String::as_str).collect();
        (labels.join(" "), it.value)
    };
    found.samples.iter().map(one).collect()
}

#[test]
fn a_snapshot_s_values_are_in_base_units() {
    let text = render(&rich());
    assert!(!text.contains("not-a-label") && !text.contains("nor-this"));
    let families = parse(&text);
    for (name, labels, value) in [
        ("hawser_build_info", "client 0.1.0", 1.0),
        ("hawser_uptime_seconds", "", 61.5),
        ("hawser_relayed_bytes_total", "down", 2_000.0),
        ("hawser_proxy_connections", "", 3.0),
        ("hawser_events_total", "proxy-dial-errors-unreachable", 1.0),
        ("hawser_links", "up", 2.0),
        ("hawser_links", "no-internet", 0.0),
        ("hawser_link_state", "wlan0 up", 1.0),
        ("hawser_link_state", "wlan0 down", 0.0),
        (
            "hawser_link_state_since_timestamp_seconds",
            "wlan0",
            1_795_330_800.5,
        ),
        ("hawser_link_received_bytes_total", "wwan0", 40_000_000.0),
        ("hawser_link_rtt_seconds", "wwan0", 0.041_25),
        ("hawser_link_use", "up wwan0 backup", 1.0),
        ("hawser_link_use", "down wwan0 backup", 0.0),
        ("hawser_link_allowance_bytes", "wwan0", 1e10),
        ("hawser_link_allowance_used_up", "wwan0", 1.0),
        ("hawser_link_connections_total", "wlan0", 9.0),
        ("hawser_link_health", "suspect wlan0", 1.0),
        (
            "hawser_link_capacity_bytes_per_second",
            "up wlan0",
            625_000.0,
        ),
        ("hawser_connections_moved_over_total", "", 2.0),
        ("hawser_gateway_connect_seconds", "", 0.03),
        ("hawser_sessions", "established", 1.0),
        ("hawser_streams", "", 11.0),
        ("hawser_paths", "dead", 1.0),
        ("hawser_channels", "suspect", 2.0),
        ("hawser_channels_retransmitted_segments_total", "", 22.0),
        // Two of them belong to a session that has ended.
        ("hawser_sessions_repeated_chunks_total", "", 5.0),
        ("hawser_sessions_unsent_bytes", "", 4_000.0),
    ] {
        let samples = family(&families, name);
        assert_eq!(samples.get(labels), Some(&value), "{name}: {samples:?}");
    }
    let events = family(&families, "hawser_events_total");
    let names: Vec<_> = events.keys().map(String::as_str).collect();
    assert_eq!(names, ["proxy-accepted", "proxy-dial-errors-unreachable"]);
}

#[test]
fn the_names_are_the_same_whatever_goes_on_and_zero_is_said() {
    let names = |snapshot: &StatusSnapshot| -> Vec<_> {
        let families = parse(&render(snapshot));
        families.into_iter().map(|it| it.name).collect()
    };
    let nothing = StatusSnapshot::default();
    assert_eq!(names(&nothing), names(&rich()));
    let families = parse(&render(&nothing));
    for name in [
        "hawser_relayed_bytes_total",
        "hawser_connections_placed_total",
        "hawser_sessions",
        "hawser_streams",
        "hawser_sessions_repeated_chunks_total",
    ] {
        let samples = family(&families, name);
        assert!(!samples.is_empty(), "{name}");
        assert!(samples.values().all(|value| *value == 0.0), "{samples:?}");
    }
}

#[test]
fn what_a_link_counted_stays_when_it_goes_down() {
    let mut snapshot = rich();
    for link in &mut snapshot.links {
        link.state = LinkState::Down;
    }
    if let Some(connections) = &mut snapshot.connections {
        connections.links.clear();
    }
    let families = parse(&render(&snapshot));
    let sent = family(&families, "hawser_link_sent_bytes_total");
    assert_eq!(sent.get("wwan0"), Some(&5_000_000.0));
    let open = family(&families, "hawser_link_connections_open");
    assert_eq!(open.get("wwan0"), Some(&0.0));
}

#[test]
fn interfaces_without_a_way_out_are_only_counted() {
    let mut snapshot = rich();
    for (number, traffic) in [(9, LinkTraffic::default()), (10, link("", 0).traffic)] {
        let mut container = link(&format!("veth{number}"), number);
        container.state = LinkState::Unused;
        container.traffic = traffic;
        snapshot.links.push(container);
    }
    let families = parse(&render(&snapshot));
    assert_eq!(family(&families, "hawser_links").get("unused"), Some(&2.0));
    let sent = family(&families, "hawser_link_sent_bytes_total");
    let names: Vec<_> = sent.keys().map(String::as_str).collect();
    assert_eq!(names, ["veth10", "wlan0", "wwan0"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_links_are_called_the_text_can_be_read_and_stays_small(
        links in vec(("(?s:.{0,9})", 0..4_usize, any::<u64>(), any::<f64>()), 0..100),
        counters in btree_map("(?s:.{0,9})", any::<u64>(), 0..400),
        words in ("(?s:.{0,9})", "(?s:.{0,9})"),
    ) {
        let mut snapshot = rich();
        snapshot.version = words.0;
        snapshot.counters = counters;
        snapshot.links.clear();
        let mut connections = ConnectionsStatus::default();
        for (number, (name, state, bytes, share)) in (0..).zip(&links) {
            let mut one = link(name, number);
            one.state = LinkState::ALL[*state];
            one.traffic.sent_bytes = ByteCount::new(*bytes);
            one.traffic.up_loss = Some(*share);
            snapshot.links.push(one);
            let mut known = placing(name, number);
            known.state.clone_from(&words.1);
            known.up_confidence = *share;
            connections.links.push(known);
        }
        snapshot.connections = Some(connections);
        let families = parse(&render(&snapshot));
        let all: BTreeSet<&str> = links.iter().map(|(name, ..)| name.as_str()).collect();
        let sent = families.iter().find(|it| it.name == "hawser_link_sent_bytes_total").unwrap();
        let shown = sent.samples.iter().map(|it| it.labels["link"].as_str());
        let shown: BTreeSet<&str> = shown.collect();
        prop_assert_eq!(shown.len(), all.len().min(MAX_LINKS));
        prop_assert!(shown.is_subset(&all));
        let series: usize = families.iter().map(|it| it.samples.len()).sum();
        prop_assert!(series <= 40 * MAX_LINKS + 400, "{} series", series);
    }
}
