//! `hawser links`.

use crate::figures::{clock, megabits, milliseconds, percent, span, usage};
use crate::table::{Side, Table, clip, printable};
use hawser_control::{LinkState, LinkStatus, StatusSnapshot};

/// Returns the links and their traffic as text of at most `width` columns a line, with a line end
/// at the end.
pub fn render_links(snapshot: &StatusSnapshot, width: usize) -> String {
    let mut table = Table::new([
        ("LINK", Side::Flexible),
        ("STATE", Side::Left),
        ("USE", Side::Left),
        ("UP Mbit/s", Side::Right),
        ("DOWN", Side::Right),
        ("RTT ms", Side::Right),
        ("LOSS", Side::Right),
        ("QUEUE", Side::Right),
        ("SHARE", Side::Right),
    ]);
    for link in &snapshot.links {
        table.push(row(snapshot, link));
    }
    let mut lines = table.lines(0, width);
    if let Some(gain) = snapshot.gain() {
        let (up, down) = (snapshot.up(), snapshot.down());
        let sum = format!("All links: up {up}, down {down}; gain {gain:.2}");
        lines.extend([String::new(), clip(&sum, width)]);
    }
    lines.extend(ranking(snapshot).map(|line| clip(&printable(&line), width)));
    let told = snapshot
        .links
        .iter()
        .flat_map(|link| [told(link), modem(link), standby(link)]);
    let mut told = told
        .flatten()
        .map(|line| clip(&printable(&line), width))
        .peekable();
    if told.peek().is_some() {
        lines.push(String::new());
        lines.extend(told);
    }
    lines.push(String::new());
    lines.join("\n")
}

/// Returns the links in order of rank, if there are several.
fn ranking(snapshot: &StatusSnapshot) -> Option<String> {
    let mut ranked: Vec<&LinkStatus> = snapshot.links.iter().collect();
    ranked.retain(|link| link.rank.is_some());
    ranked.sort_by_key(|link| link.rank);
    let name = |link: &&LinkStatus| match link.signal {
        Some(signal) => format!("{} ({})", link.name, signal.strength),
        None => link.name.clone(),
    };
    let names: Vec<_> = ranked.iter().map(name).collect();
    (names.len() > 1).then(|| format!("Best first: {}", names.join(", ")))
}

/// Returns why a link that the user may expect to work is unusable, and since when; or that traffic
/// has left it.
fn told(link: &LinkStatus) -> Option<String> {
    match link.state {
        LinkState::Unused => None,
        LinkState::Up => {
            let warning = link.signal?.warning()?;
            Some(format!("{}: {warning}", link.name))
        }
        _ => Some(format!("{} is {}", link.name, state_of_link(link))),
    }
}

/// Returns the state of a link's modem.
fn modem(link: &LinkStatus) -> Option<String> {
    Some(format!("{}: {}", link.name, link.modem.as_ref()?.told()))
}

/// Returns the standby state of a link.
fn standby(link: &LinkStatus) -> Option<String> {
    Some(format!("{} is {}", link.name, link.standby.as_ref()?))
}

/// Returns a link's state in words, with its time and reason if known: `silent since 14:03:22.5 UTC
/// (12s): no answer to what was sent over it`.
pub fn state_of_link(link: &LinkStatus) -> String {
    let since = state_since(link);
    let since = since.map_or_else(String::new, |since| format!(" {since}"));
    let reason = link.reason.as_ref();
    let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
    format!("{}{since}{reason}", link.state)
}

/// Returns since when a link is silent or otherwise unusable: `since 14:03:22.5 UTC (12s)`.
pub(super) fn state_since(link: &LinkStatus) -> Option<String> {
    let is_told = !matches!(link.state, LinkState::Up | LinkState::Unused);
    let since = link.since_unix_ms.filter(|_| is_told)?;
    let age = link.state_age.map(|age| format!(" ({})", span(age)));
    Some(format!("since {}{}", clock(since), age.unwrap_or_default()))
}

fn row(snapshot: &StatusSnapshot, link: &LinkStatus) -> [String; 9] {
    let unknown = || "-".to_owned();
    let traffic = &link.traffic;
    [
        link.name.clone(),
        link.state.to_string(),
        link.allowed.as_ref().map_or_else(unknown, usage),
        megabits(traffic.up),
        megabits(traffic.down),
        traffic.rtt.map_or_else(unknown, milliseconds),
        traffic.up_loss.map_or_else(unknown, percent),
        traffic.queue.map_or_else(unknown, milliseconds),
        snapshot.share(link).map_or_else(unknown, percent),
    ]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hawser_types::Rate;

    use super::*;
    use hawser_control::{LinkAllowed, LinkTraffic, ModemStatus, SignalSource, SignalStatus};
    use hawser_types::{LinkUse, ModemState, Radio, SignalState, SignalStrength};

    fn link(name: &str, megabits: u64) -> LinkStatus {
        LinkStatus {
            name: name.to_owned(),
            state: LinkState::Up,
            traffic: LinkTraffic {
                down: Rate::from_bits_per_second(megabits * 1_000_000),
                ..LinkTraffic::default()
            },
            ..LinkStatus::default()
        }
    }

    #[test]
    fn links_stand_below_one_another_within_eighty_columns() {
        let mut dsl = link("dsl", 30);
        dsl.traffic.rtt = Some(Duration::from_micros(20_630));
        dsl.traffic.queue = Some(Duration::from_millis(4));
        dsl.traffic.up_loss = Some(0.0123);
        dsl.allowed = Some(LinkAllowed {
            up: LinkUse::Backup,
            down: LinkUse::Prefer,
            ..LinkAllowed::default()
        });
        let snapshot = StatusSnapshot {
            links: vec![dsl, link("wwan0", 20)],
            ..StatusSnapshot::default()
        };
        let expected = "\
LINK   STATE  USE            UP Mbit/s   DOWN  RTT ms   LOSS  QUEUE   SHARE
dsl    up     backup/prefer       0.00  30.00    20.6  1.2 %    4.0  60.0 %
wwan0  up     -                   0.00  20.00       -      -      -  40.0 %

All links: up 0 bit/s, down 50.00 Mbit/s; gain 1.67
";
        let shown = render_links(&snapshot, 79);
        assert_eq!(shown, expected, "\n{shown}");
    }

    #[test]
    fn links_are_named_by_their_rank_with_their_signals() {
        let with = |name, rank, dbm: Option<i16>| LinkStatus {
            rank,
            signal: dbm.map(|dbm| SignalStatus {
                strength: SignalStrength::new(dbm).unwrap(),
                radio: Radio::WiFi,
                state: SignalState::Good,
                source: SignalSource::Kernel,
                leave_below: SignalStrength::MIN,
            }),
            ..link(name, 0)
        };
        let (dsl, wlan) = (
            with("dsl", Some(2), None),
            with("wlan0", Some(1), Some(-60)),
        );
        let snapshot = StatusSnapshot {
            links: vec![with("lo", None, None), dsl.clone(), wlan],
            ..StatusSnapshot::default()
        };
        let shown = render_links(&snapshot, 79);
        assert!(
            shown.contains("\nBest first: wlan0 (-60dBm), dsl\n"),
            "{shown}"
        );
        let snapshot = StatusSnapshot {
            links: vec![dsl],
            ..StatusSnapshot::default()
        };
        assert!(!render_links(&snapshot, 79).contains("Best first"));
    }

    #[test]
    fn a_link_of_no_use_is_told_of_with_its_time_and_reason() {
        let mut dsl = link("dsl", 0);
        dsl.state = LinkState::Silent;
        dsl.reason = Some("no answer".to_owned());
        dsl.since_unix_ms = Some(50_602_500);
        dsl.state_age = Some(Duration::from_secs(12));
        let snapshot = StatusSnapshot {
            links: vec![dsl, link("wwan0", 20)],
            ..StatusSnapshot::default()
        };
        let shown = render_links(&snapshot, 79);
        let told = "\ndsl is silent since 14:03:22.5 UTC (12s): no answer\n";
        assert!(shown.contains(told), "{shown}");
    }

    #[test]
    fn a_links_modem_is_told_of() {
        let mut wwan = link("wwan0", 0);
        for (state, technology, reason, expected) in [
            (
                ModemState::Roaming,
                Some("LTE"),
                None,
                "is connected and roams (LTE)",
            ),
            (ModemState::Searching, None, None, "has no network"),
            (
                ModemState::Off,
                None,
                Some("refused"),
                "is off; its signal is not measured: refused",
            ),
        ] {
            wwan.modem = Some(ModemStatus {
                state,
                technology: technology.map(str::to_owned),
                reason: reason.map(str::to_owned),
            });
            let snapshot = StatusSnapshot {
                links: vec![link("dsl", 30), wwan.clone()],
                ..StatusSnapshot::default()
            };
            let shown = render_links(&snapshot, 79);
            assert!(
                shown.contains(&format!("\nwwan0: its modem {expected}\n")),
                "{shown}"
            );
        }
    }

    #[test]
    fn a_link_that_traffic_has_left_is_told_of_with_its_signal() {
        let mut wlan = link("wlan0", 0);
        let strength = SignalStrength::new(-83).unwrap();
        let mut signal = SignalStatus {
            strength,
            radio: Radio::WiFi,
            state: SignalState::Good,
            source: SignalSource::Kernel,
            leave_below: strength,
        };
        for (state, expected) in [
            (SignalState::Good, None),
            (
                SignalState::Fading,
                Some("\nwlan0: its signal fades (-83dBm)\n"),
            ),
            (
                SignalState::Lost,
                Some("\nwlan0: its signal is lost (-83dBm)\n"),
            ),
        ] {
            signal.state = state;
            wlan.signal = Some(signal);
            let snapshot = StatusSnapshot {
                links: vec![wlan.clone()],
                ..StatusSnapshot::default()
            };
            let shown = render_links(&snapshot, 79);
            let told = shown.contains(expected.unwrap_or("its signal"));
            assert_eq!(told, expected.is_some(), "{shown}");
        }
    }
}
