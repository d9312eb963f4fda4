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

use super::Shared;
use super::first::resolve;
use super::join::JoinError;
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
    // When nobody who answers then is quick enough.
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

/// Of the addresses that answered, in the order of preference and each with the time it took: the
/// first of those that are about as quick as the quickest and used by the fewest.
pub(super) fn choose(
    answered: &[(SocketAddr, Duration)],
    users: impl Fn(SocketAddr) -> usize,
) -> Option<SocketAddr> {
    let quickest = answered.iter().map(|(_, took)| *took).min()?;
    let quick = answered
        .iter()
        .filter(|(_, took)| *took <= alike(quickest))
        .map(|(remote, _)| *remote);
    quick.min_by_key(|remote| users(*remote))
}

/// What counts as quick as `quickest`.
fn alike(quickest: Duration) -> Duration {
    quickest + quickest / 4 + SLACK
}

/// The noise of a quiet link.
const SLACK: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u8) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, number], 7443))
    }

    fn chosen(answered: &[(u8, u64)], users: &[(u8, usize)]) -> Option<SocketAddr> {
        let answered = answered
            .iter()
            .map(|(number, took)| (address(*number), Duration::from_millis(*took)));
        let answered: Vec<_> = answered.collect();
        choose(&answered, |remote| {
            let used = users.iter().find(|(number, _)| address(*number) == remote);
            used.map_or(0, |(_, count)| *count)
        })
    }

    #[test]
    fn the_quickest_address_is_taken_however_many_use_it() {
        assert_eq!(chosen(&[(1, 90), (2, 20)], &[(2, 7)]), Some(address(2)));
        assert_eq!(chosen(&[], &[]), None);
    }

    #[test]
    fn of_addresses_that_are_alike_the_one_with_the_fewest_links_is_taken() {
        assert_eq!(chosen(&[(1, 20), (2, 21)], &[]), Some(address(1)));
        assert_eq!(chosen(&[(1, 20), (2, 29)], &[(1, 1)]), Some(address(2)));
        assert_eq!(
            chosen(&[(1, 29), (2, 20)], &[(1, 1), (2, 1)]),
            Some(address(1))
        );
        assert_eq!(chosen(&[(1, 31), (2, 20)], &[(2, 1)]), Some(address(2)));
    }
}
