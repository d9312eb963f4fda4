//! Sessions that begin on the connection whose handshake asked for a bond.
//!
//! The server has agreed, so its Hawser has the connection, on the port of the service. It becomes
//! the first channel of a session, and what it was made for a stream there. So the first connection
//! to a server that was never met goes over all links, without another one before it.
//!
//! Source: BATCP §3.1.

use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use hawser_capture::{Learnt, Outcome};
use hawser_net::client::FirstConnection;
use hawser_net::store::Pin;
use hawser_net::tls::TlsClient;
use hawser_net::unix_time::UnixTime;
use hawser_types::LinkIndex;
use hawser_wire::KeyHint;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use super::servers::Problem;
use super::shared::{FIRST_PIN, Shared, change};
use super::way::{BondAnswer, Discovered};
use crate::bonded::{BondDialer, Bonded};
use crate::connection::Origin;
use crate::destination::{Destination, Host};
use crate::peer::peers::may_use_all_links;
use crate::transport::DialError;

/// A connection that the server's Hawser has.
struct TakenConnection {
    stream: TcpStream,
    link: LinkIndex,
    at: SocketAddr,
    hint: KeyHint,
}

impl Shared {
    /// Whether a connection asks for a bond in its handshake.
    pub(super) fn asks_bond(&self, destination: &Destination, origin: &Origin) -> bool {
        self.answers.is_some()
            && may_use_all_links(&self.rules.borrow(), destination, origin)
            && self.address_of(destination).is_none_or(|at| {
                let (servers, now) = (self.lock(), Instant::now());
                let may_be = !servers.is_set_aside(at, now) && servers.takes_bonds(at, now);
                drop(servers);
                may_be && !(self.is_enrolled)(at.ip())
            })
    }

    /// What the server has said to a handshake that asked for one.
    pub(super) fn bond_answer<'a>(
        self: &'a Arc<Self>,
        socket: BorrowedFd<'_>,
        host: &Host,
        origin: &'a Origin,
    ) -> BondAnswer<'a, Bonded> {
        let learnt = self.answers.as_ref().and_then(|answers| answers(socket));
        let Some(learnt) = learnt else {
            return BondAnswer::None;
        };
        let Outcome::Answered(answer) = learnt.outcome else {
            return BondAnswer::None;
        };
        let at = SocketAddr::new(learnt.to.ip().to_canonical(), learnt.to.port());
        if let Host::Name(name) = host {
            self.names.note(name, at.ip());
        }
        if !answer.bond {
            self.lock().note_no_bond(at, Instant::now());
            return BondAnswer::Refused;
        }
        self.taken(&learnt, answer.offer.key_hint, (socket, at), origin)
            .map_or(BondAnswer::None, BondAnswer::Taken)
    }

    /// How the connection goes on; `None` where it is carried as it is.
    fn taken<'a>(
        self: &'a Arc<Self>,
        learnt: &Learnt,
        hint: Option<KeyHint>,
        (socket, at): (BorrowedFd<'_>, SocketAddr),
        origin: &'a Origin,
    ) -> Option<Discovered<'a, Bonded>> {
        if (self.is_enrolled)(at.ip()) {
            return None;
        }
        self.lock().note_offer(at, hint);
        let (hint, link, pin) = (hint?, learnt.link?, self.pin(at));
        if pin.is_some_and(|pin| pin.key.hint() != hint) {
            self.tell(at, Problem::OtherHint);
            return None;
        }
        let socket = socket.try_clone_to_owned().ok()?;
        let taken = TakenConnection {
            stream: TcpStream::from_std(std::net::TcpStream::from(socket)).ok()?,
            link,
            at,
            hint,
        };
        Some(Discovered {
            at,
            is_only_way: pin.is_some_and(|pin| self.is_required(pin)),
            head_start: HEAD_START,
            dialing: self.bond_on(taken, origin).boxed(),
        })
    }

    /// Opens a stream over a session that begins on this connection, or over the one that another
    /// connection has begun meanwhile.
    async fn bond_on(
        self: &Arc<Self>,
        taken: TakenConnection,
        origin: &Origin,
    ) -> Result<Bonded, DialError> {
        let at = taken.at;
        let turn = self.turns.of(at);
        let alone = turn.lock().await;
        let running = self.pin(at).zip(self.pool.running(at));
        let (pin, way) = match running {
            Some(running) => running,
            None => match self.begin_on(taken).await {
                Some(begun) => begun,
                None => {
                    // It may be had by the port for strangers.
                    self.lock().note_no_bond(at, Instant::now());
                    self.look_for(at);
                    return Err(DialError::GatewayUnavailable);
                }
            },
        };
        drop(alone);
        self.dial_by(way, pin, origin).await
    }

    /// Proves this host's key, has the server prove its own, and begins the session.
    async fn begin_on(self: &Arc<Self>, taken: TakenConnection) -> Option<(Pin, BondDialer)> {
        let TakenConnection {
            stream,
            link,
            at,
            hint,
        } = taken;
        let drawn = self.pins.draw(at).ok()?;
        let pinned = self.pin(at).zip(self.pins.identity(at, UnixTime::now()));
        let tls = match &pinned {
            Some((pin, identity)) => TlsClient::new(identity, pin.key),
            None => TlsClient::to_hinted(&drawn.identity, hint),
        };
        let tls = tls.ok()?;
        let handshake = match timeout(GREETING, tls.handshake(stream)).await {
            Ok(Ok(handshake)) => handshake,
            Ok(Err(error)) => {
                tracing::debug!(%at, %error, "no session on this connection");
                return None;
            }
            Err(_) => return None,
        };
        let (key, pins) = (handshake.peer, Arc::clone(&self.pins));
        let (pin, identity) = match pinned {
            Some(pinned) => pinned,
            None => {
                let identity = drawn.identity.clone();
                let kept = change(at, move |now| {
                    pins.keep_drawn(at, key, &drawn, (now + FIRST_PIN, now))
                });
                (kept.await?, identity)
            }
        };
        if pin.key != key {
            let pinned = pin.key;
            self.tell(at, Problem::OtherKey { pinned, got: key });
            return None;
        }
        let first = FirstConnection { link, handshake };
        let way = self
            .pool
            .dialer(at, || (self.start)(pin, identity, Some(first)));
        Some((pin, way?))
    }
}

/// Time for the handshake of the session.
const GREETING: Duration = Duration::from_secs(5);
/// A session that begins takes two round trips more than a connection that is carried as it is.
const HEAD_START: Duration = Duration::from_secs(1);
