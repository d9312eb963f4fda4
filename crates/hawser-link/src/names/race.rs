//! Sends one question over all links at once.

use std::net::IpAddr;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use hawser_types::HostName;
use hawser_wire::dns::{AddressRecord, AnswerCode, DnsQuestion};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::exchange::{Reply, exchange};
use super::lookup_error::LookupError;
use super::servers::LinkServers;
use crate::links::Link;

/// Addresses of a name, at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) addresses: Vec<IpAddr>,
    pub(super) time_to_live: Duration,
}

/// Looks up `host` for all address families that a link has: the first good answer for each.
pub(super) async fn addresses(
    targets: &[LinkServers],
    host: &HostName,
) -> Result<Found, LookupError> {
    let has = |is_wanted: fn(&IpAddr) -> bool| {
        let mut links = targets.iter().map(|target| &target.link);
        links.any(|link| link.addresses.iter().any(is_wanted))
    };
    match (has(IpAddr::is_ipv4), has(IpAddr::is_ipv6)) {
        (true, true) => both(targets, host).await,
        (_, false) => of_family(targets, host, AddressRecord::A).await,
        (false, true) => of_family(targets, host, AddressRecord::Aaaa).await,
    }
}

/// Looks up both families; the slower one gets a moment more than the faster.
async fn both(targets: &[LinkServers], host: &HostName) -> Result<Found, LookupError> {
    let mut v4 = Box::pin(of_family(targets, host, AddressRecord::A));
    let mut v6 = Box::pin(of_family(targets, host, AddressRecord::Aaaa));
    let (first, mut second) = tokio::select! {
        found = &mut v4 => (found, v6),
        found = &mut v6 => (found, v4),
    };
    let (first, second) = match first {
        Ok(found) => (found, timeout(OTHER_FAMILY, &mut second).await.ok()),
        Err(error) => {
            // "No such name" tells more than the other errors.
            return second.await.map_err(|other| match other {
                LookupError::NotFound => other,
                _ => error,
            });
        }
    };
    let Some(Ok(second)) = second else {
        return Ok(first);
    };
    let time_to_live = first.time_to_live.min(second.time_to_live);
    let mut addresses = [first.addresses, second.addresses].concat();
    // Sorted in the order that systems prefer where both families have a default route.
    let prefers_v6 = targets
        .iter()
        .any(|target| target.link.has_default_route_v6);
    addresses.sort_by_key(|address| address.is_ipv6() != prefers_v6);
    Ok(Found {
        addresses,
        time_to_live,
    })
}

async fn of_family(
    targets: &[LinkServers],
    host: &HostName,
    record: AddressRecord,
) -> Result<Found, LookupError> {
    let query = DnsQuestion::encode(0, host, record);
    let question = DnsQuestion::decode(&query).map_err(LookupError::Malformed)?;
    let answer = ask(targets, &query, &question).await?.answer;
    match (answer.code, answer.addresses.is_empty()) {
        (AnswerCode::Found, false) => Ok(Found {
            addresses: answer.addresses,
            time_to_live: Duration::from_secs(answer.seconds_to_live.unwrap_or(0).into()),
        }),
        (AnswerCode::Failed(_), _) => Err(LookupError::Failed),
        _ => Err(LookupError::NotFound),
    }
}

/// Returns the first answer with records from any server over any link. Without one, returns an
/// answer that there are no records, after a moment without other answers: the name may exist in
/// another link's network only.
pub(super) async fn ask(
    targets: &[LinkServers],
    query: &[u8],
    question: &DnsQuestion,
) -> Result<Reply, LookupError> {
    if targets.iter().all(|target| target.servers.is_empty()) {
        return Err(LookupError::NoServer);
    }
    let over = |target| over_link(target, query, question);
    let mut links: FuturesUnordered<_> = targets.iter().map(over).collect();
    let mut best: Option<Reply> = None;
    let mut end: Option<Instant> = None;
    loop {
        let until = end.unwrap_or_else(Instant::now);
        let reply = tokio::select! {
            () = sleep_until(until), if end.is_some() => break,
            reply = links.next() => match reply {
                Some(reply) => reply,
                None => break,
            },
        };
        let Some(reply) = reply else {
            continue;
        };
        if rank(&reply) == Rank::Records {
            return Ok(reply);
        }
        if rank(&reply) == Rank::Nothing {
            let patience = match reply.answer.code {
                AnswerCode::NoSuchName => OTHER_LINKS,
                _ => OTHER_RECORDS,
            };
            let until = Instant::now() + patience;
            end = Some(end.map_or(until, |end| until.min(end)));
        }
        if best.as_ref().is_none_or(|best| rank(best) < rank(&reply)) {
            best = Some(reply);
        }
    }
    best.ok_or(LookupError::Silent)
}

/// Asks the servers of a link in turn: the next one when the previous one has failed or is slow.
async fn over_link(target: &LinkServers, query: &[u8], question: &DnsQuestion) -> Option<Reply> {
    let link: &Link = &target.link;
    let mut waiting = target.servers.iter();
    let mut asked = FuturesUnordered::new();
    let mut failed = None;
    loop {
        let begun = waiting
            .next()
            .map(|server| asked.push(exchange(Some(link), *server, query, question)));
        let next = sleep(NEXT_SERVER);
        tokio::pin!(next);
        loop {
            tokio::select! {
                () = &mut next, if begun.is_some() => break,
                reply = asked.next() => match reply {
                    Some(Some(reply)) if rank(&reply) > Rank::Failed => return Some(reply),
                    Some(reply) => {
                        failed = failed.or(reply);
                        if begun.is_some() {
                            break;
                        }
                    }
                    None => return failed,
                },
            }
        }
    }
}

/// How informative an answer is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    Failed,
    /// The name does not exist, or has no such records.
    Nothing,
    Records,
}

pub(super) fn rank(reply: &Reply) -> Rank {
    match (reply.answer.code, reply.answer.has_records) {
        (AnswerCode::Failed(_), _) => Rank::Failed,
        (AnswerCode::Found, true) => Rank::Records,
        _ => Rank::Nothing,
    }
}

/// Time that a server has to answer before the link's next one is asked as well.
const NEXT_SERVER: Duration = Duration::from_millis(250);
/// Time for other links to find a name that one link does not know.
const OTHER_LINKS: Duration = Duration::from_millis(300);
/// As [`OTHER_LINKS`], if the name exists but has no such records. Most names have no IPv6
/// addresses, and programs wait for that answer as well.
const OTHER_RECORDS: Duration = Duration::from_millis(50);
/// Time for the addresses of the other family. Source: RFC 8305 section 3.
const OTHER_FAMILY: Duration = Duration::from_millis(50);
