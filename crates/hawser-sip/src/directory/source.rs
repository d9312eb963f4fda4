//! A message's source, and what it may do.

use std::net::SocketAddr;

use hawser_types::Instant;

use super::forwarding::Caller;
use crate::proxy::Forward;
use crate::registrar::{Admission, AdmissionLimits, Registrant};
use crate::transaction::Flow;

/// The far end of datagrams: the socket that hears them, and an address.
pub(super) type Datagrams = (u32, SocketAddr);

/// Where a message has come from.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source {
    Datagrams(Datagrams),
    Stream(Flow, SocketAddr),
}

/// What a request may do, found out before it leaves anything behind.
#[derive(Debug)]
pub(super) enum Admitted {
    /// It belongs to what is there: ACK and CANCEL.
    Follows,
    Registers(Registrant),
    /// A user with this name.
    Watches(String),
    Reaches(Vec<Forward>),
}

impl Source {
    pub(super) fn address(self) -> SocketAddr {
        match self {
            Self::Datagrams((_, address)) | Self::Stream(_, address) => address,
        }
    }
}

/// How much is taken from whom. The address of a datagram may be forged, that of a stream is not:
/// each kind has a table of its own.
#[derive(Debug)]
pub(super) struct Admissions {
    datagrams: Admission,
    streams: Admission,
}

impl Admissions {
    pub(super) fn new(limits: &AdmissionLimits) -> Self {
        Self {
            datagrams: Admission::new(limits.clone()),
            streams: Admission::new(limits.clone()),
        }
    }

    pub(super) fn admit_datagram(&mut self, now: Instant, source: SocketAddr) -> bool {
        self.datagrams.admit(now, source.ip())
    }

    /// A connection, or a request that has come over one.
    pub(super) fn admit_stream(&mut self, now: Instant, source: SocketAddr) -> bool {
        self.streams.admit(now, source.ip())
    }

    /// Who sends from there, for what is forwarded.
    pub(super) fn caller(&self, from: Source) -> Caller {
        let address = from.address().ip();
        let is_certain = match from {
            Source::Stream(..) => true,
            Source::Datagrams(_) => self.datagrams.knows(address),
        };
        Caller {
            address,
            is_certain,
        }
    }

    /// A right proof has come from there, for a nonce that was sent there.
    pub(super) fn keep(&mut self, now: Instant, from: Source) {
        if let Source::Datagrams((_, source)) = from {
            self.datagrams.keep(now, source.ip());
        }
    }
}
