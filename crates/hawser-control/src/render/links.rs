//! `hawser links`.

use super::figures::{megabits, milliseconds, percent, usage};
use super::table::{Side, Table, clip};
use crate::{LinkStatus, StatusSnapshot};

/// The links and what moves over them, as text of at most `width` columns a line, ended with a line
/// end.
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
    lines.push(String::new());
    lines.join("\n")
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
    use crate::{LinkAllowed, LinkState, LinkTraffic};
    use hawser_types::LinkUse;

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
}
