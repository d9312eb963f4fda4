//! The port at which a client takes connections that its gateway begins.
//!
//! A connecting host has to prove first that it is the gateway of a live session: until then this
//! end sends nothing, and keeps nothing but the bytes of one offer, in one of a few places.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hawser_session::seal::OfferEnds;
use hawser_types::{MIN_JOIN_PORT, NumberWindow, SessionId};
use hawser_wire::{JOIN_OFFER_LENGTH, JoinOffer};
use parking_lot::Mutex;
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use crate::driver::Driver;
use crate::gateway::{AcceptLimits, HalfOpen, Origin, accept_each};
use crate::port_on_links;
use crate::takeover::{self, Offer, ToPredecessor};
use hawser_link::bind;
use hawser_link::links::{self, Link};

/// A TCP port, on each of a machine's links, at which gateways may begin connections of their
/// clients' sessions. Dropping it closes the port; joined connections stay.
#[derive(Debug)]
pub struct JoinPort {
    port: u16,
    waiting: Arc<Waiting>,
    task: tokio::task::JoinHandle<()>,
}

impl JoinPort {
    /// Listens at `port` of the links with these names, or of every usable link if there are no
    /// names. `links` follows the machine's links. Connections for sessions of the `predecessor`,
    /// the process that this one succeeds, are passed on to it. Needs a tokio runtime.
    ///
    /// # Errors
    /// The port belongs to another program or is not permitted; or it is below [`MIN_JOIN_PORT`],
    /// to which no gateway connects.
    pub fn open(
        port: u16,
        names: Vec<String>,
        links: watch::Receiver<Arc<Vec<Link>>>,
        predecessor: Option<ToPredecessor>,
    ) -> io::Result<Self> {
        if port < MIN_JOIN_PORT {
            let text = format!("ports below {MIN_JOIN_PORT} belong to services");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let address = every_address(port)?;
        let waiting = Arc::new(Waiting {
            predecessor,
            ..Waiting::default()
        });
        let serving = Arc::clone(&waiting);
        let following = async move {
            let wanted = |now: &[Link]| links::usable(now, &names);
            let serve = |listener| listen(Arc::clone(&serving), listener);
            port_on_links::follow(vec![address], links, wanted, serve).await;
        };
        Ok(Self {
            port,
            waiting,
            task: tokio::spawn(following),
        })
    }

    /// Number of the port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Stops listening: another process has the port.
    pub fn stop_listening(&self) {
        self.task.abort();
    }

    /// Takes a connection that came to the successor of this process, with the offer that it has
    /// `said`.
    ///
    /// # Errors
    /// When `connection` is not a TCP connection, or `said` is not a valid offer.
    pub fn take_passed(&self, connection: OwnedFd, said: &Offer) -> io::Result<()> {
        let stream = takeover::connection(connection)?;
        let gateway = stream.peer_addr()?;
        let offer = JoinOffer::decode(&said.0).ok_or(io::ErrorKind::InvalidData)?;
        if let Err(problem) = self.waiting.take(stream, gateway, &offer) {
            self.waiting.tell(gateway, problem);
        }
        Ok(())
    }

    /// Takes connections of one session, for as long as the returned value is kept.
    pub(super) fn take_for(&self, driver: &Driver) -> Offers {
        self.waiting.add(driver)
    }
}

impl Drop for JoinPort {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Connections for one session, whose offers prove that the session's gateway has begun them.
#[derive(Debug)]
pub(super) struct Offers {
    id: SessionId,
    arriving: mpsc::Receiver<Offered>,
    waiting: Arc<Waiting>,
}

/// A connection that a session may be joined with.
#[derive(Debug)]
pub(super) struct Offered {
    pub(super) stream: TcpStream,
    /// This end's address.
    pub(super) local: IpAddr,
}

impl Offers {
    /// Waits for the next connection. Can be dropped and called again without losing one.
    pub(super) async fn next(&mut self) -> Option<Offered> {
        self.arriving.recv().await
    }
}

impl Drop for Offers {
    fn drop(&mut self) {
        self.waiting.sessions.lock().remove(&self.id);
    }
}

/// The sessions that take connections, and the places of connections that have proved nothing yet.
#[derive(Debug)]
struct Waiting {
    sessions: Mutex<BTreeMap<SessionId, Session>>,
    half_open: HalfOpen,
    /// The process that this one succeeds, which still has sessions.
    predecessor: Option<ToPredecessor>,
    /// Number of refused connections that were meant for a session.
    missed: AtomicU64,
}

#[derive(Debug)]
struct Session {
    driver: Driver,
    /// Numbers of the offers that were received.
    numbers: NumberWindow<NUMBER_WORDS>,
    sender: mpsc::Sender<Offered>,
}

impl Waiting {
    fn add(self: &Arc<Self>, driver: &Driver) -> Offers {
        let (sender, arriving) = mpsc::channel(QUEUE);
        let session = Session {
            driver: driver.clone(),
            numbers: NumberWindow::default(),
            sender,
        };
        self.sessions.lock().insert(driver.id(), session);
        Offers {
            id: driver.id(),
            arriving,
            waiting: Arc::clone(self),
        }
    }

    /// Reads the offer of a new connection. Passes the connection to the predecessor if the session
    /// is not here, else gives it to the session.
    async fn hear(&self, mut stream: TcpStream, gateway: SocketAddr) -> Result<(), Refused> {
        let mut bytes = [0; JOIN_OFFER_LENGTH];
        let read = timeout(PATIENCE, stream.read_exact(&mut bytes)).await;
        let (Ok(Ok(_)), Some(offer)) = (read, JoinOffer::decode(&bytes)) else {
            return Err(Refused::Silent);
        };
        let is_here = self.sessions.lock().contains_key(&offer.session);
        match self
            .predecessor
            .as_ref()
            .filter(|it| !is_here && it.is_there())
        {
            Some(predecessor) => {
                let passed = predecessor.pass_offer(stream, &offer);
                passed.map_err(|_| Refused::NoSession)
            }
            None => self.take(stream, gateway, &offer),
        }
    }

    /// Gives a connection to its session, if the offer proves that the session's gateway began it.
    fn take(
        &self,
        stream: TcpStream,
        gateway: SocketAddr,
        offer: &JoinOffer,
    ) -> Result<(), Refused> {
        let client = stream.local_addr().map_err(|_| Refused::Silent)?;
        let sender = self.judge(offer, OfferEnds { gateway, client })?;
        let local = client.ip().to_canonical();
        let sent = sender.try_send(Offered { stream, local });
        sent.map_err(|_| Refused::TooMany)
    }

    /// Returns the queue for a connection with this offer between these ends.
    fn judge(&self, offer: &JoinOffer, ends: OfferEnds) -> Result<mpsc::Sender<Offered>, Refused> {
        let mut sessions = self.sessions.lock();
        let session = sessions.get_mut(&offer.session);
        let session = session.ok_or(Refused::NoSession)?;
        if !session.driver.keys().is_join_offer(offer, ends) {
            return Err(Refused::Forged);
        }
        if !session.numbers.is_new(offer.number) {
            return Err(Refused::Replayed);
        }
        session.numbers.insert(offer.number);
        Ok(session.sender.clone())
    }

    /// Logs a refused connection: those of strangers for debugging only; of those meant for a
    /// session, which may be many, the first, the second, the fourth and so on.
    fn tell(&self, remote: SocketAddr, problem: Refused) {
        if matches!(
            problem,
            Refused::Silent | Refused::NoSession | Refused::NoPlace
        ) {
            tracing::debug!(%remote, %problem, "refused connection");
            return;
        }
        let count = self.missed.fetch_add(1, Ordering::Relaxed) + 1;
        if count.is_power_of_two() {
            tracing::warn!(%remote, %problem, count, "refused the gateway's connection");
        }
    }
}

impl Default for Waiting {
    fn default() -> Self {
        Self {
            sessions: Mutex::default(),
            predecessor: None,
            missed: AtomicU64::new(0),
            half_open: HalfOpen::new(AcceptLimits {
                half_open: MAX_HALF_OPEN,
                half_open_per_source: HALF_OPEN_PER_SOURCE,
                ..AcceptLimits::default()
            }),
        }
    }
}

/// Reason why a connection is closed without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum Refused {
    #[error("no join offer was received")]
    Silent,
    #[error("there is no such session")]
    NoSession,
    #[error("the offer is not the gateway's, or its addresses were translated")]
    Forged,
    #[error("the offer was received before")]
    Replayed,
    #[error("the session has too many waiting connections")]
    TooMany,
    #[error("too many other connections have sent no offer yet")]
    NoPlace,
}

/// Accepts connections, for as long as the port is open.
async fn listen(waiting: Arc<Waiting>, listener: TcpListener) {
    let takes = |stream, remote: SocketAddr| {
        let origin = Origin::Address(remote.ip());
        let place = waiting.half_open.enter(origin, Instant::now());
        let waiting = Arc::clone(&waiting);
        tokio::spawn(async move {
            let heard = place
                .hold(LINE_PATIENCE, waiting.hear(stream, remote))
                .await;
            if let Err(problem) = heard.unwrap_or(Err(Refused::NoPlace)) {
                waiting.tell(remote, problem);
            }
        });
        ControlFlow::Continue(())
    };
    accept_each(listener, takes).await;
}

/// Returns the unspecified address with `port`. Fails if another program has the port, which
/// sockets that share the port would not notice.
fn every_address(port: u16) -> io::Result<SocketAddr> {
    if let Some(before) = hawser_link::inherited::on_links_at(port) {
        return Ok(before);
    }
    let (v6, v4) = (Ipv6Addr::UNSPECIFIED, Ipv4Addr::UNSPECIFIED);
    let v6 = SocketAddr::from((v6, port));
    match bind::listen(v6) {
        Ok(_) => Ok(v6),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(error),
        // A machine may be without IPv6.
        Err(_) => {
            let v4 = SocketAddr::from((v4, port));
            bind::listen(v4).map(|_| v4)
        }
    }
}

/// Time in which the gateway has to send its offer.
const PATIENCE: Duration = Duration::from_secs(3);
/// Longest time that a connection waits in line for a place.
const LINE_PATIENCE: Duration = Duration::from_secs(10);
/// Most connections that have proved nothing, in all.
const MAX_HALF_OPEN: usize = 32;
/// Most connections that have proved nothing, from one IPv4 address or one IPv6 /64.
const HALF_OPEN_PER_SOURCE: usize = 8;
/// Connections of a session that wait to be joined with.
const QUEUE: usize = 8;
/// Offers out of order are accepted up to 64 numbers late.
const NUMBER_WORDS: usize = 2;
