use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hawser_keys::identity::PublicKey;
use hawser_policy::RuleSet;
use tokio::sync::watch;
use tokio::time::timeout;

use super::PeerFinder;
use super::held::{HeldPeers, Passed};
use super::names::Names;
use super::sessions::{PeerSessions, Sessions};
use crate::connection::Origin;
use crate::destination::{Destination, Host};
use crate::either::{EitherStream, Loss, dial_either};
use crate::resolve::SystemResolver;
use crate::transport::{DialError, Dialer};

/// Destinations with a known peer, and the sessions with those peers.
#[derive(Debug)]
pub struct Peers<S = PeerSessions> {
    sessions: Arc<S>,
    finder: PeerFinder,
    rules: watch::Receiver<Arc<RuleSet>>,
    names: Names<SystemResolver>,
    held: HeldPeers,
}

impl<S: Sessions> Peers<S> {
    /// Begins sessions with the peers that `finder` finds. A connection goes over links, whatever
    /// its destination, if `rules` give it the mode `direct`, forbid it a link or have it avoid a
    /// link. Peers that carry connections are entered in `held`.
    pub fn new(
        finder: PeerFinder,
        sessions: S,
        rules: watch::Receiver<Arc<RuleSet>>,
        held: HeldPeers,
    ) -> Self {
        let sessions = Arc::new(sessions);
        tokio::spawn(prepare(finder.found(), Arc::clone(&sessions)));
        Self {
            sessions,
            finder,
            rules,
            names: Names::new(SystemResolver::new()),
            held,
        }
    }

    /// Returns the address of a destination that has a peer, and a running session with that peer.
    pub(crate) fn way(&self, destination: &Destination) -> Option<(IpAddr, S::Session)> {
        let address = match &destination.host {
            Host::Ip(address) => *address,
            Host::Name(name) => self.names.address(name)?,
        };
        let peer = self.finder.known(address)?;
        let way = self.sessions.way(peer, address)?;
        // The finder probes again when due.
        self.finder.ask(address);
        Some((address, way))
    }

    /// Dials over a session with the peer at an address, and soon by `direct` as well; the first
    /// answer wins.
    pub(crate) async fn dial<D>(
        &self,
        (address, way): (IpAddr, S::Session),
        (destination, origin): (&Destination, &Origin),
        direct: impl Future<Output = Result<D, DialError>>,
    ) -> Result<EitherStream<D, <S::Session as Dialer>::Stream>, DialError> {
        let at_peer = Destination::new(Host::Ip(address), destination.port);
        let on_loss = |loss| self.judge(address, loss);
        let bonded = way.dial_for(&at_peer, origin);
        let dialed = dial_either(bonded, HEAD_START, direct, on_loss).await;
        if let Ok(EitherStream::Bonded(_)) = dialed {
            self.note_carried(address);
        }
        dialed
    }

    /// Returns whether any address is held, so that only its peer may carry connections there.
    pub(crate) fn holds_any(&self) -> bool {
        !self.held.is_empty()
    }

    /// Returns the first of a destination's `addresses` that is held, and its peer; `None` where
    /// rules keep this connection off peers.
    pub(crate) fn held(
        &self,
        addresses: &[IpAddr],
        (destination, origin): (&Destination, &Origin),
    ) -> Option<(IpAddr, PublicKey)> {
        let mut addresses = addresses.iter();
        let held = addresses.find_map(|it| Some((it.to_canonical(), self.held.peer(*it)?)))?;
        may_use_all_links(&self.rules.borrow(), destination, origin).then_some(held)
    }

    /// Returns those of a destination's `addresses` that may be connected to without a peer.
    ///
    /// # Errors
    /// [`DialError::GatewayUnavailable`] if all of them are held.
    pub(crate) fn free(
        &self,
        addresses: Vec<IpAddr>,
        (destination, origin): (&Destination, &Origin),
    ) -> Result<Vec<IpAddr>, DialError> {
        if self.held(&addresses, (destination, origin)).is_none() {
            return Ok(addresses);
        }
        let free = self.held.free(addresses);
        if free.is_empty() {
            Err(DialError::GatewayUnavailable)
        } else {
            Ok(free)
        }
    }

    /// Dials over the peer for which an address is held. While the peer is silent, one connection
    /// waits for it long, and the others briefly. Uses `direct` if the peer itself refuses the
    /// connection, or if the user allows plain TCP.
    pub(crate) async fn dial_held<D>(
        &self,
        (address, peer): (IpAddr, PublicKey),
        (destination, origin): (&Destination, &Origin),
        direct: impl Future<Output = Result<D, DialError>>,
    ) -> Result<EitherStream<D, <S::Session as Dialer>::Stream>, DialError> {
        if let Host::Name(name) = &destination.host {
            self.names.note(name, address);
        }
        // The finder probes again when due.
        self.finder.ask(address);
        let at_peer = Destination::new(Host::Ip(address), destination.port);
        let Some(way) = self.sessions.dialer(peer, address) else {
            // All possible sessions are in use; the peer is not silent.
            return if self.held.allows_plain() {
                direct.await.map(EitherStream::Direct)
            } else {
                Err(DialError::LimitReached)
            };
        };
        let dialing = way.dial_for(&at_peer, origin);
        let probe = self.held.probe(address);
        let patience = match probe {
            Some(_) => HELD_PATIENCE,
            None => HEAD_START,
        };
        let dialed = timeout(patience, dialing).await;
        drop(probe);
        match dialed.unwrap_or(Err(DialError::GatewayUnavailable)) {
            Ok(stream) => {
                self.note_carried(address);
                Ok(EitherStream::Bonded(stream))
            }
            Err(DialError::RefusedByPolicy) => {
                self.held.note_refusal(address);
                direct.await.map(EitherStream::Direct)
            }
            // This error means that there is no session; any other error is the peer's answer.
            Err(error @ DialError::GatewayUnavailable) => match self.held.note_silence(address) {
                Passed::Plain => direct.await.map(EitherStream::Direct),
                Passed::Refused => Err(error),
            },
            Err(error) => Err(error),
        }
    }

    /// Records that the peer at an address has carried a connection there.
    fn note_carried(&self, address: IpAddr) {
        self.sessions.on_opened();
        if let Some(peer) = self.finder.known(address).or(self.held.peer(address)) {
            self.held.note_carried(address, peer);
        }
    }

    /// Looks for a peer at `address`, since a connection to `host` goes there over a link.
    pub(crate) fn look_for(&self, host: &Host, address: IpAddr) {
        self.finder.ask(address);
        if let Host::Name(name) = host {
            self.names.note(name, address);
        }
    }

    #[cfg(test)]
    pub(crate) const fn finder(&self) -> &PeerFinder {
        &self.finder
    }

    /// Handles a dial for which the peer was of no use.
    fn judge(&self, address: IpAddr, loss: Loss) {
        match loss {
            // The peer works; nothing listens on the port.
            Loss::Failed(DialError::ConnectionRefused) => return,
            Loss::Failed(error) => {
                tracing::info!(%address, %error, "giving up the peer at this address for now");
            }
            Loss::Overtaken(_) => {}
        }
        self.finder.give_up(address);
    }
}

/// Whether the user's rules let a connection go over a session, which uses every link.
pub(super) fn may_use_all_links(
    rules: &RuleSet,
    destination: &Destination,
    origin: &Origin,
) -> bool {
    rules
        .judge(&origin.towards(destination).facts())
        .may_use_all_links()
}

/// Begins a session with each peer that is found, so that the next connection there can use it.
async fn prepare<S: Sessions>(
    mut found: watch::Receiver<Arc<BTreeMap<IpAddr, PublicKey>>>,
    sessions: Arc<S>,
) {
    let mut before = BTreeSet::new();
    while found.changed().await.is_ok() {
        let now = Arc::clone(&found.borrow_and_update());
        for (address, peer) in now.iter().filter(|(address, _)| !before.contains(*address)) {
            sessions.way(*peer, *address);
        }
        before = now.keys().copied().collect();
    }
}

/// Head start of a session before a link is tried, as between two addresses: RFC 8305 §8.
pub(super) const HEAD_START: Duration = Duration::from_millis(250);
/// Time to begin a session again where no other way is allowed: several attempts to connect.
const HELD_PATIENCE: Duration = Duration::from_secs(10);
