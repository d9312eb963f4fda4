//! Stream mode without I/O: channels, chunks, reassembly, acknowledgement, reinjection and flow
//! control.
//!
//! A [`Session`] is everything between two hosts. It owns no socket, clock, thread or key: the
//! driver tells it what happened, and drains what it wants done. Records are opened by a
//! [`seal::RecordReader`] before the session sees them and sealed by a [`seal::Sealer`] after it
//! gave them out, so that the costly part of the work needs no access to the session.
//!
//! `session.rs` holds the parts, each of which owns its fields; the files in `session/` do what
//! needs several of them. `docs/design/session.md` lists the parts and explains the decisions.
//!
//! - A chunk out: `stream/send.rs` → `session/placing.rs` (asks the policy through `scheduling.rs`;
//!   `streams/turns.rs` says whose turn it is: first among *groups*, the streams on behalf of one
//!   host) → `unacknowledged.rs` (the ledger) and `channel/outbound.rs` → `session/transmit.rs`
//!   (state frames travel along: *piggybacking*) → `seal.rs`.
//! - A chunk in: `seal.rs` → `session/ingest.rs` → `stream/receive.rs` (credit) → `reassembly.rs`
//!   and `held.rs`. `arena.rs` and `read_buffers.rs` bound the memory of what waits.
//! - A datagram: `datagrams.rs` out, `stream/arrived_datagrams.rs` in; no ledger and no order.
//! - Failure: `channels/silence.rs` and `session/liveness.rs` judge silence,
//!   `session/reinjection.rs` sends again, `transports.rs` chooses between TCP channels and the
//!   association, and tries the other one now and then (`transports/transport_trial.rs`).
//!
//! Where to begin:
//!
//! - a command: `session/commands.rs`; a state frame: `session/ingest.rs` and
//!   `session/transmit.rs`;
//! - the size of chunks: `channel/rates.rs`; credit: `stream/receive.rs`; *early credit*, before a
//!   stream is opened: `streams/early_credit.rs`;
//! - what `hawser why` can tell: `recorder.rs`; what a snapshot shows: `session/snapshots.rs`.
//!
//! Tests run two sessions in virtual time: `session/tests/pair.rs`, one file for each subject
//! beside it. `tests/vectors.rs` has the example of `docs/protocol.md`; `fuzzing/` drives two
//! sessions by scripts, a hostile peer among them.
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
#[cfg(any(test, feature = "fuzzing"))]
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
