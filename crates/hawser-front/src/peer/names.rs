use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, timeout};

use crate::destination::HostName;
use crate::resolve::Resolve;

/// Addresses to which names have led, for as long as the names still lead there.
#[derive(Debug)]
pub(super) struct Names<R> {
    known: Arc<Mutex<BTreeMap<HostName, Led>>>,
    resolver: R,
}

#[derive(Debug)]
struct Led {
    address: IpAddr,
    /// When the address was last confirmed.
    seen: Instant,
    /// Whether a lookup is in progress.
    asking: bool,
}

impl<R: Resolve + Clone> Names<R> {
    pub(super) fn new(resolver: R) -> Self {
        Self {
            known: Arc::default(),
            resolver,
        }
    }

    /// Records that a connection to `name` has ended up at `address`.
    pub(super) fn note(&self, name: &HostName, address: IpAddr) {
        let mut known = self.known.lock();
        if known.len() >= MAX_NAMES && !known.contains_key(name) {
            known.clear();
        }
        let led = Led {
            address,
            seen: Instant::now(),
            asking: false,
        };
        known.insert(name.clone(), led);
    }

    /// Returns the address of `name`. An entry older than `ASK_AFTER` is looked up again in the
    /// background; one older than `FORGET_AFTER` is forgotten. Never waits.
    pub(super) fn address(&self, name: &HostName) -> Option<IpAddr> {
        let mut known = self.known.lock();
        let led = known.get_mut(name)?;
        let age = led.seen.elapsed();
        if age > FORGET_AFTER {
            known.remove(name);
            return None;
        }
        let address = led.address;
        if age > ASK_AFTER && !led.asking {
            led.asking = true;
            let (known, resolver) = (Arc::clone(&self.known), self.resolver.clone());
            let name = name.clone();
            tokio::spawn(async move { ask(&known, &resolver, &name, address).await });
        }
        Some(address)
    }
}

/// Checks whether `name` still leads to `address`; forgets the name if not.
async fn ask(
    known: &Mutex<BTreeMap<HostName, Led>>,
    resolver: &impl Resolve,
    name: &HostName,
    address: IpAddr,
) {
    let found = timeout(PATIENCE, resolver.resolve(name)).await;
    let found = found.unwrap_or(Ok(Vec::new())).unwrap_or_default();
    let leads = found.iter().any(|one| one.to_canonical() == address);
    let mut known = known.lock();
    match known.get_mut(name) {
        Some(led) if leads => (led.seen, led.asking) = (Instant::now(), false),
        _ => {
            known.remove(name);
        }
    }
}

/// Typical lifetime (TTL) that name servers ask for.
const ASK_AFTER: Duration = Duration::from_secs(60);
const FORGET_AFTER: Duration = Duration::from_secs(600);
const PATIENCE: Duration = Duration::from_secs(10);
const MAX_NAMES: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::DialError;

    /// A name server with one answer for everything.
    #[derive(Clone)]
    struct Always(Arc<Mutex<IpAddr>>);

    impl Resolve for Always {
        async fn resolve(&self, _: &HostName) -> Result<Vec<IpAddr>, DialError> {
            Ok(vec![*self.0.lock()])
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_that_leads_elsewhere_is_forgotten() {
        let (old, new) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        let server = Arc::new(Mutex::new(old));
        let names = Names::new(Always(Arc::clone(&server)));
        let name: HostName = "www.example.org".parse().unwrap();
        assert_eq!(names.address(&name), None);
        names.note(&name, old);
        for _ in 0..20 {
            tokio::time::advance(ASK_AFTER + Duration::from_secs(1)).await;
            assert_eq!(names.address(&name), Some(old));
            tokio::task::yield_now().await;
        }
        *server.lock() = new;
        tokio::time::advance(ASK_AFTER + Duration::from_secs(1)).await;
        assert_eq!(names.address(&name), Some(old));
        tokio::task::yield_now().await;
        assert_eq!(names.address(&name), None);
    }

    #[tokio::test(start_paused = true)]
    async fn names_are_not_believed_for_long_and_are_not_without_end() {
        let address = IpAddr::from([192, 0, 2, 1]);
        let names = Names::new(Always(Arc::new(Mutex::new(address))));
        let name = |n: usize| format!("n{n}.example.org").parse::<HostName>().unwrap();
        names.note(&name(0), address);
        tokio::time::advance(FORGET_AFTER + Duration::from_secs(1)).await;
        assert_eq!(names.address(&name(0)), None);
        for n in 0..3 * MAX_NAMES {
            names.note(&name(n), address);
        }
        assert!(names.known.lock().len() <= MAX_NAMES);
    }
}
