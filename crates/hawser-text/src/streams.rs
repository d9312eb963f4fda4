//! `hawser streams`.

use std::cmp::Reverse;

use crate::figures::{left_out, megabits, size, span};
use crate::packet_flows;
use crate::placed::why_in_short;
use crate::status::left;
use crate::table::{Side, Table, clip, printable};
use hawser_control::{PlacedConnection, PlacedReport, SessionStatus, StatusSnapshot};

/// Returns all open flows, the busiest first: the streams and flows of packets of each session, and
/// the connections over one link each. The text has at most `width` columns a line and ends with a
/// line end.
pub fn render_streams(
    snapshot: &StatusSnapshot,
    placed: Option<&PlacedReport>,
    width: usize,
) -> String {
    let mut lines = Vec::new();
    for session in &snapshot.sessions {
        lines.extend(of_session(session, width));
        lines.push(String::new());
        let packets = packet_flows::in_full(session, width);
        if !packets.is_empty() {
            lines.extend(packets);
            lines.push(String::new());
        }
    }
    if let Some(more) = left_out(snapshot.session_count, snapshot.sessions.len(), "sessions") {
        lines.extend([more, String::new()]);
    }
    let open = placed.iter().flat_map(|report| &report.connections);
    let open: Vec<_> = open.filter(|one| one.is_open_by_itself()).collect();
    if !open.is_empty() {
        lines.extend(connections(open, width));
        lines.push(String::new());
    }
    if lines.is_empty() {
        lines.extend(["Nothing is open.".to_owned(), String::new()]);
    }
    lines.join("\n")
}

fn of_session(session: &SessionStatus, width: usize) -> Vec<String> {
    let over = match session.links()[..] {
        [] => "no link now".to_owned(),
        ref links => format!("{} by {}", links.join(" "), session.scheduler),
    };
    let title = format!("STREAMS of session {} over {over}", session.id);
    let mut table = Table::new([
        ("ID", Side::Right),
        ("PROGRAM", Side::Left),
        ("TO", Side::Flexible),
        ("Mbit/s", Side::Right),
        ("SENT", Side::Right),
        ("RECEIVED", Side::Right),
        ("FOR", Side::Right),
    ]);
    let mut streams: Vec<_> = session.streams.iter().collect();
    streams.sort_by_key(|stream| (Reverse(stream.rate), stream.id));
    for stream in &streams {
        table.push([
            stream.id.value().to_string(),
            stream.program.clone().unwrap_or_else(|| "?".to_owned()),
            stream.destination.clone().unwrap_or_else(|| "-".to_owned()),
            megabits(stream.rate),
            size(stream.bytes_sent),
            size(stream.bytes_received),
            span(stream.age),
        ]);
    }
    let mut lines = vec![clip(&printable(&title), width)];
    lines.extend(left(session.is_left).map(|line| clip(line, width)));
    lines.extend(if table.is_empty() {
        vec!["  none".to_owned()]
    } else {
        table.lines(2, width)
    });
    lines.extend(left_out(session.stream_count, streams.len(), "streams"));
    lines
}

fn connections(mut open: Vec<&PlacedConnection>, width: usize) -> Vec<String> {
    let mut table = Table::new([
        ("ID", Side::Right),
        ("PROGRAM", Side::Left),
        ("TO", Side::Flexible),
        ("OVER", Side::Left),
        ("Mbit/s", Side::Right),
        ("MOVED", Side::Right),
        ("FOR", Side::Right),
        ("WHY", Side::Left),
    ]);
    open.sort_by_key(|one| (Reverse(one.rate), one.id));
    for one in open {
        table.push([
            one.id.to_string(),
            one.program.clone().unwrap_or_else(|| "?".to_owned()),
            one.destination.clone(),
            one.over(),
            megabits(one.rate),
            size(one.bytes_sent + one.bytes_received),
            one.lasted.map_or_else(String::new, span),
            why_in_short(one),
        ]);
    }
    let title = "CONNECTIONS over one link each; their rates are since they began";
    let mut lines = vec![clip(title, width)];
    lines.extend(table.lines(2, width));
    lines
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hawser_types::{ByteCount, Rate, StreamId};

    use super::*;
    use hawser_control::{PathState, PathStatus, StreamStatus};

    fn stream(id: u64, megabits: u64) -> StreamStatus {
        StreamStatus {
            id: StreamId::new(id),
            destination: Some("downloads.example.org:443".to_owned()),
            program: Some("curl".to_owned()).filter(|_| id > 4),
            rate: Rate::from_bits_per_second(megabits * 1_000_000),
            bytes_received: ByteCount::new(12_345_678),
            age: Duration::from_secs(75),
            ..StreamStatus::default()
        }
    }

    fn session() -> SessionStatus {
        let path = |link: &str, state| PathStatus {
            link: link.to_owned(),
            state,
            ..PathStatus::default()
        };
        SessionStatus {
            id: "1a2b".to_owned(),
            scheduler: "auto".to_owned(),
            paths: vec![
                path("dsl", PathState::Up),
                path("lte", PathState::Up),
                path("usb0", PathState::Dead),
            ],
            stream_count: 3,
            streams: vec![stream(4, 1), stream(8, 20)],
            ..SessionStatus::default()
        }
    }

    fn connection(id: u64, state: &str) -> PlacedConnection {
        PlacedConnection {
            id,
            program: Some("git".to_owned()),
            destination: "example.org:22".to_owned(),
            why: "finishes-first".to_owned(),
            link: Some("lte".to_owned()),
            state: state.to_owned(),
            bytes_sent: ByteCount::new(1000),
            lasted: Some(Duration::from_secs(3)),
            rate: Rate::from_bits_per_second(2_500_000 * id),
            ..PlacedConnection::default()
        }
    }

    #[test]
    fn streams_and_open_connections_are_listed_the_busiest_first() {
        let left = SessionStatus {
            id: "3c4d".to_owned(),
            is_left: true,
            stream_count: 1,
            streams: vec![stream(6, 2)],
            ..session()
        };
        let snapshot = StatusSnapshot {
            session_count: 2,
            sessions: vec![session(), left],
            ..StatusSnapshot::default()
        };
        let placed = PlacedReport {
            connections: vec![
                connection(1, "open"),
                connection(2, "ended"),
                connection(3, "open"),
                // This connection is already one of the streams.
                PlacedConnection {
                    why: "gateway".to_owned(),
                    link: None,
                    ..connection(4, "open")
                },
            ],
            latest_id: 4,
        };
        let expected = "\
STREAMS of session 1a2b over dsl lte by auto
  ID  PROGRAM  TO                         Mbit/s  SENT  RECEIVED     FOR
   8  curl     downloads.example.org:443   20.00   0 B   12.3 MB  1m 15s
   4  ?        downloads.example.org:443    1.00   0 B   12.3 MB  1m 15s
  and 1 more streams

STREAMS of session 3c4d over dsl lte by auto
  another session has replaced it; streams that were open end here
  ID  PROGRAM  TO                         Mbit/s  SENT  RECEIVED     FOR
   6  curl     downloads.example.org:443    2.00   0 B   12.3 MB  1m 15s

CONNECTIONS over one link each; their rates are since they began
  ID  PROGRAM  TO              OVER  Mbit/s    MOVED  FOR  WHY
   3  git      example.org:22  lte     7.50  1.00 kB   3s  finishes-first
   1  git      example.org:22  lte     2.50  1.00 kB   3s  finishes-first
";
        let shown = render_streams(&snapshot, Some(&placed), 79);
        assert_eq!(shown, expected, "\n{shown}");
    }

    #[test]
    fn nothing_is_said_to_be_nothing() {
        let shown = render_streams(&StatusSnapshot::default(), None, 79);
        assert_eq!(shown, "Nothing is open.\n");
    }
}
