use std::str::FromStr;
use std::time::Duration;

use hawser_sched::Spread;
use hawser_sched::chunk::ChunkPolicy;
use hawser_sched::packet::PacketPolicy;
use hawser_types::ByteCount;

/// Configuration of a session. Every field has a default that suits most sessions.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionConfig {
    /// The policy that places bulk chunks.
    pub scheduler: ChunkPolicy,
    /// The policy that places the packets of tunnels, which the driver has. For Hawser's own
    /// programs: others carry no packets.
    #[doc(hidden)]
    pub packet_scheduler: PacketPolicy,
    /// For gateways: a client's user may choose the policy for what the gateway sends to it.
    pub follows_scheduler: bool,
    /// Number of bulk channels of a link; the client decides.
    pub channels_per_link: Spread,
    /// Size of chunks.
    pub chunk_size: ChunkSize,
    /// Memory for data that has arrived and was not read yet, shared by all streams; each stream
    /// has 64 KiB of its own besides.
    pub receive_memory: ByteCount,
    /// Memory for data that was sent and the peer has not acknowledged. When it is used up,
    /// streams wait; half as much again may be written ahead of it to all streams together.
    pub send_memory: ByteCount,
    /// Streams that the peer may have open at once.
    pub max_streams: u64,
    /// Memory for the flight recorder; nothing is recorded where it is zero.
    pub recorder: ByteCount,
    /// Time by which the session outlives its last channel.
    pub survive: Duration,
    /// Records may travel unsealed when both ends allow it. Joins stay authenticated.
    pub plain: bool,
    /// Paths of associations that carry what this end sends.
    pub sctp_paths: SctpPaths,
}

/// Paths of an association that carry data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SctpPaths {
    /// Every path that answers; the scheduler avoids slow ones.
    #[default]
    All,
    /// The quickest: at most as many as the end with more addresses has, none slower than four
    /// times the fastest, and each address once where possible. Source: SCTP aggregation §3.2.
    Paper,
}

impl SctpPaths {
    /// All choices.
    pub const ALL: [Self; 2] = [Self::All, Self::Paper];

    /// Returns the name in configurations.
    pub const fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Paper => "paper",
        }
    }
}

impl FromStr for SctpPaths {
    type Err = UnknownSctpPaths;

    fn from_str(name: &str) -> Result<Self, UnknownSctpPaths> {
        let mut all = Self::ALL.into_iter();
        let named = all.find(|paths| paths.name() == name);
        named.ok_or_else(|| UnknownSctpPaths(name.to_owned()))
    }
}

/// Not the name of a choice of paths.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown choice of paths `{0}`: allowed are all paper")]
pub struct UnknownSctpPaths(String);

/// Size of chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChunkSize {
    /// About 10 ms of the channel's rate, from two segments to 64 KiB.
    #[default]
    Auto,
    /// One segment, as in the papers. Source: PATTHEL §III.B, DBAS §II.E.
    Mtu,
    /// A fixed number of bytes, 256 to 65,536.
    Fixed(ByteCount),
}

impl Default for SessionConfig {
    fn default() -> Self {
        Self {
            scheduler: ChunkPolicy::default(),
            packet_scheduler: PacketPolicy::default(),
            follows_scheduler: true,
            channels_per_link: Spread::default(),
            chunk_size: ChunkSize::default(),
            receive_memory: DEFAULT_RECEIVE_MEMORY,
            send_memory: DEFAULT_SEND_MEMORY,
            max_streams: DEFAULT_MAX_STREAMS,
            recorder: DEFAULT_RECORDER,
            survive: DEFAULT_SURVIVE,
            plain: false,
            sctp_paths: SctpPaths::default(),
        }
    }
}

/// Enough for 300 Mbit/s over a path of 320 ms each way, with as much again held behind a hole.
const DEFAULT_RECEIVE_MEMORY: ByteCount = ByteCount::from_mib(64);
/// Data that the peer may hold back, and as much again in flight.
const DEFAULT_SEND_MEMORY: ByteCount = ByteCount::from_mib(128);
/// The decisions of a minute or more, and the counts of some fifty streams.
const DEFAULT_RECORDER: ByteCount = ByteCount::from_mib(1);
const DEFAULT_MAX_STREAMS: u64 = 4096;
const DEFAULT_SURVIVE: Duration = Duration::from_secs(60);
