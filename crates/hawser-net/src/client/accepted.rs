//! Channels that the gateway has begun.
//!
//! The gateway decides when such a channel is missing, and replaces lost ones. So the keepers of
//! links do not plan for these channels.

use std::fmt::Display;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use hawser_session::Side;
use hawser_types::ChannelId;
use hawser_wire::ChannelRole;
use tracing::Instrument as _;

use super::join::join_as;
use super::join_error::JoinError;
use super::shared::{ClientState, keeps_connections};
use crate::driver::Driver;
use crate::spans;
use hawser_link::links::Link;

/// Joins with connections that the gateway offers, until the session ends; returns at once if no
/// join port is configured.
pub(super) async fn keep(shared: Arc<ClientState>, driver: Driver) {
    let Some(port) = &shared.config.join_port else {
        return;
    };
    let mut offers = port.take_for(&driver);
    driver.with(|session, now| session.accept_joins(now, port.port()));
    let mut links = shared.links.clone();
    let mut rules = shared.rules.subscribe();
    let mut changes = driver.changes();
    let mut held: Vec<(ChannelId, Link)> = Vec::new();
    let mut joining = FuturesUnordered::new();
    let mut missed = 0_u64;
    while driver.closed().is_none() {
        links.mark_unchanged();
        rules.mark_unchanged();
        changes.mark_unchanged();
        let usable = shared.usable_links();
        close_on_lost_links(&driver, &mut held, &usable);
        tokio::select! {
            Some(offered) = offers.next() => {
                let has_room = held.len() + joining.len() < MAX_CHANNELS;
                let mut links = usable.into_iter();
                let link = links.find(|link| link.addresses.contains(&offered.local));
                match link {
                    Some(link) if has_room => {
                        let span = spans::link(&link.name);
                        let join = join(&shared, &driver, link, offered.stream);
                        joining.push(join.instrument(span));
                    }
                    Some(link) => tell(&mut missed, &link.name, &"too many channels of this kind"),
                    None => tell(&mut missed, "?", &"the connection's link may not be used"),
                }
            }
            Some((link, joined)) = joining.next(), if !joining.is_empty() => match joined {
                Ok(channel) => held.push((channel, link)),
                Err(error) => tell(&mut missed, &link.name, &error),
            },
            Ok(()) = links.changed() => {}
            Ok(()) = rules.changed() => {}
            changed = changes.changed() => if changed.is_err() {
                return;
            },
        }
    }
}

/// Forgets lost channels, and closes those whose link is gone, has changed or is forbidden.
fn close_on_lost_links(driver: &Driver, held: &mut Vec<(ChannelId, Link)>, usable: &[Link]) {
    let live = driver.channels();
    held.retain(|(channel, link)| {
        let mut now = usable.iter().filter(|now| now.index == link.index);
        let stays = now.any(|now| keeps_connections(now, link));
        if !stays {
            driver.drop_channel(*channel);
        }
        stays && live.contains(channel)
    });
}

async fn join(
    shared: &ClientState,
    driver: &Driver,
    link: Link,
    stream: tokio::net::TcpStream,
) -> (Link, Result<ChannelId, JoinError>) {
    if let Err(error) = shared.socket_options().apply(&stream) {
        tracing::debug!(%error, "cannot set an option of the gateway's connection");
    }
    let remote = stream.peer_addr().ok();
    let path = (&link, Side::Gateway);
    let joined = join_as(shared, driver, path, ChannelRole::Bulk, stream).await;
    if let Ok(channel) = joined {
        tracing::info!(link = %link.name, ?remote, %channel, "joined the gateway's connection");
    }
    (link, joined)
}

/// Counts a connection of the gateway that became no channel. Logs the first, the second, the
/// fourth, the eighth and so on.
fn tell(missed: &mut u64, link: &str, problem: &dyn Display) {
    *missed += 1;
    if missed.is_power_of_two() {
        tracing::warn!(link, %problem, count = *missed, "cannot join the gateway's connection");
    }
}

/// Most channels: enough for every pair of a link here and a further link of the gateway, with a
/// few links at each end.
const MAX_CHANNELS: usize = 16;
