//! SIP without I/O: messages, transactions and roles.
//!
//! - [`message`]: requests and responses (RFC 3261 §7, §20), from datagrams;
//!   [`framer`]: from streams. Both delimit messages in the same way.
//! - [`transaction`]: requests with their responses, over lossy transports (RFC 3261 §17).
//! - [`digest`]: proof of a password, at both ends (RFC 3261 §22).
//! - [`registrar`]: bindings of users to addresses (RFC 3261 §10.3).
//! - [`agent`]: registers this host's addresses (RFC 3261 §10.2).
//! - [`dialog`]: the state that two user agents share (RFC 3261 §12).
//! - [`sdp`]: the addresses of one end, signed (RFC 8839).
//! - [`session`]: sessions, from INVITE to BYE (RFC 3261 §13, RFC 3311).
//! - [`directory`]: registrar and proxy together.
//! - [`reginfo`]: documents that list bindings (RFC 3680).
//! - [`subscription`]: watching bindings: SUBSCRIBE and NOTIFY (RFC 6665).
//! - [`proxy`]: forwarding decisions (RFC 3261 §16).
//! - [`words`]: unique tokens.
//! - [`uri`], [`fields`], [`params`]: the parts of messages.
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
pub mod fuzzing;
pub mod message;
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
