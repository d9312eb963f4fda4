//! The first connection of a session: a race over every link and address.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use hawser_channels::BackOff;
use hawser_session::seal::{Direction, SessionKeys};
use hawser_session::{ChannelSpec, SessionConfig, Side};
use hawser_types::ChannelId;
use hawser_wire::{ChannelRole, Enrolment};

use super::shared::{Shared, State};
use crate::bind;
use crate::driver::{Driver, NewChannel};
use crate::host_port::HostPort;
use crate::links::Link;
use crate::tls::{Handshake, TlsClient};

/// A session that has just begun, and the connection that it began with.
pub(super) struct First {
    pub(super) driver: Driver,
    pub(super) link: Link,
    pub(super) remote: SocketAddr,
    pub(super) channel: ChannelId,
}

/// Tries until one connection stands, with pauses by `back_off`.
pub(super) async fn connect(shared: &Arc<Shared>, back_off: &mut BackOff) -> First {
    let mut links = shared.links.clone();
    let mut rules = shared.rules.subscribe();
    loop {
        links.mark_unchanged();
        rules.mark_unchanged();
        match race(shared).await {
            Ok((link, remote, handshake)) => return begin(shared, link, remote, handshake),
            Err(problem) => {
                tracing::debug!(%problem, "no connection to the gateway yet");
                let problem: Arc<str> = problem.into();
                shared.current.send_if_modified(|state| match state {
                    State::Connecting(last) => {
                        *last = Some(problem);
                        true
                    }
                    _ => false,
                });
            }
        }
        tokio::select! {
            () = tokio::time::sleep(back_off.next_pause()) => {}
            _ = links.changed() => back_off.reset(),
            _ = rules.changed() => back_off.reset(),
        }
    }
}

/// The first handshake that succeeds over any link. Each link tries the addresses in their order,
/// the next one when the last has failed or has not answered for a moment.
pub(super) async fn race(shared: &Arc<Shared>) -> Result<(Link, SocketAddr, Handshake), String> {
    let config = &shared.config;
    let links = shared.usable_links();
    if links.is_empty() {
        return Err(match config.links.is_empty() {
            true => "no link is up that may be used".to_owned(),
            false => {
                let names = config.links.join(", ");
                format!("none of the links {names} is up and may be used")
            }
        });
    }
    let addresses = resolve(&config.addresses).await?;
    let identity = match shared.invite() {
        Some(invite) => invite.enrolment_identity(),
        None => config.identity.clone(),
    };
    let tls = TlsClient::new(&identity, config.gateway).map_err(|error| error.to_string())?;
    let options = shared.socket_options();
    let greet = async |link: &Link, remote: SocketAddr| {
        let way = (!link.loopback).then_some(link);
        let stream = bind::connect_on_link(way, remote, &options).await;
        let stream = stream.map_err(|error| error.to_string())?;
        match tokio::time::timeout(HANDSHAKE_TIMEOUT, tls.handshake(stream)).await {
            Ok(Ok(handshake)) => Ok((link.clone(), remote, handshake)),
            Ok(Err(error)) => Err(format!("{} to {remote}: {error}", link.name)),
            Err(_) => Err(format!(
                "{} to {remote}: no answer to the handshake",
                link.name
            )),
        }
    };
    let over = |link| in_turn(&addresses, move |remote| greet(link, remote));
    let mut attempts: FuturesUnordered<_> = links.iter().map(over).collect();
    let mut problems = Vec::new();
    while let Some(result) = attempts.next().await {
        match result {
            Ok(won) => return Ok(won),
            Err(more) => problems.extend(more),
        }
    }
    problems.dedup();
    Err(problems.join("; "))
}

/// The first of `addresses` with which `attempt` succeeds, or what every one has said. They are
/// begun one after the other, so that the best one wins where it works, and a dead one costs a
/// moment.
async fn in_turn<T, F: Future<Output = Result<T, String>>>(
    addresses: &[SocketAddr],
    attempt: impl Fn(SocketAddr) -> F,
) -> Result<T, Vec<String>> {
    let mut waiting = addresses.iter();
    let mut attempts = FuturesUnordered::new();
    let mut problems = Vec::new();
    loop {
        let begun = waiting.next().map(|remote| attempts.push(attempt(*remote)));
        let next = tokio::time::sleep(NEXT_ADDRESS);
        tokio::select! {
            () = next, if begun.is_some() => {}
            Some(result) = attempts.next() => match result {
                Ok(won) => return Ok(won),
                Err(problem) => problems.push(problem),
            },
            else => return Err(problems),
        }
    }
}

fn begin(shared: &Arc<Shared>, link: Link, remote: SocketAddr, handshake: Handshake) -> First {
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
        ..config.session.clone()
    };
    let driver = Driver::start(Side::Client, session, keys, shared.congestion.clone());
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
        records: 0,
        segment_size: None,
    };
    shared.tell_rules(&driver);
    let transport = *shared.transport.borrow();
    driver.with(|session, now| session.set_transport(now, transport));
    driver.add_channel(spec, new);
    tracing::info!(link = %link.name, %remote, "a session with the gateway has begun");
    First {
        driver,
        link,
        remote,
        channel,
    }
}

/// The socket addresses of a gateway.
pub(super) async fn resolve(addresses: &[HostPort]) -> Result<Vec<SocketAddr>, String> {
    let mut resolved = Vec::new();
    let mut problem = String::from("the gateway has no address");
    for address in addresses {
        if let Some(address) = address.socket_addr() {
            resolved.push(address);
            continue;
        }
        match tokio::net::lookup_host(address.to_string()).await {
            Ok(found) => resolved.extend(found),
            Err(error) => problem = format!("{address}: {error}"),
        }
    }
    resolved.truncate(MAX_ADDRESSES);
    if resolved.is_empty() {
        Err(problem)
    } else {
        Ok(resolved)
    }
}

/// Time that an address has to answer before the next one is tried as well. Source: RFC 8305
/// section 8, the least that it permits.
const NEXT_ADDRESS: Duration = Duration::from_millis(100);
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_ADDRESSES: usize = 16;
/// At most 64 bytes of UTF-8.
const MAX_NAME: usize = 16;
