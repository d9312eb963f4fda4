//! Stream mode without I/O: channels, chunks, reassembly, acknowledgement, reinjection and flow
//! control.
//!
//! A [`Session`] is everything between two hosts. It owns no socket, clock, thread or key: the
//! driver tells it what happened, and drains what it wants done. Records are opened by a
//! [`seal::RecordReader`] before the session sees them and sealed by a [`seal::Sealer`] after it
//! gave them out, so that the costly part of the work needs no access to the session.
//!
//! A chunk's way through the code: `stream::send` → `transmit` (asks the scheduler, writes the
//! ledger) → `channel` → `seal` ═ `seal` → `ingest` → `reassembly` → `stream::receive`.
#![forbid(unsafe_code)]

mod arena;
mod channel;
mod config;
mod error;
mod event;
#[doc(hidden)]
pub mod fuzzing;
mod grant;
mod held;
mod ledger;
mod reassembly;
pub mod recorder;
pub mod seal;
mod session;
mod snapshot;
mod stream;

pub use channel::{ChannelSpec, Transport, TransportReason};
pub use config::{ChunkSize, SessionConfig};
pub use error::{DatagramError, Misbehaviour, OpenError, PeerFault, StreamError};
pub use event::{CloseReason, Event};
pub use grant::JoinRefused;
pub use hawser_path::Spread;
pub use hawser_wire::{TransportChoice, UnknownTransport};
pub use session::association::{AssociationSample, Behind, PathSample};
pub use session::{Outgoing, ReadOutcome, Session, Side};
pub use snapshot::{
    ChannelSnapshot, Counters, LinkSnapshot, PeerView, SessionSnapshot, StreamSnapshot,
    TransportSnapshot,
};

/// The payload of one chunk: pieces of memory that follow one another.
pub type Payload = smallvec::SmallVec<[bytes::Bytes; 2]>;

/// The code of the reset that refuses a stream for which there is no room.
pub const CODE_LIMIT_REACHED: u32 = 8;

/// What every stream may have under way without being told, in units of credit.
pub(crate) const BASE_CREDIT: u64 = 64 * 1024;
