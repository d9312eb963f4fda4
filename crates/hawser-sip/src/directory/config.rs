//! What a directory is for, and its bounds.

use std::net::SocketAddr;

use hawser_types::Host;

use crate::digest::Algorithm;
use crate::message::Limits;
use crate::registrar::{AdmissionLimits, LocationLimits};
use crate::subscription::NotifierLimits;
use crate::uri::SipUri;

/// What a directory is for, and its bounds.
#[derive(Clone, Debug)]
pub struct DirectoryConfig {
    /// The domains, one at least; the first one is the realm of passwords.
    pub domains: Vec<Host>,
    /// Where it is, as others reach it: without user and parameters.
    pub own: SipUri,
    /// Addresses of its sockets for datagrams, by their numbers.
    pub sockets: Vec<SocketAddr>,
    /// What proofs of a password may be made by, in the order in which they are offered.
    pub algorithms: Vec<Algorithm>,
    /// Bounds of the table of bindings.
    pub locations: LocationLimits,
    /// Bounds of who watches them.
    pub watchers: NotifierLimits,
    /// How much one sender may ask.
    pub admission: AdmissionLimits,
    /// How large a message may be.
    pub messages: Limits,
    /// Streams that are open at once.
    pub max_streams: usize,
    /// Requests that are forwarded at once.
    pub max_forwarded: usize,
    /// Requests of users that are remembered for their repetitions.
    pub max_requests: usize,
}

impl DirectoryConfig {
    /// A directory for these domains at `own`, with the default bounds.
    #[must_use]
    pub fn new(domains: Vec<Host>, own: SipUri, sockets: Vec<SocketAddr>) -> Self {
        Self {
            domains,
            own,
            sockets,
            algorithms: vec![Algorithm::Sha256, Algorithm::Md5],
            locations: LocationLimits::default(),
            watchers: NotifierLimits::default(),
            admission: AdmissionLimits::default(),
            messages: Limits {
                max_body: 16 << 10,
                ..Limits::default()
            },
            max_streams: 1024,
            max_forwarded: 1024,
            max_requests: 32_768,
        }
    }
}

/// The tag of answers. What it tells apart, Call-ID and From do as well.
pub(super) const TAG: &str = "directory";
