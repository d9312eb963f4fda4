use std::net::SocketAddr;

use hawser_wire::sctp::StreamNumber;

use crate::Route;
use crate::error::Closed;

/// An event for the owner of an association.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The association is established: messages can be sent.
    Established,
    /// Messages are ready to be received.
    Readable,
    /// There is room again after [`crate::SendError::Full`].
    Writable,
    /// A path answers, for the first time or again.
    PathUp(Route),
    /// A path does not answer any more.
    PathDown(Route),
    /// A message was abandoned before it arrived, by its [`crate::Reliability`].
    Abandoned(StreamNumber),
    /// The peer has restarted the association: unacknowledged data is lost, and all numbers start
    /// again (RFC 9260 §5.2.4.1).
    Restarted,
    /// The peer's addresses have changed; pass them to [`crate::Endpoint::addresses_changed`].
    PeerAddresses(Vec<SocketAddr>),
    /// The peer sends nothing more and waits for data in flight.
    PeerClosing,
    /// The association is over; no event follows.
    Closed(Closed),
}
