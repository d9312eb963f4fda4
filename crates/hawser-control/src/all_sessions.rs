//! Totals over all sessions of a daemon.

use std::collections::BTreeMap;

use hawser_types::ByteCount;
use serde::{Deserialize, Serialize};

use crate::session_status::{ChannelState, PathState, SessionState, SessionStatus};

/// All sessions of a daemon together, including those that are not listed.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AllSessions {
    /// Number of sessions in each state.
    pub states: BTreeMap<SessionState, u64>,
    /// Number of their paths in each state.
    pub paths: BTreeMap<PathState, u64>,
    /// Number of their channels in each state.
    pub channels: BTreeMap<ChannelState, u64>,
    /// Streams that are open.
    pub stream_count: u64,
    /// Bytes that wait for a channel.
    pub unsent_bytes: ByteCount,
    /// Bytes sent and not acknowledged yet.
    pub unacknowledged_bytes: ByteCount,
    /// Bytes in flight on channels.
    pub in_flight_bytes: ByteCount,
    /// Memory held for their data.
    pub memory_bytes: ByteCount,
}

impl<'a> FromIterator<&'a SessionStatus> for AllSessions {
    fn from_iter<T: IntoIterator<Item = &'a SessionStatus>>(sessions: T) -> Self {
        let mut all = Self::default();
        for session in sessions {
            *all.states.entry(session.state).or_default() += 1;
            all.stream_count += session.stream_count;
            let unsent = session.counters.get(UNSENT).copied();
            all.unsent_bytes += ByteCount::new(unsent.unwrap_or_default());
            all.unacknowledged_bytes += session.unacknowledged_bytes;
            all.memory_bytes += session.memory_bytes;
            for path in &session.paths {
                *all.paths.entry(path.state).or_default() += 1;
                for channel in &path.channels {
                    *all.channels.entry(channel.state).or_default() += 1;
                    all.in_flight_bytes += channel.in_flight_bytes;
                }
            }
        }
        all
    }
}

/// By the name that it has among a session's counters.
const UNSENT: &str = "bytes-unsent";
