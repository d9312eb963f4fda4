//! A port at which each link has a socket of its own, so that answers leave by the link of the
//! request.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher as _, RandomState};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hawser_channels::BackOff;
use hawser_types::LinkIndex;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use hawser_link::bind;
use hawser_link::links::Link;

/// Keeps a socket on each of the links that are `wanted`, for each of `addresses`, and serves it,
/// until this is dropped. A socket ends when its link is gone. A socket that can't be opened is
/// tried again: when the links change, and else after ever longer pauses.
pub(crate) async fn follow<S>(
    addresses: Vec<SocketAddr>,
    mut links: watch::Receiver<Arc<Vec<Link>>>,
    wanted: impl Fn(&[Link]) -> Vec<Link>,
    serve: impl Fn(TcpListener) -> S,
) where
    S: Future<Output = ()> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    let mut sockets = Sockets::default();
    let mut pauses = BackOff::new(FIRST_PAUSE, LONGEST_PAUSE, RandomState::new().hash_one(0));
    loop {
        let now = Arc::clone(&links.borrow_and_update());
        sockets.close_on_lost_links(&now);
        let mut lacks_any = false;
        for link in wanted(&now) {
            for address in &addresses {
                let opened = sockets.open(&link, *address, |listener| tasks.spawn(serve(listener)));
                lacks_any |= !opened;
            }
        }
        while tasks.try_join_next().is_some() {}
        let pause = tokio::time::sleep(pauses.next_pause());
        tokio::select! {
            changed = links.changed() => {
                if changed.is_err() {
                    // The links are not followed any more: the sockets stay.
                    return std::future::pending().await;
                }
                pauses.reset();
            }
            () = pause, if lacks_any => {}
        }
    }
}

/// The sockets of a port, by links and addresses.
#[derive(Default)]
struct Sockets {
    open: BTreeMap<PortPlace, AbortHandle>,
    /// Places whose wanted socket could not be opened, which was logged.
    lacking: BTreeSet<PortPlace>,
}

/// A link and an address to listen at.
type PortPlace = (LinkIndex, SocketAddr);

impl Sockets {
    /// Ends sockets whose link is gone. A link that is down for a while keeps its connections and
    /// its sockets.
    fn close_on_lost_links(&mut self, now: &[Link]) {
        let is_there = |place: &PortPlace| now.iter().any(|link| link.index == place.0);
        self.open.retain(|place, listening| {
            let stays = is_there(place);
            if !stays {
                listening.abort();
            }
            stays
        });
        self.lacking.retain(is_there);
    }

    /// Listens at an address on a link, unless a socket does already. Returns whether a socket
    /// listens there now.
    fn open(
        &mut self,
        link: &Link,
        address: SocketAddr,
        serve: impl FnOnce(TcpListener) -> AbortHandle,
    ) -> bool {
        let place = (link.index, address);
        if self.open.contains_key(&place) {
            return true;
        }
        let link = &link.name;
        match bind::listen_on_link(address, place.0) {
            Ok(listener) => {
                if self.lacking.remove(&place) {
                    tracing::info!(link, %address, "listening on the link's own socket now");
                }
                self.open.insert(place, serve(listener));
                true
            }
            Err(error) => {
                if self.lacking.insert(place) {
                    tracing::warn!(
                        link, %address, %error,
                        "cannot open the link's own socket, trying again"
                    );
                }
                false
            }
        }
    }
}

/// Pauses before a socket that failed is tried again.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
