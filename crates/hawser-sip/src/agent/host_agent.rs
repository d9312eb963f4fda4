//! All that a host does by SIP: it is registered, and in sessions with others.

use std::net::IpAddr;
use std::time::Duration;

use hawser_types::Instant;

use super::announcer::{Announcer, AnnouncerConfig, OwnAddress};
use super::calls::{CallEvent, Calls, Keys};
use super::{CareOf, RegistrationEvent};
use crate::digest::Answerer;
use crate::message::Message;
use crate::sdp::Candidate;
use crate::transaction::{Flow, Transmit};
use crate::uri::SipUri;

/// A host's user agent.
///
/// Change it once, then drain [`HostAgent::poll_transmit`], [`HostAgent::poll_event`] and
/// [`HostAgent::poll_call_event`], and call [`HostAgent::handle_timeout`] at
/// [`HostAgent::poll_timeout`].
#[derive(Debug)]
pub struct HostAgent {
    announcer: Announcer,
    calls: Calls,
    /// Where this host is since then, which the other hosts are still to be told.
    moved: Option<(Instant, Vec<Candidate>)>,
}

impl HostAgent {
    /// An agent that says nothing yet. `number` is higher with each start of this host, `seed` is
    /// secret, random, and used for nothing before.
    #[must_use]
    pub fn new(
        config: AnnouncerConfig,
        answerer: Option<Answerer>,
        keys: Box<dyn Keys>,
        number: u64,
        seed: &[u8; 32],
    ) -> Self {
        Self {
            calls: Calls::new(config.name.clone(), keys, number),
            announcer: Announcer::new(config, answerer, seed),
            moved: None,
        }
    }

    /// Sets the addresses from which the directory can be asked.
    pub fn set_addresses(&mut self, now: Instant, addresses: Vec<OwnAddress>) {
        self.announcer.set_addresses(now, addresses);
        self.react(now);
    }

    /// Sets where other hosts can perhaps reach this one. Those that are in a session with it are
    /// told when the directory has heard of the change: where they move at the same time, whoever
    /// tells last finds the other one.
    pub fn set_candidates(&mut self, now: Instant, candidates: Vec<Candidate>) {
        let since = self.moved.take().map_or(now, |(since, _)| since);
        self.moved = Some((since, candidates));
        self.react(now);
    }

    /// Calls a host, unless there is a session with it.
    pub fn call(&mut self, now: Instant, peer: &SipUri) {
        self.tell(now, true);
        self.calls.call(peer, &mut self.announcer);
        self.react(now);
    }

    /// Calls a host although there is a session with it, which is of no use any more.
    pub fn call_anew(&mut self, now: Instant, peer: &SipUri) {
        self.tell(now, true);
        self.calls.call_anew(peer, &mut self.announcer);
        self.react(now);
    }

    /// Ends the session with a host.
    pub fn hang_up(&mut self, now: Instant, peer: &SipUri) {
        self.calls.hang_up(peer);
        self.react(now);
    }

    /// Takes a message that has come.
    pub fn handle_message(&mut self, now: Instant, flow: Flow, message: Message) {
        self.announcer.handle_message(now, flow, message);
        self.react(now);
    }

    /// Takes notice that nothing can be sent over a flow now.
    pub fn handle_flow_failure(&mut self, now: Instant, flow: Flow) {
        self.announcer.handle_flow_failure(now, flow);
        self.react(now);
    }

    /// Ends all sessions, and removes what is registered.
    pub fn close(&mut self, now: Instant) {
        self.calls.close();
        self.calls.drive(now, &mut self.announcer);
        self.announcer.close(now);
        self.react(now);
    }

    /// Whether nothing is registered any more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.announcer.is_closed()
    }

    /// Returns the addresses that the directory is told, the preferred ones first.
    #[must_use]
    pub fn contacts(&self) -> &[CareOf] {
        self.announcer.contacts()
    }

    /// Returns as what the directory sees an address, as far as that is known.
    #[must_use]
    pub fn seen(&self, flow: Flow) -> Option<IpAddr> {
        self.announcer.seen(flow)
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.announcer.handle_timeout(now);
        self.react(now);
    }

    /// Returns when [`HostAgent::handle_timeout`] is to be called next.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let tells = self.moved.as_ref().map(|(since, _)| *since + PATIENCE);
        // Without a link calls can send nothing, so their time may pass.
        let calls = self.calls.poll_timeout();
        let calls = calls.filter(|_| self.announcer.has_address());
        let own = [self.announcer.poll_timeout(), calls];
        own.into_iter().flatten().chain(tells).min()
    }

    /// Returns the next bytes to send, over the flow of an address.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.announcer.poll_transmit()
    }

    /// Returns the next thing that has happened to the registration.
    pub fn poll_event(&mut self) -> Option<RegistrationEvent> {
        self.announcer.poll_event()
    }

    /// Returns the next thing that has happened to a session.
    pub fn poll_call_event(&mut self) -> Option<CallEvent> {
        self.calls.poll_event()
    }

    #[cfg(test)]
    pub(super) fn call_count(&self) -> usize {
        self.calls.count()
    }

    fn react(&mut self, now: Instant) {
        while let Some(passed) = self.announcer.poll_passed() {
            self.calls.handle(now, &mut self.announcer, passed);
        }
        let is_settled = self.announcer.is_settled(now);
        self.tell(now, is_settled);
        self.calls.drive(now, &mut self.announcer);
    }

    /// Tells the other hosts where this one is.
    fn tell(&mut self, now: Instant, is_settled: bool) {
        let is_due = |(since, _): &mut (Instant, _)| is_settled || *since + PATIENCE <= now;
        if let Some((_, candidates)) = self.moved.take_if(is_due) {
            self.calls.set_candidates(candidates);
        }
    }
}

/// The directory may be away while other hosts are reached.
const PATIENCE: Duration = Duration::from_secs(2);
