//! The client side: a session to one gateway, kept alive over every link.

mod association;
mod first;
mod join;
mod keeper;
mod reach;
mod rules;
mod scheduler;
mod status;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use hawser_sched::chunk::ChunkPolicy;
use hawser_sched::rules::Terms;
use hawser_session::{CloseReason, OpenError, SessionConfig, SessionSnapshot, TransportChoice};
use hawser_types::{ByteCount, Host, StreamId};
use tokio::sync::watch;

use crate::bind::SocketOptions;
use crate::congestion::Congestion;
use crate::driver::Driver;
use crate::host_port::HostPort;
use crate::identity::{Identity, PublicKey};
use crate::invite::Invite;
use crate::links::{self, Link};
use crate::stream::BondStream;

/// How a client reaches its gateway.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// This client's key.
    pub identity: Identity,
    /// The gateway's key: nobody else is believed.
    pub gateway: PublicKey,
    /// Where the gateway listens.
    pub addresses: Vec<HostPort>,
    /// Enrol with this invite; `None` for a client that is enrolled.
    pub invite: Option<Invite>,
    /// A name for this client, which the gateway shows to people.
    pub name: String,
    /// The links to use, by name; empty: every usable one.
    pub links: Vec<String>,
    /// What the user's rules make of links, by name; others are used like any. As it is at first:
    /// [`Client::set_rules`] changes it.
    pub rules: BTreeMap<String, Terms>,
    /// The session's behaviour. Its scheduler is the one at first: [`Client::set_scheduler`] changes it.
    pub session: SessionConfig,
    /// Congestion control of the channels; `None`: where bbr is permitted, as the session chooses
    /// for each, else the system's default.
    pub congestion: Option<String>,
    /// Separate channels for what must not wait behind bulk.
    pub express: bool,
    /// What carries chunks, both ways, at first: [`Client::set_transport`] changes it.
    pub transport: TransportChoice,
}

/// A client of one gateway. It connects by itself, again when the session is lost, until it is
/// closed or dropped.
#[derive(Debug)]
pub struct Client {
    shared: Arc<Shared>,
    task: tokio::task::JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    config: ClientConfig,
    congestion: Congestion,
    links: watch::Receiver<Arc<Vec<Link>>>,
    rules: watch::Sender<BTreeMap<String, Terms>>,
    scheduler: watch::Sender<ChunkPolicy>,
    transport: watch::Sender<TransportChoice>,
    /// Why there is no association though one is wanted.
    association_problem: watch::Sender<Option<String>>,
    current: watch::Sender<State>,
    keepers: Mutex<BTreeMap<u32, LinkStatus>>,
    /// Whether the client ends with its first session that the gateway has answered in.
    once: bool,
    /// Whether the next session begins with the invite rather than with the client's own key.
    enrolling: AtomicBool,
}

/// Where a client stands.
#[derive(Clone, Debug)]
enum State {
    /// No session yet, and what the last attempt said.
    Connecting(Option<Arc<str>>),
    /// A session runs.
    Running(Driver),
    /// The client was closed.
    Closed,
}

/// What a client does with one of its links.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkStatus {
    /// The link.
    pub link: Link,
    /// The gateway's address that this link's channels go to, once one worked.
    pub remote: Option<SocketAddr>,
    /// Why the last attempt to add a channel failed; `None` while all is well.
    pub problem: Option<String>,
}

/// A client at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientSnapshot {
    /// The session, if one runs.
    pub session: Option<SessionSnapshot>,
    /// Why there is none.
    pub problem: Option<String>,
    /// The links in use.
    pub links: Vec<LinkStatus>,
}

/// A stream could not be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenStreamError {
    /// No session came about in time.
    #[error("the gateway can't be reached: {0}")]
    Unreachable(String),
    /// The gateway answered, and does not let this client in.
    #[error("the gateway refuses this client's key: not enrolled, or revoked")]
    NotAdmitted,
    /// The session refuses.
    #[error(transparent)]
    Refused(#[from] OpenError),
    /// The client was closed.
    #[error("the client is closed")]
    Closed,
}

impl ClientConfig {
    /// Whether all addresses are of this very machine, behind its loopback interface.
    fn is_local(&self) -> bool {
        let mut hosts = self.addresses.iter().map(HostPort::host);
        hosts.all(|host| match host {
            Host::Ip(ip) => ip.is_loopback(),
            Host::Name(name) => name.as_str() == "localhost",
        })
    }
}

impl Client {
    /// Starts connecting. `links` follows the machine's links, as [`links::LinkMonitor`] gives
    /// them.
    pub fn start(config: ClientConfig, links: watch::Receiver<Arc<Vec<Link>>>) -> Self {
        let enrolling = config.invite.is_some();
        Self::begin(config, links, enrolling, false)
    }

    /// As [`Client::start`], for one session: when that is over, once the gateway has answered in
    /// it, the client is closed and begins no other.
    pub fn start_once(config: ClientConfig, links: watch::Receiver<Arc<Vec<Link>>>) -> Self {
        let enrolling = config.invite.is_some();
        Self::begin(config, links, enrolling, true)
    }

    /// As [`Client::start`] for a client that has enrolled before: the invite is only for when its
    /// own key is refused, as it is after the client was revoked.
    pub fn start_enrolled(config: ClientConfig, links: watch::Receiver<Arc<Vec<Link>>>) -> Self {
        Self::begin(config, links, false, false)
    }

    fn begin(
        config: ClientConfig,
        links: watch::Receiver<Arc<Vec<Link>>>,
        enrolling: bool,
        once: bool,
    ) -> Self {
        let congestion = Congestion::choose(config.congestion.clone());
        let shared = Arc::new(Shared {
            once,
            enrolling: AtomicBool::new(enrolling),
            rules: watch::Sender::new(config.rules.clone()),
            scheduler: watch::Sender::new(config.session.scheduler),
            transport: watch::Sender::new(config.transport),
            association_problem: watch::Sender::new(None),
            config,
            congestion,
            links,
            current: watch::Sender::new(State::Connecting(None)),
            keepers: Mutex::default(),
        });
        let task = tokio::spawn(run(Arc::clone(&shared)));
        Self { shared, task }
    }

    /// Opens a stream; its first chunk carries `metadata`. Waits for a session for a while.
    pub async fn open(&self, metadata: Bytes) -> Result<BondStream, OpenStreamError> {
        let driver = self.ready(OPEN_TIMEOUT).await?;
        let id = driver.open_stream(metadata)?;
        Ok(BondStream::new(driver, id, Bytes::new()))
    }

    /// Whether the gateway takes datagrams; `None` while that is not known.
    pub fn takes_datagrams(&self) -> Option<bool> {
        match &*self.shared.current.borrow() {
            State::Running(driver) => driver.with(|session, _| session.takes_datagrams()),
            _ => None,
        }
    }

    /// Whether the gateway has said that it takes associations, and so knows what calls are.
    pub fn knows_calls(&self) -> bool {
        match &*self.shared.current.borrow() {
            State::Running(driver) => driver.datagram_port().is_some(),
            _ => false,
        }
    }

    /// Waits until a session runs, at most for `patience`.
    pub async fn connected(&self, patience: Duration) -> Result<(), OpenStreamError> {
        self.ready(patience).await.map(drop)
    }

    /// Waits until the gateway has kept this client's key, at most for `patience`.
    pub async fn enrolled(&self, patience: Duration) -> Result<(), OpenStreamError> {
        self.heard(patience, Driver::is_enrolled).await
    }

    /// Waits until the gateway has shown that it lets this client in, at most for `patience`. A
    /// session begins before that: the client's side of the handshake is over first.
    pub async fn admitted(&self, patience: Duration) -> Result<(), OpenStreamError> {
        self.heard(patience, has_answered).await
    }

    /// Whether a session runs, and the gateway has shown that it lets this client in.
    pub fn is_admitted(&self) -> bool {
        match &*self.shared.current.borrow() {
            State::Running(driver) => driver.closed().is_none() && has_answered(driver),
            _ => false,
        }
    }

    /// Waits until a session satisfies `condition`, which begins to hold when `changes` are told.
    async fn heard(
        &self,
        patience: Duration,
        condition: impl Fn(&Driver) -> bool,
    ) -> Result<(), OpenStreamError> {
        let asking = async {
            loop {
                let driver = self.ready(Duration::MAX).await?;
                let mut changes = driver.changes();
                while driver.closed().is_none() {
                    if condition(&driver) {
                        return Ok(());
                    }
                    if changes.changed().await.is_err() {
                        break;
                    }
                }
                if driver.was_refused() {
                    return Err(OpenStreamError::NotAdmitted);
                }
                // Cut off before the answer: the next session asks again.
                tokio::task::yield_now().await;
            }
        };
        match tokio::time::timeout(patience, asking).await {
            Ok(result) => result,
            Err(_) => Err(OpenStreamError::Unreachable(self.shared.problem())),
        }
    }

    /// The next stream that the gateway opens; `None` once the client is closed.
    pub async fn accept(&self) -> Option<BondStream> {
        loop {
            let driver = match self.ready(Duration::MAX).await {
                Ok(driver) => driver,
                Err(_) => return None,
            };
            let next = std::future::poll_fn(|cx| driver.poll_incoming(cx)).await;
            if let Some(id) = next {
                let opening = driver.with(|session, _| session.peer_metadata(id));
                return Some(BondStream::new(driver, id, opening.unwrap_or_default()));
            }
            tokio::task::yield_now().await;
        }
    }

    /// The client at this moment, with at most `max_streams` of its streams.
    pub fn snapshot(&self, max_streams: usize) -> ClientSnapshot {
        let state = self.shared.current.borrow().clone();
        let session = match &state {
            State::Running(driver) => Some(driver.snapshot(max_streams)),
            _ => None,
        };
        let problem = match state {
            State::Connecting(problem) => problem.map(|text| text.to_string()),
            _ => None,
        };
        let links = self.shared.lock_keepers().values().cloned().collect();
        ClientSnapshot {
            session,
            problem,
            links,
        }
    }

    /// Whether the gateway is on this very machine, so that the loopback interface leads there.
    pub fn is_local(&self) -> bool {
        self.shared.config.is_local()
    }

    /// Whose these streams of the session are that runs, as far as [`BondStream::set_label`] has said
    /// and its label knows by now.
    pub fn labels(&self, streams: &[StreamId]) -> BTreeMap<StreamId, Arc<str>> {
        match &*self.shared.current.borrow() {
            State::Running(driver) => driver.labels(streams),
            _ => BTreeMap::new(),
        }
    }

    /// Ends the session in order: what was written still arrives, within `patience`.
    pub async fn close(&self, patience: Duration) {
        let state = self.shared.current.send_replace(State::Closed);
        if let State::Running(driver) = state {
            driver.close(0);
            let mut changes = driver.changes();
            let _ = tokio::time::timeout(patience, async {
                while driver.closed().is_none() && changes.changed().await.is_ok() {}
                // The last acknowledgements go out.
                tokio::time::sleep(LAST_WORDS).await;
            })
            .await;
        }
    }

    async fn ready(&self, patience: Duration) -> Result<Driver, OpenStreamError> {
        let mut current = self.shared.current.subscribe();
        let settled = current.wait_for(|state| match state {
            State::Running(driver) => driver.closed().is_none(),
            State::Closed => true,
            State::Connecting(_) => false,
        });
        match tokio::time::timeout(patience, settled).await {
            Ok(Ok(state)) => match &*state {
                State::Running(driver) => Ok(driver.clone()),
                _ => Err(OpenStreamError::Closed),
            },
            Ok(Err(_)) => Err(OpenStreamError::Closed),
            Err(_) => Err(OpenStreamError::Unreachable(self.shared.problem())),
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    fn socket_options(&self) -> SocketOptions {
        SocketOptions {
            congestion: self.congestion.initial().map(str::to_owned),
            not_sent_low_water: Some(FIRST_LOW_WATER),
            connect_timeout: CONNECT_TIMEOUT,
            ..SocketOptions::default()
        }
    }

    /// The links to use now.
    fn usable_links(&self) -> Vec<Link> {
        let links = self.links.borrow();
        let mut usable = match self.config.is_local() {
            // No other link leads there, whatever was asked for.
            true => links
                .iter()
                .filter(|l| l.loopback && l.up)
                .cloned()
                .collect(),
            false => links::usable(&links, &self.config.links),
        };
        usable.retain(|link| !self.is_forbidden(link));
        usable
    }

    /// The invite, for as long as this client is not known to be enrolled.
    fn invite(&self) -> Option<&Invite> {
        let invite = self.config.invite.as_ref();
        invite.filter(|_| self.enrolling.load(Ordering::Relaxed))
    }

    /// Draws the conclusion from a session that is over.
    fn note_enrolment(&self, driver: &Driver) {
        if driver.is_enrolled() {
            self.enrolling.store(false, Ordering::Relaxed);
        } else if driver.was_refused() && self.config.invite.is_some() {
            // The answer to an enrolment may have been lost, and the invite expired since.
            self.enrolling.fetch_not(Ordering::Relaxed);
        }
    }

    /// True if the gateway let this client in, in a session that is over: its hello has come, and
    /// there is no invite left to show. For use behind [`Shared::note_enrolment`].
    fn was_admitted(&self, driver: &Driver) -> bool {
        let hello = driver.with(|session, _| session.takes_datagrams());
        hello.is_some() && self.invite().is_none()
    }

    /// Which of the gateway's addresses `link` is to use, of those that have `answered`.
    fn claim(&self, link: &Link, answered: &[(SocketAddr, Duration)]) -> Option<SocketAddr> {
        let mut keepers = self.lock_keepers();
        let users = |remote| {
            let others = keepers.iter().filter(|(index, _)| **index != link.index);
            let same = others.filter(|(_, status)| status.remote == Some(remote));
            same.count()
        };
        let chosen = reach::choose(answered, users);
        if let Some(status) = keepers.get_mut(&link.index) {
            status.remote = chosen.or(status.remote);
        }
        chosen
    }

    fn problem(&self) -> String {
        match &*self.current.borrow() {
            State::Connecting(Some(problem)) => problem.to_string(),
            State::Closed => "the client is closed".to_owned(),
            _ => "it does not answer".to_owned(),
        }
    }

    fn lock_keepers(&self) -> std::sync::MutexGuard<'_, BTreeMap<u32, LinkStatus>> {
        self.keepers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the gateway has said anything in this session.
fn has_answered(driver: &Driver) -> bool {
    let channels = driver.snapshot(0).channels;
    driver.is_enrolled() || channels.iter().any(|c| c.received > ByteCount::ZERO)
}

/// Keeps a session running for as long as the client lives.
async fn run(shared: Arc<Shared>) {
    loop {
        let first = first::connect(&shared).await;
        let driver = first.driver.clone();
        let published = shared.current.send_if_modified(|state| {
            let open = !matches!(state, State::Closed);
            if open {
                *state = State::Running(driver.clone());
            }
            open
        });
        if !published {
            return;
        }
        keeper::keep(&shared, first).await;
        shared.note_enrolment(&driver);
        if matches!(*shared.current.borrow(), State::Closed) {
            // As it was asked to.
            return;
        }
        if shared.once && (driver.was_refused() || shared.was_admitted(&driver)) {
            shared.current.send_replace(State::Closed);
            return;
        }
        let reason = driver.closed();
        let refused = driver.was_refused();
        let problem: Arc<str> = if refused {
            REFUSED.into()
        } else {
            match reason {
                Some(CloseReason::Peer(_)) => "it ended the session".into(),
                _ => "every link to it was lost".into(),
            }
        };
        tracing::warn!(%problem, "the session with the gateway is over");
        let goes_on = shared.current.send_if_modified(|state| {
            let open = !matches!(state, State::Closed);
            if open {
                *state = State::Connecting(Some(problem));
            }
            open
        });
        if !goes_on {
            return;
        }
        tokio::time::sleep(if refused { REFUSED_PAUSE } else { LOST_PAUSE }).await;
    }
}

/// The problem of a client whose key the gateway does not admit.
const REFUSED: &str = "it refused this client's key: not enrolled, or revoked";
/// How long opening a stream waits for a session.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Unsent data in the kernel until the channel's rate is known.
const FIRST_LOW_WATER: ByteCount = ByteCount::from_kib(16);
const LAST_WORDS: Duration = Duration::from_millis(20);
const LOST_PAUSE: Duration = Duration::from_millis(200);
const REFUSED_PAUSE: Duration = Duration::from_secs(5);
