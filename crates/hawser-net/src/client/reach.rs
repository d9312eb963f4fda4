//! Chooses which of a gateway's addresses a link uses.
//!
//! A path is a link and one address: each link has one path at a time, so that there are as many
//! paths as links, whatever the number of addresses. A link connects to all addresses at once and
//! keeps the address that answers first. Of addresses that answer about as quickly, the link takes
//! the one that the fewest other links use, so that each internet connection of the gateway gets
//! its share. A port shared with a service is tried a moment later.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use hawser_types::SessionId;
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::address_choice::alike;
use super::join_error::JoinError;
use super::shared::ClientState;
use hawser_link::bind::SocketOptions;
use hawser_link::links::Link;

/// Connects a session to the address that suits `link` best.
pub(super) async fn reach(
    shared: &ClientState,
    session: SessionId,
    link: &Link,
    options: &SocketOptions,
) -> Result<(SocketAddr, TcpStream), JoinError> {
    let mut candidates = shared.candidates(&shared.usable_links());
    let mut addresses = Vec::new();
    let mut may_come = true;
    let attempt = async |remote| {
        // The gateway's own ports come before those that it shares with a service.
        if shared.shared_port(remote).is_some() {
            tokio::time::sleep(OWN_PORTS_FIRST).await;
        }
        let begun = Instant::now();
        let stream = shared.connect(link, remote, options).await;
        (remote, begun.elapsed(), stream)
    };
    let mut attempts = FuturesUnordered::new();
    let mut answered: Vec<(SocketAddr, Duration, TcpStream)> = Vec::new();
    let mut problem = None;
    let begun = Instant::now();
    // Time after which answers come too late to be chosen.
    let mut end = None;
    loop {
        tokio::select! {
            () = tokio::time::sleep_until(end.unwrap_or(begun)), if end.is_some() => break,
            remote = candidates.next(), if may_come => match remote {
                Some(remote) => {
                    addresses.push(remote);
                    attempts.push(attempt(remote));
                }
                None => may_come = false,
            },
            Some(attempt) = attempts.next() => match attempt {
                (remote, took, Ok(stream)) => {
                    let now = Instant::now();
                    end = match shared.shared_port(remote) {
                        // The service gets the connection soon, unless data is sent.
                        Some(_) => Some(now),
                        None => end.or(Some(now.max(begun + alike(took)))),
                    };
                    answered.push((remote, took, stream));
                }
                (_, _, Err(error)) => problem = Some(error),
            },
            else => break,
        }
    }
    let times = answered.iter().map(|(remote, took, _)| (*remote, *took));
    let mut times: Vec<_> = times.collect();
    times.sort_by_key(|(remote, _)| addresses.iter().position(|at| at == remote));
    let chosen = shared.claim(session, link, &times);
    let place = answered
        .iter()
        .position(|(remote, _, _)| Some(*remote) == chosen);
    match (place, problem) {
        (Some(place), _) => {
            let (remote, _, stream) = answered.swap_remove(place);
            Ok((remote, stream))
        }
        (None, Some(problem)) => Err(problem.into()),
        (None, None) => Err(JoinError::NoAddress(match candidates.problems() {
            problems if problems.is_empty() => "the gateway has no address".to_owned(),
            problems => problems.join("; "),
        })),
    }
}

/// Most networks answer within this time.
const OWN_PORTS_FIRST: Duration = Duration::from_millis(200);
