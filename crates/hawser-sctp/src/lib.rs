//! Association mode without I/O: SCTP associations that use all paths at once.
//!
//! An association connects two multihomed hosts by RFC 9260. It has the paper's virtual
//! associations: every useful pair of addresses is a path with its own window, timer and loss
//! recovery, and every chunk is assigned to a path individually. `docs/design/association.md`
//! explains the decisions.
#![forbid(unsafe_code)]

mod association;
mod config;
mod congestion;
mod endpoint;
mod error;
mod event;
#[doc(hidden)]
pub mod fuzzing;
mod handshake;
mod path;
mod receive;
mod route;
mod send;
mod snapshot;
#[cfg(test)]
mod testing;
mod traffic;

pub use association::Association;
pub use config::{AssociationConfig, Checksum, ConnectStrategy, Control, LossRule, Selection};
pub use endpoint::{AssociationId, ConnectError, Endpoint, EndpointConfig, Handled, Ignored};
pub use error::{Closed, Misbehaviour, SendError};
pub use event::Event;
pub use hawser_wire::sctp::Framing;
pub use receive::{Carrier, End, Received};
pub use route::{LinkInfo, Local, PathSelector, Route, ToPlace, Transmit, Turn};
pub use send::{Front, LostMessage, Message, OwnerBacklog, PlacedMessage, Reliability};
pub use snapshot::{Backlog, PathSnapshot};
pub use traffic::Traffic;
