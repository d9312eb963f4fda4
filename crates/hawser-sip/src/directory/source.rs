//! A message's source, and what it may do.

use std::net::SocketAddr;

use super::flows::Datagrams;
use crate::proxy::Forward;
use crate::registrar::Registrant;
use crate::transaction::Flow;

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
    Reaches(Vec<Forward>),
}

impl Source {
    pub(super) fn address(self) -> SocketAddr {
        match self {
            Self::Datagrams((_, address)) | Self::Stream(_, address) => address,
        }
    }
}
