//! A port that is listened on by each link by itself, so that answers leave by the link that was
//! asked.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use hawser_types::LinkIndex;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use crate::bind;
use crate::links::Link;

/// Keeps a socket on each of the links that are `wanted`, for each of `addresses`, and has what
/// comes to it served, for as long as it is not dropped. A socket ends when its link is gone.
pub(crate) async fn follow<S>(
    addresses: Vec<SocketAddr>,
    mut links: watch::Receiver<Arc<Vec<Link>>>,
    wanted: impl Fn(&[Link]) -> Vec<Link>,
    serve: impl Fn(TcpListener) -> S,
) where
    S: Future<Output = ()> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    let mut open: BTreeMap<LinkIndex, Vec<AbortHandle>> = BTreeMap::new();
    loop {
        let now = Arc::clone(&links.borrow_and_update());
        open.retain(|index, listening| {
            // A link that is down for a while keeps its connections, and what they came by.
            let is_there = now.iter().any(|link| link.index == *index);
            if !is_there {
                listening.iter().for_each(AbortHandle::abort);
            }
            is_there
        });
        for link in wanted(&now) {
            open.entry(link.index).or_insert_with(|| {
                let listeners = addresses.iter().filter_map(|at| listen(*at, &link));
                listeners
                    .map(|listener| tasks.spawn(serve(listener)))
                    .collect()
            });
        }
        while tasks.try_join_next().is_some() {}
        if links.changed().await.is_err() {
            // The links are not followed any more: what is there stays.
            return std::future::pending().await;
        }
    }
}

fn listen(address: SocketAddr, link: &Link) -> Option<TcpListener> {
    match bind::listen_on_link(address, link.index) {
        Ok(listener) => Some(listener),
        Err(error) => {
            tracing::debug!(link = %link.name, %address, %error, "no socket on this link alone");
            None
        }
    }
}
