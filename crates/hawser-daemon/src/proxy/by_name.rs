//! Sessions with hosts that are known by name: this host's registration, port, and calls.

use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use hawser_front::connection::SharedDirector;
use hawser_front::peer::{Book, GatewayToMeet, NamedPeers, NamedPeersSettings, Offers};
use hawser_front::registration::CallSettings;
use hawser_keys::store::{NameStore, OrderStore};
use hawser_net::client::Client;
use hawser_net::gateway::{AcceptLimits, Gateway, GatewayConfig};
use parking_lot::{Mutex, MutexGuard};
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

use super::links::Links;
use super::peering::PeerClients;
use super::registration::{OwnRegistration, ShownRegistration, Wanted};
use super::rules::LinkRuleStore;
use super::session::Choice;
use crate::clock::since_1970;
use crate::setup::Setup;
use crate::takeover::Predecessor;

/// This host's name for others, and the other hosts that are known by name.
pub(crate) struct ByName {
    /// `None` once another process registers this host.
    registration: Mutex<Option<OwnRegistration>>,
    shown: ShownRegistration,
    peers: Arc<NamedPeers>,
    book: Book,
    writing: AbortHandle,
}

impl ByName {
    /// Opens the port for known hosts, or inherits the predecessor's port, and registers this host
    /// under the `wanted` name. Meets hosts that can't be reached otherwise at `gateway`.
    pub(crate) fn start(
        (setup, predecessor): (&Setup, Option<&Predecessor>),
        wanted: &Wanted,
        (links, rules): (&Links, &Arc<LinkRuleStore>),
        director: SharedDirector,
        choice: &Choice,
        gateway: Option<Arc<Client>>,
    ) -> anyhow::Result<Self> {
        let config = &setup.config.up;
        let identity = setup.state.identity()?;
        let store = Arc::new(NameStore::open(&setup.state)?);
        let started = u64::try_from(since_1970().as_millis()).unwrap_or(u64::MAX);
        let order = OrderStore::open(&setup.state)?;
        let number = order.begin_session(started);
        let book = Book::new(identity, store, order);
        let listener = listen(predecessor)?;
        let port = listener.local_addr()?.port();
        let door = door((setup, predecessor), &book, listener)?.with_links(links.clone());
        let calls = CallSettings {
            keys: Box::new(book.clone()),
            number,
            port,
        };
        let (all_links, links) = (links, (links, rules));
        let (registration, calling) = wanted.start(links, &config.links, director, calls)?;
        let clients = Arc::new(PeerClients::new(setup, &config.links, links, choice));
        let meeting = gateway.map(|gateway| {
            let (clients, by) = (Arc::clone(&clients), Arc::clone(&gateway));
            GatewayToMeet {
                gateway,
                links: all_links.clone(),
                start: Box::new(move |peer| clients.start_through(&by, peer)),
            }
        });
        let peers = NamedPeers::start(NamedPeersSettings {
            book: book.clone(),
            door: Arc::new(door),
            offers: Offers::new(config.offer.iter().copied()),
            start: Box::new(move |peer, addresses| clients.start(peer, addresses)),
            calling,
            meeting,
        });
        tracing::info!(port, offers = ?config.offer, "accepting hosts that are known by name");
        Ok(Self {
            shown: registration.shown(),
            registration: Mutex::new(Some(registration)),
            peers,
            writing: tokio::spawn(book.clone().keep_written()).abort_handle(),
            book,
        })
    }

    /// Returns the known hosts, for dialing.
    pub(crate) fn peers(&self) -> Arc<NamedPeers> {
        Arc::clone(&self.peers)
    }

    pub(crate) fn shown(&self) -> ShownRegistration {
        self.shown.clone()
    }

    /// Returns the address at which other hosts connect, if it is known.
    pub(crate) fn door(&self) -> Option<SocketAddr> {
        self.peers.door().addresses().first().copied()
    }

    /// Stops registering, admitting hosts and saving the numbers of their descriptions: another
    /// process does that from now on. Removes this process's bindings from the directory. Open
    /// sessions go on.
    pub(crate) fn retire(&self) {
        self.writing.abort();
        self.peers.retire();
        if let Some(registration) = self.registration().take() {
            tokio::spawn(registration.end());
        }
    }

    fn registration(&self) -> MutexGuard<'_, Option<OwnRegistration>> {
        self.registration.lock()
    }

    /// Removes this host from the directory, and ends all sessions.
    pub(crate) async fn end(self) {
        let registration = self.registration().take();
        let is_found_here = registration.is_some();
        let closing = self.peers.close(CLOSE_PATIENCE);
        let ending = async {
            if let Some(registration) = registration {
                registration.end().await;
            }
        };
        tokio::join!(ending, closing);
        self.writing.abort();
        if is_found_here && let Err(error) = self.book.write().await {
            tracing::warn!(%error, "can't save the numbers of known hosts' newest descriptions");
        }
    }
}

/// Opens the predecessor's port, or any port that is free for TCP and UDP, for both families if
/// the machine has both.
fn listen(predecessor: Option<&Predecessor>) -> anyhow::Result<TcpListener> {
    let before = predecessor.and_then(Predecessor::door);
    if let Some(Ok(listener)) = before.map(hawser_link::bind::listen) {
        return Ok(listener);
    }
    let everywhere = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0);
    let listener = hawser_link::bind::listen(everywhere)
        .or_else(|_| hawser_link::bind::listen(([0, 0, 0, 0], 0).into()));
    listener.context("can't listen for hosts that are known by name")
}

fn door(
    (setup, predecessor): (&Setup, Option<&Predecessor>),
    book: &Book,
    listener: TcpListener,
) -> anyhow::Result<Gateway> {
    let session = &setup.config.session;
    let config = GatewayConfig {
        identity: setup.state.identity()?,
        session: session.for_session(MAX_STREAMS),
        limits: AcceptLimits {
            sessions: MAX_SESSIONS,
            ..AcceptLimits::default()
        },
        congestion: session.congestion.name(),
        predecessor: predecessor.map(Predecessor::to),
    };
    let gateway = Gateway::start(config, vec![listener], Arc::new(book.clone()))?;
    Ok(gateway.with_associations())
}

/// Limit of streams that another host may have open here.
const MAX_STREAMS: u32 = 1024;
/// Limit of sessions of all hosts together.
const MAX_SESSIONS: usize = 64;
const CLOSE_PATIENCE: Duration = Duration::from_secs(3);
