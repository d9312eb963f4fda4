//! Names that belong to hosts in the book of known hosts, wherever applications use the names.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::BoxFuture;
use hawser_keys::store::NameStore;
use hawser_types::{Host, HostName};
use tokio::io::ReadBuf;
use tokio::time::Instant;

use super::named::DialByName;
use crate::connection::Origin;
use crate::datagram::{DatagramPort, DatagramPorts};
use crate::destination::Destination;
use crate::told_names::ToldNames;
use crate::transport::DialError;

/// The names of hosts in the book of known hosts. A connection to such a name goes over a session
/// with that host, or fails.
///
/// The daemon sends no query for these names to a name server, neither here nor at the gateway, and
/// forwards no such query of captured applications. Otherwise others would learn which hosts this
/// host knows, and a name server's answer could impersonate a known host.
#[derive(Clone, Debug)]
pub struct ReservedNames(Arc<NameStore>);

impl ReservedNames {
    /// Creates the reserved names of this book.
    pub fn new(store: Arc<NameStore>) -> Self {
        Self(store)
    }

    /// Returns whether a host of this name is in the book now.
    pub fn has(&self, host: &HostName) -> bool {
        self.0.refresh();
        self.0.by_host(host).is_some()
    }

    /// Returns whether `name` contains the name of a host in the book, label by label: as the name
    /// of a service of that host, or with a search domain appended.
    pub(crate) fn is_within(&self, name: &str) -> bool {
        self.0.refresh();
        let labels: Vec<&str> = name.split('.').collect();
        self.0.peers().iter().any(|peer| {
            peer.name.host_name().is_some_and(|host| {
                let own: Vec<&str> = host.as_str().split('.').collect();
                let mut runs = labels.windows(own.len());
                runs.any(|run| run.iter().zip(&own).all(|(a, b)| a.eq_ignore_ascii_case(b)))
            })
        })
    }

    /// Wraps `ports` so that no datagram is sent to these names.
    pub fn guard_ports(&self, ports: Arc<dyn DatagramPorts>) -> Arc<dyn DatagramPorts> {
        Arc::new(GuardedPorts {
            names: self.clone(),
            ports,
        })
    }
}

/// Refuses connections to these names, in a process that begins no sessions with the hosts.
impl<S> DialByName<S> for ReservedNames {
    fn dial<'a>(
        &'a self,
        host: &Host,
        _: u16,
        _: &'a Origin,
    ) -> Option<BoxFuture<'a, Result<S, DialError>>> {
        let Host::Name(name) = host else {
            return None;
        };
        if !self.has(name) {
            return None;
        }
        tracing::warn!(host = %name,
            "refusing a connection to a known host by its name: only `hawser up --name` opens it");
        Some(Box::pin(async { Err(DialError::HostUnreachable) }))
    }
}

struct GuardedPorts {
    names: ReservedNames,
    ports: Arc<dyn DatagramPorts>,
}

impl DatagramPorts for GuardedPorts {
    fn open(&self, asker: Origin) -> Result<Box<dyn DatagramPort>, DialError> {
        Ok(Box::new(GuardedPort {
            names: self.names.clone(),
            port: self.ports.open(asker)?,
            verdicts: BTreeMap::new(),
            hold_until: Instant::now(),
            told: ToldNames::default(),
        }))
    }
}

struct GuardedPort {
    names: ReservedNames,
    port: Box<dyn DatagramPort>,
    /// Whether names are reserved, cached briefly: each name is asked for many times.
    verdicts: BTreeMap<HostName, bool>,
    hold_until: Instant,
    told: ToldNames,
}

impl GuardedPort {
    fn is_reserved(&mut self, name: &HostName) -> bool {
        let now = Instant::now();
        if self.hold_until <= now || self.verdicts.len() >= MAX_NAMES {
            self.verdicts.clear();
            self.hold_until = now + VERDICTS_HOLD;
        }
        if let Some(is_reserved) = self.verdicts.get(name) {
            return *is_reserved;
        }
        let is_reserved = self.names.has(name);
        if is_reserved && self.told.add(name.as_str()) {
            tracing::warn!(host = %name,
                "dropping datagrams to a known host by its name: it is reachable over TCP only");
        }
        self.verdicts.insert(name.clone(), is_reserved);
        is_reserved
    }
}

impl DatagramPort for GuardedPort {
    fn send(&mut self, destination: &Destination, payload: &[u8]) -> bool {
        match &destination.host {
            Host::Name(name) if self.is_reserved(name) => false,
            _ => self.port.send(destination, payload),
        }
    }

    fn set_call(&mut self, destination: &Destination, is_call: bool) {
        self.port.set_call(destination, is_call);
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<SocketAddr> {
        self.port.poll_receive(cx, buffer)
    }
}

/// Time for which a change of the book may go unnoticed.
const VERDICTS_HOLD: Duration = Duration::from_secs(1);

/// Names that one port remembers.
const MAX_NAMES: usize = 64;

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use hawser_keys::store::StateDir;

    use super::*;

    /// Counts what is sent.
    #[derive(Clone, Default)]
    struct Counting(Arc<AtomicUsize>);

    impl DatagramPorts for Counting {
        fn open(&self, _: Origin) -> Result<Box<dyn DatagramPort>, DialError> {
            Ok(Box::new(self.clone()))
        }
    }

    impl DatagramPort for Counting {
        fn send(&mut self, _: &Destination, _: &[u8]) -> bool {
            self.0.fetch_add(1, Ordering::Relaxed);
            true
        }

        fn poll_receive(&mut self, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<SocketAddr> {
            Poll::Pending
        }
    }

    fn book() -> (tempfile::TempDir, Arc<NameStore>) {
        let folder = tempfile::tempdir().unwrap();
        let dir = StateDir::resolve(Some(folder.path().to_path_buf())).unwrap();
        (folder, Arc::new(NameStore::open(&dir).unwrap()))
    }

    fn destination(host: &str) -> Destination {
        Destination::new(host.parse().unwrap(), 53)
    }

    #[tokio::test]
    async fn names_of_the_book_are_refused_and_all_others_are_not_its_matter() {
        let (_folder, store) = book();
        let names = ReservedNames::new(Arc::clone(&store));
        let origin = Origin::default();
        let dial = |host: &str| -> Option<BoxFuture<'_, Result<(), DialError>>> {
            names.dial(&host.parse().unwrap(), 22, &origin)
        };
        assert!(dial("bob.example.org").is_none());
        // A name that is added later is reserved, too.
        store
            .add(&"bob@example.org".parse().unwrap(), None)
            .unwrap();
        let refused = dial("Bob.example.org.").expect("the name is known").await;
        assert_eq!(refused, Err(DialError::HostUnreachable));
        for other in ["example.org", "carol.example.org", "192.0.2.1"] {
            assert!(dial(other).is_none(), "{other}");
        }
    }

    #[test]
    fn services_of_a_host_and_its_name_in_other_domains_are_reserved_with_it() {
        let (_folder, store) = book();
        store
            .add(&"bob@example.org".parse().unwrap(), None)
            .unwrap();
        let names = ReservedNames::new(store);
        for (name, expected) in [
            ("bob.example.org", true),
            ("BOB.Example.org.evil.example", true),
            ("_ssh._tcp.bob.example.org", true),
            ("www.bob.example.org.a.b", true),
            ("example.org", false),
            ("notbob.example.org", false),
            ("bob.example", false),
            ("bob.www.example.org", false),
            ("", false),
        ] {
            assert_eq!(names.is_within(name), expected, "{name}");
        }
    }

    #[test]
    fn no_datagram_goes_to_a_name_of_the_book() {
        let (_folder, store) = book();
        store
            .add(&"bob@example.org".parse().unwrap(), None)
            .unwrap();
        let sent = Counting::default();
        let ports = ReservedNames::new(store).guard_ports(Arc::new(sent.clone()));
        let mut port = ports.open(Origin::default()).unwrap();
        for (host, expected) in [
            ("bob.example.org", false),
            ("bob.example.org", false),
            ("www.example.org", true),
            ("bob.example.org.", false),
            ("192.0.2.1", true),
        ] {
            assert_eq!(port.send(&destination(host), b"x"), expected, "{host}");
        }
        assert_eq!(sent.0.load(Ordering::Relaxed), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn no_datagram_goes_to_a_name_that_has_become_known() {
        let (_folder, store) = book();
        let ports =
            ReservedNames::new(Arc::clone(&store)).guard_ports(Arc::new(Counting::default()));
        let mut port = ports.open(Origin::default()).unwrap();
        let bob = destination("bob.example.org");
        assert!(port.send(&bob, b"x"));
        let name = "bob@example.org".parse().unwrap();
        store.add(&name, None).unwrap();
        tokio::time::advance(VERDICTS_HOLD).await;
        assert!(!port.send(&bob, b"x"));
        store.remove(&name).unwrap();
        tokio::time::advance(VERDICTS_HOLD).await;
        assert!(port.send(&bob, b"x"));
    }
}
