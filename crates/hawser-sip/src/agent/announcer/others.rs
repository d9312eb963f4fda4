//! Access of the user agent's other parts to the announcer's addresses and transactions, which are
//! the only ones.

use std::net::IpAddr;

use hawser_types::Instant;

use super::{Announcer, Passed};
use crate::fields::Via;
use crate::message::{Request, Response};
use crate::transaction::{Flow, TransactionId, Transmit};

impl Announcer {
    /// Returns the next message for the other parts of the user agent. Drain after each change.
    pub(in crate::agent) fn poll_passed(&mut self) -> Option<Passed> {
        self.passed.pop_front()
    }

    /// Returns the flow of the address from which the directory answered best, with a Via of a new
    /// branch. `None` without any address.
    pub(in crate::agent) fn way(&mut self) -> Option<(Flow, Via)> {
        let place = self.best_place()?;
        Some((self.own[place].flow(), self.via(place)))
    }

    /// Sends a request; `None` if that is impossible now.
    pub(in crate::agent) fn send(
        &mut self,
        now: Instant,
        flow: Flow,
        request: Request,
    ) -> Option<TransactionId> {
        self.transactions.send(now, flow, request).ok()
    }

    /// Sends an ACK, which has no transaction.
    pub(in crate::agent) fn send_ack(&mut self, flow: Flow, ack: &Request) {
        let bytes = ack.to_bytes();
        self.transmits.push_back(Transmit { flow, bytes });
    }

    /// Answers a request.
    pub(in crate::agent) fn respond(
        &mut self,
        now: Instant,
        id: TransactionId,
        response: &Response,
    ) {
        // The caller's transaction may have ended.
        let _ = self.transactions.respond(now, id, response);
    }

    /// Returns a word that was not used before.
    pub(in crate::agent) fn word(&mut self) -> String {
        self.words.next_word()
    }

    /// Returns the address under which the directory sees this flow, if known.
    pub(in crate::agent) fn seen(&self, flow: Flow) -> Option<IpAddr> {
        let own = self.own.iter().find(|own| own.flow() == flow)?;
        Some(own.contact().0)
    }

    /// Whether the directory has been told all changes that are due now.
    pub(in crate::agent) fn is_settled(&self, now: Instant) -> bool {
        let is_due = self.registration.poll_timeout().is_some_and(|at| at <= now);
        self.asking.is_none() && !is_due
    }

    pub(super) fn best_place(&self) -> Option<usize> {
        let places = 0..self.own.len();
        places.min_by_key(|place| self.own[*place].rank())
    }
}
