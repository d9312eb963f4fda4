//! Converts the state of sessions to the form that is shown.

use std::collections::BTreeMap;
use std::time::Duration;

use hawser_control::{
    ChannelKind, ChannelState, ChannelStatus, MemoryStatus, PathStanding, PathState, PathStatus,
    SessionRoute, SessionState, SessionStatus, StreamStatus, Transport, TransportStatus,
};
use hawser_front::bonded::Purpose;
use hawser_front::datagram::opening;
use hawser_front::destination::Destination;
use hawser_sched::governor::{Exclusion, Harm, Standing};
use hawser_session::{
    ChannelSnapshot, Counters, LinkSnapshot, RELAY_LINK, SessionSnapshot, StreamSnapshot,
    TunnelCounts,
};
use hawser_types::{ByteCount, LinkIndex, PathId, Rate};
use hawser_wire::ChannelRole;
use tokio::time::Instant;

use super::books::{Account, Books, moved};
use super::packet_flows;
use super::subject::{PathFacts, View};

/// Returns one session as it is shown.
pub(super) fn session(view: View, books: &Books, now: Instant) -> SessionStatus {
    let account = books.account(&view.id);
    let mut status = SessionStatus {
        age: account
            .map(|account| now - account.begun)
            .unwrap_or_default(),
        scheduler: view.scheduler.to_owned(),
        ..SessionStatus::default()
    };
    let channels = view.session.as_ref().map_or(&[][..], |s| &s.channels);
    status.paths = paths(&view, channels, account);
    status.up = status.paths.iter().map(|path| path.up).sum();
    status.down = status.paths.iter().map(|path| path.down).sum();
    status.is_with_gateway = view.is_with_gateway;
    status.is_left = view.is_left;
    status.reason = view.problem.clone();
    if let Some(session) = &view.session {
        status.transport = transport(session, &view);
        status.route = route(&status);
        status.peer_follows_scheduler = session.peer_follows_scheduler;
        let mut all = account.map(|a| a.gone(channels)).unwrap_or_default();
        channels.iter().for_each(|channel| all.add(moved(channel)));
        let twice = session.counters.bytes_again + session.counters.bytes_duplicated;
        status.state = if channels.is_empty() {
            SessionState::Interrupted
        } else {
            SessionState::Established
        };
        status.bytes_sent = ByteCount::new(all.sent.saturating_sub(twice));
        status.bytes_received = ByteCount::new(all.received);
        status.unacknowledged_bytes = session.unacknowledged;
        status.memory_bytes = session.unacknowledged + session.unsent + session.held;
        status.counters = counters(session);
        status.stream_count = session.stream_count as u64;
        let streams = session.streams.iter();
        status.streams = streams.map(|it| stream(it, account)).collect();
        status.packet_scheduler = session.packet_scheduler.name().to_owned();
        status.packet_flow_count = session.flow_count as u64;
        status.packet_flows = packet_flows::shown(&view, account);
    }
    status.id = view.id;
    status.peer = view.peer;
    status
}

/// Returns the process's memory, and the part that all sessions use.
pub(super) fn memory(used_bytes: ByteCount) -> MemoryStatus {
    MemoryStatus {
        resident_bytes: resident().unwrap_or(ByteCount::ZERO),
        used_bytes,
        limit_bytes: None,
    }
}

fn paths(view: &View, channels: &[ChannelSnapshot], account: Option<&Account>) -> Vec<PathStatus> {
    let links = view.session.as_ref().map_or(&[][..], |s| &s.links);
    let mut by_link: BTreeMap<u32, Vec<&ChannelSnapshot>> = BTreeMap::new();
    for index in view.paths.keys() {
        by_link.entry(*index).or_default();
    }
    for channel in channels {
        by_link
            .entry(channel.link.value())
            .or_default()
            .push(channel);
    }
    let unknown = PathFacts::default();
    let path = |(index, channels): (u32, Vec<&ChannelSnapshot>)| {
        let way = view.paths.get(&index).unwrap_or(&unknown);
        let standing = links.iter().find(|link| link.link.value() == index);
        let count = |part: fn(&LinkSnapshot) -> ByteCount| standing.map(part).unwrap_or_default();
        let seen = || channels.iter().filter_map(|channel| channel.peer);
        let moving = |channel: &&ChannelSnapshot| {
            account.map_or_else(Default::default, |account| account.channel(channel))
        };
        let rates: Vec<_> = channels.iter().map(moving).collect();
        let unheard = channels.iter().filter_map(|it| it.unheard_for).min();
        let silent = silence(&channels, unheard).or_else(|| standing?.silent_for);
        let state = path_state(&channels, silent, way);
        PathStatus {
            id: PathId::new(index),
            link: view.link_name(LinkIndex::new(index)),
            index: LinkIndex::new(index),
            address: way.address,
            remote: way.remote,
            state,
            silent,
            unheard,
            reason: way
                .problem
                .clone()
                .or_else(|| (state == PathState::Suspect).then(|| NO_ANSWER.to_owned()))
                .or_else(|| why(standing))
                .or_else(|| seen().any(|peer| peer.silent).then(|| SILENT.to_owned()))
                .or_else(|| shares_with(view, standing?, links)),
            standing: shown(standing),
            up: rates.iter().map(|now| now.up).sum(),
            down: rates.iter().map(|now| now.down).sum(),
            bytes_sent: count(|link| link.sent),
            bytes_received: count(|link| link.received),
            up_queue: seen().filter_map(|peer| peer.queue).max(),
            down_queue: channels.iter().filter_map(|it| it.incoming_queue).max(),
            arriving: seen().map(|peer| peer.rate).sum(),
            bottleneck: standing.and_then(|link| link.bottleneck),
            channels: channels.iter().map(|it| channel(it, view)).collect(),
        }
    };
    by_link.into_iter().map(path).collect()
}

/// Returns how long a path has been silent, if a sign of life is overdue: on all of its channels,
/// or on one of them while nothing has arrived on the others since (`unheard`).
fn silence(channels: &[&ChannelSnapshot], unheard: Option<Duration>) -> Option<Duration> {
    let silent_for = |channel: &&ChannelSnapshot| {
        let is_told = |silent: &Duration| channel.suspect || *silent >= UNSUSPECTED;
        channel.silent_for.filter(is_told)
    };
    let silent = channels.iter().filter_map(silent_for).min()?;
    let all = channels.iter().all(|channel| silent_for(channel).is_some());
    (all || unheard.is_none_or(|unheard| silent <= unheard)).then_some(silent)
}

fn path_state(
    channels: &[&ChannelSnapshot],
    silent: Option<Duration>,
    way: &PathFacts,
) -> PathState {
    if !channels.is_empty() && silent.is_none() {
        PathState::Up
    } else if !channels.is_empty() {
        PathState::Suspect
    } else if way.problem.is_some() {
        PathState::Dead
    } else {
        PathState::Connecting
    }
}

fn shown(link: Option<&LinkSnapshot>) -> PathStanding {
    match link.map(|link| link.standing) {
        Some(Standing::Full) if link.is_some_and(|link| link.preferred) => PathStanding::Preferred,
        Some(Standing::Probing(_)) => PathStanding::Probing,
        Some(Standing::Excluded(_)) => PathStanding::Excluded,
        Some(Standing::Full) | None => PathStanding::Full,
    }
}

/// Returns the reason why a link gets less traffic than the policy would give it.
fn why(link: Option<&LinkSnapshot>) -> Option<String> {
    let why = match link?.standing {
        Standing::Full => return None,
        Standing::Probing(Harm::LowersGoodput) => "slowed the whole down",
        Standing::Probing(Harm::RaisesDelay) => "kept readers waiting",
        Standing::Excluded(Exclusion::Reserve) => "kept as backup",
        Standing::Excluded(Exclusion::Allowance) => "its allowance is used up",
        Standing::Excluded(Exclusion::Signal) => "its signal fades",
        Standing::Excluded(_) => "never used to send",
    };
    Some(why.to_owned())
}

/// Returns the links with which a link shares its bottleneck.
fn shares_with(view: &View, link: &LinkSnapshot, links: &[LinkSnapshot]) -> Option<String> {
    let number = Some(link.bottleneck?);
    let others = links
        .iter()
        .filter(|other| other.bottleneck == number && other.link != link.link);
    let names: Vec<_> = others.map(|other| view.link_name(other.link)).collect();
    (!names.is_empty()).then(|| format!("shares a bottleneck with {}", names.join(", ")))
}

fn channel(channel: &ChannelSnapshot, view: &View) -> ChannelStatus {
    ChannelStatus {
        id: channel.id,
        kind: match channel.role {
            ChannelRole::Bulk => ChannelKind::Bulk,
            ChannelRole::Express => ChannelKind::Express,
        },
        state: if channel.suspect {
            ChannelState::Suspect
        } else {
            ChannelState::Up
        },
        rtt: (!channel.rtt.is_zero()).then_some(channel.rtt),
        cwnd_bytes: channel.congestion_window,
        delivery_rate: channel.rate,
        bytes_sent: channel.sent,
        bytes_received: channel.received,
        retransmissions: channel.retransmissions,
        in_flight_bytes: channel.in_flight,
        congestion: match channel.transport {
            hawser_session::Transport::Tcp => view.congestion.clone(),
            hawser_session::Transport::Association => String::new(),
        },
        transport: transport_of(channel.transport),
    }
}

fn transport(session: &SessionSnapshot, view: &View) -> TransportStatus {
    let transport = session.transport;
    TransportStatus {
        wanted: transport.wish.name().to_owned(),
        in_use: transport_of(transport.in_use),
        trying: transport.trying,
        problem: view.transport_problem.clone(),
    }
}

/// Returns the route of a session that uses, or has used, connections through a gateway.
fn route(session: &SessionStatus) -> Option<SessionRoute> {
    let is_relay = |path: &PathStatus| path.index == RELAY_LINK;
    session.paths.iter().any(is_relay).then_some(())?;
    Some(match session.transport.in_use {
        Transport::Association => SessionRoute::Direct,
        _ => SessionRoute::Relayed,
    })
}

fn transport_of(transport: hawser_session::Transport) -> Transport {
    match transport {
        hawser_session::Transport::Tcp => Transport::Tcp,
        hawser_session::Transport::Association => Transport::Association,
    }
}

fn stream(stream: &StreamSnapshot, account: Option<&Account>) -> StreamStatus {
    StreamStatus {
        id: stream.id,
        destination: destination(&stream.metadata),
        bytes_sent: stream.sent,
        bytes_received: stream.received,
        age: stream.age,
        program: None,
        rate: account.map_or(Rate::ZERO, |account| account.stream(stream)),
    }
}

/// Returns the destination of a stream, from the metadata in its opening.
pub(super) fn destination(metadata: &[u8]) -> Option<String> {
    match Purpose::of(metadata)? {
        Purpose::Connect => Some(Destination::decode(metadata).ok()?.to_string()),
        Purpose::Datagrams => {
            let (destination, _) = opening::read(metadata).ok()?;
            Some(format!("{destination} (udp)"))
        }
        Purpose::File => Some("(file)".to_owned()),
        Purpose::Sink | Purpose::Source(_) => Some("(measurement)".to_owned()),
        Purpose::Packets => Some("(packets)".to_owned()),
        Purpose::Reasons(_) => Some("(reasons)".to_owned()),
        Purpose::BeMet | Purpose::Meet(_) | Purpose::Observe(_) | Purpose::Punch => {
            Some("(another client)".to_owned())
        }
    }
}

fn counters(session: &SessionSnapshot) -> BTreeMap<String, u64> {
    let unsent = ("bytes-unsent", session.unsent.as_u64());
    let all = counted(&session.counters).into_iter().chain([unsent]);
    let all = all.chain(packets_counted(&session.tunnel));
    all.map(|(name, count)| (name.to_owned(), count)).collect()
}

/// Returns the counters of a session's tunnels, with their names.
pub(super) fn packets_counted(tunnel: &TunnelCounts) -> [(&'static str, u64); 6] {
    let TunnelCounts {
        over_association,
        over_channels,
        received,
        late,
        dropped,
        refused,
    } = *tunnel;
    [
        ("packets-over-association", over_association),
        ("packets-over-channels", over_channels),
        ("packets-received", received),
        ("packets-late", late),
        ("packets-dropped", dropped),
        ("packets-refused", refused),
    ]
}

/// Returns the counters of a session since its start, with their names.
pub(super) fn counted(counters: &Counters) -> [(&'static str, u64); 12] {
    let Counters {
        chunks_cut,
        chunks_again,
        bytes_again,
        bytes_duplicated,
        duplicates_received,
        suspects,
        channels_lost,
        streams_opened,
        streams_reset,
        datagrams_sent,
        datagrams_received,
        datagrams_dropped,
    } = *counters;
    [
        ("chunks-cut", chunks_cut),
        ("chunks-again", chunks_again),
        ("bytes-again", bytes_again),
        ("bytes-duplicated", bytes_duplicated),
        ("duplicates-received", duplicates_received),
        ("suspects", suspects),
        ("channels-lost", channels_lost),
        ("streams-opened", streams_opened),
        ("streams-reset", streams_reset),
        ("datagrams-sent", datagrams_sent),
        ("datagrams-received", datagrams_received),
        ("datagrams-dropped", datagrams_dropped),
    ]
}

fn resident() -> Option<ByteCount> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(ByteCount::new(pages * rustix::param::page_size() as u64))
}

/// Silence after which a path is shown as silent even if its channels are not suspect: the data
/// path suspects its last link later.
const UNSUSPECTED: Duration = Duration::from_millis(400);
const NO_ANSWER: &str = "no answer to what was sent";
const SILENT: &str = "the far end finds it silent";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_shows_where_it_leads() {
        let to = Destination::parse("example.org:443", None).unwrap();
        assert_eq!(
            destination(&to.to_bytes()).as_deref(),
            Some("example.org:443")
        );
        let file = Purpose::File.opening();
        assert_eq!(destination(&file).as_deref(), Some("(file)"));
        assert_eq!(destination(b"\x03\xff"), None);
        assert_eq!(destination(b""), None);
    }

    #[test]
    fn this_process_uses_memory() {
        assert!(resident().unwrap() > ByteCount::from_kib(100));
    }
}
