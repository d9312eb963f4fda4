//! Association mode without I/O: SCTP associations that use all paths at once.
//!
//! An association connects two multihomed hosts by RFC 9260. It has the paper's virtual
//! associations: every useful pair of addresses is a path with its own window, timer and loss
//! recovery, and every chunk is assigned to a path individually. `docs/design/association.md`
//! explains the decisions.
//!
//! - A packet from a stranger: `endpoint.rs` → `endpoint/unassociated.rs` → `handshake/` (a cookie,
//!   no state) → `association/setup.rs`.
//! - A message out: `send.rs` queues it → `send/choose.rs` picks chunk and path with a policy of
//!   `hawser-sched` → `send/transmit.rs` fills the packet, as the window of the path
//!   (`congestion/`) and of the association (`send/window.rs`) allow. Messages whose owner chose
//!   the path, as a tunnel does, go by `send/placed.rs`.
//! - A packet in: `association/ingest.rs` → `receive.rs` (assembly, SACK); a SACK of the peer goes
//!   to `send/acknowledge.rs` → `path/flight.rs` (loss) → `send/recovery.rs`.
//! - Paths come and go: `association/addresses.rs`, `path/candidates.rs`, `path/asconf.rs`; their
//!   state is in `path/standing.rs`, probes in `path/probing.rs`.
//!
//! To add a congestion control, begin at `congestion.rs`; a rule about paths that carry data, at
//! `path/selection.rs`. Tests of the sending half run two hosts over a network that loses and
//! reorders: `send/tests/network.rs`; those of the handshake are in `endpoint/tests/`.
#![forbid(unsafe_code)]

mod association;
mod config;
mod congestion;
mod endpoint;
mod error;
mod event;
#[doc(hidden)]
#[cfg(any(test, feature = "fuzzing"))]
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
