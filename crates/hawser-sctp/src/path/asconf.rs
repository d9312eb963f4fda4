use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use hawser_types::Instant;
use hawser_wire::sctp::{Cause, Chunk, Parameter, Tsn};

use crate::association::{MAX_PEER_ADDRESSES, is_host, may_meet};

/// Addresses that come and go while an association stands, both directions of it.
///
/// The unspecified address stands for where the packet comes from, so that an address behind a
/// translator can be named by who does not know it. One request chunk is under way at a time, and is
/// sent again until it is answered.
///
/// Who may ask is not checked here: requests are to be passed on only from within the association
/// and where packets are authenticated below.
///
/// Source: RFC 5061.
#[derive(Debug)]
pub(crate) struct Asconf {
    next_serial: u32,
    waiting: VecDeque<AddressRequest>,
    asked: Option<Asked>,
    /// That of the peer's next chunk.
    peer_serial: u32,
    /// The answer to the last one, for when it comes again.
    answer: Option<Vec<Parameter>>,
}

/// What one end asks of the other about its own addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressRequest {
    /// It can be reached there too.
    Add(IpAddr),
    /// Not any more.
    Delete(IpAddr),
    /// It would rather be reached there.
    Prefer(IpAddr),
}

/// What an answer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answered {
    pub(crate) request: AddressRequest,
    pub(crate) accepted: bool,
}

/// What to make of the peer's chunk.
#[derive(Debug)]
pub(crate) struct Reply {
    /// Goes back to where the chunk came from.
    pub(crate) chunk: Chunk,
    /// To be done, in that order; no address is unspecified.
    pub(crate) changes: Vec<AddressRequest>,
}

/// A chunk under way.
#[derive(Debug)]
struct Asked {
    /// The first is 0, by their correlation numbers.
    requests: Vec<AddressRequest>,
    /// It leaves then, again if it has left before.
    due: Instant,
    tries: u32,
}

impl Asconf {
    pub(crate) fn new(initial: Tsn, peer_initial: Tsn) -> Self {
        Self {
            next_serial: initial.value(),
            waiting: VecDeque::new(),
            asked: None,
            peer_serial: peer_initial.value(),
            answer: None,
        }
    }

    /// Asks for it as soon as what was asked before is answered. What it contradicts, or repeats, and
    /// has not been asked yet never is.
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

    /// A chunk to be sent now. `own`: an address of this end that the peer knows. `rto`: how long its
    /// answer may take on the path that it goes over.
    pub(crate) fn poll_chunk(&mut self, now: Instant, own: IpAddr, rto: Duration) -> Option<Chunk> {
        if self.asked.is_none() && !self.waiting.is_empty() {
            let count = self.waiting.len().min(MAX_REQUESTS);
            self.asked = Some(Asked {
                requests: self.waiting.drain(..count).collect(),
                due: now,
                tries: 0,
            });
        }
        let asked = self.asked.as_mut().filter(|asked| asked.due <= now)?;
        asked.due = now + rto.saturating_mul(1 << asked.tries).min(LONGEST_PAUSE);
        asked.tries = (asked.tries + 1).min(MAX_DOUBLINGS);
        let requests = (0..).zip(&asked.requests);
        let requests = requests.map(|(number, request)| request.parameter(number));
        Some(Chunk::Asconf {
            serial: self.next_serial,
            parameters: std::iter::once(Parameter::Address(own))
                .chain(requests)
                .collect(),
        })
    }

    /// When [`Self::poll_chunk`] has one.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let waits = (!self.waiting.is_empty()).then_some(Instant::ZERO);
        self.asked.as_ref().map(|asked| asked.due).or(waits)
    }

    /// An ASCONF-ACK: what of the requests was accepted. Any other than the one waited for says
    /// nothing.
    pub(crate) fn on_ack(&mut self, serial: u32, parameters: &[Parameter]) -> Vec<Answered> {
        if serial != self.next_serial || self.asked.is_none() {
            return Vec::new();
        }
        self.next_serial = self.next_serial.wrapping_add(1);
        let requests = self.asked.take().map_or(Vec::new(), |asked| asked.requests);
        let refused = |number| {
            let is = |parameter: &Parameter| matches!(parameter, Parameter::Refused { correlation, .. } if *correlation == number);
            parameters.iter().any(is)
        };
        // What nothing is said of was done.
        let answers = (0..).zip(requests).map(|(number, request)| Answered {
            request,
            accepted: !refused(number),
        });
        answers.collect()
    }

    /// An ASCONF that came from `source`, from a peer with the addresses `known`; `None` for one that
    /// is not in its turn.
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
        let mut book = Book {
            source,
            known: known.to_vec(),
            changes: Vec::new(),
        };
        let answers = parameters
            .iter()
            .filter_map(|parameter| book.follow(parameter));
        let answer: Vec<Parameter> = answers.take(MAX_ANSWERS).collect();
        self.answer = Some(answer.clone());
        Some(Reply::new(serial, answer, book.changes))
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

/// The peer's addresses while its requests are followed one after the other.
struct Book {
    source: IpAddr,
    known: Vec<IpAddr>,
    changes: Vec<AddressRequest>,
}

impl Book {
    /// What is answered; nothing to what is no request.
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
        // A peer must not have this host look around its own network.
        if !is_host(address) || !may_meet(self.source, address) {
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

/// In one chunk: with IPv6 addresses they fit the smallest packet.
const MAX_REQUESTS: usize = 16;
const MAX_WAITING: usize = 64;
/// To one chunk; answers fit a packet then.
const MAX_ANSWERS: usize = 64;
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
const MAX_DOUBLINGS: u32 = 10;

#[cfg(test)]
mod tests;
