//! The first connection of a session: a race over every link and address.

use std::hash::{BuildHasher as _, RandomState};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use hawser_channels::BackOff;
use hawser_session::seal::{Direction, SessionKeys};
use hawser_session::{ChannelSpec, SessionConfig, Side};
use hawser_types::{ChannelId, LinkIndex};
use hawser_wire::{ChannelRole, Enrolment};
use tokio::time::Instant;
use tracing::Instrument as _;

use super::candidates::Candidates;
use super::shared::ClientState;
use super::shared_port::SharedPort;
use crate::driver::{Driver, NewChannel};
use crate::spans;
use hawser_link::links::Link;
use hawser_seal::{Handshake, TlsClient};

/// A link, the address that was reached over it, and the handshake with the gateway there.
type Won = (Link, SocketAddr, Handshake);

/// A connection over a link. Its far end has proved the key that the client is configured with, and
/// has seen the client's key.
#[derive(Debug)]
pub struct FirstConnection {
    /// The link.
    pub link: LinkIndex,
    /// The far end's port; further connections may go there.
    pub port: Arc<dyn SharedPort>,
    /// The finished handshake.
    pub handshake: Handshake,
}

/// A session that has just begun, and its first connection.
pub(super) struct First {
    pub(super) driver: Driver,
    pub(super) link: Link,
    pub(super) remote: SocketAddr,
    pub(super) channel: ChannelId,
}

/// Tries over every link until one connection is established. Each link fails and retries by
/// itself: a silent link delays no other.
pub(super) async fn connect(shared: &Arc<ClientState>) -> First {
    let mut links = shared.links.clone();
    let mut rules = shared.rules.subscribe();
    let mut tried: Vec<Link> = Vec::new();
    let mut attempts = FuturesUnordered::new();
    loop {
        links.mark_unchanged();
        rules.mark_unchanged();
        let usable = shared.usable_links();
        shared.begin_trying(&usable);
        tried.retain(|link| usable.contains(link));
        if usable.is_empty() {
            shared.publish_problem(&no_link(shared));
        }
        for link in usable {
            if !tried.contains(&link) {
                tried.push(link.clone());
                let span = spans::link(&link.name);
                attempts.push(persist(shared, link).instrument(span));
            }
        }
        tokio::select! {
            Some(won) = attempts.next() => if let Some(won) = won {
                let (link, remote, handshake) = won;
                return begin(shared, link, remote, handshake);
            },
            Ok(()) = links.changed() => {}
            Ok(()) = rules.changed() => {}
        }
    }
}

/// Tries over `link` again and again, with pauses; `None` once the link has changed or may not be
/// used any more.
async fn persist(shared: &ClientState, link: Link) -> Option<Won> {
    let trying = async {
        let seed = RandomState::new().hash_one(link.index.value());
        let mut back_off = BackOff::new(FIRST_PAUSE, MAX_PAUSE, seed);
        let mut addresses = shared.addresses.subscribe();
        loop {
            let once = async {
                match try_once(shared, &link).await {
                    Ok(won) => return Some(won),
                    Err(problem) => {
                        tracing::debug!(%problem, "cannot connect to the gateway yet");
                        shared.note_problem(&link, &problem);
                    }
                }
                tokio::time::sleep(back_off.next_pause()).await;
                None
            };
            tokio::select! {
                won = once => if let Some(won) = won {
                    return won;
                },
                // The addresses have changed: attempts at old ones end.
                Ok(()) = addresses.changed() => {}
            }
        }
    };
    let (mut links, mut rules) = (shared.links.clone(), shared.rules.subscribe());
    let changing = async {
        while shared.usable_links().contains(&link) {
            tokio::select! {
                Ok(()) = links.changed() => {}
                Ok(()) = rules.changed() => {}
                else => std::future::pending().await,
            }
        }
    };
    tokio::select! {
        won = trying => Some(won),
        () = changing => None,
    }
}

/// Tries each link once, and returns the first handshake that succeeds.
pub(super) async fn race(shared: &ClientState) -> Result<Won, String> {
    let links = shared.usable_links();
    let mut attempts: FuturesUnordered<_> =
        links.iter().map(|link| try_once(shared, link)).collect();
    let mut problem = no_link(shared);
    while let Some(result) = attempts.next().await {
        match result {
            Ok(won) => return Ok(won),
            Err(error) => problem = error,
        }
    }
    Err(problem)
}

fn no_link(shared: &ClientState) -> String {
    if shared.config.links.is_empty() {
        "no link is up that may be used".to_owned()
    } else {
        let names = shared.config.links.join(", ");
        format!("none of the links {names} is up and may be used")
    }
}

/// Tries the gateway's addresses over `link`: the next address when the last one has failed or has
/// not answered for a moment.
async fn try_once(shared: &ClientState, link: &Link) -> Result<Won, String> {
    let config = &shared.config;
    let identity = match shared.invite() {
        Some(invite) => invite.enrolment_identity(),
        None => config.identity.clone(),
    };
    let tls = TlsClient::new(&identity, config.gateway).map_err(|error| error.to_string())?;
    let greet = async |remote: SocketAddr| {
        let stream = shared
            .connect(link, remote, &shared.first_options(link))
            .await;
        let stream = stream.map_err(|error| error.to_string())?;
        match tokio::time::timeout(HANDSHAKE_TIMEOUT, tls.handshake(stream)).await {
            Ok(Ok(handshake)) => Ok((link.clone(), remote, handshake)),
            Ok(Err(error)) => Err(format!("{remote}: {error}")),
            Err(_) => Err(format!("{remote}: no answer to the handshake")),
        }
    };
    shared.note_waiting(link, None);
    let attempt = async |remote: SocketAddr| {
        shared.note_waiting(link, Some(remote));
        let result = greet(remote).await;
        if let Err(problem) = &result {
            shared.note_problem(link, problem);
        }
        result
    };
    let mut candidates = shared.candidates(&shared.usable_links());
    let result = in_turn(&mut candidates, attempt).await;
    result.map_err(|mut problems| {
        if problems.is_empty() {
            problems = candidates.problems();
        }
        problems.dedup();
        if problems.is_empty() {
            "the gateway has no address".to_owned()
        } else {
            problems.join("; ")
        }
    })
}

/// Returns the first success of `attempt`, or the errors of all `candidates`. Attempts begin one
/// after the other, so that the best candidate wins if it works, and a dead one costs a moment.
async fn in_turn<T, F: Future<Output = Result<T, String>>>(
    candidates: &mut Candidates,
    attempt: impl Fn(SocketAddr) -> F,
) -> Result<T, Vec<String>> {
    let mut attempts = FuturesUnordered::new();
    let mut problems = Vec::new();
    let mut next_at = Instant::now();
    let mut end = next_at;
    let mut may_come = true;
    loop {
        let next = async {
            tokio::time::sleep_until(next_at).await;
            candidates.next().await
        };
        tokio::select! {
            next = next, if may_come => match next {
                Some(remote) => {
                    attempts.push(attempt(remote));
                    next_at = Instant::now() + NEXT_ADDRESS;
                }
                None => may_come = false,
            },
            Some(result) = attempts.next() => match result {
                Ok(won) => return Ok(won),
                Err(problem) => {
                    problems.push(problem);
                    next_at = Instant::now();
                    end = next_at + MORE_ADDRESSES;
                }
            },
            // The next try begins anew: known addresses may work by then.
            () = tokio::time::sleep_until(end), if attempts.is_empty() && !problems.is_empty() => {
                return Err(problems);
            }
            else => return Err(problems),
        }
    }
}

/// Begins a session on an existing connection; `None` if its link is gone or the far end's key is
/// not the gateway's.
pub(super) fn on(shared: &Arc<ClientState>, connection: FirstConnection) -> Option<First> {
    let FirstConnection {
        link,
        port,
        handshake,
    } = connection;
    let mut usable = shared.usable_links().into_iter();
    let link = usable.find(|it| it.index == link)?;
    (handshake.peer == shared.config.gateway).then(|| begin(shared, link, port.at(), handshake))
}

fn begin(shared: &Arc<ClientState>, link: Link, remote: SocketAddr, handshake: Handshake) -> First {
    let config = &shared.config;
    let keys = SessionKeys::new(handshake.exporter.clone(), handshake.aead);
    let channel = ChannelId::new(0);
    let new = NewChannel {
        reader: keys.reader(channel, Direction::GatewayToClient, config.session.plain),
        sealer: keys.sealer(channel, Direction::ClientToGateway),
        stream: handshake.stream,
    };
    let challenge = keys.enrolment_challenge();
    let session = SessionConfig {
        scheduler: *shared.scheduler.borrow(),
        packet_scheduler: *shared.packet_scheduler.borrow(),
        ..config.session.clone()
    };
    let driver = Driver::start(
        Side::Client,
        session,
        keys,
        shared.congestion.clone(),
        shared.budgets.clone(),
    );
    if shared.invite().is_some() {
        driver.enrol(Enrolment {
            key: *config.identity.public().as_bytes(),
            signature: config.identity.sign(&challenge),
            name: config.name.chars().take(MAX_NAME).collect(),
        });
    }
    let role = if config.express {
        ChannelRole::Express
    } else {
        ChannelRole::Bulk
    };
    let spec = ChannelSpec {
        id: channel,
        role,
        link: link.index,
        begun_by: Side::Client,
        records: 0,
        segment_size: None,
    };
    shared.tell_rules(&driver);
    let transport = *shared.transport.borrow();
    driver.with(|session, now| session.set_transport(now, transport));
    driver.add_channel(spec, new);
    shared.note_reached(remote, true);
    driver.span().in_scope(|| {
        tracing::info!(link = %link.name, %remote, "a session with the gateway has begun");
    });
    First {
        driver,
        link,
        remote,
        channel,
    }
}

/// Time that an address has to answer before the next one is tried as well. Source: RFC 8305
/// section 8, the least that it permits.
const NEXT_ADDRESS: Duration = Duration::from_millis(100);
/// Time to wait for further addresses when all others have failed.
const MORE_ADDRESSES: Duration = Duration::from_millis(300);
/// A gateway that restarts is away for a moment.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// Short, so that a gateway that was away is soon found again.
const MAX_PAUSE: Duration = Duration::from_secs(2);
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// At most 64 bytes of UTF-8.
const MAX_NAME: usize = 16;
