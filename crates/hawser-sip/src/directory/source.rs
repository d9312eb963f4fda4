//! The source of a message, and its permissions.

use std::net::SocketAddr;

use hawser_types::Instant;

use super::forwarding::Caller;
use crate::proxy::Forward;
use crate::registrar::{Admission, AdmissionLimits, Registrant};
use crate::transaction::Flow;

/// Far end of datagrams: the number of the receiving socket, and an address.
pub(super) type Datagrams = (u32, SocketAddr);

/// Source of a message.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source {
    Datagrams(Datagrams),
    Stream(Flow, SocketAddr),
}

/// Permission of a request, decided before the request creates any state.
#[derive(Debug)]
pub(super) enum Admitted {
    /// The request belongs to an existing one: ACK and CANCEL.
    Follows,
    Registers(Registrant),
    /// SUBSCRIBE of the user with this name.
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

/// Limits per sender. The address of a datagram may be forged, that of a stream is not: each kind
/// has its own table.
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

    /// Admits a connection, or a request over one.
    pub(super) fn admit_stream(&mut self, now: Instant, source: SocketAddr) -> bool {
        self.streams.admit(now, source.ip())
    }

    /// Returns the sender of a request to forward.
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

    /// Keeps a place for a sender that proved a password with a nonce sent to its address.
    pub(super) fn keep(&mut self, now: Instant, from: Source) {
        if let Source::Datagrams((_, source)) = from {
            self.datagrams.keep(now, source.ip());
        }
    }
}
