//! SIP user agent of a host: its registration and its sessions with other hosts.

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
    /// New addresses of this host, which the other hosts have not been told yet, and since when.
    moved: Option<(Instant, Vec<Candidate>)>,
}

impl HostAgent {
    /// Creates an idle agent. `number` is higher with each start of this host; `seed` is secret,
    /// random, and used for nothing before.
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

    /// Sets the addresses from which requests go to the directory.
    pub fn set_addresses(&mut self, now: Instant, addresses: Vec<OwnAddress>) {
        self.announcer.set_addresses(now, addresses);
        self.react(now);
    }

    /// Sets the addresses at which other hosts can perhaps reach this one. Hosts in a session are
    /// told after the directory: if both ends move at the same time, the one that sends last finds
    /// the other's new addresses there.
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

    /// Calls a host even if there is a session with it, because that session is useless.
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

    /// Handles a received message.
    pub fn handle_message(&mut self, now: Instant, flow: Flow, message: Message) {
        self.announcer.handle_message(now, flow, message);
        self.react(now);
    }

    /// Records that nothing can be sent over a flow now.
    pub fn handle_flow_failure(&mut self, now: Instant, flow: Flow) {
        self.announcer.handle_flow_failure(now, flow);
        self.react(now);
    }

    /// Ends all sessions and removes the registration.
    pub fn close(&mut self, now: Instant) {
        self.calls.close();
        self.calls.drive(now, &mut self.announcer);
        self.announcer.close(now);
        self.react(now);
    }

    /// Whether the registration has been removed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.announcer.is_closed()
    }

    /// Returns the registered addresses, the preferred ones first.
    #[must_use]
    pub fn contacts(&self) -> &[CareOf] {
        self.announcer.contacts()
    }

    /// Returns the address under which the directory sees this flow, if known.
    #[must_use]
    pub fn seen(&self, flow: Flow) -> Option<IpAddr> {
        self.announcer.seen(flow)
    }

    /// Handles due timers.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.announcer.handle_timeout(now);
        self.react(now);
    }

    /// Returns the time of the next call to [`HostAgent::handle_timeout`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let tells = self.moved.as_ref().map(|(since, _)| *since + PATIENCE);
        // Without a link calls can send nothing, so their timers are ignored.
        let calls = self.calls.poll_timeout();
        let calls = calls.filter(|_| self.announcer.has_address());
        let own = [self.announcer.poll_timeout(), calls];
        own.into_iter().flatten().chain(tells).min()
    }

    /// Returns the next bytes to send, over the flow of an address.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.announcer.poll_transmit()
    }

    /// Returns the next registration event.
    pub fn poll_event(&mut self) -> Option<RegistrationEvent> {
        self.announcer.poll_event()
    }

    /// Returns the next session event.
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

    /// Tells the other hosts the addresses of this one.
    fn tell(&mut self, now: Instant, is_settled: bool) {
        let is_due = |(since, _): &mut (Instant, _)| is_settled || *since + PATIENCE <= now;
        if let Some((_, candidates)) = self.moved.take_if(is_due) {
            self.calls.set_candidates(candidates);
        }
    }
}

/// The directory may be unreachable while other hosts are reachable.
const PATIENCE: Duration = Duration::from_secs(2);
