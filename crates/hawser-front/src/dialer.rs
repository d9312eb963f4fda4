//! Connections to destinations, each by the way that suits it: over a session with a host that is
//! known by name, with a peer at the destination or with a server that was discovered, through a
//! gateway, or directly over one link.
//!
//! Every kind of port takes connections in its own manner (SOCKS, HTTP, redirected by the kernel or
//! by the shim), and opens them with one [`ConnectionDialer`], which is told the possible ways.

mod by_server;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use hawser_director::{
    ConnectionRequest, FarEnds, GatewayDecision, Known, Missing, Question, Route,
};
use hawser_keys::identity::PublicKey;
use hawser_types::ByteCount;
use tokio::time::Instant;

use crate::bonded::{BondDialer, Bonded, SessionDialer as _};
use crate::connect::ConnectOptions;
use crate::connection::{
    Counted, Decided, EarlyData, LinkResolver, Origin, OverLinks, RememberingResolver,
    SharedDirector, TcpVia, Via, resolved,
};
use crate::destination::{Destination, Host};
use crate::either::{EitherStream, Loss, dial_either};
use crate::near::Neighbourhood;
use crate::peer::{
    DialByName, DialDiscovered, DialVouched, Discovered, PeerSessions, Peers, Remote, Sessions,
    VouchedWay,
};
use crate::resolve::Resolve;
use crate::this_machine::ThisMachine;
use crate::transport::{DialError, Dialer};

/// Opens connections: over links with `V`, where `R` resolves names; through a gateway if a
/// [`SharedDirector`] decides so; over a session of `P` if the destination has a peer. An open
/// connection never changes its way.
pub struct ConnectionDialer<
    V = TcpVia,
    R = RememberingResolver<LinkResolver>,
    P: Sessions = PeerSessions,
> {
    links: OverLinks<V, R>,
    neighbourhood: Neighbourhood<V>,
    gateway: Option<P::Session>,
    peers: Option<Peers<P>>,
    named: Option<Arc<dyn DialByName<StreamOf<P>>>>,
    vouched: Option<Arc<dyn DialVouched<StreamOf<P>>>>,
    discovered: Option<Arc<dyn DialDiscovered<StreamOf<P>>>>,
    machine: ThisMachine,
}

/// A session that leads to a destination itself, or the stream that is about to be opened in it.
enum FarEnd<'a, P: Sessions> {
    Named(BoxFuture<'a, Result<StreamOf<P>, DialError>>),
    Vouched(VouchedWay<'a, StreamOf<P>>),
    Held(&'a Peers<P>, (IpAddr, PublicKey)),
    Peer(&'a Peers<P>, (IpAddr, P::Session)),
    Server(
        &'a dyn DialDiscovered<StreamOf<P>>,
        Discovered<'a, StreamOf<P>>,
    ),
}

type StreamOf<P> = <<P as Sessions>::Session as Dialer>::Stream;

/// A connection that a [`ConnectionDialer`] opens: over one link, or over a session.
pub type Opened<V, P> = EitherStream<Counted<<V as Via>::Stream>, Counted<StreamOf<P>>>;

impl ConnectionDialer {
    /// Creates a dialer with the default times, which dials over links, `gateway` or sessions with
    /// `peers`, as `director` decides. Names are looked up over links, too. `mptcp`: whether
    /// destinations are offered Multipath TCP. The director must know of the gateway. Peers are
    /// used and looked for while not everything goes through the gateway.
    pub fn new(
        director: SharedDirector,
        mptcp: bool,
        gateway: Option<BondDialer>,
        peers: Option<Peers>,
    ) -> Self {
        let resolver = RememberingResolver::new(LinkResolver::new(director.clone()));
        let options = ConnectOptions::default();
        Self {
            gateway,
            peers,
            ..Self::with(director, TcpVia::new(mptcp), resolver, options)
        }
    }

    /// Opens connections to hosts known by name with `named`, and never in another way.
    #[must_use]
    pub fn with_named_hosts(self, named: Arc<dyn DialByName<Bonded>>) -> Self {
        let named = Some(named);
        Self { named, ..self }
    }

    /// Opens connections to vouched names with `vouched`, and never in another way, while not
    /// everything goes through the gateway.
    #[must_use]
    pub fn with_vouched_names(self, vouched: Arc<dyn DialVouched<Bonded>>) -> Self {
        let vouched = Some(vouched);
        Self { vouched, ..self }
    }

    /// Opens connections to services of discovered servers with `servers`, while not everything
    /// goes through the gateway.
    #[must_use]
    pub fn with_discovered_servers(self, servers: Arc<dyn DialDiscovered<Bonded>>) -> Self {
        let discovered = Some(servers);
        Self { discovered, ..self }
    }

    /// Opens no connection to `machine` for an application that runs elsewhere.
    #[must_use]
    pub fn with_guarded_machine(self, machine: ThisMachine) -> Self {
        Self { machine, ..self }
    }
}

impl<V: Via, R: Resolve, P: Sessions> ConnectionDialer<V, R, P> {
    /// Creates a dialer for links alone, with all its parts given.
    fn with(director: SharedDirector, via: V, resolver: R, options: ConnectOptions) -> Self {
        let links = OverLinks::new(director, via, resolver, options);
        Self {
            neighbourhood: Neighbourhood::new(Arc::clone(links.via())),
            links,
            gateway: None,
            peers: None,
            named: None,
            vouched: None,
            discovered: None,
            machine: ThisMachine::default(),
        }
    }

    fn director(&self) -> &SharedDirector {
        self.links.director()
    }

    /// Returns the peers, unless the user has everything go through a gateway.
    fn peers(&self) -> Option<&Peers<P>> {
        let peers = self.peers.as_ref();
        peers.filter(|_| !self.director().is_all_by_gateway())
    }

    /// Returns the discovered servers, unless the user has everything go through a gateway.
    fn discovered(&self) -> Option<&dyn DialDiscovered<StreamOf<P>>> {
        let servers = self.discovered.as_deref();
        servers.filter(|_| !self.director().is_all_by_gateway())
    }

    /// Returns the addresses that a destination may lead to.
    async fn resolve(&self, destination: &Destination) -> Result<Vec<IpAddr>, DialError> {
        let found = self.links.resolve(destination).await?;
        self.machine.admitted_of(destination, found).await
    }

    /// Returns a stream in a session with the host at `address`.
    fn bonded(
        &self,
        (destination, origin): (&Destination, &Origin),
        address: IpAddr,
        stream: StreamOf<P>,
    ) -> Opened<V, P> {
        let request = origin.towards(destination);
        self.director().with(|director, now| {
            director.note_bonded(now, &request, address);
        });
        EitherStream::Bonded(Counted::new(stream, None))
    }

    /// Returns the connection that was opened over the session with the host at `address`, or
    /// without the session.
    fn opened(
        &self,
        to: (&Destination, &Origin),
        address: IpAddr,
        dialed: EitherStream<Opened<V, P>, StreamOf<P>>,
    ) -> Opened<V, P> {
        match dialed {
            EitherStream::Direct(opened) => opened,
            EitherStream::Bonded(stream) => self.bonded(to, address, stream),
        }
    }

    /// Returns the sessions that may lead to a destination, before anything is looked for.
    fn far_ends(&self) -> FarEnds {
        FarEnds {
            named: Known::to_look_for(self.named.is_some()),
            vouched: Known::to_look_for(self.vouched.is_some()),
            held: Known::to_look_for(self.peers.is_some()),
            peer: Known::to_look_for(self.peers.is_some()),
            server: Known::to_look_for(self.discovered.is_some()),
        }
    }

    /// Looks for one kind of session with the destination.
    async fn look_for<'a>(
        &'a self,
        missing: Missing,
        (destination, origin): (&'a Destination, &'a Origin),
    ) -> Option<FarEnd<'a, P>> {
        match missing {
            Missing::Named => {
                let named = self.named.as_ref()?;
                let dialing = named.dial(&destination.host, destination.port, origin);
                dialing.map(FarEnd::Named)
            }
            Missing::Vouched => {
                let judging = self.vouched.as_ref()?.judge(destination, origin)?;
                judging.await.map(FarEnd::Vouched)
            }
            Missing::Held => {
                let peers = self.peers.as_ref().filter(|it| it.holds_any())?;
                // A name that can't be resolved here leads to no link either.
                let addresses = self.resolve(destination).await.ok()?;
                let held = peers.held(&addresses, (destination, origin));
                let held = held.filter(|(address, _)| self.machine.admits(origin, *address));
                held.map(|it| FarEnd::Held(peers, it))
            }
            Missing::Peer => {
                let peers = self.peers.as_ref()?;
                let way = peers.way(destination);
                let way = way.filter(|(address, _)| self.machine.admits(origin, *address));
                way.map(|it| FarEnd::Peer(peers, it))
            }
            Missing::Server => {
                let servers = self.discovered.as_deref()?;
                let way = servers.dial(destination, origin);
                let way = way.filter(|it| self.machine.admits(origin, it.at.ip()));
                way.map(|it| FarEnd::Server(servers, it))
            }
            Missing::Surroundings | Missing::Addresses => None,
        }
    }

    /// Returns those of `addresses` that the application at `origin` may reach over a link.
    fn reached(
        &self,
        addresses: Vec<IpAddr>,
        (destination, origin): (&Destination, &Origin),
    ) -> Result<Vec<IpAddr>, DialError> {
        let addresses = self.machine.admitted(origin, addresses)?;
        match self.peers() {
            Some(peers) => peers.free(addresses, (destination, origin)),
            None => Ok(addresses),
        }
    }

    /// Dials through the gateway or over links, as the director decides. If only one way is
    /// tried, it may carry `early`. `may_ask`: whether handshakes over links may ask for a bond.
    async fn dial_by_decision(
        &self,
        (destination, origin): (&Destination, &Origin),
        early: Option<&EarlyData>,
        may_ask: bool,
    ) -> Result<Opened<V, P>, DialError> {
        let Some(gateway) = &self.gateway else {
            return self.dial_over_links(destination, origin, may_ask).await;
        };
        let is_for_all = self.director().is_all_by_gateway();
        let mut is_near = self.neighbourhood.has(&destination.host, is_for_all).await;
        let mut addresses = match &destination.host {
            Host::Ip(address) => Some(vec![address.to_canonical()]),
            Host::Name(_) => None,
        };
        let known = addresses.as_deref().unwrap_or_default();
        let mut request = resolved(origin.towards(destination), known);
        loop {
            let changes = self.director().changes();
            let decision = self.director().decide(&Question {
                request: &request,
                is_near: Some(is_near),
                is_resolved: addresses.is_some(),
                ends: FarEnds::NONE,
            });
            match (decision, addresses) {
                (Route::Gateway(decision), _) => {
                    if let Some(early) = early.filter(|_| decision.waits_for_gateway) {
                        early.release();
                    }
                    let to = (destination, origin);
                    return self.dial_over_gateway(gateway, to, &decision).await;
                }
                (Route::Links(decision), Some(addresses)) => {
                    let addresses = self.reached(addresses, (destination, origin))?;
                    let decided = Decided {
                        decision,
                        changes,
                        asks_bond: self.addresses_asked(may_ask, &addresses, (destination, origin)),
                    };
                    let dialed = self.links.dial_decided(request, addresses, decided).await;
                    return dialed.map(EitherStream::Direct);
                }
                // The name alone does not select the gateway, but its addresses may.
                _ => {
                    let found = self.resolve(destination).await?;
                    is_near = self.neighbourhood.has_all(&found).await;
                    request = resolved(request, &found);
                    addresses = Some(found);
                }
            }
        }
    }

    /// Dials over a link, even if another way is better.
    async fn dial_over_links(
        &self,
        destination: &Destination,
        origin: &Origin,
        may_ask: bool,
    ) -> Result<Opened<V, P>, DialError> {
        // Decide on exactly the addresses that are dialed, even if the name leads elsewhere later.
        let addresses = self.resolve(destination).await?;
        let addresses = self.reached(addresses, (destination, origin))?;
        let request: ConnectionRequest = resolved(origin.towards(destination), &addresses);
        let asks_bond = self.addresses_asked(may_ask, &addresses, (destination, origin));
        let dialed = self.links.dial(request, addresses, asks_bond).await;
        dialed.map(EitherStream::Direct)
    }

    /// Dials through the gateway, and soon over a link as well if the gateway may fail; the first
    /// answer wins.
    async fn dial_over_gateway(
        &self,
        gateway: &P::Session,
        (destination, origin): (&Destination, &Origin),
        decision: &GatewayDecision,
    ) -> Result<Opened<V, P>, DialError> {
        let bonded = self.dial_gateway(gateway, (destination, origin), decision);
        if decision.waits_for_gateway {
            return bonded.await.map(EitherStream::Bonded);
        }
        let direct = self.dial_over_links(destination, origin, false);
        // The session may have just ended.
        if !gateway.is_up() {
            return direct.await;
        }
        let on_loss = |loss| match loss {
            Loss::Failed(error) => {
                tracing::debug!(%destination, %error, "connection through the gateway failed");
            }
            Loss::Overtaken(waited) => {
                self.director()
                    .with(|director, _| director.handle_slow_gateway(waited));
            }
        };
        let dialed = dial_either(bonded, decision.patience, direct, on_loss).await?;
        Ok(match dialed {
            EitherStream::Direct(opened) => opened,
            EitherStream::Bonded(stream) => EitherStream::Bonded(stream),
        })
    }

    async fn dial_gateway(
        &self,
        gateway: &P::Session,
        (destination, origin): (&Destination, &Origin),
        decision: &GatewayDecision,
    ) -> Result<Counted<StreamOf<P>>, DialError> {
        // The time spent waiting for a session says nothing about the session's latency.
        let was_up = gateway.is_up();
        let (begun, flow) = (Instant::now(), self.director().open_by_gateway(decision));
        let dialed = gateway.dial_for(destination, origin).await;
        let stream = dialed.inspect_err(|error| flow.failed(*error))?;
        flow.connected(was_up.then(|| begun.elapsed()));
        let early = origin.early.as_ref().map_or(0, EarlyData::left);
        flow.moved(ByteCount::from(early), ByteCount::ZERO);
        Ok(Counted::new(stream, Some(flow)))
    }
}

impl<V, R, P> Dialer for ConnectionDialer<V, R, P>
where
    V: Via<Stream: Remote>,
    R: Resolve,
    P: Sessions,
{
    type Stream = Opened<V, P>;

    async fn dial(&self, destination: &Destination) -> Result<Self::Stream, DialError> {
        self.dial_for(destination, &Origin::default()).await
    }

    async fn dial_for(
        &self,
        destination: &Destination,
        origin: &Origin,
    ) -> Result<Self::Stream, DialError> {
        let to = (destination, origin);
        let request = origin.towards(destination);
        let (mut ends, mut found) = (self.far_ends(), None);
        while ends != FarEnds::NONE {
            let route = self.director().decide(&Question {
                request: &request,
                is_near: None,
                is_resolved: false,
                ends,
            });
            match (route, found.take()) {
                (Route::Named, Some(FarEnd::Named(dialing))) => {
                    origin.early.iter().for_each(EarlyData::release);
                    let stream = dialing.await?;
                    return Ok(EitherStream::Bonded(Counted::new(stream, None)));
                }
                (Route::Vouched, Some(FarEnd::Vouched(dialing))) => {
                    origin.early.iter().for_each(EarlyData::release);
                    let (address, stream) = dialing.await?;
                    return Ok(self.bonded(to, address, stream));
                }
                (Route::Peer, Some(FarEnd::Held(peers, held))) => {
                    let direct = self.dial_by_decision(to, None, false);
                    let dialed = peers.dial_held(held, to, direct).await?;
                    return Ok(self.opened(to, held.0, dialed));
                }
                (Route::Peer, Some(FarEnd::Peer(peers, way))) => {
                    let (address, direct) = (way.0, self.dial_by_decision(to, None, false));
                    let dialed = peers.dial(way, to, direct).await?;
                    return Ok(self.opened(to, address, dialed));
                }
                (Route::Discovered, Some(FarEnd::Server(servers, way))) => {
                    return self.dial_by_server(servers, way, to).await;
                }
                (Route::Named | Route::Vouched | Route::Peer | Route::Discovered, _) => {
                    return Err(DialError::Internal);
                }
                // No session with the destination. Gateway or links need more facts.
                (Route::Unresolved(Missing::Surroundings | Missing::Addresses), _)
                | (Route::Gateway(_) | Route::Links(_), _) => break,
                (Route::Unresolved(missing), _) => {
                    found = self.look_for(missing, to).await;
                    ends.note(missing, found.is_some());
                }
            }
        }
        self.dial_unmet(to).await
    }
}

impl<V, R, P: Sessions> fmt::Debug for ConnectionDialer<V, R, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionDialer").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
