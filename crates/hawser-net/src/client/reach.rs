//! Which of a gateway's addresses a link uses.
//!
//! A path is a link and one address: each link has one path at a time, so that there are as many
//! paths as links, whatever the number of addresses. A link connects to all of them at once and
//! keeps the one that answers first. Others that answer about as quickly are as good: of these it
//! takes the one that the fewest other links use, so that each connection of a gateway that has
//! several gets its share.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::address_choice::alike;
use super::first::resolve;
use super::join_error::JoinError;
use super::shared::Shared;
use crate::bind;
use crate::links::Link;

/// A connection to the address that suits `link` best.
pub(super) async fn reach(
    shared: &Shared,
    link: &Link,
) -> Result<(SocketAddr, TcpStream), JoinError> {
    let addresses = resolve(&shared.config.addresses).await;
    let addresses = addresses.map_err(JoinError::NoAddress)?;
    let options = shared.socket_options();
    let attempt = async |remote| {
        let begun = Instant::now();
        let link = (!link.loopback).then_some(link);
        let stream = bind::connect_on_link(link, remote, &options).await;
        (remote, begun.elapsed(), stream)
    };
    let mut attempts: FuturesUnordered<_> = addresses.iter().map(|at| attempt(*at)).collect();
    let mut answered: Vec<(SocketAddr, Duration, TcpStream)> = Vec::new();
    let mut problem = None;
    let begun = Instant::now();
    // Time after which no answer is quick enough.
    let mut end = None;
    loop {
        tokio::select! {
            () = tokio::time::sleep_until(end.unwrap_or(begun)), if end.is_some() => break,
            attempt = attempts.next() => match attempt {
                Some((remote, took, Ok(stream))) => {
                    end.get_or_insert(begun + alike(took));
                    answered.push((remote, took, stream));
                }
                Some((_, _, Err(error))) => problem = Some(error),
                None => break,
            },
        }
    }
    let times = answered.iter().map(|(remote, took, _)| (*remote, *took));
    let mut times: Vec<_> = times.collect();
    times.sort_by_key(|(remote, _)| addresses.iter().position(|at| at == remote));
    let chosen = shared.claim(link, &times);
    let place = answered
        .iter()
        .position(|(remote, _, _)| Some(*remote) == chosen);
    match (place, problem) {
        (Some(place), _) => {
            let (remote, _, stream) = answered.swap_remove(place);
            Ok((remote, stream))
        }
        (None, Some(problem)) => Err(problem.into()),
        (None, None) => Err(JoinError::NoAddress(
            "the gateway has no address".to_owned(),
        )),
    }
}
