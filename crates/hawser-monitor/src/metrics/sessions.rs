//! All sessions together.
//!
//! What sessions count ends with them, so that sums over the sessions that are open may fall: they are gauges.

use hawser_control::{ChannelState, ChannelStatus, PathState, SessionState, SessionStatus};
use hawser_types::ByteCount;

use super::text::Text;

pub(super) fn write(text: &mut Text, sessions: &[SessionStatus]) {
    states(text, sessions);
    data(text, sessions);
    for (counter, name, help) in COUNTED {
        let counts = sessions
            .iter()
            .filter_map(|session| session.counters.get(counter));
        text.gauge(name, help).put(&[], sum(counts.copied()));
    }
}

fn states(text: &mut Text, sessions: &[SessionStatus]) {
    let states = sessions.iter().map(|session| session.state);
    text.gauge("hawser_sessions", "Sessions with far ends, by state.")
        .put_counts("state", SessionState::ALL, states);
    let streams = sessions.iter().map(|session| session.stream_count);
    text.gauge("hawser_streams", "Streams that are open.")
        .put(&[], sum(streams));
    let paths = sessions.iter().flat_map(|session| &session.paths);
    text.gauge("hawser_paths", "Ways to far ends, by state.")
        .put_counts("state", PathState::ALL, paths.map(|path| path.state));
    let states = channels(sessions).map(|channel| channel.state);
    text.gauge("hawser_channels", "TCP connections of sessions, by state.")
        .put_counts("state", ChannelState::ALL, states);
}

fn data(text: &mut Text, sessions: &[SessionStatus]) {
    let bytes =
        |of: fn(&SessionStatus) -> ByteCount| sum(sessions.iter().map(of).map(ByteCount::as_u64));
    text.gauge(
        "hawser_sessions_unacknowledged_bytes",
        "Data that was sent and is not acknowledged yet.",
    )
    .put(&[], bytes(|session| session.unacknowledged_bytes));
    let in_flight = channels(sessions).map(|channel| channel.in_flight_bytes.as_u64());
    text.gauge(
        "hawser_channels_in_flight_bytes",
        "Bytes under way on channels.",
    )
    .put(&[], sum(in_flight));
    let again = channels(sessions).map(|channel| channel.retransmissions);
    text.gauge(
        "hawser_channels_retransmitted_segments",
        "TCP segments that the kernel had to send again, over the channels that are open.",
    )
    .put(&[], sum(again));
}

fn channels(sessions: &[SessionStatus]) -> impl Iterator<Item = &ChannelStatus> + Clone {
    let paths = sessions.iter().flat_map(|session| &session.paths);
    paths.flat_map(|path| &path.channels)
}

fn sum(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

/// By the names that a session's counters have in a snapshot.
const COUNTED: [(&str, &str, &str); 13] = [
    (
        "bytes-unsent",
        "hawser_sessions_unsent_bytes",
        "Data of applications that waits for a channel.",
    ),
    (
        "bytes-again",
        "hawser_sessions_repeated_bytes",
        "Data sent again since its channel failed, over the sessions that are open.",
    ),
    (
        "bytes-duplicated",
        "hawser_sessions_duplicated_bytes",
        "Data sent over a second channel as well, over the sessions that are open.",
    ),
    (
        "chunks-cut",
        "hawser_sessions_chunks",
        "Chunks that streams were cut into, over the sessions that are open.",
    ),
    (
        "chunks-again",
        "hawser_sessions_repeated_chunks",
        "Chunks sent again since their channel failed, over the sessions that are open.",
    ),
    (
        "duplicates-received",
        "hawser_sessions_duplicate_chunks",
        "Chunks that came more than once, over the sessions that are open.",
    ),
    (
        "suspects",
        "hawser_sessions_suspicions",
        "Times that a channel was silent where an answer was due, over the sessions that are open.",
    ),
    (
        "channels-lost",
        "hawser_sessions_lost_channels",
        "Channels that failed, over the sessions that are open.",
    ),
    (
        "streams-opened",
        "hawser_sessions_opened_streams",
        "Streams opened, over the sessions that are open.",
    ),
    (
        "streams-reset",
        "hawser_sessions_reset_streams",
        "Streams that were broken off, over the sessions that are open.",
    ),
    (
        "datagrams-sent",
        "hawser_sessions_sent_datagrams",
        "Datagrams sent, over the sessions that are open.",
    ),
    (
        "datagrams-received",
        "hawser_sessions_received_datagrams",
        "Datagrams received, over the sessions that are open.",
    ),
    (
        "datagrams-dropped",
        "hawser_sessions_dropped_datagrams",
        "Datagrams that were not passed on, over the sessions that are open.",
    ),
];
