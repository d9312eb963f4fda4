//! One address of this host.

use std::net::IpAddr;
use std::time::Duration;

use hawser_types::{Host, Instant, Rate};

use crate::message::Response;
use crate::transaction::{Flow, TransactionId};

/// One address of this host, from which it sends requests to the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnAddress {
    /// Flow of messages from this address. A change of any other field needs a new flow.
    pub flow: Flow,
    /// The address.
    pub address: IpAddr,
    /// Port for requests at this address.
    pub port: u16,
    /// Rate of the address's link, if known.
    pub rate: Rate,
}

/// State of one address.
#[derive(Debug)]
pub(super) struct Own {
    address: OwnAddress,
    /// Address and port as the directory sees them.
    seen: Option<(IpAddr, u16)>,
    look: Look,
    /// Consecutive failures.
    misses: u32,
    /// Time of the next keep-alive, which keeps a NAT mapping or detects a dead stream.
    ping_at: Option<Instant>,
    is_stream: bool,
}

#[derive(Clone, Copy, Debug)]
enum Look {
    Due(Instant),
    Asking(TransactionId),
}

impl Own {
    pub(super) fn new(now: Instant, address: OwnAddress, is_stream: bool) -> Self {
        Self {
            address,
            seen: None,
            look: Look::Due(now),
            misses: 0,
            ping_at: is_stream.then_some(now + PING_EVERY),
            is_stream,
        }
    }

    /// Returns the same state with a new rate.
    pub(super) fn with(&self, address: OwnAddress) -> Self {
        Self { address, ..*self }
    }

    pub(super) fn flow(&self) -> Flow {
        self.address.flow
    }

    pub(super) fn rate(&self) -> Rate {
        self.address.rate
    }

    /// Local address and port.
    pub(super) fn local(&self) -> (IpAddr, u16) {
        (self.address.address, self.address.port)
    }

    /// Address and port at which other hosts reach this one.
    pub(super) fn contact(&self) -> (IpAddr, u16) {
        self.seen.unwrap_or_else(|| self.local())
    }

    /// Whether the directory answered requests from this address.
    pub(super) fn is_heard(&self) -> bool {
        self.misses == 0 && (self.seen.is_some() || self.is_stream)
    }

    /// Whether the directory has neither answered nor failed to answer from this address.
    pub(super) fn is_unknown(&self) -> bool {
        self.misses == 0 && self.seen.is_none() && !self.is_stream
    }

    /// Whether the directory no longer answers requests from this address.
    pub(super) fn is_lost(&self) -> bool {
        self.misses > 0 && !self.is_stream
    }

    /// Sort key: the address with the smallest rank sends requests.
    pub(super) fn rank(&self) -> (u32, bool, std::cmp::Reverse<Rate>) {
        (
            self.misses,
            !self.is_heard(),
            std::cmp::Reverse(self.address.rate),
        )
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        !self.is_stream && matches!(self.look, Look::Due(at) if at <= now)
    }

    pub(super) fn due(&self) -> Option<Instant> {
        let look = match self.look {
            Look::Due(at) if !self.is_stream => Some(at),
            _ => None,
        };
        look.into_iter().chain(self.ping_at).min()
    }

    pub(super) fn asked(&mut self, now: Instant, id: Option<TransactionId>) {
        match id {
            Some(id) => self.look = Look::Asking(id),
            None => self.miss(now),
        }
    }

    pub(super) fn has_asked(&self, id: TransactionId) -> bool {
        matches!(self.look, Look::Asking(asked) if asked == id)
    }

    /// Records an answer of the directory to a request from this address.
    pub(super) fn answered(&mut self) {
        self.misses = 0;
    }

    pub(super) fn miss(&mut self, now: Instant) {
        self.misses = self.misses.saturating_add(1);
        let pause = FIRST_PAUSE * 2_u32.saturating_pow(self.misses.min(10) - 1);
        self.look = Look::Due(now + pause.min(LONGEST_PAUSE));
    }

    /// Takes the observed address from Via, whatever the status of the answer.
    pub(super) fn handle_answer(&mut self, now: Instant, response: &Response) {
        self.misses = 0;
        let vias = response.headers.vias().unwrap_or_default();
        let seen = vias.first().map(crate::fields::Via::answer_address);
        self.seen = match seen {
            Some((Host::Ip(address), port)) if port != 0 => Some((address.to_canonical(), port)),
            _ => Some(self.local()),
        };
        let is_translated = self.seen != Some(self.local());
        self.ping_at = is_translated.then_some(now + PING_EVERY);
        let next = if is_translated {
            // The translator may choose another port at any time.
            LOOK_AGAIN_TRANSLATED
        } else {
            LOOK_AGAIN
        };
        self.look = Look::Due(now + next);
    }

    /// Whether a keep-alive is due now; if so, schedules the next.
    pub(super) fn poll_ping(&mut self, now: Instant) -> bool {
        let is_due = self.ping_at.is_some_and(|at| at <= now);
        if is_due {
            self.ping_at = Some(now + PING_EVERY);
        }
        is_due
    }
}

/// NAT keeps a UDP mapping for 30 s at least (RFC 5626 §4.4).
const PING_EVERY: Duration = Duration::from_secs(25);
const LOOK_AGAIN: Duration = Duration::from_secs(300);
const LOOK_AGAIN_TRANSLATED: Duration = Duration::from_secs(60);
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
