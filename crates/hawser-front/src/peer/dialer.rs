use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hawser_net::identity::PublicKey;
use hawser_policy::{LinkChoice, Mode, RuleSet};
use tokio::sync::watch;

use super::PeerFinder;
use super::names::Names;
use super::remote::Remote;
use crate::connection::{Origin, SharedDirector};
use crate::destination::{Destination, Host};
use crate::either::{EitherStream, Loss, dial_either};
use crate::resolve::SystemResolver;
use crate::transport::{DialError, Dialer};

/// Sessions with peers.
pub trait Sessions: Send + Sync + 'static {
    /// Dials over a session; its streams keep the session for as long as they live.
    type Way: Dialer;

    /// The way to the peer with this key, which is at `address`, where a session with it runs;
    /// begins one where there is none. Never waits.
    fn way(&self, peer: PublicKey, address: IpAddr) -> Option<Self::Way>;

    /// A connection came about over one of them.
    fn on_opened(&self) {}
}

/// Dials with `D`, and over sessions where the destination is known to have a peer.
#[derive(Debug)]
pub struct PeerDialer<D, S> {
    direct: D,
    sessions: Arc<S>,
    finder: PeerFinder,
    rules: watch::Receiver<Arc<RuleSet>>,
    names: Names<SystemResolver>,
    director: Option<SharedDirector>,
}

/// What a [`PeerDialer`] opens.
type Stream<D, S> = EitherStream<<D as Dialer>::Stream, <<S as Sessions>::Way as Dialer>::Stream>;

impl<D: Dialer, S: Sessions> PeerDialer<D, S>
where
    D::Stream: Remote,
{
    /// A dialer that begins sessions with the peers that `finder` finds. By `rules`, connections go
    /// over links whatever their destination is: those with the mode `direct`, and those that may
    /// not take every link, or are to avoid some.
    pub fn new(
        direct: D,
        finder: PeerFinder,
        sessions: S,
        rules: watch::Receiver<Arc<RuleSet>>,
    ) -> Self {
        let sessions = Arc::new(sessions);
        tokio::spawn(prepare(finder.found(), Arc::clone(&sessions)));
        Self {
            direct,
            sessions,
            finder,
            rules,
            names: Names::new(SystemResolver::new()),
            director: None,
        }
    }

    /// Tells `director` of connections that go over sessions, so that it can say where they went.
    /// While it has everything go over a gateway, none does.
    #[must_use]
    pub fn telling(self, director: SharedDirector) -> Self {
        Self {
            director: Some(director),
            ..self
        }
    }

    async fn dial_direct(
        &self,
        destination: &Destination,
        origin: &Origin,
    ) -> Result<Stream<D, S>, DialError> {
        let stream = self.direct.dial_for(destination, origin).await?;
        if let Some(remote) = stream.remote().filter(|_| !self.is_all_by_gateway()) {
            // Beside the connection, which has begun.
            self.finder.ask(remote);
            if let Host::Name(name) = &destination.host {
                self.names.note(name, remote);
            }
        }
        Ok(EitherStream::Direct(stream))
    }

    /// Dials over a session with the peer at `address`, and soon over a link as well; the first
    /// that is answered is it.
    async fn dial_bonded(
        &self,
        (address, way): (IpAddr, S::Way),
        destination: &Destination,
        origin: &Origin,
    ) -> Result<Stream<D, S>, DialError> {
        let at_peer = Destination::new(Host::Ip(address), destination.port);
        let direct = self.direct.dial_for(destination, origin);
        let on_loss = |loss| self.judge(address, loss);
        dial_either(way.dial_for(&at_peer, origin), HEAD_START, direct, on_loss).await
    }

    /// The peer of a destination, and a session with it that runs.
    fn way(&self, destination: &Destination, origin: &Origin) -> Option<(IpAddr, S::Way)> {
        if self.is_all_by_gateway() {
            return None;
        }
        let address = match &destination.host {
            Host::Ip(address) => *address,
            Host::Name(name) => self.names.address(name)?,
        };
        let peer = self.finder.known(address)?;
        let request = origin.towards(destination);
        let verdict = self.rules.borrow().judge(&request.facts());
        // A session goes over every link.
        let is_any = verdict.links == LinkChoice::Any && verdict.avoid.is_empty();
        if verdict.mode == Mode::Direct || !is_any {
            return None;
        }
        let way = self.sessions.way(peer, address)?;
        // It is looked for again in time.
        self.finder.ask(address);
        Some((address, way))
    }

    /// True while the user has everything go over a gateway: then no peers are looked for.
    fn is_all_by_gateway(&self) -> bool {
        let director = self.director.as_ref();
        director.is_some_and(SharedDirector::is_all_by_gateway)
    }

    /// Draws the conclusion from a dial for which the peer was of no use.
    fn judge(&self, address: IpAddr, loss: Loss) {
        match loss {
            // The peer is as it should be; nothing listens there.
            Loss::Failed(DialError::ConnectionRefused) => return,
            Loss::Failed(error) => {
                tracing::info!(%address, %error, "the peer there is of no use for now");
            }
            Loss::Overtaken(_) => {}
        }
        self.finder.give_up(address);
    }
}

impl<D: Dialer, S: Sessions> Dialer for PeerDialer<D, S>
where
    D::Stream: Remote,
{
    type Stream = Stream<D, S>;

    async fn dial(&self, destination: &Destination) -> Result<Self::Stream, DialError> {
        self.dial_for(destination, &Origin::default()).await
    }

    async fn dial_for(
        &self,
        destination: &Destination,
        origin: &Origin,
    ) -> Result<Self::Stream, DialError> {
        match self.way(destination, origin) {
            Some(way) => {
                let address = way.0;
                let dialed = self.dial_bonded(way, destination, origin).await;
                if let Ok(EitherStream::Bonded(_)) = dialed {
                    self.sessions.on_opened();
                    if let Some(director) = &self.director {
                        let request = origin.towards(destination);
                        director.with(|director, now| {
                            director.note_bonded(now, &request, address);
                        });
                    }
                }
                dialed
            }
            None => self.dial_direct(destination, origin).await,
        }
    }
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

/// For the session, before a link is tried as well. As between two addresses: RFC 8305 §8.
const HEAD_START: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests;
