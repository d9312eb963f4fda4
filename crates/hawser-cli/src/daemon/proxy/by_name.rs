//! Sessions with hosts that are known by name: this host's registration, its door, and its calls.

use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use hawser_front::connection::SharedDirector;
use hawser_front::peer::{Book, GatewayToMeet, NamedPeers, NamedPeersSettings, Offers};
use hawser_front::registration::CallSettings;
use hawser_net::client::Client;
use hawser_net::gateway::{AcceptLimits, Gateway, GatewayConfig};
use hawser_net::store::{NameStore, OrderStore};
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

use super::links::Links;
use super::peering::PeerClients;
use super::registration::{OwnRegistration, ShownRegistration, Wanted};
use super::rules::LinkRuleStore;
use super::session::Choice;
use crate::daemon::clock::since_1970;
use crate::setup::Setup;

/// This host as others know it by name, and the others.
pub(crate) struct ByName {
    registration: OwnRegistration,
    peers: Arc<NamedPeers>,
    book: Book,
    writing: AbortHandle,
}

impl ByName {
    /// Opens the door for those that are known, and has this host found by the name that is
    /// `wanted`; hosts that nothing else leads to are met at `gateway`.
    pub(crate) fn start(
        setup: &Setup,
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
        let number = order.begin_session(started)?;
        let book = Book::new(identity, store, order);
        let listener = listen()?;
        let port = listener.local_addr()?.port();
        let door = door(setup, &book, listener)?.following(links.clone());
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
            registration,
            peers,
            writing: tokio::spawn(book.clone().keep_written()).abort_handle(),
            book,
        })
    }

    /// The others, for dialing.
    pub(crate) fn peers(&self) -> Arc<NamedPeers> {
        Arc::clone(&self.peers)
    }

    pub(crate) fn shown(&self) -> ShownRegistration {
        self.registration.shown()
    }

    /// Takes this host out of the directory, and ends all sessions.
    pub(crate) async fn end(self) {
        let closing = self.peers.close(CLOSE_PATIENCE);
        tokio::join!(self.registration.end(), closing);
        self.writing.abort();
        if let Err(error) = self.book.write().await {
            tracing::warn!(%error, "what other hosts have said last is not kept over a restart");
        }
    }
}

/// Any port that is free for TCP and UDP, over both families where the machine has both.
fn listen() -> anyhow::Result<TcpListener> {
    let everywhere = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0);
    let listener = hawser_net::bind::listen(everywhere)
        .or_else(|_| hawser_net::bind::listen(([0, 0, 0, 0], 0).into()));
    listener.context("can't listen for hosts that are known by name")
}

fn door(setup: &Setup, book: &Book, listener: TcpListener) -> anyhow::Result<Gateway> {
    let session = &setup.config.session;
    let config = GatewayConfig {
        identity: setup.state.identity()?,
        session: session.for_session(MAX_STREAMS),
        limits: AcceptLimits {
            sessions: MAX_SESSIONS,
            ..AcceptLimits::default()
        },
        congestion: session.congestion.name(),
        predecessor: None,
    };
    let gateway = Gateway::start(config, vec![listener], Arc::new(book.clone()))?;
    Ok(gateway.taking_associations())
}

/// Streams that another host may open here at once.
const MAX_STREAMS: u32 = 1024;
/// Sessions of all hosts together.
const MAX_SESSIONS: usize = 64;
const CLOSE_PATIENCE: Duration = Duration::from_secs(3);
