//! Begins connections to clients that take them, from links that none of theirs came to.

use std::net::SocketAddr;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use hawser_channels::further::{FurtherAction, FurtherChannels, Pair};
use hawser_channels::keeper::{CONNECT_TIMEOUT, JOIN_TIMEOUT};
use hawser_session::seal::OfferEnds;
use hawser_types::ChannelId;
use tokio::io::AsyncWriteExt as _;
use tokio::time::timeout;

use super::joining::join_offered;
use super::shared::Shared;
use crate::bind::{self, SocketOptions};
use crate::clock;
use crate::driver::Driver;
use crate::links::Link;

/// Does so for one session, for as long as it lives, if the gateway is to do it and the client has
/// said a port.
pub(super) async fn serve(shared: &Shared, driver: &Driver) {
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
        plan.update(clock::now(), &usable, &driver.tcp_ends());
        while let Some(action) = plan.poll_action(clock::now()) {
            match action {
                FurtherAction::Attempt(pair) => {
                    let link = usable.iter().find(|link| link.index == pair.link).cloned();
                    let remote = SocketAddr::new(pair.remote, port);
                    let number = numbers.next().unwrap_or(u64::MAX);
                    attempts.push(async move {
                        let joined = attempt(shared, driver, (link, remote), number).await;
                        (pair, joined)
                    });
                }
                FurtherAction::Drop(channel) => driver.drop_channel(channel),
            }
        }
        let next = plan.poll_timeout();
        let wake = tokio::time::sleep_until(clock::to_tokio(next.unwrap_or_default()));
        tokio::select! {
            Some((pair, joined)) = attempts.next(), if !attempts.is_empty() => {
                note(&mut plan, driver, pair, joined);
            }
            () = wake, if next.is_some() => {}
            Ok(()) = links.changed() => {}
            changed = changes.changed() => if changed.is_err() {
                return;
            },
        }
    }
}

/// Waits until the client has said at which port it takes connections; `None` once the session is
/// over.
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

fn note(
    plan: &mut FurtherChannels,
    driver: &Driver,
    pair: Pair,
    joined: Result<ChannelId, String>,
) {
    let Pair { link, remote } = pair;
    match joined {
        Ok(channel) => {
            let session = driver.id();
            tracing::info!(%session, %link, %remote, %channel, "the client has joined");
            if !plan.handle_joined(clock::now(), pair, channel) {
                driver.drop_channel(channel);
            }
        }
        Err(problem) => {
            tracing::debug!(session = %driver.id(), %link, %remote, %problem, "no join");
            plan.handle_failed(pair);
        }
    }
}

/// Connects to a client, offers it to join the session, and adds the channel once it has.
async fn attempt(
    shared: &Shared,
    driver: &Driver,
    (link, remote): (Option<Link>, SocketAddr),
    number: u64,
) -> Result<ChannelId, String> {
    let link = link.ok_or("the link is gone")?;
    let options = SocketOptions {
        congestion: shared.congestion.initial().map(str::to_owned),
        connect_timeout: CONNECT_TIMEOUT,
        ..SocketOptions::default()
    };
    let stream = bind::connect_on_link(Some(&link), remote, &options).await;
    let mut stream = stream.map_err(|error| error.to_string())?;
    let gateway = stream.local_addr().map_err(|error| error.to_string())?;
    let ends = OfferEnds {
        gateway,
        client: remote,
    };
    let offer = driver.keys().join_offer(number, ends);
    let joining = async {
        let written = stream.write_all(&offer.encode()).await;
        written.map_err(|error| error.to_string())?;
        join_offered(shared, driver, stream).await
    };
    let joined = timeout(JOIN_TIMEOUT, joining).await;
    joined.unwrap_or_else(|_| Err("the client does not answer the offer".to_owned()))
}
