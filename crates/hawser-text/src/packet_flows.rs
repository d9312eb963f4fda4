//! Flows of packets, in `hawser status`, `hawser streams` and `hawser why`.

use std::cmp::Reverse;

use hawser_types::ByteCount;

use crate::figures::{left_out, megabits, size, span};
use crate::table::{Side, Table, clip, printable};
use hawser_control::{PacketFlowLink, PacketFlowStatus, PacketPlacing, SessionStatus};

/// Returns the flows for `hawser status`: at most `most`, the latest first.
pub(super) fn in_short(session: &SessionStatus, most: usize, width: usize) -> Vec<String> {
    let mut table = Table::new([
        ("PACKETS", Side::Left),
        ("TO", Side::Flexible),
        ("SENT", Side::Right),
        ("RECEIVED", Side::Right),
        ("PLACED", Side::Left),
        ("OVER", Side::Flexible),
    ]);
    let shown = session.packet_flows.iter().take(most);
    for flow in shown.clone() {
        table.push([
            flow.protocol.clone(),
            flow.to(),
            size(flow.bytes_sent),
            size(flow.bytes_received),
            flow.placed.to_string(),
            flow.over(),
        ]);
    }
    let mut lines = if table.is_empty() {
        Vec::new()
    } else {
        table.lines(2, width)
    };
    if session.packet_scheduler != AUTO && !lines.is_empty() {
        let by = printable(&session.packet_scheduler);
        lines.insert(0, clip(&format!("  packets are sent by {by}"), width));
    }
    lines.extend(left_out(session.packet_flow_count, shown.len(), "flows"));
    lines
}

/// Returns the flows for `hawser streams`, the busiest first.
pub(super) fn in_full(session: &SessionStatus, width: usize) -> Vec<String> {
    let mut table = Table::new([
        ("KIND", Side::Left),
        ("FROM", Side::Flexible),
        ("TO", Side::Flexible),
        ("Mbit/s", Side::Right),
        ("SENT", Side::Right),
        ("RECEIVED", Side::Right),
        ("LOST", Side::Right),
        ("FOR", Side::Right),
        ("PLACED", Side::Left),
        ("OVER", Side::Flexible),
    ]);
    let mut flows: Vec<_> = session.packet_flows.iter().collect();
    flows.sort_by_key(|flow| (Reverse(flow.rate), flow.idle));
    for flow in &flows {
        table.push([
            flow.protocol.clone(),
            flow.source.clone(),
            flow.to(),
            megabits(flow.rate),
            size(flow.bytes_sent),
            size(flow.bytes_received),
            (flow.lost + flow.dropped).to_string(),
            span(flow.age),
            flow.placed.to_string(),
            flow.over(),
        ]);
    }
    if table.is_empty() {
        return Vec::new();
    }
    let by = &session.packet_scheduler;
    let title = format!("PACKETS of session {}, sent by {by}", session.id);
    let mut lines = vec![clip(&printable(&title), width)];
    lines.extend(table.lines(2, width));
    lines.extend(left_out(session.packet_flow_count, flows.len(), "flows"));
    lines
}

/// Returns how a flow was placed on links and why, as one paragraph.
pub(super) fn reasons(flow: &PacketFlowStatus) -> String {
    let placed = match flow.placed {
        PacketPlacing::Bulk => "in order",
        PacketPlacing::RealTime => "as real-time, each where it arrives first",
        PacketPlacing::Copied => "as real-time, over two links at once",
    };
    let (protocol, from, to) = (&flow.protocol, &flow.source, flow.to());
    let mut text = format!(
        "PACKETS {protocol} from {from} to {to} for {}",
        span(flow.age)
    );
    text += &match flow.packets_sent {
        0 => ": nothing was sent from here.".to_owned(),
        count => format!(": {} sent, {placed}.", packets(count)),
    };
    for link in &flow.links {
        text += &format!(" {}", of_link(link));
    }
    let counts = [
        (flow.dropped, "dropped since a queue stood"),
        (flow.marked, "marked instead, to slow their sender down"),
        (flow.lost, "lost on the way here"),
        (flow.late, "late"),
    ];
    for (count, what) in counts.into_iter().filter(|(count, _)| *count > 0) {
        text += &format!(" {} {what}.", packets(count));
    }
    printable(&text)
}

fn of_link(link: &PacketFlowLink) -> String {
    let moved = [
        (link.bytes_sent, "sent"),
        (link.bytes_copied, "sent as copies"),
        (link.bytes_received, "received"),
    ];
    let moved = moved
        .into_iter()
        .filter(|(bytes, _)| *bytes > ByteCount::ZERO);
    let moved: Vec<_> = moved
        .map(|(bytes, how)| format!("{} {how}", size(bytes)))
        .collect();
    let mut text = format!("{}: {}", link.link, moved.join(", "));
    for count in &link.chosen {
        let got = packets(count.chunks);
        text += &format!("; {got} because {}", count.meaning);
    }
    text + "."
}

fn packets(count: u64) -> String {
    match count {
        1 => "1 packet".to_owned(),
        _ => format!("{count} packets"),
    }
}

/// Name of the policy if the user has chosen none.
const AUTO: &str = "auto";

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hawser_types::Rate;

    use super::*;
    use hawser_control::WhyCount;

    fn flow() -> PacketFlowStatus {
        let chosen = |why: &str, meaning: &str, chunks| WhyCount {
            why: why.to_owned(),
            meaning: meaning.to_owned(),
            chunks,
        };
        let dsl = PacketFlowLink {
            link: "dsl".to_owned(),
            bytes_sent: ByteCount::new(3000),
            bytes_received: ByteCount::new(1_000_000),
            chosen: vec![
                chosen("home", "the flow was there", 9),
                chosen("earliest", "the packet would arrive there first", 1),
            ],
            ..PacketFlowLink::default()
        };
        let lte = PacketFlowLink {
            link: "lte".to_owned(),
            bytes_received: ByteCount::new(500_000),
            ..PacketFlowLink::default()
        };
        PacketFlowStatus {
            protocol: "udp".to_owned(),
            source: "10.83.0.2:40000".to_owned(),
            destination: "192.0.2.1:443".to_owned(),
            name: Some("video.example.org".to_owned()),
            placed: PacketPlacing::RealTime,
            packets_sent: 10,
            bytes_sent: ByteCount::new(3000),
            bytes_received: ByteCount::new(1_500_000),
            lost: 2,
            late: 1,
            dropped: 3,
            age: Duration::from_secs(75),
            rate: Rate::from_bits_per_second(4_000_000),
            links: vec![dsl, lte],
            ..PacketFlowStatus::default()
        }
    }

    fn session() -> SessionStatus {
        SessionStatus {
            id: "1a2b".to_owned(),
            packet_scheduler: "auto".to_owned(),
            packet_flow_count: 3,
            packet_flows: vec![flow()],
            ..SessionStatus::default()
        }
    }

    #[test]
    fn flows_are_listed_with_the_links_that_carried_them() {
        let shown = in_full(&session(), 120).join("\n");
        let expected = "\
PACKETS of session 1a2b, sent by auto
  KIND  FROM             TO                     Mbit/s     SENT  RECEIVED  LOST     FOR  \
PLACED     OVER
  udp   10.83.0.2:40000  video.example.org:443    4.00  3.00 kB   1.50 MB     5  1m 15s  \
real-time  dsl 67% lte 33%
  and 2 more flows";
        assert_eq!(shown, expected, "\n{shown}");
        let shown = in_short(&session(), 9, 79).join("\n");
        let expected = "  PACKETS  TO                        SENT  RECEIVED  PLACED     OVER
  udp      video.example.org:443  3.00 kB   1.50 MB  real-time  dsl 67% lte 33%
  and 2 more flows";
        assert_eq!(shown, expected, "\n{shown}");
        assert!(in_full(&SessionStatus::default(), 79).is_empty());
        assert!(in_short(&SessionStatus::default(), 9, 79).is_empty());
    }

    #[test]
    fn reasons_are_told_for_each_link() {
        assert_eq!(
            reasons(&flow()),
            "PACKETS udp from 10.83.0.2:40000 to video.example.org:443 for 1m 15s: 10 packets \
             sent, as real-time, each where it arrives first. dsl: 3.00 kB sent, 1.00 MB received; \
             9 packets because the flow was there; 1 packet because the packet would arrive there \
             first. lte: 500 kB received. 3 packets dropped since a queue stood. 2 packets lost on \
             the way here. 1 packet late."
        );
        let down = PacketFlowStatus {
            packets_sent: 0,
            name: Some("\u{1b}[2J".to_owned()),
            ..flow()
        };
        let told = reasons(&down);
        assert!(
            told.contains("?[2J:443 for 1m 15s: nothing was sent from here."),
            "{told}"
        );
    }
}
