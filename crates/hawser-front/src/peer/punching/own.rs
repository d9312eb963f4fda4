//! Outer addresses of this host's sockets.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hawser_link::links::Link;
use hawser_net::association::Token;
use hawser_net::client::Client;
use ring::rand::{SecureRandom as _, SystemRandom};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::super::meeting::why;
use super::sockets::{Sockets, pause_after};
use crate::bonded::{Purpose, open};
use crate::connection::Origin;
use crate::udp_addresses::{self, MAX_ADDRESSES};

/// Asks the gateway for outer addresses.
pub(super) struct Observer {
    pub(super) gateway: Arc<Client>,
    /// The machine's links, as they change.
    pub(super) links: watch::Receiver<Arc<Vec<Link>>>,
}

/// Outer addresses of this host's sockets, with the times at which each was seen last.
#[derive(Debug, Default)]
struct OuterAddresses {
    known: Vec<(SocketAddr, Instant)>,
}

impl Observer {
    /// Observes the outer addresses of these sockets, and keeps `seen` current, for as long as the
    /// future is polled.
    pub(super) async fn observe(
        &self,
        sockets: &dyn Sockets,
        seen: &watch::Sender<Vec<SocketAddr>>,
    ) {
        loop {
            if let Err(error) = self.observe_once(sockets, seen).await {
                tracing::debug!(%error,
                    "can't learn this host's outer UDP addresses from the gateway");
                sleep(PAUSE).await;
            }
        }
    }

    /// Observes until the links change: addresses that were seen before are of no use then.
    async fn observe_once(
        &self,
        sockets: &dyn Sockets,
        seen: &watch::Sender<Vec<SocketAddr>>,
    ) -> io::Result<()> {
        let mut links = self.links.clone();
        links.mark_unchanged();
        let mut token = Token::default();
        let filled = SystemRandom::new().fill(&mut token);
        filled.map_err(|_| io::Error::other("the system gives no random numbers"))?;
        let opening = Purpose::Observe(token).opening();
        let stream = open(&self.gateway, opening, &Origin::default()).await;
        let mut stream = stream.map_err(|error| io::Error::other(why(error)))?;
        let session = stream.session();
        let hearing = async {
            let mut outer = OuterAddresses::default();
            loop {
                let address = udp_addresses::take(&mut stream).await?;
                let list = outer.note(Instant::now(), address);
                seen.send_if_modified(|before| {
                    let is_news = *before != list;
                    if is_news {
                        tracing::debug!(?list, "learned this host's outer UDP addresses");
                        *before = list;
                    }
                    is_news
                });
            }
        };
        let sending = async {
            for turn in 0_u32.. {
                for to in self.gateway.datagram_addresses() {
                    sockets.send(to, &token);
                }
                sleep(pause_after(turn)).await;
            }
        };
        tokio::select! {
            ended = hearing => ended,
            () = sending => Ok(()),
            // The next stream goes to the session that replaces this session.
            () = session.superseded() => Ok(()),
            Ok(()) = links.changed() => Ok(()),
        }
    }
}

impl OuterAddresses {
    /// Records an address that was seen. Returns all current addresses, in order.
    fn note(&mut self, now: Instant, address: SocketAddr) -> Vec<SocketAddr> {
        let lasts = |at: Instant| now.duration_since(at) < FORGET_AFTER;
        self.known
            .retain(|(known, at)| *known != address && lasts(*at));
        if self.known.len() == MAX_ADDRESSES {
            // Evict the address that was not seen for the longest time.
            self.known.remove(0);
        }
        self.known.push((address, now));
        let mut list: Vec<SocketAddr> = self.known.iter().map(|(address, _)| *address).collect();
        list.sort_unstable();
        list
    }
}

/// Pause before a gateway that has not answered is asked again.
const PAUSE: Duration = Duration::from_secs(15);
/// Lifetime of an address that is not seen again: a few datagrams may be lost.
const FORGET_AFTER: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(port: u16) -> SocketAddr {
        SocketAddr::from(([8, 8, 8, 8], port))
    }

    #[test]
    fn an_address_counts_while_it_is_seen_again() {
        let (mut outer, begin) = (OuterAddresses::default(), Instant::now());
        assert_eq!(outer.note(begin, at(2)), [at(2)]);
        assert_eq!(outer.note(begin, at(1)), [at(1), at(2)]);
        let later = begin + FORGET_AFTER / 2;
        assert_eq!(outer.note(later, at(2)), [at(1), at(2)]);
        // The NAT now maps the first socket to another port.
        assert_eq!(outer.note(begin + FORGET_AFTER, at(3)), [at(2), at(3)]);
    }

    #[test]
    fn the_latest_ones_count_where_there_are_too_many() {
        let (mut outer, now) = (OuterAddresses::default(), Instant::now());
        let most = MAX_ADDRESSES as u16;
        let lists = (1..=most + 1).map(|port| outer.note(now, at(port)));
        let last: Vec<SocketAddr> = lists.last().unwrap();
        assert_eq!(last, (2..=most + 1).map(at).collect::<Vec<_>>());
    }
}
