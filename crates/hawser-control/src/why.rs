use std::time::Duration;

use hawser_types::{ByteCount, ChannelId, LinkIndex, StreamId};
use serde::{Deserialize, Serialize};

use crate::why_count::WhyCount;
use crate::{PacketFlowStatus, PlacedReport, Role};

/// The reasons why links were used or not, as far as this daemon decided: for the data that it
/// sends.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct WhyReport {
    /// Role in which it was started.
    pub role: Role,
    /// The sessions that were asked for.
    pub sessions: Vec<WhySession>,
    /// Number of sessions, also when not all are listed.
    pub session_count: u64,
    /// Connections that it places over one link each, where it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placed: Option<PlacedReport>,
}

/// The reasons why the links of one session were used or not.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct WhySession {
    /// The session's name, as `hawser status` shows it.
    pub id: String,
    /// The far end.
    pub peer: String,
    /// True if this client has begun another session with the same far end: only streams that were
    /// open go on in this one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_left: bool,
    /// The policy that chooses links for bulk.
    pub scheduler: String,
    /// Time since the session began.
    #[serde(rename = "age_ms", with = "crate::units::milliseconds")]
    pub age: Duration,
    /// The stream that this is about; none where it is about all of them.
    pub stream: Option<StreamId>,
    /// Destination of the stream.
    pub destination: Option<String>,
    /// Bytes from the far end, which chose the links for them.
    pub bytes_received: ByteCount,
    /// The links that the session has or had.
    pub links: Vec<WhyLink>,
    /// The streams that can be asked for, where this is about all of them.
    pub streams: Vec<WhyStream>,
    /// Flows of packets lately, where this is about all streams; those with the most bytes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packet_flows: Vec<PacketFlowStatus>,
    /// The latest that happened to channels and links.
    pub events: Vec<WhyEvent>,
    /// The same as the far end says it, for what it sends here; none where it does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received: Option<Box<WhySession>>,
}

impl WhySession {
    /// Reads what the far end of a session says of it. `None` where that makes no sense, or is
    /// longer than it may be.
    pub fn of_far_end(json: &[u8]) -> Option<Self> {
        if json.len() > MAX_FAR_END {
            return None;
        }
        let said: Self = serde_json::from_slice(json).ok()?;
        // What it says of this end would be hearsay.
        Some(Self {
            received: None,
            ..said
        })
    }
}

/// Bytes that one end of a session tells the other at most.
pub const MAX_FAR_END: usize = 64 << 10;

/// The reasons why one link was used or not.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct WhyLink {
    /// Its name.
    pub link: String,
    /// The kernel's number for it.
    pub index: LinkIndex,
    /// Bytes sent over it, without copies.
    pub bytes_sent: ByteCount,
    /// Part of these that went over an association.
    #[serde(default)]
    pub bytes_associated: ByteCount,
    /// Share of these in the bytes sent over all links, from 0 to 1.
    pub share: f64,
    /// Bytes sent over it although another link carried them too.
    pub bytes_copied: ByteCount,
    /// The chunks that were placed, here or elsewhere, while it was known.
    pub chunks: u64,
    /// The chunks that were placed here, by the reason.
    pub chosen: Vec<WhyCount>,
    /// The chunks that were placed elsewhere, by what kept this link from getting them.
    pub passed_over: Vec<WhyCount>,
    /// Time for which it was ready and nothing was sent, by the reason.
    pub held_back: Vec<WhySpan>,
    /// Chunks that would have arrived later than over the chosen link: the times for both.
    pub later: Option<WhyLater>,
    /// Its TCP channels now, and one more where an association has a path over it.
    pub channel_count: u64,
    /// Number of those that are silent although an answer is overdue.
    pub suspect_count: u64,
}

/// Time for which something was the reason.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WhySpan {
    /// The reason, for programs.
    pub why: String,
    /// The reason, for people: goes on after "since".
    pub meaning: String,
    /// The time.
    #[serde(rename = "span_ms", with = "crate::units::milliseconds")]
    pub span: Duration,
}

/// Two ways compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WhyLater {
    /// Average time in which a chunk would have arrived by this link.
    #[serde(rename = "here_ms", with = "crate::units::milliseconds")]
    pub here: Duration,
    /// Average time by the link that was chosen.
    #[serde(rename = "there_ms", with = "crate::units::milliseconds")]
    pub there: Duration,
}

/// A stream that can be asked for.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WhyStream {
    /// Its number; 0 carries the session's own commands.
    pub id: StreamId,
    /// Destination; none once it is over.
    pub destination: Option<String>,
    /// Bytes sent of it, without copies.
    pub bytes_sent: ByteCount,
}

/// An event of a channel or a link.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WhyEvent {
    /// Time of the event, in milliseconds since 1970-01-01 00:00 UTC, by the daemon's clock.
    pub at_unix_ms: u64,
    /// Kind of the event: `added`, `lost`, `silent`, `recovered`, `stalled`, `standing`, `policy`,
    /// `transport`; more may follow.
    pub what: String,
    /// The link's name, where it is about one: an association has all.
    pub link: Option<String>,
    /// The channel, where it is about one.
    pub channel: Option<ChannelId>,
    /// Chunks on it that the far end had not acknowledged.
    pub chunks: Option<u64>,
    /// Time for which it had been silent by then, or for which the silence lasted.
    #[serde(
        rename = "span_ms",
        with = "crate::units::milliseconds::option",
        default
    )]
    pub span: Option<Duration>,
    /// The policy, the kind of a channel, the transport with its reason, or why a link may not be
    /// used as any other, for people.
    pub detail: Option<String>,
}
