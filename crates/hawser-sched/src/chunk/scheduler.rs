use std::fmt;

use hawser_types::{ByteCount, ChannelId, Instant};

use super::ChunkPolicy;
use crate::PathView;

/// The unit that is placed: one chunk that has not been given to a channel yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ChunkUnit {
    /// Bytes of payload that wait; the chunk will be this long or shorter.
    pub size: ByteCount,
    /// More follows than `size`: the application writes as fast as it may.
    pub more: bool,
    /// How much more may be sent before what the peer and this host's memory allow is used up, this
    /// unit included; `None` where nothing bounds it.
    pub room: Option<ByteCount>,
    /// The chunk was sent before, on a channel that failed it.
    pub again: bool,
}

/// Decision on a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// To this channel, which is ready.
    Channel(ChannelId, Reason),
    /// Nowhere yet: ask again when any channel becomes ready, or at the instant given.
    Wait(Option<Instant>, Reason),
    /// To both channels.
    Duplicate([ChannelId; 2], Reason),
}

/// Reason for a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// The channel could accept data.
    Writable,
    /// It was the channel's turn.
    Turn,
    /// It has the lowest round-trip time of those that are ready.
    LeastRtt,
    /// Every usable channel is busy.
    AllBusy,
    /// It is another channel's turn, and that one is busy.
    NotItsTurn,
    /// Two links carry it, the first to arrive counts.
    Redundant,
    /// It arrives there first.
    Earliest,
    /// A quicker channel is busy, and waiting for it is quicker.
    QuickerSoon,
    /// Anywhere else than on a channel that is busy it would use up the window before it arrives,
    /// and so stop the quicker ones.
    WouldBlock,
    /// To learn whether the link has recovered.
    Probe,
    /// The user or the governor allows none of those that are ready.
    NotAllowed,
}

/// A policy for chunks.
///
/// `paths` holds the usable channels in ascending order of their number. A policy keeps its own
/// state (whose turn it is) but reads everything else from the view. It has to choose a channel
/// that is ready, or wait.
pub trait ChunkScheduler: fmt::Debug + Send {
    /// Returns the decision on a unit.
    fn select(&mut self, now: Instant, unit: ChunkUnit, paths: &[PathView]) -> Decision;

    /// Which policy this is.
    fn policy(&self) -> ChunkPolicy;
}

/// The usable channels: those that are not suspect, or all when every one is.
pub(super) fn usable(paths: &[PathView]) -> impl Iterator<Item = &PathView> + Clone {
    let all_suspect = paths.iter().all(|path| path.suspect);
    paths
        .iter()
        .filter(move |path| all_suspect || !path.suspect)
}
