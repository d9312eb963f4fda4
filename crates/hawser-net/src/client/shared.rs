//! State that the tasks of a client share.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use hawser_channels::keeper::{CONNECT_TIMEOUT, SegmentLimit};
use hawser_sched::chunk::ChunkPolicy;
use hawser_sched::packet::PacketPolicy;
use hawser_sched::rules::LinkRules;
use hawser_session::{LostSegment, TransportChoice};
use hawser_types::{ByteCount, LinkIndex, SessionId};
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;

use super::address_choice::choose;
use super::candidates::{Candidates, Locator};
use super::config::ClientConfig;
use super::link_statuses::{LinkStatus, LinkStatuses};
use super::relay;
use super::shared_port::SharedPort;
use crate::association::AssociationEndpoint;
use crate::clock;
use crate::congestion::Congestion;
use crate::driver::Driver;
use crate::session_budgets::SessionBudgets;
use hawser_keys::host_port::HostPort;
use hawser_keys::invite::Invite;
use hawser_link::bind::{self, Carries, ConnectError, SocketOptions};
use hawser_link::links::{self, Link};

#[derive(Debug)]
pub(super) struct ClientState {
    pub(super) config: ClientConfig,
    pub(super) congestion: Congestion,
    /// Limits the memory that the channels of its sessions read into.
    pub(super) budgets: SessionBudgets,
    pub(super) links: watch::Receiver<Arc<Vec<Link>>>,
    /// The port for further connections beside the gateway's addresses.
    shared_port: Option<Arc<dyn SharedPort>>,
    pub(super) rules: watch::Sender<BTreeMap<String, LinkRules>>,
    pub(super) scheduler: watch::Sender<ChunkPolicy>,
    pub(super) packet_scheduler: watch::Sender<PacketPolicy>,
    pub(super) transport: watch::Sender<TransportChoice>,
    /// Why there is no association though one is wanted.
    pub(super) association_problem: watch::Sender<Option<String>>,
    pub(super) current: watch::Sender<State>,
    /// Number of sessions that the gateway has refused.
    pub(super) refusals: watch::Sender<u64>,
    /// The superseded sessions, until no stream is open in them.
    left: Mutex<Vec<Driver>>,
    /// The gateway's current addresses.
    pub(super) addresses: watch::Sender<Vec<HostPort>>,
    pub(super) statuses: Mutex<LinkStatuses>,
    locator: Locator,
    /// Addresses where the gateway has proved its key, the latest first.
    pub(super) reached: watch::Sender<Vec<SocketAddr>>,
    /// The UDP sockets of associations, while a session wants one.
    pub(super) endpoint: Mutex<Weak<AssociationEndpoint>>,
    /// Segments that do not arrive, by link, with the addresses that the link had at that time.
    lost_segments: Mutex<BTreeMap<LinkIndex, (Vec<IpAddr>, LostSegment)>>,
    /// True if the client ends with its first session in which the gateway has answered.
    pub(super) once: bool,
    /// The session that the gateway does not know any more.
    forgotten: Mutex<Option<SessionId>>,
    /// True if the next session begins with the invite rather than with the client's own key.
    enrolling: AtomicBool,
}

/// The state of a client.
#[derive(Clone, Debug)]
pub(super) enum State {
    /// No session yet, and the problem of the last attempt.
    Connecting(Option<Arc<str>>),
    /// A session runs.
    Running(Driver),
    /// The client was closed.
    Closed,
}

impl ClientState {
    /// The state of a client without a session. `enrolling`: the first session begins with the
    /// invite; `once`: the client ends with its first session in which the gateway has answered.
    pub(super) fn new(
        config: ClientConfig,
        links: watch::Receiver<Arc<Vec<Link>>>,
        congestion: Congestion,
        shared_port: Option<Arc<dyn SharedPort>>,
        (enrolling, once): (bool, bool),
    ) -> Self {
        Self {
            once,
            shared_port,
            forgotten: Mutex::default(),
            enrolling: AtomicBool::new(enrolling),
            rules: watch::Sender::new(config.rules.clone()),
            scheduler: watch::Sender::new(config.session.scheduler),
            packet_scheduler: watch::Sender::new(config.session.packet_scheduler),
            transport: watch::Sender::new(config.transport),
            association_problem: watch::Sender::new(None),
            reached: watch::Sender::new(config.reached.iter().copied().take(MAX_REACHED).collect()),
            locator: Locator::default(),
            addresses: watch::Sender::new(config.addresses.clone()),
            config,
            congestion,
            budgets: SessionBudgets::of_client(MOST_READ_MEMORY),
            links,
            current: watch::Sender::new(State::Connecting(None)),
            refusals: watch::Sender::new(0),
            statuses: Mutex::default(),
            left: Mutex::default(),
            lost_segments: Mutex::default(),
            endpoint: Mutex::default(),
        }
    }

    pub(super) fn socket_options(&self) -> SocketOptions {
        SocketOptions {
            congestion: self.congestion.initial().map(str::to_owned),
            not_sent_low_water: Some(FIRST_LOW_WATER),
            connect_timeout: CONNECT_TIMEOUT,
            ..SocketOptions::default()
        }
    }

    /// The options of a connection over a link that begins a session.
    pub(super) fn first_options(&self, link: &Link) -> SocketOptions {
        let (mut limit, now) = (SegmentLimit::default(), clock::now());
        limit.learn(now, self.lost_segment(link));
        SocketOptions {
            max_segment: limit.limit(now),
            ..self.socket_options()
        }
    }

    /// Notes that segments of some size do not arrive over a link, for later sessions.
    pub(super) fn note_lost_segment(&self, link: &Link, lost: LostSegment) {
        let known = (link.addresses.clone(), lost);
        self.lost_segments.lock().insert(link.index, known);
    }

    /// Returns which segments do not arrive over a link, unless its addresses have changed since.
    pub(super) fn lost_segment(&self, link: &Link) -> Option<LostSegment> {
        let known = self.lost_segments.lock();
        let (addresses, lost) = known.get(&link.index)?;
        (*addresses == link.addresses).then_some(*lost)
    }

    /// The links that connections go over now: the machine's links, or the relay.
    pub(super) fn usable_links(&self) -> Vec<Link> {
        match self.config.relay {
            Some(_) => vec![relay::as_link()],
            None => self.machine_links(),
        }
    }

    /// The links of this machine to use now.
    pub(super) fn machine_links(&self) -> Vec<Link> {
        let links = self.links.borrow();
        let mut usable = if self.config.is_local() {
            // Only loopback leads to a local gateway, whichever links were configured.
            links
                .iter()
                .filter(|l| l.loopback && l.up)
                .cloned()
                .collect()
        } else {
            links::usable(&links, &self.config.links)
        };
        usable.retain(|link| !self.is_forbidden(link));
        usable
    }

    /// The gateway's addresses, for use over `links`; a port shared with a service comes last.
    pub(super) fn candidates(&self, links: &[Link]) -> Candidates {
        if self.config.relay.is_some() {
            return self.locator.search(&[relay::ADDRESS], &[], links);
        }
        let reached = self.reached.borrow().clone();
        let mut addresses = self.addresses.borrow().clone();
        let shared_port = self.shared_port.iter();
        addresses.extend(shared_port.filter_map(|port| HostPort::try_from(port.at()).ok()));
        self.locator.search(&reached, &addresses, links)
    }

    /// Connects over a link to one of the candidates.
    pub(super) async fn connect(
        &self,
        link: &Link,
        remote: SocketAddr,
        options: &SocketOptions,
    ) -> Result<TcpStream, ConnectError> {
        let Some(relay) = &self.config.relay else {
            let link = (!link.loopback).then_some(link);
            let Some(port) = self.shared_port(remote) else {
                return bind::connect_on_link(link, remote, options).await;
            };
            return ask(link, port, options).await;
        };
        let stream = match timeout(RELAY_PATIENCE, relay.connect()).await {
            Ok(stream) => stream.map_err(ConnectError::Relay)?,
            Err(_) => return Err(ConnectError::Relay(io::ErrorKind::TimedOut.into())),
        };
        options.apply(&stream)?;
        Ok(stream)
    }

    /// Returns the port at `remote` if the gateway shares it with a service.
    pub(super) fn shared_port(&self, remote: SocketAddr) -> Option<&dyn SharedPort> {
        self.shared_port
            .as_deref()
            .filter(|port| port.at() == remote)
    }

    /// Sets the gateway's addresses, and forgets other addresses where it was reached.
    pub(super) fn set_addresses(&self, addresses: Vec<HostPort>) {
        self.addresses.send_if_modified(|before| {
            let is_news = *before != addresses;
            if is_news {
                let is_there = |at: &SocketAddr| is_among(&addresses, *at);
                self.reached.send_if_modified(|reached| {
                    let count = reached.len();
                    reached.retain(is_there);
                    reached.len() < count
                });
                *before = addresses;
            }
            is_news
        });
    }

    /// True unless the gateway is known to have left the address where it was reached.
    pub(super) fn is_still_at(&self, remote: SocketAddr) -> bool {
        // A relay finds the gateway wherever it is.
        self.config.relay.is_some()
            || self.shared_port(remote).is_some()
            || is_among(&self.addresses.borrow(), remote)
    }

    /// Notes that the gateway has proved its key at `remote`; `is_best`: ahead of all other
    /// addresses. A port shared with a service is not noted: it comes last in any case.
    pub(super) fn note_reached(&self, remote: SocketAddr, is_best: bool) {
        if self.shared_port(remote).is_some() {
            return;
        }
        self.reached.send_if_modified(|reached| {
            let place = reached.iter().position(|known| *known == remote);
            if place == Some(0) || (place.is_some() && !is_best) {
                return false;
            }
            reached.retain(|known| *known != remote);
            let end = reached.len().min(MAX_REACHED - 1);
            reached.truncate(end);
            let at = if is_best { 0 } else { end };
            reached.insert(at, remote);
            true
        });
    }

    /// Forgets the states of all links but `links`, over which the gateway is about to be tried.
    pub(super) fn begin_trying(&self, links: &[Link]) {
        if matches!(*self.current.borrow(), State::Connecting(_)) {
            let is_tried = |index: &LinkIndex| links.iter().any(|link| link.index == *index);
            self.statuses
                .lock()
                .tried()
                .retain(|index, _| is_tried(index));
        }
    }

    /// Notes that the last attempt to connect over `link` has failed.
    pub(super) fn note_problem(&self, link: &Link, problem: &str) {
        self.note_link(link, problem, |_| true);
    }

    /// Notes that the first attempt over `link` waits for an answer of `remote`, or for an address.
    pub(super) fn note_waiting(&self, link: &Link, remote: Option<SocketAddr>) {
        let waits_for = match remote {
            Some(remote) => format!("no answer from {remote} yet"),
            None => NO_ADDRESS_YET.to_owned(),
        };
        self.note_link(link, &waits_for, |before| before == NO_ADDRESS_YET);
    }

    /// Sets the problem of a link to `text`, unless the present problem may not be replaced.
    fn note_link(&self, link: &Link, text: &str, may_replace: impl Fn(&str) -> bool) {
        if !matches!(*self.current.borrow(), State::Connecting(_)) {
            return;
        }
        let mut statuses = self.statuses.lock();
        let tried = statuses.tried();
        let before = tried.get(&link.index);
        let before = before.and_then(|status| status.problem.as_deref());
        if !before.is_none_or(may_replace) {
            return;
        }
        let status = LinkStatus {
            link: link.clone(),
            remote: None,
            problem: Some(text.to_owned()),
        };
        tried.insert(link.index, status);
        let problems = tried.values().filter_map(|it| {
            let problem = it.problem.as_deref()?;
            Some(format!("{}: {problem}", it.link.name))
        });
        let problems = problems.collect::<Vec<_>>().join("; ");
        drop(statuses);
        self.publish_problem(&problems);
    }

    /// Publishes why there is no session yet.
    pub(super) fn publish_problem(&self, problem: &str) {
        self.current.send_if_modified(|state| match state {
            State::Connecting(last) if last.as_deref() != Some(problem) => {
                *last = Some(problem.into());
                true
            }
            _ => false,
        });
    }

    /// The invite, for as long as this client is not known to be enrolled.
    pub(super) fn invite(&self) -> Option<&Invite> {
        let invite = self.config.invite.as_ref();
        invite.filter(|_| self.enrolling.load(Ordering::Relaxed))
    }

    /// Learns from a session that is over whether this client is enrolled.
    pub(super) fn note_enrolment(&self, driver: &Driver) {
        if driver.is_enrolled() {
            self.enrolling.store(false, Ordering::Relaxed);
        } else if driver.was_refused() && self.config.invite.is_some() {
            // The answer to an enrolment may have been lost, and the invite expired since.
            self.enrolling.fetch_not(Ordering::Relaxed);
        }
    }

    /// Notes that the gateway has answered, and does not know this session any more.
    pub(super) fn note_forgotten(&self, driver: &Driver) {
        *self.forgotten.lock() = Some(driver.id());
    }

    /// True if the gateway knew this session no more; false if every link was lost.
    pub(super) fn was_forgotten(&self, driver: &Driver) -> bool {
        *self.forgotten.lock() == Some(driver.id())
    }

    /// True if the gateway admitted this client in a session that is over: its hello has come, and
    /// no invite is left to show. For use after [`ClientState::note_enrolment`].
    pub(super) fn was_admitted(&self, driver: &Driver) -> bool {
        let hello = driver.with(|session, _| session.takes_datagrams());
        hello.is_some() && self.invite().is_none()
    }

    /// Chooses among the gateway's addresses that have `answered` the one that `link` is to use for
    /// a session.
    pub(super) fn claim(
        &self,
        session: SessionId,
        link: &Link,
        answered: &[(SocketAddr, Duration)],
    ) -> Option<SocketAddr> {
        let mut statuses = self.statuses.lock();
        let users = |remote| {
            let others = statuses
                .by_link()
                .iter()
                .filter(|(index, _)| **index != link.index);
            let same = others.filter(|(_, status)| status.remote == Some(remote));
            same.count()
        };
        let chosen = choose(answered, users);
        if let Some(remote) = chosen {
            statuses.set_remote(session, link.index, remote);
        }
        chosen
    }

    pub(super) fn problem(&self) -> String {
        match &*self.current.borrow() {
            State::Connecting(Some(problem)) => problem.to_string(),
            State::Closed => "the client is closed".to_owned(),
            _ => "it does not answer".to_owned(),
        }
    }

    /// The live sessions: the current one, and superseded ones.
    pub(super) fn sessions(&self) -> Vec<Driver> {
        let current = match &*self.current.borrow() {
            State::Running(driver) => Some(driver.clone()),
            _ => None,
        };
        let mut sessions: Vec<Driver> = current.into_iter().collect();
        sessions.extend(self.left());
        sessions
    }

    /// The superseded sessions.
    pub(super) fn left(&self) -> Vec<Driver> {
        self.left.lock().clone()
    }

    /// Makes a session that has begun the current one, and supersedes the one before; false if the
    /// client was closed.
    pub(super) fn publish(&self, driver: &Driver) -> bool {
        let mut before = None;
        let is_open = self.current.send_if_modified(|state| {
            let is_open = !matches!(state, State::Closed);
            if is_open {
                let old = std::mem::replace(state, State::Running(driver.clone()));
                if let State::Running(old) = old {
                    // Under the lock of `current`: the old session is always in one of the places.
                    self.left.lock().push(old.clone());
                    before = Some(old);
                }
            }
            is_open
        });
        before.iter().for_each(Driver::supersede);
        is_open
    }

    /// Forgets a superseded session, which is over.
    pub(super) fn forget_left(&self, driver: &Driver) {
        self.left.lock().retain(|left| left.id() != driver.id());
    }
}

/// True if a link, as it is `now`, keeps the connections that it had `before`: its addresses are
/// the same.
pub(super) fn keeps_connections(now: &Link, before: &Link) -> bool {
    now.addresses == before.addresses
}

/// Connects to a port that the gateway shares with a service; fails if the service has accepted the
/// connection.
async fn ask(
    link: Option<&Link>,
    port: &dyn SharedPort,
    options: &SocketOptions,
) -> Result<TcpStream, ConnectError> {
    let remote = port.at();
    if !port.may_ask() {
        return Err(ConnectError::OfService { remote });
    }
    let options = SocketOptions {
        carries: Carries::AsksBond,
        ..options.clone()
    };
    let stream = bind::connect_on_link(link, remote, &options).await?;
    if port.has_taken(stream.as_fd()) {
        Ok(stream)
    } else {
        Err(ConnectError::OfService { remote })
    }
}

/// True if `remote` may be one of the addresses; a name may stand for any address.
fn is_among(addresses: &[HostPort], remote: SocketAddr) -> bool {
    let mut addresses = addresses.iter().map(HostPort::socket_addr);
    addresses.any(|address| address.is_none_or(|address| address == remote))
}

/// As long as the relaying gateway may wait for the far end's answer.
const RELAY_PATIENCE: Duration = Duration::from_secs(10);
/// Unsent data in the kernel until the channel's rate is known.
const FIRST_LOW_WATER: ByteCount = ByteCount::from_kib(16);
/// Memory that channels read into, beyond what each needs for one record.
const MOST_READ_MEMORY: ByteCount = ByteCount::from_mib(16);
const NO_ADDRESS_YET: &str = "no address of the gateway is found yet";
/// Most addresses kept: gateways have a few addresses, and old ones are soon forgotten.
const MAX_REACHED: usize = 8;
