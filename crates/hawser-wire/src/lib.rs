//! Encoding and decoding of varints, records, frames, commands, the join prelude, a TCP option,
//! SCTP and DNS, with no state.
//!
//! `docs/protocol.md` is the specification of all but SCTP and DNS; this crate is its only
//! implementation here. Every decoder takes untrusted bytes: none panics, none allocates more than
//! a few times the input's size.
//!
//! - Stream mode: `record.rs` (header of a record), `frame.rs` (chunks, state frames, datagrams),
//!   `command.rs` (stream 0), `join.rs` and `join_offer.rs` (first bytes of a connection),
//!   `link_rules.rs`, `varint.rs`. [`FrameIterator`] and [`CommandDecoder`] read, `put` functions
//!   write.
//! - Associations: `sctp.rs` with `sctp/` (packets and chunks of RFC 9260, in a compact form too),
//!   `association.rs` (records in messages). Packet mode: `tunnel.rs`.
//! - Handshakes of TCP: `syn_option.rs`. Names: `dns.rs`.
//!
//! To add a frame or a command:
//!
//! 1. specify it in `docs/protocol.md`;
//! 2. give it a number in `numbers.rs`, where decoders and hostile scripts find it;
//! 3. encode and decode it in `frame.rs` or `command.rs`, with a vector in `frame/tests.rs` or
//!    `command/tests.rs`;
//! 4. handle it in `session/ingest.rs` or `session/commands.rs` of `hawser-session`, and send it
//!    from `session/transmit.rs` there;
//! 5. add its example in `samples.rs` and its script in `scripts/floods.rs` of `hawser-hostile`:
//!    the tests in `sent.rs` there ask for both.
//!
//! Fuzzers enter by `fuzzing.rs`; `fuzzing/tests.rs` reads their seeds, and `tests/allocation.rs`
//! bounds what decoders allocate. `script.rs` reads the scripts of fuzzers in crates above.
#![forbid(unsafe_code)]

mod association;
mod command;
pub mod dns;
mod error;
mod frame;
#[doc(hidden)]
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod join;
mod join_offer;
mod link_rules;
mod numbers;
mod record;
#[doc(hidden)]
pub mod script;
pub mod sctp;
mod syn_option;
pub mod tunnel;
mod varint;

pub use association::{TransportChoice, UnknownTransport, put_record_number, take_record_number};
pub use command::{
    Command, CommandDecoder, Enrolment, Grant, GrantAddress, Hello, MAX_CLOSE_REASON,
    MAX_COMMAND_VALUE,
};
pub use error::{Malformed, MalformedReason};
pub use frame::{
    ChannelRole, ChunkFlags, ChunkHeader, Frame, FrameIterator, MAX_DATAGRAM, MAX_OPEN_METADATA,
    PathReport, StateFrame, datagram_length, put_datagram,
};
pub use join::{FirstWord, JOIN_PRELUDE_LENGTH, JoinPrelude};
pub use join_offer::{JOIN_OFFER_LENGTH, JoinOffer};
pub use link_rules::{LinkRulesEntry, MAX_LINK_RULES};
pub use numbers::{CommandKind, FrameKind, StreamKind};
pub use record::{
    MAX_CHUNK_PAYLOAD, MAX_RECORD_BODY, RECORD_HEADER_LENGTH, RecordFlags, RecordHeader,
};
pub use syn_option::{Heard, KeyHint, Offer, OfferForm, SynOption, SynOptionBytes, SynOptionError};
pub use varint::{MAX_VARINT, put_varint, take_varint, varint_length};
