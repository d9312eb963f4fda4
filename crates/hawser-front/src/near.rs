//! Near destinations: reached by other routes than a default one, so that no gateway leads there.

use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hawser_link::links::Routes;
use tokio::time::timeout;

use crate::destination::{Host, HostName};
use crate::resolve::{SystemResolver, addresses_of};

/// Tells which addresses are near.
pub trait Surroundings: Send + Sync + 'static {
    /// Returns whether `address` is reached otherwise than by a default route: it is this machine's
    /// own, on a link itself, or has a more specific route.
    fn is_near(&self, address: IpAddr) -> impl Future<Output = bool> + Send;
}

impl Surroundings for Routes {
    async fn is_near(&self, address: IpAddr) -> bool {
        self.is_particular(address).await
    }
}

/// Tells which hosts are near.
#[derive(Debug)]
pub(crate) struct Neighbourhood<S> {
    surroundings: Arc<S>,
    resolver: SystemResolver,
}

impl<S> Clone for Neighbourhood<S> {
    fn clone(&self) -> Self {
        Self {
            surroundings: Arc::clone(&self.surroundings),
            resolver: self.resolver.clone(),
        }
    }
}

impl<S: Surroundings> Neighbourhood<S> {
    pub(crate) fn new(surroundings: Arc<S>) -> Self {
        Self {
            surroundings,
            resolver: SystemResolver::new(),
        }
    }

    /// Returns whether a host is this machine, on a network of one of its links, or behind a
    /// specific route. If a gateway is used for everything (`is_for_all`), loopback means the
    /// gateway's own.
    pub(crate) async fn has(&self, host: &Host, is_for_all: bool) -> bool {
        match host {
            Host::Ip(address) if address.to_canonical().is_loopback() => !is_for_all,
            Host::Ip(address) => self.surroundings.is_near(*address).await,
            Host::Name(name) if is_loopback_name(name) => !is_for_all,
            Host::Name(name) if is_local_name(name) => {
                let lookup = timeout(LOOKUP_PATIENCE, addresses_of(&self.resolver, host));
                match lookup.await {
                    Ok(Ok(addresses)) => self.has_all(&addresses).await,
                    _ => false,
                }
            }
            Host::Name(_) => false,
        }
    }

    /// Returns whether all of these addresses of a name that was looked up here are this machine's,
    /// on networks of its links, or behind specific routes.
    pub(crate) async fn has_all(&self, addresses: &[IpAddr]) -> bool {
        for address in addresses {
            let is_own = address.to_canonical().is_loopback();
            if !is_own && !self.surroundings.is_near(*address).await {
                return false;
            }
        }
        !addresses.is_empty()
    }
}

/// Returns whether a name means loopback. Source: RFC 6761 §6.3.
fn is_loopback_name(name: &HostName) -> bool {
    let name = name.as_str().trim_end_matches('.');
    let last = name.rsplit('.').next().unwrap_or_default();
    last.eq_ignore_ascii_case("localhost")
}

/// Returns whether a name can't be registered publicly, so that only the local network can know
/// it. Any other name is looked up by the gateway; no server here is asked for it.
///
/// Source: RFC 6762 §3, RFC 8375, and what ICANN keeps for private use.
fn is_local_name(name: &HostName) -> bool {
    let name = name.as_str().trim_end_matches('.').to_ascii_lowercase();
    let is_below = |zone: &str| {
        let above = name.strip_suffix(zone);
        above.is_some_and(|above| above.ends_with('.'))
    };
    !name.contains('.') || LOCAL_ZONES.into_iter().any(is_below)
}

const LOCAL_ZONES: [&str; 6] = [
    "local",
    "home.arpa",
    "internal",
    "lan",
    "home",
    "localdomain",
];
/// A server that knows such a name is near, and answers at once.
const LOOKUP_PATIENCE: Duration = Duration::from_millis(500);

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Surroundings in which 10.0.0.0/8 is near.
    pub(crate) struct Home;

    impl Surroundings for Home {
        async fn is_near(&self, address: IpAddr) -> bool {
            matches!(address, IpAddr::V4(address) if address.octets()[0] == 10)
        }
    }

    #[test]
    fn names_that_are_not_registered_are_the_neighbourhoods() {
        for (name, is_local) in [
            ("nas", true),
            ("printer.local", true),
            ("Router.LAN", true),
            ("box.home.arpa.", true),
            ("www.example.org", false),
            ("local.example.org", false),
            ("notlocal", true),
            ("a.notlocal", false),
        ] {
            assert_eq!(is_local_name(&name.parse().unwrap()), is_local, "{name}");
        }
        for (name, is_loopback) in [("localhost", true), ("a.LocalHost.", true), ("nas", false)] {
            assert_eq!(
                is_loopback_name(&name.parse().unwrap()),
                is_loopback,
                "{name}"
            );
        }
    }
}
