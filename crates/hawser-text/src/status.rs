//! `hawser status`.

use std::time::Duration;

use hawser_types::ByteCount;

use crate::connections::connections;
use crate::directory::{directory, registration_line};
use crate::figures::{
    MIN_WIDTH, clock, left_out, megabits, milliseconds, percent, size, span, usage,
};
use crate::links::state_since;
use crate::packet_flows;
use crate::table::{Side, Table, clip, printable};
use hawser_control::{
    LinkAllowed, LinkStatus, PathStatus, PredecessorStatus, SessionStatus, StatusSnapshot,
    Transport, TransportStatus,
};

/// Returns the snapshot as text of at most `width` columns a line, at least 40, with a line end.
pub fn render_status(snapshot: &StatusSnapshot, width: usize) -> String {
    let width = width.max(MIN_WIDTH);
    let mut lines = head(snapshot, width);
    if !snapshot.links.is_empty() {
        lines.push(String::new());
        lines.extend(links(&snapshot.links, width));
    }
    if let Some(status) = &snapshot.connections {
        lines.push(String::new());
        lines.extend(connections(status, width));
    }
    if let Some(status) = &snapshot.directory {
        lines.push(String::new());
        lines.extend(directory(status, width));
    }
    for session in &snapshot.sessions {
        lines.push(String::new());
        lines.extend(session_lines(session, width));
    }
    lines.extend(left_out(
        snapshot.session_count,
        snapshot.sessions.len(),
        "sessions",
    ));
    let counters: Vec<_> = snapshot.counters.iter().filter(|(_, n)| **n > 0).collect();
    if !counters.is_empty() {
        lines.push(String::new());
        lines.push("COUNTED".to_owned());
        let counted = counters
            .iter()
            .map(|(name, n)| format!("  {n:>12}  {}", printable(name)));
        lines.extend(counted.map(|line| clip(&line, width)));
    }
    lines.push(String::new());
    lines.join("\n")
}

fn head(snapshot: &StatusSnapshot, width: usize) -> Vec<String> {
    let listen: Vec<String> = snapshot.listen.iter().map(ToString::to_string).collect();
    let at = if listen.is_empty() {
        String::new()
    } else {
        format!(", at {}", listen.join(" "))
    };
    let resident = snapshot.memory.resident_bytes;
    let used = snapshot.memory.used_bytes;
    let bound = snapshot
        .memory
        .limit_bytes
        .map(|limit| format!(" of {limit}"));
    let lines = [
        format!(
            "hawser {} {}, running for {}{at}",
            printable(&snapshot.version),
            snapshot.role,
            span(snapshot.uptime)
        ),
        format!(
            "process {}, {resident} of memory, {used}{} held for data",
            snapshot.process_id,
            bound.unwrap_or_default()
        ),
    ];
    let kill_switch = snapshot.kill_switch;
    let kill_switch = kill_switch.map(|it| kill_switch_line(it.age));
    let registration = snapshot.registration.as_ref().map(registration_line);
    let before = snapshot.predecessor.as_ref().map(|before| {
        let PredecessorStatus { open, ends_in } = before;
        format!(
            "upgraded: the process of before serves what is left, {open}, for {} at most",
            span(*ends_in)
        )
    });
    let lines = lines.into_iter().chain(before);
    let lines = lines.chain(kill_switch).chain(registration);
    lines.map(|line| clip(&line, width)).collect()
}

/// Returns the warning that a kill switch is on, with its age and how to remove it.
pub fn kill_switch_line(age: Duration) -> String {
    format!(
        "kill switch: on for {}; `hawser kill-switch off` removes it",
        span(age)
    )
}

/// Returns the links, with their numbers and addresses if there is room.
fn links(links: &[LinkStatus], width: usize) -> Vec<String> {
    let [link, index, state, usage] = [
        ("LINK", Side::Left),
        ("INDEX", Side::Right),
        ("STATE", Side::Left),
        ("USE", Side::Left),
    ];
    let [up, down] = [("UP Mbit/s", Side::Right), ("DOWN", Side::Right)];
    let [month, addresses, why] = ["THIS MONTH", "ADDRESSES", "WHY"].map(|it| (it, Side::Flexible));
    let mut narrow = Table::new([link, state, usage, up, down, month, why]);
    let mut wide = Table::new([link, index, state, usage, up, down, month, addresses, why]);
    for link in links {
        let row = link_row(link);
        let [name, state, usage, up, down, month, why] = row.clone();
        let index = link.index.value().to_string();
        let addresses: Vec<_> = link.addresses.iter().map(ToString::to_string).collect();
        let addresses = addresses.join(" ");
        wide.push([name, index, state, usage, up, down, month, addresses, why]);
        narrow.push(row);
    }
    let lines = wide.lines(0, usize::MAX);
    if lines.iter().all(|line| line.chars().count() <= width) {
        lines
    } else {
        narrow.lines(0, width)
    }
}

fn link_row(link: &LinkStatus) -> [String; 7] {
    [
        link.name.clone(),
        link.state.to_string(),
        link.allowed.as_ref().map(usage).unwrap_or_default(),
        megabits(link.traffic.up),
        megabits(link.traffic.down),
        link.allowed.as_ref().map(month).unwrap_or_default(),
        why(link),
    ]
}

/// Returns since when a link is unusable, and the reason of its state.
fn why(link: &LinkStatus) -> String {
    let parts = state_since(link).into_iter().chain(link.reason.clone());
    parts.collect::<Vec<_>>().join(": ")
}

/// Returns the month's traffic of a link, with its allowance and cost.
fn month(allowed: &LinkAllowed) -> String {
    let mut text = size(allowed.sent_bytes + allowed.received_bytes);
    if let Some(allowance) = allowed.allowance_bytes {
        text = format!("{text} of {}", size(allowance));
    }
    if let Some(cost) = &allowed.cost {
        text = format!("{text}, {cost}");
    }
    if let Some(limit) = &allowed.limit {
        text = format!("{text}: {limit}");
    }
    text
}

/// Name of the policy if the user has chosen none.
const AUTO: &str = "auto";

/// Returns the policy, and its direction if the user has chosen one.
fn scheduler(session: &SessionStatus) -> String {
    let policy = &session.scheduler;
    match session.peer_follows_scheduler {
        Some(true) if policy != AUTO => format!("{policy} both ways"),
        Some(false) if policy != AUTO => format!("{policy} for what is sent"),
        _ => policy.clone(),
    }
}

fn session_lines(session: &SessionStatus, width: usize) -> Vec<String> {
    let route = session.route.map(|route| format!(", {route}"));
    let title = format!(
        "SESSION {} with {}: {} for {}, {}{}",
        session.id,
        session.peer,
        session.state,
        span(session.age),
        scheduler(session),
        route.unwrap_or_default()
    );
    let moved = format!(
        "  up {}, down {}; sent {}, received {}",
        session.up, session.down, session.bytes_sent, session.bytes_received
    );
    let mut lines = vec![clip(&printable(&title), width)];
    lines.extend(left(session.is_left).map(|line| clip(line, width)));
    // The time is known while no link answers.
    lines.extend(session.since_unix_ms.map(|since| {
        let reason = session.reason.as_deref().unwrap_or("unknown");
        let line = format!("  interrupted since {}: {reason}", clock(since));
        clip(&printable(&line), width)
    }));
    lines.push(clip(&moved, width));
    lines.extend(twice(session).map(|line| clip(&line, width)));
    lines.extend(transport(&session.transport).map(|line| clip(&printable(&line), width)));
    lines.extend(paths(&session.paths, width));
    lines.extend(shares(&session.paths, width));
    lines.extend(channels(&session.paths, width));
    lines.extend(streams(session, width));
    lines.extend(packet_flows::in_short(session, STREAMS_SHOWN, width));
    lines
}

/// Returns a note that another session has replaced this one.
pub(super) fn left(is_left: bool) -> Option<&'static str> {
    is_left.then_some("  another session has replaced it; streams that were open end here")
}

fn paths(paths: &[PathStatus], width: usize) -> Vec<String> {
    let mut table = Table::new([
        ("PATH", Side::Left),
        ("STATE", Side::Left),
        ("TO", Side::Flexible),
        ("UP Mbit/s", Side::Right),
        ("DOWN Mbit/s", Side::Right),
        ("WHY", Side::Flexible),
    ]);
    for path in paths {
        table.push([
            path.link.clone(),
            path.state.to_string(),
            path.remote.map(|to| to.to_string()).unwrap_or_default(),
            megabits(path.up),
            megabits(path.down),
            path.reason.clone().unwrap_or_default(),
        ]);
    }
    unless_empty(&table, width)
}

/// Returns the share of sent bytes that was sent more than once.
fn twice(session: &SessionStatus) -> Option<String> {
    let counted = |name| session.counters.get(name).copied().unwrap_or(0);
    let sent = session.bytes_sent.as_u64();
    let share = |name| part_of(counted(name), sent).unwrap_or_default();
    (sent > 0).then(|| {
        let (ahead, again) = (share("bytes-duplicated"), share("bytes-again"));
        format!("  of what was sent {ahead} twice ahead of need, {again} again after a failure")
    })
}

/// Returns the transports in use, unless only TCP is.
fn transport(transport: &TransportStatus) -> Option<String> {
    let now = match transport.in_use {
        Transport::Tcp => "TCP",
        Transport::Association => "an association (UDP)",
    };
    let trying = if transport.trying { ", on trial" } else { "" };
    let problem = transport.problem.as_ref();
    let problem = problem.map_or_else(String::new, |problem| format!(": {problem}"));
    let wanted = &transport.wanted;
    let is_told = !wanted.is_empty() && wanted != "tcp";
    is_told.then(|| format!("  transport {wanted}: sends over {now}{trying}{problem}"))
}

/// Returns the share of each path, and its state as both ends see it.
fn shares(paths: &[PathStatus], width: usize) -> Vec<String> {
    let mut table = Table::new([
        ("PATH", Side::Left),
        ("STANDING", Side::Left),
        ("OF SENT", Side::Right),
        ("OF RECEIVED", Side::Right),
        ("QUEUE UP", Side::Right),
        ("DOWN ms", Side::Right),
        ("ARRIVING Mbit/s", Side::Right),
    ]);
    let all = |part: fn(&PathStatus) -> ByteCount| -> u64 {
        paths.iter().map(part).sum::<ByteCount>().as_u64()
    };
    let (sent, received) = (all(|path| path.bytes_sent), all(|path| path.bytes_received));
    let nothing = || "-".to_owned();
    for path in paths {
        let share = |part: ByteCount, all| part_of(part.as_u64(), all).unwrap_or_else(nothing);
        table.push([
            path.link.clone(),
            path.standing.to_string(),
            share(path.bytes_sent, sent),
            share(path.bytes_received, received),
            path.up_queue.map_or_else(nothing, milliseconds),
            path.down_queue.map_or_else(nothing, milliseconds),
            megabits(path.arriving),
        ]);
    }
    unless_empty(&table, width)
}

fn channels(paths: &[PathStatus], width: usize) -> Vec<String> {
    let mut table = Table::new([
        ("CHANNEL", Side::Right),
        ("ON", Side::Flexible),
        ("KIND", Side::Left),
        ("STATE", Side::Left),
        ("RTT ms", Side::Right),
        ("CWND", Side::Right),
        ("Mbit/s", Side::Right),
        ("SENT", Side::Right),
        ("RECEIVED", Side::Right),
    ]);
    for path in paths {
        for channel in &path.channels {
            let rtt = channel.rtt.map(milliseconds);
            table.push([
                channel.id.value().to_string(),
                path.link.clone(),
                match channel.transport {
                    Transport::Tcp => channel.kind.to_string(),
                    Transport::Association => "sctp".to_owned(),
                },
                channel.state.to_string(),
                rtt.unwrap_or_else(|| "-".to_owned()),
                size(channel.cwnd_bytes),
                megabits(channel.delivery_rate),
                size(channel.bytes_sent),
                size(channel.bytes_received),
            ]);
        }
    }
    unless_empty(&table, width)
}

fn streams(session: &SessionStatus, width: usize) -> Vec<String> {
    let mut table = Table::new([
        ("STREAM", Side::Right),
        ("TO", Side::Flexible),
        ("SENT", Side::Right),
        ("RECEIVED", Side::Right),
        ("AGE", Side::Right),
    ]);
    let shown = session.streams.iter().take(STREAMS_SHOWN);
    for stream in shown.clone() {
        table.push([
            stream.id.value().to_string(),
            stream.destination.clone().unwrap_or_else(|| "-".to_owned()),
            size(stream.bytes_sent),
            size(stream.bytes_received),
            span(stream.age),
        ]);
    }
    let mut lines = unless_empty(&table, width);
    lines.extend(left_out(session.stream_count, shown.len(), "streams"));
    lines
}

fn unless_empty<const N: usize>(table: &Table<N>, width: usize) -> Vec<String> {
    if table.is_empty() {
        Vec::new()
    } else {
        table.lines(2, width)
    }
}

/// Returns `None` for a total of zero.
fn part_of(part: u64, all: u64) -> Option<String> {
    (all > 0).then(|| percent(part as f64 / all as f64))
}

/// Limit of streams, and of flows of packets, of a session in [`render_status`].
pub const STREAMS_SHOWN: usize = 20;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use hawser_types::{ChannelId, LinkIndex, Rate, StreamId};

    use super::*;
    use hawser_control::{
        AllSessions, ChannelKind, ChannelState, ChannelStatus, LinkState, LinkTraffic,
        MemoryStatus, PathState, Role, SessionState, StreamStatus,
    };
    use hawser_types::LinkUse;

    fn channel(id: u32, kind: ChannelKind) -> ChannelStatus {
        ChannelStatus {
            id: ChannelId::new(id),
            kind,
            state: ChannelState::Up,
            rtt: Some(Duration::from_micros(20_560)),
            cwnd_bytes: ByteCount::new(123_456),
            delivery_rate: Rate::from_bits_per_second(47_800_000),
            bytes_sent: ByteCount::new(1_500_000_000),
            bytes_received: ByteCount::new(999_600),
            congestion: "bbr".to_owned(),
            ..ChannelStatus::default()
        }
    }

    fn path(link: &str, state: PathState, channels: Vec<ChannelStatus>) -> PathStatus {
        PathStatus {
            link: link.to_owned(),
            state,
            remote: Some(([203, 0, 113, 5], 7443).into()),
            up: Rate::from_bits_per_second(47_800_000),
            bytes_sent: ByteCount::new(channels.len() as u64 * 400_000_000),
            up_queue: (!channels.is_empty()).then_some(Duration::from_micros(12_340)),
            arriving: Rate::from_bits_per_second(channels.len() as u64 * 23_500_000),
            channels,
            ..PathStatus::default()
        }
    }

    fn snapshot() -> StatusSnapshot {
        let stream = StreamStatus {
            id: StreamId::new(8),
            destination: Some("downloads.example.org:443".to_owned()),
            bytes_sent: ByteCount::new(512),
            bytes_received: ByteCount::new(12_345_678),
            age: Duration::from_secs(75),
            ..StreamStatus::default()
        };
        let mut dead = path("wwan0", PathState::Dead, Vec::new());
        dead.reason = Some("reset by the far end".to_owned());
        let session = SessionStatus {
            id: "1a2b3c4d".to_owned(),
            peer: "gw.example:7443".to_owned(),
            state: SessionState::Established,
            scheduler: "backlog".to_owned(),
            age: Duration::from_secs(3725),
            up: Rate::from_bits_per_second(47_800_000),
            down: Rate::from_bits_per_second(800),
            bytes_sent: ByteCount::new(1_500_000_000),
            counters: BTreeMap::from([("bytes-duplicated".to_owned(), 21_000_000)]),
            paths: vec![
                path(
                    "eth0",
                    PathState::Up,
                    vec![
                        channel(3, ChannelKind::Bulk),
                        channel(14, ChannelKind::Express),
                    ],
                ),
                dead,
            ],
            stream_count: 40,
            streams: vec![stream],
            ..SessionStatus::default()
        };
        StatusSnapshot {
            connections: None,
            kill_switch: None,
            predecessor: None,
            directory: None,
            registration: None,
            version: "0.1.0".to_owned(),
            role: Role::Client,
            process_id: 4711,
            uptime: Duration::from_secs(90_061),
            listen: vec![([127, 0, 0, 1], 1080).into()],
            web: None,
            links: vec![LinkStatus {
                name: "eth0".to_owned(),
                index: LinkIndex::new(2),
                addresses: vec![[192, 0, 2, 7].into()],
                state: LinkState::Up,
                reason: None,
                since_unix_ms: None,
                state_age: None,
                allowed: Some(LinkAllowed {
                    up: LinkUse::Backup,
                    down: LinkUse::Prefer,
                    since: "2026-11-01".to_owned(),
                    sent_bytes: ByteCount::new(800_000_000),
                    received_bytes: ByteCount::new(9_000_000_000),
                    allowance_bytes: Some(ByteCount::new(10_000_000_000)),
                    cost: Some("24.50 EUR".to_owned()),
                    ..LinkAllowed::default()
                }),
                traffic: LinkTraffic {
                    up: Rate::from_bits_per_second(47_800_000),
                    down: Rate::from_bits_per_second(104_250_000),
                    ..LinkTraffic::default()
                },
                ..LinkStatus::default()
            }],
            session_count: 1,
            all_sessions: AllSessions::default(),
            sessions: vec![session],
            counters: BTreeMap::from([("joins_refused".to_owned(), 3), ("resets".to_owned(), 0)]),
            memory: MemoryStatus {
                resident_bytes: ByteCount::new(12_000_000),
                used_bytes: ByteCount::new(2_500_000),
                limit_bytes: Some(ByteCount::from_mib(64)),
            },
        }
    }

    #[test]
    fn a_busy_client_fits_eighty_columns() {
        let expected = "\
hawser 0.1.0 client, running for 1d 1h, at 127.0.0.1:1080
process 4711, 12.00 MB of memory, 2.50 MB of 67.11 MB held for data

LINK  STATE  USE            UP Mbit/s    DOWN  THIS MONTH
eth0  up     backup/prefer      47.80  104.25  9.80 GB of 10.0 GB, 24.50 EUR

SESSION 1a2b3c4d with gw.example:7443: established for 1h 02m, backlog
  up 47.80 Mbit/s, down 800 bit/s; sent 1.50 GB, received 0 B
  of what was sent 1.4 % twice ahead of need, 0.0 % again after a failure
  PATH   STATE  TO                UP Mbit/s  DOWN Mbit/s  WHY
  eth0   up     203.0.113.5:7443      47.80         0.00
  wwan0  dead   203.0.113.5:7443      47.80         0.00  reset by the far end
  PATH   STANDING  OF SENT  OF RECEIVED  QUEUE UP  DOWN ms  ARRIVING Mbit/s
  eth0   full      100.0 %            -      12.3        -            47.00
  wwan0  full        0.0 %            -         -        -             0.00
  CHANNEL  ON    KIND     STATE  RTT ms    CWND  Mbit/s     SENT  RECEIVED
        3  eth0  bulk     up       20.6  123 kB   47.80  1.50 GB   1.00 MB
       14  eth0  express  up       20.6  123 kB   47.80  1.50 GB   1.00 MB
  STREAM  TO                          SENT  RECEIVED     AGE
       8  downloads.example.org:443  512 B   12.3 MB  1m 15s
  and 39 more streams

COUNTED
             3  joins_refused
";
        let shown = render_status(&snapshot(), 80);
        assert_eq!(shown, expected, "\n{shown}");
    }

    #[test]
    fn a_kill_switch_says_how_it_is_removed() {
        let mut snapshot = snapshot();
        snapshot.kill_switch = Some(hawser_control::KillSwitchStatus {
            since_unix_ms: 1_795_330_800_000,
            age: Duration::from_secs(3725),
        });
        let shown = render_status(&snapshot, 80);
        let line = "kill switch: on for 1h 02m; `hawser kill-switch off` removes it";
        assert_eq!(shown.lines().nth(2), Some(line), "{shown}");
    }

    #[test]
    fn addresses_are_shown_where_there_is_room() {
        let shown = render_status(&snapshot(), 100);
        let head = "LINK  INDEX  STATE  USE            UP Mbit/s    DOWN  THIS MONTH";
        assert!(
            shown.contains(head) && shown.contains("  192.0.2.7"),
            "{shown}"
        );
    }

    #[test]
    fn no_line_is_wider_than_asked() {
        let mut snapshot = snapshot();
        snapshot.sessions[0].peer = "é".repeat(300);
        snapshot.sessions[0].streams[0].destination = Some("\u{1b}[2J".repeat(80));
        snapshot.counters.insert("x".repeat(300), 1);
        for width in [0, 40, 80, 100] {
            let shown = render_status(&snapshot, width);
            for line in shown.lines() {
                assert!(line.chars().count() <= width.max(MIN_WIDTH), "{line}");
                assert!(!line.contains('\u{1b}'), "{line:?}");
            }
        }
    }

    #[test]
    fn sizes_keep_three_digits() {
        for (bytes, shown) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.00 kB"),
            (9_994, "9.99 kB"),
            (9_996, "10.0 kB"),
            (99_960, "100 kB"),
            (999_600, "1.00 MB"),
            (u64::MAX, "18.4 EB"),
        ] {
            assert_eq!(size(ByteCount::new(bytes)), shown);
        }
    }

    #[test]
    fn a_chosen_scheduler_says_for_which_direction_it_holds() {
        let session = |policy: &str, follows| SessionStatus {
            scheduler: policy.to_owned(),
            peer_follows_scheduler: follows,
            ..SessionStatus::default()
        };
        for (policy, follows, expected) in [
            ("auto", Some(true), "auto"),
            ("ecf", None, "ecf"),
            ("ecf", Some(true), "ecf both ways"),
            ("ecf", Some(false), "ecf for what is sent"),
        ] {
            assert_eq!(scheduler(&session(policy, follows)), expected);
        }
    }
}
