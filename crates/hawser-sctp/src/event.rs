use std::net::SocketAddr;

use hawser_wire::sctp::StreamNumber;

use crate::Route;
use crate::error::Closed;

/// What the owner of an association is told.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// Messages can be sent and will arrive.
    Established,
    /// Messages wait to be received.
    Readable,
    /// After [`crate::SendError::Full`]: there is room again.
    Writable,
    /// A pair of addresses answers, for the first time or again.
    PathUp(Route),
    /// It does not answer any more.
    PathDown(Route),
    /// A message was given up before it had arrived, by its [`crate::Reliability`].
    Abandoned(StreamNumber),
    /// The peer has begun anew: what was not acknowledged before is lost, and everything counts from
    /// its beginning (RFC 9260 §5.2.4.1).
    Restarted,
    /// The peer can be reached at these addresses from now on; [`crate::Endpoint::addresses_changed`]
    /// has to know.
    PeerAddresses(Vec<SocketAddr>),
    /// The peer sends nothing more, and waits for what is under way.
    PeerClosing,
    /// The association is over; nothing follows.
    Closed(Closed),
}
