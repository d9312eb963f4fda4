//! Stream mode without I/O: channels, chunks, reassembly, acknowledgement, reinjection and flow
//! control.
//!
//! A [`Session`] is everything between two hosts. It owns no socket, clock, thread or key: the
//! driver tells it what happened, and drains what it wants done. Records are opened by a
//! [`seal::RecordReader`] before the session sees them and sealed by a [`seal::Sealer`] after it
//! gave them out, so that the costly part of the work needs no access to the session.
//!
//! The way of a chunk through the code: `stream::send` → `session::placing` (asks the policy) →
//! `unacknowledged` and `channel::outbound` → `session::transmit` → `seal` ═ `seal` →
//! `session::ingest` → `reassembly` → `stream::receive`.
#![forbid(unsafe_code)]

mod arena;
mod association;
mod by_role;
mod channel;
mod channels;
mod command_stream;
mod config;
mod datagrams;
mod duplicates;
mod error;
mod event;
#[doc(hidden)]
pub mod fuzzing;
mod grant;
mod halves;
mod held;
mod lifecycle;
mod links;
mod outgoing;
mod read_buffers;
mod read_outcome;
mod reassembly;
pub mod recorder;
mod scheduling;
pub mod seal;
mod send_rules;
mod session;
mod side;
mod snapshot;
mod stream;
mod streams;
mod transport;
mod transports;
mod unacknowledged;

pub use arena::Arena;
pub use association::{AssociationSample, PathSample, StreamBacklog};
pub use channel::{ChannelSpec, RELAY_LINK};
pub use config::{ChunkSize, SctpPaths, SessionConfig, UnknownSctpPaths};
pub use error::{DatagramError, Misbehaviour, OpenError, PeerFault, StreamError};
pub use event::{CloseReason, Event, Limit};
pub use grant::JoinRefused;
pub use hawser_sched::Spread;
pub use hawser_wire::{TransportChoice, UnknownTransport};
pub use links::LostSegment;
pub use outgoing::Outgoing;
pub use read_buffers::ReadBuffer;
pub use read_outcome::ReadOutcome;
pub use session::Session;
pub use side::Side;
pub use snapshot::{
    ChannelSnapshot, Counters, FlowEnds, LinkSnapshot, PacketFlow, PeerView, SessionSnapshot,
    StreamSnapshot, TransportSnapshot, TunnelCounts,
};
pub use stream::SHORT_WRITE;
pub use transport::{Transport, TransportReason};

/// The payload of one chunk: pieces of memory that follow one another.
pub type Payload = smallvec::SmallVec<[bytes::Bytes; 2]>;

/// The code of the reset that refuses a stream for which there is no room.
pub const CODE_LIMIT_REACHED: u32 = 8;

/// Credit that every stream has without being told.
pub(crate) const BASE_CREDIT: u64 = 64 * 1024;
