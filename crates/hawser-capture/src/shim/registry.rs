//! Registry of announced connections and their destinations.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::cookie::cookie_of;
use crate::process::Process;

/// Connections announced by shims and not yet accepted, and open ones. Clones share the registry.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    inner: Arc<Mutex<Inner>>,
}

/// An announced connection that has arrived.
#[derive(Debug)]
pub struct Arrival {
    /// Original destination.
    pub destination: SocketAddr,
    /// The process.
    pub process: Process,
    /// Guard to be kept while the connection is open.
    pub open: Open,
}

/// Guard that keeps the destination of an open connection known.
#[derive(Debug)]
pub struct Open {
    registry: Registry,
    cookie: u64,
}

#[derive(Debug, Default)]
struct Inner {
    announced: HashMap<u64, Announced>,
    open: HashMap<u64, Connected>,
}

#[derive(Debug)]
struct Announced {
    destination: SocketAddr,
    process: Process,
    expires: Instant,
}

#[derive(Debug)]
struct Connected {
    destination: SocketAddr,
    process: Option<u32>,
}

impl Registry {
    /// Returns the number of open connections whose processes still run.
    pub fn living(&self) -> usize {
        let inner = self.inner.lock();
        let lives = |id: u32| Path::new(&format!("/proc/{id}")).exists();
        let open = inner.open.values();
        open.filter(|open| open.process.is_some_and(lives)).count()
    }

    /// Registers the socket with this cookie; `false` if there are too many.
    pub(super) fn announce(
        &self,
        cookie: u64,
        destination: SocketAddr,
        process: Process,
        now: Instant,
    ) -> bool {
        let mut inner = self.inner.lock();
        if inner.announced.len() >= MAX_ANNOUNCED {
            inner.announced.retain(|_, other| other.expires > now);
        }
        if inner.announced.len() >= MAX_ANNOUNCED {
            return false;
        }
        let announced = Announced {
            destination,
            process,
            expires: now + LIFETIME,
        };
        inner.announced.insert(cookie, announced);
        true
    }

    /// Returns the connection accepted from `peer` at `local`; `None` unless it was announced
    /// recently and not taken before.
    pub fn take(&self, peer: SocketAddr, local: SocketAddr) -> Option<Arrival> {
        match cookie_of(peer, local) {
            Ok(cookie) => self.take_cookie(cookie?, Instant::now()),
            Err(error) => {
                tracing::debug!(%peer, %error, "can't find the cookie of a connection");
                None
            }
        }
    }

    /// Returns the destination of the open connection with this cookie.
    pub(super) fn peer(&self, cookie: u64) -> Option<SocketAddr> {
        let inner = self.inner.lock();
        let announced = || inner.announced.get(&cookie).map(|known| known.destination);
        let open = inner.open.get(&cookie).map(|known| known.destination);
        open.or_else(announced)
    }

    fn take_cookie(&self, cookie: u64, now: Instant) -> Option<Arrival> {
        let mut inner = self.inner.lock();
        let known = inner.announced.remove(&cookie)?;
        if known.expires <= now {
            return None;
        }
        let connected = Connected {
            destination: known.destination,
            process: known.process.id,
        };
        inner.open.insert(cookie, connected);
        drop(inner);
        Some(Arrival {
            destination: known.destination,
            process: known.process,
            open: Open {
                registry: self.clone(),
                cookie,
            },
        })
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.registry.inner.lock().open.remove(&self.cookie);
    }
}

/// Maximum number of announced connections that are not accepted yet.
const MAX_ANNOUNCED: usize = 16_384;
/// Lifetime of an announcement. A loopback connection is immediate, but with `TCP_FASTOPEN_CONNECT`
/// the program's first byte opens it, perhaps much later.
const LIFETIME: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    fn destination() -> SocketAddr {
        "192.0.2.1:80".parse().unwrap()
    }

    fn announce(registry: &Registry, cookie: u64, now: Instant) -> bool {
        registry.announce(cookie, destination(), Process::default(), now)
    }

    #[test]
    fn an_announcement_is_used_once_and_known_while_it_is_open() {
        let (registry, now) = (Registry::default(), Instant::now());
        assert!(announce(&registry, 7, now));
        assert_eq!(registry.peer(7), Some(destination()));
        let arrival = registry.take_cookie(7, now).unwrap();
        assert_eq!(arrival.destination, destination());
        assert!(registry.take_cookie(7, now).is_none());
        assert_eq!(registry.peer(7), Some(destination()));
        drop(arrival);
        assert_eq!(registry.peer(7), None);
    }

    #[test]
    fn what_was_not_announced_or_long_ago_is_not_served() {
        let (registry, now) = (Registry::default(), Instant::now());
        assert!(registry.take_cookie(7, now).is_none());
        announce(&registry, 7, now);
        assert!(registry.take_cookie(7, now + LIFETIME).is_none());
    }

    #[test]
    fn announcements_are_bounded_and_old_ones_make_room() {
        let (registry, now) = (Registry::default(), Instant::now());
        for cookie in 0..MAX_ANNOUNCED as u64 {
            assert!(announce(&registry, cookie, now));
        }
        assert!(!announce(&registry, u64::MAX, now));
        assert!(announce(&registry, u64::MAX, now + LIFETIME));
        assert_eq!(registry.inner.lock().announced.len(), 1);
    }
}
