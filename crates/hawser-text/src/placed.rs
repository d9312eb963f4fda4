//! Placed connections in `hawser why`.

use std::time::Duration;

use hawser_types::{ByteCount, Rate};

use crate::figures::{clock, milliseconds_with_unit, seconds, size, wrap};
use crate::table::{Side, Table, printable};
use hawser_control::{PlacedCandidate, PlacedConnection, PlacedReport, PlacedRule, PlacedTry};

/// Returns placed connections as lines of at most `width` columns: details of a single one, a table
/// of several.
pub(crate) fn placed(report: &PlacedReport, width: usize) -> Vec<String> {
    match &report.connections[..] {
        [] => vec!["No connection was placed yet.".to_owned()],
        [only] => in_full(only, width),
        several => overview(several, width),
    }
}

fn overview(connections: &[PlacedConnection], width: usize) -> Vec<String> {
    let mut table = Table::new([
        ("ID", Side::Right),
        ("AT", Side::Left),
        ("PROGRAM", Side::Left),
        ("TO", Side::Flexible),
        ("OVER", Side::Left),
        ("WHY", Side::Left),
        ("MOVED", Side::Right),
        ("FOR", Side::Right),
    ]);
    for one in connections {
        let moved = one.bytes_sent + one.bytes_received;
        table.push([
            one.id.to_string(),
            clock(one.at_unix_ms).chars().take(8).collect(),
            one.program.clone().unwrap_or_else(|| "?".to_owned()),
            one.destination.clone(),
            one.over(),
            why_in_short(one),
            match one.state.as_str() {
                "open" | "ended" => size(moved),
                other => other.to_owned(),
            },
            one.lasted.map_or_else(String::new, seconds),
        ]);
    }
    let mut lines = vec!["CONNECTIONS, the latest last; times are UTC".to_owned()];
    lines.extend(table.lines(2, width));
    let more = "`hawser why --connection ID` says more of one.";
    wrap(&mut lines, more, width);
    lines
}

pub(crate) fn why_in_short(one: &PlacedConnection) -> String {
    if one.in_kernel {
        format!("{} (kernel)", one.why)
    } else {
        one.why.clone()
    }
}

fn in_full(one: &PlacedConnection, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    wrap(&mut lines, &printable(&head(one)), width);
    wrap(&mut lines, &printable(&choice(one)), width);
    if !one.candidates.is_empty() {
        lines.extend(promises(one, width));
    }
    if let Some(text) = rules(&one.rules) {
        wrap(&mut lines, &printable(&text), width);
    }
    if let Some(text) = tries(one) {
        wrap(&mut lines, &printable(&text), width);
    }
    wrap(&mut lines, &printable(&end(one)), width);
    lines
}

fn head(one: &PlacedConnection) -> String {
    let who = match (&one.program, one.user) {
        (Some(program), Some(user)) => format!("{program}, run by user {user},"),
        (Some(program), None) => program.clone(),
        (None, Some(user)) => format!("a program of user {user}"),
        (None, None) => "an unknown program".to_owned(),
    };
    let address = match one.address {
        Some(address) if !one.destination.contains(&address.to_string()) => format!(" ({address})"),
        _ => String::new(),
    };
    format!(
        "CONNECTION {} at {}: {who} to {}{address} by {}, {}; expected to send {} and receive {}.",
        one.id,
        clock(one.at_unix_ms),
        one.destination,
        one.protocol,
        one.class,
        size(one.expected_up_bytes),
        size(one.expected_down_bytes)
    )
}

fn choice(one: &PlacedConnection) -> String {
    let first = one.tries.first().and_then(|first| first.link.as_deref());
    let first = first.or_else(|| one.candidates.first().map(|it| it.link.as_str()));
    let who = match (one.in_kernel, one.scheduler.as_str()) {
        (true, policy) => format!("The kernel's program, by {policy}, chose"),
        (false, policy) => format!("{policy} chose"),
    };
    match (first, one.why.as_str()) {
        (_, "peer") => format!("It went over a session, because {}.", one.meaning),
        (_, "gateway") if one.state == "failed" => {
            format!("It was to go over the gateway, because {}.", one.meaning)
        }
        (_, "gateway") => format!("It went over the gateway, because {}.", one.meaning),
        (_, "closed") => format!("It went nowhere, because {}.", one.meaning),
        (Some(link), _) if !one.candidates.is_empty() => {
            format!("{who} {link}, because {}.", one.meaning)
        }
        _ => format!(
            "It went as the system's routes have it, because {}.",
            one.meaning
        ),
    }
}

fn promises(one: &PlacedConnection, width: usize) -> Vec<String> {
    let mut table = Table::new([
        ("LINK", Side::Flexible),
        ("UP Mbit/s", Side::Right),
        ("DOWN Mbit/s", Side::Right),
        ("RTT", Side::Right),
        ("ACTIVE", Side::Right),
        ("TO COME", Side::Right),
        ("DONE IN", Side::Right),
        ("ANSWER IN", Side::Right),
    ]);
    for candidate in &one.candidates {
        table.push(promise(candidate));
    }
    table.lines(2, width)
}

fn promise(candidate: &PlacedCandidate) -> [String; 8] {
    let rate = |rate: Rate| match rate {
        Rate::ZERO => "?".to_owned(),
        rate => format!("{:.2}", rate.bits_per_second() as f64 / 1e6),
    };
    [
        match candidate.standing.as_str() {
            "equal" => candidate.link.clone(),
            standing => format!("{} ({standing})", candidate.link),
        },
        rate(candidate.up),
        rate(candidate.down),
        candidate
            .latency
            .map_or_else(|| "?".to_owned(), milliseconds_with_unit),
        candidate.active.to_string(),
        size(candidate.up_bytes + candidate.down_bytes),
        seconds(candidate.finish),
        seconds(candidate.answer),
    ]
}

fn rules(rules: &[PlacedRule]) -> Option<String> {
    let one = |rule: &PlacedRule| {
        let name = rule
            .name
            .as_ref()
            .map_or(String::new(), |name| format!(" {name}"));
        let (field, value) = (&rule.field, &rule.value);
        format!("{field} {value} by {} ({}{name})", rule.number, rule.source)
    };
    let all: Vec<String> = rules.iter().map(one).collect();
    (!all.is_empty()).then(|| format!("Rules: {}.", all.join(", ")))
}

/// Returns the attempts, unless the first one explains everything.
fn tries(one: &PlacedConnection) -> Option<String> {
    let is_plain = |it: &PlacedTry| matches!(it.state.as_str(), "connected" | "waiting" | "untold");
    if one.tries.len() <= 1 && one.decided_again == 0 && one.tries.iter().all(is_plain) {
        return None;
    }
    let mut text = "Tried:".to_owned();
    for (place, it) in one.tries.iter().enumerate() {
        let link = it.link.as_deref().unwrap_or("the system's routes");
        let comma = if place == 0 { "" } else { "," };
        let after = match it.after {
            Duration::ZERO => String::new(),
            after => format!(" after {}", seconds(after)),
        };
        let waited = it.waited.map_or_else(String::new, seconds);
        text += &format!("{comma} {link}{after} ");
        text += &match (it.state.as_str(), &it.error) {
            ("failed", Some(error)) => format!("({error} in {waited})"),
            ("given-up", _) => format!("(no answer in {waited})"),
            ("connected", _) => "(answered)".to_owned(),
            ("waiting", _) => "(no answer yet)".to_owned(),
            _ => "(not known)".to_owned(),
        };
    }
    text.push('.');
    if one.decided_again > 0 {
        text += " Links changed meanwhile, so that it was decided anew.";
    }
    Some(text)
}

fn end(one: &PlacedConnection) -> String {
    let moved = || {
        format!(
            "{} sent and {} received in {}, {}",
            size(one.bytes_sent),
            size(one.bytes_received),
            seconds(one.lasted.unwrap_or_default()),
            one.rate
        )
    };
    match one.state.as_str() {
        "open" => format!("It is open: {}.", moved()),
        "ended" if one.bytes_sent + one.bytes_received == ByteCount::ZERO => {
            "It has ended; the bytes that it moved are unknown.".to_owned()
        }
        "ended" => format!("It has ended: {}.", moved()),
        "failed" => match &one.error {
            Some(error) => format!("It never came about: {error}."),
            // A slow gateway is not waited for: a link was tried beside it.
            None if one.why == "gateway" => "It did not come about that way.".to_owned(),
            None => "It never came about.".to_owned(),
        },
        "connecting" if one.in_kernel => "It has received nothing yet.".to_owned(),
        "connecting" => "It is not answered yet.".to_owned(),
        _ if one.why == "peer" || one.why == "gateway" => {
            "What it moves is the session's; `hawser why` tells of those, too.".to_owned()
        }
        _ => "What it moves is not counted.".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use hawser_types::LinkIndex;

    use super::*;

    fn candidate(link: &str, megabits: u64) -> PlacedCandidate {
        PlacedCandidate {
            link: link.to_owned(),
            index: LinkIndex::new(3),
            standing: "equal".to_owned(),
            up: Rate::ZERO,
            down: Rate::from_bits_per_second(megabits * 1_000_000),
            latency: Some(Duration::from_millis(20)),
            active: 2,
            down_bytes: ByteCount::new(1_000_000),
            finish: Duration::from_millis(420),
            answer: Duration::from_millis(160),
            ..PlacedCandidate::default()
        }
    }

    fn connection() -> PlacedConnection {
        PlacedConnection {
            id: 17,
            at_unix_ms: 43_384_100,
            protocol: "tcp".to_owned(),
            program: Some("curl".to_owned()),
            user: Some(1000),
            destination: "example.org:443".to_owned(),
            address: Some("203.0.113.5".parse().unwrap()),
            class: "bulk".to_owned(),
            expected_up_bytes: ByteCount::new(1000),
            expected_down_bytes: ByteCount::new(50_000),
            scheduler: "auto".to_owned(),
            why: "finishes-first".to_owned(),
            meaning: "all open connections finish soonest that way".to_owned(),
            rules: vec![PlacedRule {
                field: "class".to_owned(),
                value: "bulk".to_owned(),
                number: 3,
                source: "user".to_owned(),
                name: Some("downloads".to_owned()),
            }],
            candidates: vec![candidate("wlan0", 20), candidate("wwan0", 8)],
            tries: vec![
                PlacedTry {
                    link: Some("wlan0".to_owned()),
                    state: "given-up".to_owned(),
                    waited: Some(Duration::from_millis(280)),
                    ..PlacedTry::default()
                },
                PlacedTry {
                    link: Some("wwan0".to_owned()),
                    after: Duration::from_millis(250),
                    state: "connected".to_owned(),
                    ..PlacedTry::default()
                },
            ],
            link: Some("wwan0".to_owned()),
            state: "ended".to_owned(),
            bytes_sent: ByteCount::new(900),
            bytes_received: ByteCount::new(1_000_000),
            lasted: Some(Duration::from_secs(1)),
            rate: Rate::from_bits_per_second(8_000_000),
            ..PlacedConnection::default()
        }
    }

    #[test]
    fn one_connection_is_told_in_full() {
        let report = PlacedReport {
            connections: vec![connection()],
            latest_id: 17,
        };
        let expected = [
            "CONNECTION 17 at 12:03:04.1 UTC: curl, run by user 1000, to example.org:443 \
             (203.0.113.5) by tcp, bulk; expected to send 1.00 kB and receive 50.0 kB.",
            "auto chose wlan0, because all open connections finish soonest that way.",
            "  LINK   UP Mbit/s  DOWN Mbit/s    RTT  ACTIVE  TO COME  DONE IN  ANSWER IN",
            "  wlan0          ?        20.00  20 ms       2  1.00 MB   420 ms     160 ms",
            "  wwan0          ?         8.00  20 ms       2  1.00 MB   420 ms     160 ms",
            "Rules: class bulk by 3 (user downloads).",
            "Tried: wlan0 (no answer in 280 ms), wwan0 after 250 ms (answered).",
            "It has ended: 900 B sent and 1.00 MB received in 1.0 s, 8.00 Mbit/s.",
        ];
        assert_eq!(placed(&report, 10_000), expected);
        let narrow = placed(&report, 79);
        assert!(
            narrow.iter().all(|line| line.chars().count() <= 79),
            "{narrow:#?}"
        );
    }

    #[test]
    fn several_stand_in_a_table() {
        let by_system = PlacedConnection {
            id: 18,
            at_unix_ms: 43_384_900,
            destination: "192.0.2.53:53".to_owned(),
            why: "resolver".to_owned(),
            state: "untold".to_owned(),
            ..PlacedConnection::default()
        };
        let report = PlacedReport {
            connections: vec![connection(), by_system],
            latest_id: 18,
        };
        let expected = [
            "CONNECTIONS, the latest last; times are UTC",
            "  ID  AT        PROGRAM  TO               OVER         WHY               MOVED    FOR",
            "  17  12:03:04  curl     example.org:443  wlan0>wwan0  finishes-first  1.00 MB  1.0 s",
            "  18  12:03:04  ?        192.0.2.53:53    (system)     resolver         untold",
            "`hawser why --connection ID` says more of one.",
        ];
        assert_eq!(placed(&report, 100), expected);
    }

    #[test]
    fn what_was_left_to_others_or_failed_is_said_so() {
        let say = |one: PlacedConnection| {
            let report = PlacedReport {
                connections: vec![one],
                latest_id: 1,
            };
            placed(&report, 10_000).join("\n")
        };
        let left = PlacedConnection {
            why: "vpn".to_owned(),
            meaning: "wg0 takes all traffic".to_owned(),
            state: "untold".to_owned(),
            ..PlacedConnection::default()
        };
        let text = say(left);
        assert!(
            text.contains("as the system's routes have it, because wg0 takes all"),
            "{text}"
        );
        let by_gateway = PlacedConnection {
            why: "gateway".to_owned(),
            meaning: "its mode is bonded".to_owned(),
            tries: vec![PlacedTry {
                link: Some("gateway".to_owned()),
                state: "given-up".to_owned(),
                waited: Some(Duration::from_millis(280)),
                ..PlacedTry::default()
            }],
            state: "failed".to_owned(),
            ..PlacedConnection::default()
        };
        assert_eq!(by_gateway.over(), "(gateway)");
        let text = say(by_gateway);
        for expected in [
            "It was to go over the gateway, because its mode is bonded.",
            "Tried: gateway (no answer in 280 ms).",
            "It did not come about that way.",
        ] {
            assert!(text.contains(expected), "{text}");
        }
        let closed = PlacedConnection {
            why: "closed".to_owned(),
            meaning: "no link may be used\u{1b}".to_owned(),
            state: "failed".to_owned(),
            error: Some("network unreachable".to_owned()),
            ..PlacedConnection::default()
        };
        let text = say(closed);
        assert!(
            text.contains("It went nowhere, because no link may be used?."),
            "{text}"
        );
        assert!(
            text.ends_with("It never came about: network unreachable."),
            "{text}"
        );
        let kernels = PlacedConnection {
            in_kernel: true,
            ..connection()
        };
        assert!(say(kernels).contains("The kernel's program, by auto, chose wlan0"));
        assert_eq!(
            placed(&PlacedReport::default(), 80),
            ["No connection was placed yet."]
        );
    }
}
