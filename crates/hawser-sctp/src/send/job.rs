use hawser_types::PathId;
use smallvec::SmallVec;

/// Purpose and path of the next packet.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) path: PathId,
    pub(super) kind: Kind,
}

#[derive(Debug)]
pub(super) enum Kind {
    /// Retransmissions, this chunk first.
    Retransmission(u64),
    /// New chunks; `second`: path for their copies.
    New { second: Option<PathId> },
    /// Messages that the owner has placed on the path.
    Placed,
    /// Reinjection of chunks in flight on another path.
    Reinjection(SmallVec<[u64; 2]>),
    /// Redundant copies of chunks that have just left, as the policy or the message asks for.
    Duplicate(SmallVec<[u64; 2]>),
    /// A probe to elicit an acknowledgement.
    Probe,
}
