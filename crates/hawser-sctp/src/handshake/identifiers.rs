use hawser_wire::sctp::{Tsn, VerificationTag};

/// The identifiers that this end puts into an INIT or INIT ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identifiers {
    /// Verification tag of packets from the peer, chosen by this end.
    pub(crate) tag: VerificationTag,
    /// TSN of this end's first DATA chunk, chosen by this end.
    pub(crate) initial_tsn: Tsn,
    /// This end's SCTP port.
    pub(crate) port: u16,
    /// The peer's SCTP port.
    pub(crate) peer_port: u16,
}
