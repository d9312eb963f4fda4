//! Domains and limits of a directory.

use std::net::SocketAddr;

use hawser_types::Host;

use crate::digest::Algorithm;
use crate::message::Limits;
use crate::registrar::{AdmissionLimits, LocationLimits};
use crate::subscription::NotifierLimits;
use crate::uri::SipUri;

/// Domains and limits of a directory.
#[derive(Clone, Debug)]
pub struct DirectoryConfig {
    /// Served domains, at least one; the first is the realm of passwords.
    pub domains: Vec<Host>,
    /// Address of the directory as others reach it: without user and parameters.
    pub own: SipUri,
    /// Addresses of the datagram sockets, by their numbers.
    pub sockets: Vec<SocketAddr>,
    /// Algorithms for proofs of a password, in the order in which they are offered.
    pub algorithms: Vec<Algorithm>,
    /// Limits of the table of bindings.
    pub locations: LocationLimits,
    /// Limits of the watchers of bindings.
    pub watchers: NotifierLimits,
    /// Limit of requests per sender.
    pub admission: AdmissionLimits,
    /// Limits of a message.
    pub messages: Limits,
    /// Limit of open streams.
    pub max_streams: usize,
    /// Limit of requests that are forwarded at once.
    pub max_forwarded: usize,
    /// Limit of requests of users that are remembered to detect retransmissions.
    pub max_requests: usize,
}

impl DirectoryConfig {
    /// Creates the configuration of a directory for these domains at `own`, with default limits.
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

/// Tag of responses. Call-ID and From already identify the transaction.
pub(super) const TAG: &str = "directory";
