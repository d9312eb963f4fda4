use std::time::Duration;

use hawser_types::{ByteCount, ChannelId, LinkIndex, StreamId};
use serde::{Deserialize, Serialize};

use crate::{PlacedReport, Role};

/// Why links were used or not, as far as a daemon decided that itself: for what it sends.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct WhyReport {
    /// What it was started as.
    pub role: Role,
    /// The sessions that were asked for.
    pub sessions: Vec<WhySession>,
    /// How many there are, also when not all are listed.
    pub session_count: u64,
    /// Connections that it places over one link each, where it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placed: Option<PlacedReport>,
}

/// Why the links of one session were used or not.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct WhySession {
    /// The session's name, as `hawser status` shows it.
    pub id: String,
    /// The far end.
    pub peer: String,
    /// The policy that chooses links for bulk.
    pub scheduler: String,
    /// Time since the session began.
    #[serde(rename = "age_ms", with = "crate::units::milliseconds")]
    pub age: Duration,
    /// The stream that this is about; none where it is about all of them.
    pub stream: Option<StreamId>,
    /// Where the stream leads.
    pub destination: Option<String>,
    /// What came from the far end, which chose the links for it.
    pub bytes_received: ByteCount,
    /// The links that the session has or had.
    pub links: Vec<WhyLink>,
    /// The streams that can be asked for, where this is about all of them.
    pub streams: Vec<WhyStream>,
    /// The latest that happened to channels and links.
    pub events: Vec<WhyEvent>,
}

/// Why one link was used or not.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
pub struct WhyLink {
    /// Its name.
    pub link: String,
    /// The kernel's number for it.
    pub index: LinkIndex,
    /// What was sent over it, copies left out.
    pub bytes_sent: ByteCount,
    /// That as a part of what was sent over all links, from 0 to 1.
    pub share: f64,
    /// What was sent over it although another link carried it too.
    pub bytes_copied: ByteCount,
    /// The chunks that were placed, here or elsewhere, while it was known.
    pub chunks: u64,
    /// The chunks that were placed here, by the reason.
    pub chosen: Vec<WhyCount>,
    /// The chunks that were placed elsewhere, by what kept this link from getting them.
    pub passed_over: Vec<WhyCount>,
    /// For how long it was ready and nothing was sent, by the reason.
    pub held_back: Vec<WhySpan>,
    /// Where chunks would have arrived later than over the link that was chosen: in how long, here
    /// and there.
    pub later: Option<WhyLater>,
    /// Its channels now.
    pub channel_count: u64,
    /// Those of them that are silent where an answer was due.
    pub suspect_count: u64,
}

/// How often something was the reason.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WhyCount {
    /// The reason, for programs.
    pub why: String,
    /// The reason, for people: goes on after "since".
    pub meaning: String,
    /// How many chunks.
    pub chunks: u64,
}

/// For how long something was the reason.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WhySpan {
    /// The reason, for programs.
    pub why: String,
    /// The reason, for people: goes on after "since".
    pub meaning: String,
    /// How long.
    #[serde(rename = "span_ms", with = "crate::units::milliseconds")]
    pub span: Duration,
}

/// Two ways compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WhyLater {
    /// In how long a chunk would have been there by this link, on average.
    #[serde(rename = "here_ms", with = "crate::units::milliseconds")]
    pub here: Duration,
    /// In how long by the one that was chosen.
    #[serde(rename = "there_ms", with = "crate::units::milliseconds")]
    pub there: Duration,
}

/// A stream that can be asked for.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WhyStream {
    /// Its number; 0 carries the session's own commands.
    pub id: StreamId,
    /// Where it leads; none once it is over.
    pub destination: Option<String>,
    /// What was sent of it, copies left out.
    pub bytes_sent: ByteCount,
}

/// Something that happened to a channel or a link.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WhyEvent {
    /// When, in milliseconds since 1970-01-01 00:00 UTC, by the daemon's clock.
    pub at_unix_ms: u64,
    /// What: `added`, `lost`, `silent`, `recovered`, `stalled`, `standing`, `policy`; more may
    /// follow.
    pub what: String,
    /// The link's name, where it is about one.
    pub link: Option<String>,
    /// The channel, where it is about one.
    pub channel: Option<ChannelId>,
    /// Chunks on it that the far end had not acknowledged.
    pub chunks: Option<u64>,
    /// How long it had been silent by then, or for how long it was.
    #[serde(
        rename = "span_ms",
        with = "crate::units::milliseconds::option",
        default
    )]
    pub span: Option<Duration>,
    /// The policy, or why a link may not be used as any other, for people.
    pub detail: Option<String>,
}
