use std::time::Duration;

use hawser_types::{ByteCount, ChannelId, LinkIndex, StreamId};
use serde::{Deserialize, Serialize};

use crate::why_count::WhyCount;
use crate::{PacketFlowStatus, PlacedReport, Role};

/// Reasons why links were used or not, as far as this daemon decided: for the data that it sends.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct WhyReport {
    /// Role of the daemon.
    pub role: Role,
    /// The requested sessions.
    pub sessions: Vec<WhySession>,
    /// Number of sessions, including those that are not listed.
    pub session_count: u64,
    /// Connections that the daemon places over one link each, if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placed: Option<PlacedReport>,
}

/// Reasons why the links of one session were used or not.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct WhySession {
    /// The session's name, as `hawser status` shows it.
    pub id: String,
    /// The far end.
    pub peer: String,
    /// True if this client has opened another session with the same far end: only open streams
    /// continue in this one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_left: bool,
    /// Policy that chooses links for bulk data.
    pub scheduler: String,
    /// Time since the session began.
    #[serde(rename = "age_ms", with = "crate::units::milliseconds")]
    pub age: Duration,
    /// The stream of this report; `None` if it is about all of them.
    pub stream: Option<StreamId>,
    /// Destination of the stream.
    pub destination: Option<String>,
    /// Bytes from the far end, which chose the links for these.
    pub bytes_received: ByteCount,
    /// Current and former links of the session.
    pub links: Vec<WhyLink>,
    /// Streams that can be requested, if this report is about all of them.
    pub streams: Vec<WhyStream>,
    /// Recent flows of packets with the most bytes, if this report is about all streams.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packet_flows: Vec<PacketFlowStatus>,
    /// Latest events of channels and links.
    pub events: Vec<WhyEvent>,
    /// The far end's report on the data that it sends here; `None` if it sends none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received: Option<Box<WhySession>>,
}

impl WhySession {
    /// Parses the far end's report on a session. `None` if it is invalid or too long.
    pub fn of_far_end(json: &[u8]) -> Option<Self> {
        if json.len() > MAX_FAR_END {
            return None;
        }
        let said: Self = serde_json::from_slice(json).ok()?;
        // The far end's report about this end would be hearsay.
        Some(Self {
            received: None,
            ..said
        })
    }
}

/// Maximum size of the report that one end sends to the other.
pub const MAX_FAR_END: usize = 64 << 10;

/// Reasons why one link was used or not.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct WhyLink {
    /// Its name.
    pub link: String,
    /// The kernel's number for it.
    pub index: LinkIndex,
    /// Bytes sent over it, without copies.
    pub bytes_sent: ByteCount,
    /// Part of these that an association carried.
    #[serde(default)]
    pub bytes_associated: ByteCount,
    /// Share of these in the bytes sent over all links, from 0 to 1.
    pub share: f64,
    /// Bytes of copies: another link carried these bytes too.
    pub bytes_copied: ByteCount,
    /// Chunks that were placed, here or elsewhere, while the link was known.
    pub chunks: u64,
    /// Chunks placed here, by reason.
    pub chosen: Vec<WhyCount>,
    /// Chunks placed elsewhere, by the reason why this link did not get them.
    pub passed_over: Vec<WhyCount>,
    /// Time for which it was ready and sent nothing, by reason.
    pub held_back: Vec<WhySpan>,
    /// Chunks that would have arrived later than over the chosen link: both times.
    pub later: Option<WhyLater>,
    /// Its current TCP channels, and one more if an association has a path over it.
    pub channel_count: u64,
    /// Number of these channels that are silent although an answer is overdue.
    pub suspect_count: u64,
}

/// Time for which a reason applied.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WhySpan {
    /// The reason, for programs.
    pub why: String,
    /// The reason, for people: continues a sentence after "since".
    pub meaning: String,
    /// The time.
    #[serde(rename = "span_ms", with = "crate::units::milliseconds")]
    pub span: Duration,
}

/// Comparison of two links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WhyLater {
    /// Average time in which a chunk would have arrived over this link.
    #[serde(rename = "here_ms", with = "crate::units::milliseconds")]
    pub here: Duration,
    /// Average time over the chosen link.
    #[serde(rename = "there_ms", with = "crate::units::milliseconds")]
    pub there: Duration,
}

/// A stream that can be requested.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WhyStream {
    /// Its number; 0 carries the session's own commands.
    pub id: StreamId,
    /// Destination; `None` once the stream is over.
    pub destination: Option<String>,
    /// Bytes sent on it, without copies.
    pub bytes_sent: ByteCount,
}

/// An event of a channel or a link.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WhyEvent {
    /// Time of the event, in milliseconds since 1970-01-01 00:00 UTC, by the daemon's clock.
    pub at_unix_ms: u64,
    /// Kind of the event: `added`, `lost`, `silent`, `recovered`, `stalled`, `standing`, `policy`,
    /// `transport`; more may be added.
    pub what: String,
    /// The link's name, if the event concerns one: an association uses all links.
    pub link: Option<String>,
    /// The channel, if the event concerns one.
    pub channel: Option<ChannelId>,
    /// Chunks on the channel that the far end had not acknowledged.
    pub chunks: Option<u64>,
    /// Duration of the silence, until then or in total.
    #[serde(
        rename = "span_ms",
        with = "crate::units::milliseconds::option",
        default
    )]
    pub span: Option<Duration>,
    /// The policy, the kind of a channel, the transport with its reason, or the reason why a link
    /// is restricted, for people.
    pub detail: Option<String>,
}
