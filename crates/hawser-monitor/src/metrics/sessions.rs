//! All sessions together: the states of open ones, and the counters of all sessions so far.

use std::collections::BTreeMap;

use hawser_control::{AllSessions, ChannelState, PathState, SessionState, StatusSnapshot};

use super::text::Text;

pub(super) fn write(text: &mut Text, snapshot: &StatusSnapshot) {
    states(text, &snapshot.all_sessions);
    data(text, &snapshot.all_sessions);
    for (counter, name, help) in COUNTED {
        let count = snapshot.counters.get(counter).copied();
        text.counter(name, help).put(&[], count.unwrap_or(0));
    }
}

/// Returns whether this module writes the daemon's counter with this name.
pub(super) fn has(counter: &str) -> bool {
    COUNTED.iter().any(|(name, ..)| *name == counter)
}

fn states(text: &mut Text, all: &AllSessions) {
    text.gauge("hawser_sessions", "Sessions with far ends, by state.")
        .put_counts("state", SessionState::ALL, of(&all.states));
    text.gauge("hawser_streams", "Streams that are open.")
        .put(&[], all.stream_count);
    text.gauge("hawser_paths", "Ways to far ends, by state.")
        .put_counts("state", PathState::ALL, of(&all.paths));
    text.gauge("hawser_channels", "TCP connections of sessions, by state.")
        .put_counts("state", ChannelState::ALL, of(&all.channels));
}

/// Returns a function that gives the number of entries in a state.
fn of<T: Ord>(counts: &BTreeMap<T, u64>) -> impl Fn(&T) -> u64 {
    |state| counts.get(state).copied().unwrap_or(0)
}

fn data(text: &mut Text, all: &AllSessions) {
    text.gauge(
        "hawser_sessions_unacknowledged_bytes",
        "Data that was sent and is not acknowledged yet.",
    )
    .put(&[], all.unacknowledged_bytes);
    text.gauge(
        "hawser_channels_in_flight_bytes",
        "Bytes in flight on channels.",
    )
    .put(&[], all.in_flight_bytes);
    text.gauge(
        "hawser_sessions_unsent_bytes",
        "Data of applications that waits for a channel.",
    )
    .put(&[], all.unsent_bytes);
}

/// Counters by their names in a snapshot.
const COUNTED: [(&str, &str, &str); 19] = [
    (
        "sessions-bytes-again",
        "hawser_sessions_repeated_bytes_total",
        "Data sent again since its channel failed.",
    ),
    (
        "sessions-bytes-duplicated",
        "hawser_sessions_duplicated_bytes_total",
        "Data sent over a second channel as well.",
    ),
    (
        "sessions-chunks-cut",
        "hawser_sessions_chunks_total",
        "Chunks that streams were cut into.",
    ),
    (
        "sessions-chunks-again",
        "hawser_sessions_repeated_chunks_total",
        "Chunks sent again since their channel failed.",
    ),
    (
        "sessions-duplicates-received",
        "hawser_sessions_duplicate_chunks_total",
        "Chunks that came more than once.",
    ),
    (
        "sessions-suspects",
        "hawser_sessions_suspicions_total",
        "Times that a channel was silent where an answer was due.",
    ),
    (
        "sessions-channels-lost",
        "hawser_sessions_lost_channels_total",
        "Channels that failed.",
    ),
    (
        "sessions-segments-again",
        "hawser_channels_retransmitted_segments_total",
        "TCP segments that the kernel had to send again.",
    ),
    (
        "sessions-streams-opened",
        "hawser_sessions_opened_streams_total",
        "Streams opened.",
    ),
    (
        "sessions-streams-reset",
        "hawser_sessions_reset_streams_total",
        "Streams that were broken off.",
    ),
    (
        "sessions-datagrams-sent",
        "hawser_sessions_sent_datagrams_total",
        "Datagrams sent.",
    ),
    (
        "sessions-datagrams-received",
        "hawser_sessions_received_datagrams_total",
        "Datagrams received.",
    ),
    (
        "sessions-datagrams-dropped",
        "hawser_sessions_dropped_datagrams_total",
        "Datagrams that were not passed on.",
    ),
    (
        "sessions-packets-over-association",
        "hawser_sessions_sent_packets_total",
        "Packets of tunnels sent over associations.",
    ),
    (
        "sessions-packets-over-channels",
        "hawser_sessions_sent_packets_as_datagrams_total",
        "Packets of tunnels sent as datagrams, since no association answered.",
    ),
    (
        "sessions-packets-received",
        "hawser_sessions_received_packets_total",
        "Packets of tunnels received over associations.",
    ),
    (
        "sessions-packets-late",
        "hawser_sessions_late_packets_total",
        "Packets of tunnels received after they had counted as lost.",
    ),
    (
        "sessions-packets-dropped",
        "hawser_sessions_dropped_packets_total",
        "Packets of tunnels dropped from the queue in front of the links, or before it.",
    ),
    (
        "sessions-packets-refused",
        "hawser_sessions_refused_packets_total",
        "Packets of a gateway that its client has not taken.",
    ),
];
