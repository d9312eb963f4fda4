use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use hawser_types::Instant;
use hawser_wire::sctp::{Cause, Chunk, Parameter, Tsn};

use crate::handshake::{MAX_PEER_ADDRESSES, is_host, may_list};

/// Dynamic address reconfiguration (ASCONF), in both directions.
///
/// The unspecified address stands for the source of the packet, so that a host behind a NAT can
/// name an address that it does not know. One ASCONF chunk is outstanding at a time and is
/// retransmitted until it is acknowledged.
///
/// Authorization is not checked here: pass on only requests from within the association, and only
/// where packets are authenticated below.
///
/// Source: RFC 5061.
#[derive(Debug)]
pub(crate) struct Asconf {
    next_serial: u32,
    waiting: VecDeque<AddressRequest>,
    outstanding: Option<Outstanding>,
    /// Serial number of the peer's next chunk.
    peer_serial: u32,
    /// Answer to the peer's last chunk, for its retransmissions.
    answer: Option<Vec<Parameter>>,
}

/// A request about the addresses of its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressRequest {
    /// The sender can be reached at this address too.
    Add(IpAddr),
    /// The sender cannot be reached there any more.
    Delete(IpAddr),
    /// The sender prefers this address.
    Prefer(IpAddr),
}

/// The peer's answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answered {
    pub(crate) request: AddressRequest,
    pub(crate) accepted: bool,
}

/// Result of handling the peer's chunk.
#[derive(Debug)]
pub(crate) struct Reply {
    /// The answer, which takes the route of the chunk.
    pub(crate) chunk: Chunk,
    /// The changes to apply, in order; no address is unspecified.
    pub(crate) changes: Vec<AddressRequest>,
}

/// An outstanding chunk.
#[derive(Debug)]
struct Outstanding {
    /// The requests, by their correlation numbers from 0.
    requests: Vec<AddressRequest>,
    /// Time of the next transmission.
    due: Instant,
    tries: u32,
}

impl Asconf {
    pub(crate) fn new(initial: Tsn, peer_initial: Tsn) -> Self {
        Self {
            next_serial: initial.value(),
            waiting: VecDeque::new(),
            outstanding: None,
            peer_serial: peer_initial.value(),
            answer: None,
        }
    }

    /// Queues a request until the outstanding one is answered. It replaces queued requests that it
    /// contradicts or repeats.
    pub(crate) fn request(&mut self, request: AddressRequest) {
        use AddressRequest::{Add, Delete, Prefer};
        let address = request.address();
        self.waiting.retain(|waiting| match (waiting, request) {
            (Prefer(_), Prefer(_)) => false,
            _ if address.is_unspecified() => *waiting != request,
            (Add(old) | Prefer(old), Delete(_)) | (Delete(old), Add(_)) => *old != address,
            _ => *waiting != request,
        });
        if self.waiting.len() < MAX_WAITING {
            self.waiting.push_back(request);
        }
    }

    /// Returns a chunk to be sent now. `own`: an address of this end that the peer knows. `rto`: of
    /// the path that the chunk will take.
    pub(crate) fn poll_chunk(&mut self, now: Instant, own: IpAddr, rto: Duration) -> Option<Chunk> {
        if self.outstanding.is_none() && !self.waiting.is_empty() {
            let count = self.waiting.len().min(MAX_REQUESTS);
            self.outstanding = Some(Outstanding {
                requests: self.waiting.drain(..count).collect(),
                due: now,
                tries: 0,
            });
        }
        let outstanding = self
            .outstanding
            .as_mut()
            .filter(|outstanding| outstanding.due <= now)?;
        outstanding.due = now
            + rto
                .saturating_mul(1 << outstanding.tries)
                .min(LONGEST_PAUSE);
        outstanding.tries = (outstanding.tries + 1).min(MAX_DOUBLINGS);
        let requests = (0..).zip(&outstanding.requests);
        let requests = requests.map(|(number, request)| request.parameter(number));
        Some(Chunk::Asconf {
            serial: self.next_serial,
            parameters: std::iter::once(Parameter::Address(own))
                .chain(requests)
                .collect(),
        })
    }

    /// Returns when [`Self::poll_chunk`] has a chunk.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let waits = (!self.waiting.is_empty()).then_some(Instant::ZERO);
        self.outstanding
            .as_ref()
            .map(|outstanding| outstanding.due)
            .or(waits)
    }

    /// Handles an ASCONF-ACK: returns the answers to the outstanding requests. An unexpected one is
    /// ignored.
    pub(crate) fn on_ack(&mut self, serial: u32, parameters: &[Parameter]) -> Vec<Answered> {
        if serial != self.next_serial || self.outstanding.is_none() {
            return Vec::new();
        }
        self.next_serial = self.next_serial.wrapping_add(1);
        let requests = self
            .outstanding
            .take()
            .map_or(Vec::new(), |outstanding| outstanding.requests);
        let refused = |number| {
            parameters.iter().any(|parameter| match parameter {
                Parameter::Refused { correlation, .. } => *correlation == number,
                _ => false,
            })
        };
        // A request that is not mentioned was accepted.
        let answers = (0..).zip(requests).map(|(number, request)| Answered {
            request,
            accepted: !refused(number),
        });
        answers.collect()
    }

    /// Handles an ASCONF from `source`, from a peer with the addresses `known`; `None` for one out
    /// of sequence.
    pub(crate) fn on_asconf(
        &mut self,
        serial: u32,
        parameters: &[Parameter],
        source: IpAddr,
        known: &[IpAddr],
    ) -> Option<Reply> {
        if serial == self.peer_serial.wrapping_sub(1) {
            let answer = self.answer.clone()?;
            return Some(Reply::new(serial, answer, Vec::new()));
        }
        if serial != self.peer_serial {
            return None;
        }
        self.peer_serial = self.peer_serial.wrapping_add(1);
        let mut update = AddressUpdate {
            source,
            known: known.to_vec(),
            changes: Vec::new(),
        };
        let answers = parameters
            .iter()
            .filter_map(|parameter| update.follow(parameter));
        let answer: Vec<Parameter> = answers.take(MAX_ANSWERS).collect();
        self.answer = Some(answer.clone());
        Some(Reply::new(serial, answer, update.changes))
    }
}

impl Reply {
    fn new(serial: u32, parameters: Vec<Parameter>, changes: Vec<AddressRequest>) -> Self {
        Self {
            chunk: Chunk::AsconfAck { serial, parameters },
            changes,
        }
    }
}

impl AddressRequest {
    fn address(self) -> IpAddr {
        match self {
            Self::Add(address) | Self::Delete(address) | Self::Prefer(address) => address,
        }
    }

    fn parameter(self, correlation: u32) -> Parameter {
        match self {
            Self::Add(address) => Parameter::AddAddress {
                correlation,
                address,
            },
            Self::Delete(address) => Parameter::DeleteAddress {
                correlation,
                address,
            },
            Self::Prefer(address) => Parameter::SetPrimary {
                correlation,
                address,
            },
        }
    }
}

/// The peer's addresses while its requests are applied one after the other.
struct AddressUpdate {
    source: IpAddr,
    known: Vec<IpAddr>,
    changes: Vec<AddressRequest>,
}

impl AddressUpdate {
    /// Applies a request and returns its answer; `None` for a parameter that is not a request.
    fn follow(&mut self, parameter: &Parameter) -> Option<Parameter> {
        let (correlation, done) = match parameter {
            Parameter::AddAddress {
                correlation,
                address,
            } => (correlation, self.add(*address)),
            Parameter::DeleteAddress {
                correlation,
                address,
            } => (correlation, self.delete(*address)),
            Parameter::SetPrimary {
                correlation,
                address,
            } => (correlation, self.prefer(*address)),
            _ => return None,
        };
        let correlation = *correlation;
        Some(match done {
            Ok(()) => Parameter::Success { correlation },
            Err(code) => Parameter::Refused {
                correlation,
                causes: vec![Cause::Other {
                    code,
                    value: Bytes::new(),
                }],
            },
        })
    }

    fn add(&mut self, address: IpAddr) -> Result<(), u16> {
        let address = self.or_source(address);
        if self.known.contains(&address) {
            return Ok(());
        }
        // A peer must not make this host probe its own network.
        if !is_host(address) || !may_list(self.source, address) {
            return Err(NOT_AUTHORIZED);
        }
        if self.known.len() >= MAX_PEER_ADDRESSES {
            return Err(NO_RESOURCES);
        }
        self.known.push(address);
        self.changes.push(AddressRequest::Add(address));
        Ok(())
    }

    fn delete(&mut self, address: IpAddr) -> Result<(), u16> {
        if address.is_unspecified() {
            if !self.known.contains(&self.source) {
                return Err(LAST_ADDRESS);
            }
            let all = std::mem::take(&mut self.known);
            let (kept, gone) = all.into_iter().partition(|known| *known == self.source);
            self.known = kept;
            self.changes
                .extend(gone.into_iter().map(AddressRequest::Delete));
            return Ok(());
        }
        if !self.known.contains(&address) {
            return Ok(());
        }
        if self.known.len() == 1 {
            return Err(LAST_ADDRESS);
        }
        if address == self.source {
            return Err(SOURCE_ADDRESS);
        }
        self.known.retain(|known| *known != address);
        self.changes.push(AddressRequest::Delete(address));
        Ok(())
    }

    fn prefer(&mut self, address: IpAddr) -> Result<(), u16> {
        let address = self.or_source(address);
        if !self.known.contains(&address) {
            return Err(NOT_AUTHORIZED);
        }
        self.changes.push(AddressRequest::Prefer(address));
        Ok(())
    }

    fn or_source(&self, address: IpAddr) -> IpAddr {
        if address.is_unspecified() {
            self.source
        } else {
            address
        }
    }
}

/// Error causes. Source: RFC 5061 §4.3.
const LAST_ADDRESS: u16 = 0x00A0;
const NO_RESOURCES: u16 = 0x00A1;
const SOURCE_ADDRESS: u16 = 0x00A2;
const NOT_AUTHORIZED: u16 = 0x00A4;

/// Maximum number of requests in a chunk: with IPv6 addresses they fit the smallest packet.
const MAX_REQUESTS: usize = 16;
const MAX_WAITING: usize = 64;
/// Maximum number of answers to a chunk, so that they fit a packet.
const MAX_ANSWERS: usize = 64;
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
const MAX_DOUBLINGS: u32 = 10;

#[cfg(test)]
mod tests;
