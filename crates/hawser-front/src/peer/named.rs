//! Hosts that are known by name, wherever they are. A directory forwards calls, in which both hosts
//! say where they can be reached; from then on sessions follow the hosts.

mod addresses;
mod state;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, select_all};
use hawser_keys::identity::PublicKey;
use hawser_keys::store::NamedPeer;
use hawser_link::links::Link;
use hawser_net::client::Client;
use hawser_net::gateway::{Gateway, Incoming};
use hawser_net::ticks::Ticks;
use hawser_sip::agent::CallEvent;
use hawser_types::Host;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};

use super::book::Book;
use super::meeting;
use super::offers::Offers;
use super::pool::{CLOSE_PATIENCE, IDLE_AFTER};
use super::punching::Punching;
use crate::bonded::{BondDialer, Bonded, DoorDialer, Purpose};
use crate::connection::Origin;
use crate::incoming::IncomingStream as _;
use crate::own_ports::at_peer;
use crate::registration::Calling;
use crate::transport::{DialError, Dialer as _};
use addresses::reachable;
use state::{NamedPeersState, PeerSession, Starts};
pub use state::{StartClient, StartRelayed};

/// The parts that make sessions with hosts known by name.
pub struct NamedPeersSettings {
    /// The book of known hosts.
    pub book: Book,
    /// Admits hosts that connect to this host.
    pub door: Arc<Gateway>,
    /// The ports that other hosts may reach here.
    pub offers: Offers,
    /// Begins to connect to the host with a key at some addresses, if possible.
    pub start: Box<StartClient>,
    /// Calls hosts, and reports the outcome of the calls.
    pub calling: Calling,
    /// The gateway for meeting hosts that can't be reached otherwise.
    pub meeting: Option<GatewayToMeet>,
}

/// The gateway that this host has enrolled with and that lets its clients meet.
pub struct GatewayToMeet {
    /// This host's client of the gateway.
    pub gateway: Arc<Client>,
    /// Begins to connect through the gateway to the host with a key, if possible.
    pub start: Box<StartRelayed>,
    /// The machine's links, as they change.
    pub links: watch::Receiver<Arc<Vec<Link>>>,
}

/// Sessions with hosts that are known by name.
pub struct NamedPeers {
    shared: Arc<NamedPeersState>,
    /// Tasks that serve and end sessions.
    tasks: Vec<JoinHandle<()>>,
    /// Tasks that let other hosts find this host.
    finding: Vec<JoinHandle<()>>,
}

/// Opens streams to ports of hosts that are known by name.
pub trait DialByName<S>: Send + Sync {
    /// Opens a stream to a port of `host`; `None` where no host of that name is known.
    fn dial<'a>(
        &'a self,
        host: &Host,
        port: u16,
        origin: &'a Origin,
    ) -> Option<BoxFuture<'a, Result<S, DialError>>>;
}

impl NamedPeers {
    /// Begins to admit hosts. Sessions with other hosts begin when a connection needs one.
    pub fn start(settings: NamedPeersSettings) -> Arc<Self> {
        let NamedPeersSettings {
            book,
            door,
            offers,
            start,
            calling,
            meeting,
        } = settings;
        let Calling { asks, events } = calling;
        let (mut gateway, mut relayed, mut punching) = (None, None, None);
        if let Some(meeting) = meeting {
            let (client, door) = (Arc::clone(&meeting.gateway), Arc::clone(&door));
            punching = Some(Arc::new(Punching::new(client, meeting.links, door)));
            (gateway, relayed) = (Some(meeting.gateway), Some(meeting.start));
        }
        let starts = Starts {
            direct: start,
            relayed,
            punching: punching.clone(),
        };
        let shared = Arc::new(NamedPeersState::new(book, door, offers, starts, asks));
        let tasks = vec![
            tokio::spawn(serve(Arc::clone(&shared))),
            tokio::spawn(look_after(Arc::clone(&shared))),
        ];
        let mut finding = vec![tokio::spawn(hear(Arc::clone(&shared), events))];
        finding.extend(punching.map(|it| tokio::spawn(it.observe_door())));
        if let Some(gateway) = gateway {
            finding.push(tokio::spawn(meeting::be_met(Arc::clone(&gateway))));
            let (book, door) = (shared.book.clone(), Arc::clone(&shared.door));
            finding.push(tokio::spawn(meeting::let_in(gateway, book, door)));
        }
        Arc::new(Self {
            shared,
            tasks,
            finding,
        })
    }

    /// Stops admitting hosts and being found, because another process takes over. Open sessions and
    /// streams continue.
    pub fn retire(&self) {
        self.finding.iter().for_each(JoinHandle::abort);
        self.shared.door.stop_listening();
        self.shared.door.go_away();
    }

    /// Returns how many streams of other hosts are open.
    pub fn open_count(&self) -> u64 {
        self.shared.offers.open()
    }

    /// Returns the clients, by the keys of the hosts that they connect to.
    pub fn clients(&self) -> Vec<(PublicKey, Arc<Client>)> {
        self.shared.clients()
    }

    /// Returns the door, which has the sessions that other hosts have begun.
    pub fn door(&self) -> &Gateway {
        &self.shared.door
    }

    /// Ends all sessions in order, within `patience`.
    pub async fn close(&self, patience: Duration) {
        self.abort();
        let clients = self.shared.take_clients();
        let closing = clients.iter().map(|client| client.close(patience));
        let closing = futures_util::future::join_all(closing);
        tokio::join!(closing, self.shared.door.close(patience));
    }

    fn abort(&self) {
        let tasks = self.tasks.iter().chain(&self.finding);
        tasks.for_each(JoinHandle::abort);
    }

    async fn dial_peer(
        &self,
        peer: &NamedPeer,
        port: u16,
        origin: &Origin,
    ) -> Result<Bonded, DialError> {
        let (shared, name, to) = (&self.shared, &peer.name, at_peer(port));
        let mut changes = shared.changed.subscribe();
        let mut arrivals = shared.door.begun();
        let mut deadline = Instant::now() + PATIENCE;
        // Direct connections have a head start before the relayed one.
        let mut relayed_at = Some(Instant::now() + RELAYED_AFTER);
        let _waiting = match shared.way_for_stream(name) {
            Some(way) => return dial_by(way, &to, origin).await,
            None => shared.seek(name)?,
        };
        loop {
            if let Some(way) = shared.way_for_stream(name) {
                return dial_by(way, &to, origin).await;
            }
            if let Some(problem) = shared.problem(name) {
                // The gateway may lead to the host, whatever problem the directory reports.
                if relayed_at.take().is_some() && shared.start_relayed(name) {
                    deadline = deadline.min(Instant::now() + RELAY_PATIENCE);
                    continue;
                }
                tracing::warn!(%name, %problem, "can't reach the host");
                return Err(DialError::HostUnreachable);
            }
            let clients = shared.clients_of(name);
            let connecting = clients.iter().map(|it| Box::pin(it.connected(PATIENCE)));
            let connecting: Vec<_> = connecting.collect();
            let connected = async {
                if !connecting.is_empty() {
                    drop(select_all(connecting).await)
                } else {
                    std::future::pending().await
                }
            };
            tokio::select! {
                () = connected => {}
                () = sleep_until(relayed_at.unwrap_or(deadline)), if relayed_at.is_some() => {
                    relayed_at = None;
                    shared.start_relayed(name);
                }
                Ok(()) = changes.changed() => {}
                Ok(()) = arrivals.changed() => {}
                () = sleep_until(deadline) => {
                    tracing::warn!(%name, problem = shared.why_not_yet(name),
                        "timed out connecting to the host");
                    return Err(DialError::TimedOut);
                }
            }
        }
    }
}

impl DialByName<Bonded> for NamedPeers {
    fn dial<'a>(
        &'a self,
        host: &Host,
        port: u16,
        origin: &'a Origin,
    ) -> Option<BoxFuture<'a, Result<Bonded, DialError>>> {
        let Host::Name(host) = host else {
            return None;
        };
        let peer = self.shared.book.store().by_host(host)?;
        Some(Box::pin(async move {
            self.dial_peer(&peer, port, origin).await
        }))
    }
}

impl Drop for NamedPeers {
    fn drop(&mut self) {
        self.abort();
    }
}

impl std::fmt::Debug for NamedPeers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NamedPeers").finish_non_exhaustive()
    }
}

async fn dial_by(
    way: PeerSession,
    to: &crate::destination::Destination,
    origin: &Origin,
) -> Result<Bonded, DialError> {
    match way {
        PeerSession::Client(client) => BondDialer::new(client).dial_for(to, origin).await,
        PeerSession::Door(door, peer) => DoorDialer::new(door, peer).dial_for(to, origin).await,
    }
}

/// Serves the streams that other hosts open in sessions that they have begun.
async fn serve(shared: Arc<NamedPeersState>) {
    while let Some(Incoming { stream, peer, .. }) = shared.door.accept().await {
        let (stream, offers) = (Bonded::new(stream), Arc::clone(&shared.offers));
        match (Purpose::of(stream.open_metadata()), shared.punching()) {
            (Some(Purpose::Punch), Some(punching)) => punching.answer(peer, stream),
            _ => drop(tokio::spawn(offers.serve(peer, stream))),
        }
    }
}

/// Handles the events of calls.
async fn hear(shared: Arc<NamedPeersState>, mut events: mpsc::Receiver<CallEvent>) {
    while let Some(event) = events.recv().await {
        match event {
            CallEvent::Reached {
                name,
                candidates,
                has_called,
            } => {
                let Some(peer) = shared.book.called(&name) else {
                    continue;
                };
                tracing::debug!(%name, ?candidates, "received the addresses of a host");
                shared.reached(&peer.name, reachable(&candidates));
                if has_called {
                    let (shared, name) = (Arc::clone(&shared), peer.name);
                    // Perhaps only this host can connect to the other one.
                    tokio::spawn(async move {
                        sleep(CALL_BACK_AFTER).await;
                        if shared.way(&name).is_none() {
                            tracing::info!(%name, "connecting to a host that has called but does \
                                not connect");
                            shared.start_client(&name);
                        }
                    });
                }
            }
            CallEvent::Ended { name, problem } => {
                if let Some(peer) = shared.book.called(&name) {
                    tracing::debug!(%name, ?problem, "call ended");
                    let pause = shared.ended(&peer.name, problem.map(|it| it.to_string()));
                    let (shared, name) = (Arc::clone(&shared), peer.name);
                    // A continuing session needs a call, in which both hosts announce new
                    // addresses.
                    tokio::spawn(async move {
                        sleep(pause).await;
                        if shared.way(&name).is_some() {
                            shared.call(&name);
                        }
                    });
                }
            }
        }
    }
}

/// Ends idle sessions, and sessions with hosts that were removed from the book.
async fn look_after(shared: Arc<NamedPeersState>) {
    let mut ticks = Ticks::every(LOOK_EVERY);
    loop {
        ticks.tick().await;
        shared.book.refresh();
        shared.door.drop_revoked();
        for client in shared.take_unused(IDLE_AFTER) {
            tokio::spawn(async move { client.close(CLOSE_PATIENCE).await });
        }
    }
}

/// Time that a connection waits for a session: as long as a connection waits for a gateway.
const PATIENCE: Duration = Duration::from_secs(10);
/// Three round trips on most links: two hosts that reach each other need no relay.
const RELAYED_AFTER: Duration = Duration::from_secs(1);
/// Time that a connection waits for the relay after the directory reports a problem.
const RELAY_PATIENCE: Duration = Duration::from_secs(3);
/// Time within which a caller connects, if it can.
const CALL_BACK_AFTER: Duration = Duration::from_secs(3);
const LOOK_EVERY: Duration = Duration::from_secs(1);
