//! Begins connections to clients that accept them, from links that no channel of the client uses.

use std::fmt::Display;
use std::net::SocketAddr;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use hawser_channels::further::{FurtherAction, FurtherChannels, NoJoin, Pair, Surroundings};
use hawser_channels::keeper::{CONNECT_TIMEOUT, JOIN_TIMEOUT};
use hawser_session::seal::OfferEnds;
use hawser_types::ChannelId;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::further_links::Further;
use super::joining::join_offered;
use super::shared::GatewayState;
use crate::clock;
use crate::driver::Driver;
use hawser_link::bind::{self, ConnectError, SocketOptions};
use hawser_link::links::{self, Link};

/// Begins such connections for one session until it ends, if the gateway is configured to and the
/// client has announced a port.
pub(super) async fn serve(shared: &GatewayState, driver: &Driver) {
    let Some(further) = shared.further.get() else {
        return;
    };
    let Some(port) = told_port(driver).await else {
        return;
    };
    let mut links = further.follow();
    let mut changes = driver.changes();
    let mut plan = FurtherChannels::default();
    let mut attempts = FuturesUnordered::new();
    // Counts the session's offers.
    let mut numbers = 0..;
    while driver.closed().is_none() {
        changes.mark_unchanged();
        let usable = further.usable(&links.borrow_and_update());
        update(&mut plan, driver, further, &usable);
        while let Some(action) = plan.poll_action(clock::now()) {
            match action {
                FurtherAction::Attempt { pair, max_segment } => {
                    let link = usable.iter().find(|link| link.index == pair.link).cloned();
                    let way = FurtherPath {
                        link,
                        remote: SocketAddr::new(pair.remote, port),
                        max_segment,
                    };
                    let number = numbers.next().unwrap_or(u64::MAX);
                    attempts.push(async move {
                        let joined = attempt(shared, driver, &way, number).await;
                        (pair, way, joined)
                    });
                }
                FurtherAction::Drop(channel) => driver.drop_channel(channel),
            }
        }
        let next = plan.poll_timeout();
        let wake = tokio::time::sleep_until(clock::to_tokio(next.unwrap_or_default()));
        tokio::select! {
            Some((pair, way, joined)) = attempts.next(), if !attempts.is_empty() => {
                note(&mut plan, driver, (pair, &way), joined);
            }
            () = wake, if next.is_some() => {}
            Ok(()) = links.changed() => {}
            changed = changes.changed() => if changed.is_err() {
                return;
            },
        }
    }
}

/// Waits until the client has announced at which port it takes connections; `None` once the session
/// is over.
async fn told_port(driver: &Driver) -> Option<u16> {
    let mut changes = driver.changes();
    loop {
        if let Some(port) = driver.joins_port() {
            return Some(port);
        }
        if driver.closed().is_some() || changes.changed().await.is_err() {
            return None;
        }
    }
}

/// Updates the plan with the present links and channels.
fn update(plan: &mut FurtherChannels, driver: &Driver, further: &Further, links: &[Link]) {
    let now = clock::now();
    // Lists the channels first: one may end meanwhile, and its loss is still reported.
    let channels = driver.tcp_ends();
    for (channel, lost) in driver.take_lost_segments() {
        plan.handle_lost_segment(now, channel, lost);
    }
    let around = Surroundings {
        links,
        channels: &channels,
        associated: &driver.associated(),
    };
    plan.update(now, &around, |address| further.is_own(address));
}

/// The path of a connection.
struct FurtherPath {
    /// `None` if the link is gone.
    link: Option<Link>,
    remote: SocketAddr,
    max_segment: Option<u16>,
}

/// Why an attempt failed, and the text for users.
struct Failed {
    why: NoJoin,
    problem: String,
}

fn note(
    plan: &mut FurtherChannels,
    driver: &Driver,
    (pair, way): (Pair, &FurtherPath),
    joined: Result<ChannelId, Failed>,
) {
    let remote = way.remote;
    let link = way.link.as_ref().map_or("?", |link| link.name.as_str());
    let Failed { why, problem } = match joined {
        Ok(channel) => {
            tracing::info!(link, %remote, %channel, "client joined the gateway's connection");
            if !plan.handle_joined(clock::now(), pair, channel) {
                driver.drop_channel(channel);
            }
            return;
        }
        Err(failed) => failed,
    };
    let failures = plan.handle_failed(clock::now(), pair, why);
    if failures.is_given_up {
        tracing::warn!(
            session = %driver.id(), link, %remote, problem,
            "client was never reached by this link, giving up"
        );
    } else if failures.count.is_power_of_two() {
        let count = failures.count;
        tracing::info!(
            link, %remote, problem, count,
            "client did not join the gateway's connection"
        );
    }
}

/// Connects to a client, offers it to join, and adds the channel once the client has joined.
async fn attempt(
    shared: &GatewayState,
    driver: &Driver,
    way: &FurtherPath,
    number: u64,
) -> Result<ChannelId, Failed> {
    let link = way.link.as_ref();
    let link = link.ok_or_else(|| Failed::unsent("the link is gone"))?;
    let mut stream = connect(shared, link, way).await?;
    let gateway = stream.local_addr().map_err(Failed::unanswered)?;
    let ends = OfferEnds {
        gateway,
        client: way.remote,
    };
    let offer = driver.keys().join_offer(number, ends);
    let joining = async {
        let written = stream.write_all(&offer.encode()).await;
        written.map_err(|error| error.to_string())?;
        join_offered(shared, driver, stream).await
    };
    let joined = timeout(JOIN_TIMEOUT, joining).await;
    let joined = joined.unwrap_or_else(|_| Err("the client does not answer the offer".to_owned()));
    joined.map_err(Failed::unanswered)
}

async fn connect(
    shared: &GatewayState,
    link: &Link,
    way: &FurtherPath,
) -> Result<TcpStream, Failed> {
    let options = SocketOptions {
        congestion: shared.congestion.initial().map(str::to_owned),
        connect_timeout: CONNECT_TIMEOUT,
        max_segment: way.max_segment,
        ..SocketOptions::default()
    };
    let stream = bind::connect_on_link(Some(link), way.remote, &options).await;
    match stream {
        Ok(stream) => Ok(stream),
        Err(error) if is_unsent(&error, link, way.remote).await => Err(Failed::unsent(error)),
        Err(error) => Err(Failed::unanswered(error)),
    }
}

/// True if this machine has sent nothing that could have reached the far end.
async fn is_unsent(error: &ConnectError, link: &Link, remote: SocketAddr) -> bool {
    match error {
        // Routers on the path report this error, too.
        ConnectError::NoRoute { .. } => match link.source_address(remote.ip()) {
            Some(source) => !links::has_route(link.index, source, remote.ip()).await,
            None => true,
        },
        error => error.is_local(),
    }
}

impl Failed {
    fn unsent(problem: impl Display) -> Self {
        Self {
            why: NoJoin::NotSent,
            problem: problem.to_string(),
        }
    }

    fn unanswered(problem: impl Display) -> Self {
        Self {
            why: NoJoin::NoAnswer,
            problem: problem.to_string(),
        }
    }
}
