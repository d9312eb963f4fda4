//! SIP without I/O: messages, and what is done with them.
//!
//! - [`message`]: requests and answers (RFC 3261 §7, §20), out of datagrams;
//!   [`framer`]: out of streams. Both agree on what a message is.
//! - [`transaction`]: requests with their answers, over what loses messages (RFC 3261 §17).
//! - [`digest`]: proof of a password, at both ends (RFC 3261 §22).
//! - [`registrar`]: where everybody is (RFC 3261 §10.3).
//! - [`agent`]: says where this host is (RFC 3261 §10.2).
//! - [`dialog`]: what two user agents have in common (RFC 3261 §12).
//! - [`sdp`]: the addresses of one end, signed (RFC 8839).
//! - [`session`]: opened, changed and ended (RFC 3261 §13, RFC 3311).
//! - [`directory`]: registrar and proxy together, for whoever asks.
//! - [`reginfo`]: what a registrar tells of bindings (RFC 3680).
//! - [`subscription`]: who watches bindings, and who is told (RFC 6665).
//! - [`proxy`]: where requests go (RFC 3261 §16).
//! - [`words`]: words that were not used before.
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
