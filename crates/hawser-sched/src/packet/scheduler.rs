use std::fmt;
use std::time::Duration;

use hawser_types::{ByteCount, ChannelId, Instant};

use super::PacketPolicy;
use crate::PathView;
use crate::governor::Standing;

/// The unit that is placed: one packet, which is not cut.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PacketUnit {
    /// Length with the tunnel's header.
    pub size: ByteCount,
    /// Facts about its flow.
    pub flow: PacketFlow,
    /// Time since it came.
    pub waited: Duration,
    /// Bytes of all flows that leave until nothing that waits of its flow now is left.
    pub backlog: ByteCount,
}

/// Facts about a packet's flow, for a policy.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PacketFlow {
    /// The flow is small or real-time: it never waits for order.
    pub real_time: bool,
    /// Path of the flow's last packet; `None` for the first one, and when that is long ago.
    pub home: Option<ChannelId>,
}

/// Decision on a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketDecision {
    /// Over this path, which is ready.
    Path(ChannelId, PacketReason),
    /// Over both paths.
    Copies([ChannelId; 2], PacketReason),
    /// Nowhere yet: ask again when a path becomes ready, or at the instant given.
    Wait(Option<Instant>, PacketReason),
}

/// Reason for a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PacketReason {
    /// The flow stays on its path, whose queue has not grown.
    Home,
    /// It arrives there first.
    Earliest,
    /// The queues of all paths have grown, and it arrives there first.
    AllGrown,
    /// It was the path's turn.
    Turn,
    /// It is another path's turn, and that one is busy.
    NotItsTurn,
    /// The place in its burst that brings it in order.
    InOrder,
    /// The lowest round-trip time of those that are ready.
    LeastRtt,
    /// Two links carry it, the first to arrive counts.
    Redundant,
    /// A quicker path is about to be free.
    QuickerSoon,
    /// Every usable path is busy.
    AllBusy,
}

/// The place of one packet of a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arranged {
    /// Its place in the burst as it was given, from 0.
    pub packet: usize,
    /// The path.
    pub path: ChannelId,
    /// Time from now until it should leave.
    pub after: Duration,
}

/// A policy for packets.
///
/// `paths` holds the usable paths in ascending order of their number. A policy keeps its own state
/// (whose turn it is) but reads everything else from the view. It has to choose a path that is
/// ready, or wait.
pub trait PacketScheduler: fmt::Debug + Send {
    /// Returns the decision on a packet.
    fn select(&mut self, now: Instant, unit: &PacketUnit, paths: &[PathView]) -> PacketDecision;

    /// Tells whether bulk of a flow with this backlog may take a path that is ready. While it may
    /// not, it stays in its queue, and other flows pass.
    fn has_path(&self, _backlog: ByteCount, _paths: &[PathView]) -> bool {
        true
    }

    /// How many packets are placed together, where the policy places bursts.
    fn burst(&self, _paths: &[PathView]) -> Option<usize> {
        None
    }

    /// Places a burst: appends one entry for each packet to `order`, in the order in which they
    /// leave. Leaves `order` empty where no path is usable.
    fn arrange(&mut self, _sizes: &[ByteCount], _paths: &[PathView], _order: &mut Vec<Arranged>) {}

    /// Which policy this is.
    fn policy(&self) -> PacketPolicy;
}

/// The usable paths: none that is excluded, none that is suspect unless all are, and none that is
/// demoted while another is there.
pub(super) fn usable(paths: &[PathView]) -> impl Iterator<Item = &PathView> + Clone {
    let rank = |path: &PathView| match path.standing {
        Standing::Excluded(_) => None,
        Standing::Full if !path.suspect => Some(0),
        Standing::Probing(_) if !path.suspect => Some(1),
        _ => Some(2),
    };
    let best = paths.iter().filter_map(rank).min();
    paths
        .iter()
        .filter(move |path| best.is_some() && rank(path) == best)
}
