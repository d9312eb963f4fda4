//! SIP without I/O: messages, transactions and roles.
//!
//! - [`message`]: requests and responses (RFC 3261 §7, §20), from datagrams; [`framer`]: from
//!   streams. Both delimit messages in the same way.
//! - [`uri`], [`fields`], [`params`], [`words`]: the parts of messages.
//! - [`transaction`]: requests with their responses, over lossy transports (RFC 3261 §17).
//! - [`dialog`], [`session`], [`sdp`]: two user agents, from INVITE to BYE, and the addresses of
//!   each, signed (RFC 3261 §12, §13; RFC 3311; RFC 8839).
//! - [`directory`]: [`registrar`] (RFC 3261 §10.3) and [`proxy`] (§16) together, with [`digest`]
//!   (§22) and [`subscription`] to bindings (RFC 6665, documents of [`reginfo`], RFC 3680). A
//!   *binding* is a contact of a user, for a while.
//! - [`agent`]: registers this host's addresses (RFC 3261 §10.2), and calls other hosts.
//!
//! The way through a directory: `framer.rs` or `message/read.rs` → `transaction/table.rs` →
//! `directory.rs` → `registrar/update.rs`, or `directory/forwarding.rs` with `proxy/`. Of a host:
//! `agent/announcer.rs` registers; `agent/calls.rs` calls by name, verifies the peer
//! (`agent/calls/trust.rs`) and yields its addresses. Sockets and timers are in `directory/` and
//! `registration/` of `hawser-front`.
//!
//! To add a header field, begin at `fields/`, `message/name.rs` and `message/headers.rs`; an answer
//! of the directory, at `directory/answers.rs`. Tests: `message/torture.rs` (RFC 4475 and its
//! like), `agent/calls/tests/stage.rs` (hosts and a directory), `fuzzing/`.
//!
//! `docs/design/sip.md` explains the decisions.
#![forbid(unsafe_code)]

pub mod agent;
mod cursor;
pub mod dialog;
pub mod digest;
pub mod directory;
pub mod fields;
pub mod framer;
#[doc(hidden)]
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod message;
mod method;
pub mod params;
pub mod proxy;
pub mod reginfo;
pub mod registrar;
pub mod sdp;
pub mod session;
pub mod subscription;
#[cfg(test)]
mod testing;
pub mod transaction;
pub mod uri;
pub mod words;

pub use cursor::SyntaxFault;
pub use message::{Message, Request, Response};
