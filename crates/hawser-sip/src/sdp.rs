//! Descriptions of sessions: the addresses of one end, with its key and its signature (RFC 8866,
//! candidates of RFC 8839).
//!
//! ```text
//! v=0
//! o=hawser 17 1 IN IP4 0.0.0.0
//! s=-
//! t=0 0
//! m=application 9 UDP hawser
//! c=IN IP4 0.0.0.0
//! a=hawser-key:BASE64
//! a=candidate:1 1 UDP 2130706431 192.0.2.1 4433 typ host hawser-share 750
//! a=hawser-signature:BASE64
//! ```
//!
//! The signature is the last line. It covers all bytes before it, and the names and the Call-ID of
//! the request, so that it is invalid in another call. This crate verifies no signature: the owner
//! has the keys.

mod candidate;
mod read;
#[cfg(test)]
mod tests;

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use thiserror::Error;

use crate::SyntaxFault;
pub use candidate::{Candidate, CandidateKind};

/// The media type of a description.
pub const CONTENT_TYPE: &str = "application/sdp";

/// Addresses of one end of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// The number of the session, chosen by this end.
    pub session: u64,
    /// The number of the description within its session. Each change has a higher one.
    pub version: u64,
    /// The public key of this end.
    pub key: Vec<u8>,
    /// Addresses, the preferred ones first.
    pub candidates: Vec<Candidate>,
}

/// A received description, with the signature that the owner verifies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    /// The description.
    pub description: Description,
    /// The signature.
    pub signature: Vec<u8>,
    /// Bytes of the description without the signature.
    text: String,
}

/// The request that carries a description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carrier<'a> {
    /// The Call-ID.
    pub call_id: &'a str,
    /// Address of record of the signer.
    pub from: &'a str,
    /// Address of record of the receiver.
    pub to: &'a str,
}

/// Reason why bytes are no description of a session with Hawser.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SdpFault {
    /// The description is longer than allowed.
    #[error("a description of {0} bytes; at most {MAX_DESCRIPTION} are read")]
    TooLong(usize),
    /// The description is no UTF-8, or a line does not end with CR LF.
    #[error("the description is no text with a CR LF at the end of each line")]
    NotText,
    /// Another line was expected here.
    #[error("line {line}: {expected} was expected")]
    Line {
        /// The line's number.
        line: usize,
        /// What was expected.
        expected: &'static str,
    },
    /// A candidate can't be read.
    #[error("line {line}: {fault}")]
    Candidate {
        /// The line's number.
        line: usize,
        /// What is wrong with it.
        fault: SyntaxFault,
    },
    /// This attribute is missing, or occurs twice.
    #[error("one attribute {0} is needed")]
    Attribute(&'static str),
    /// There are more candidates than allowed.
    #[error("more than {MAX_CANDIDATES} candidates")]
    TooManyCandidates,
}

impl Description {
    /// Returns the bytes to sign, for the request that carries the description.
    ///
    /// Each part has its length in front, so that no two inputs give the same bytes.
    #[must_use]
    pub fn to_sign(&self, carrier: &Carrier<'_>) -> Vec<u8> {
        to_sign(&self.to_string(), carrier)
    }

    /// Returns the description with its signature, as it is sent.
    #[must_use]
    pub fn signed(&self, signature: &[u8]) -> Bytes {
        let signature = STANDARD.encode(signature);
        format!("{self}a={SIGNATURE}:{signature}\r\n").into()
    }
}

impl Signed {
    /// Returns the bytes that the signature must cover in this request.
    #[must_use]
    pub fn to_verify(&self, carrier: &Carrier<'_>) -> Vec<u8> {
        to_sign(&self.text, carrier)
    }
}

impl fmt::Display for Description {
    /// Writes the description without the signature.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            session, version, ..
        } = self;
        write!(f, "v=0\r\no=hawser {session} {version} IN IP4 0.0.0.0\r\n")?;
        write!(f, "s=-\r\nt=0 0\r\n{MEDIA}\r\nc=IN IP4 0.0.0.0\r\n")?;
        write!(f, "a={KEY}:{}\r\n", STANDARD.encode(&self.key))?;
        for candidate in &self.candidates {
            write!(f, "a={CANDIDATE}:{candidate}\r\n")?;
        }
        Ok(())
    }
}

fn to_sign(text: &str, carrier: &Carrier<'_>) -> Vec<u8> {
    let mut bytes = b"hawser session description 1".to_vec();
    for part in [carrier.call_id, carrier.from, carrier.to, text] {
        bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
        bytes.extend_from_slice(part.as_bytes());
    }
    bytes
}

/// Port 9 and no address: all addresses are candidates (RFC 8839 §4.3.1).
const MEDIA: &str = "m=application 9 UDP hawser";
const KEY: &str = "hawser-key";
const CANDIDATE: &str = "candidate";
const SIGNATURE: &str = "hawser-signature";

const MAX_DESCRIPTION: usize = 16 << 10;
const MAX_CANDIDATES: usize = 32;
