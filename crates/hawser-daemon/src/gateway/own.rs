//! Follows the addresses at which a gateway is reached.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use anyhow::Context as _;
use hawser_config::HostPort;
use hawser_link::links::OwnAddresses;
use hawser_types::Host;
use parking_lot::{Mutex, MutexGuard};
use tokio::net::lookup_host;
use tokio::time::{MissedTickBehavior, interval};

/// The gateway's own addresses: those of this machine, and the advertised ones, which may belong to
/// an address translator in front of it.
#[derive(Clone)]
pub(crate) struct GatewayAddresses {
    machine: OwnAddresses,
    advertised: Arc<Advertised>,
}

struct Advertised {
    addresses: BTreeSet<IpAddr>,
    /// Addresses that each advertised name resolved to at the last look-up.
    names: Mutex<BTreeMap<String, BTreeSet<IpAddr>>>,
}

impl GatewayAddresses {
    /// Follows this machine's addresses, and the names among those `advertised`.
    pub(crate) async fn follow(advertised: &[HostPort]) -> anyhow::Result<Self> {
        let machine = OwnAddresses::follow()
            .await
            .context("can't follow this machine's addresses")?;
        let hosts = || advertised.iter().map(HostPort::host);
        let addresses = hosts().filter_map(|host| match host {
            Host::Ip(address) => Some(address.to_canonical()),
            Host::Name(_) => None,
        });
        let names = hosts().filter_map(|host| match host {
            Host::Ip(_) => None,
            Host::Name(name) => Some((name.to_string(), BTreeSet::new())),
        });
        let advertised = Arc::new(Advertised {
            addresses: addresses.collect(),
            names: Mutex::new(names.collect()),
        });
        if !advertised.names().is_empty() {
            tokio::spawn(look_up(Arc::downgrade(&advertised)));
        }
        Ok(Self {
            machine,
            advertised,
        })
    }

    /// Returns whether `address` is one of the gateway's addresses now.
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.machine.contains(address) || self.advertised.contains(address)
    }
}

impl Advertised {
    fn contains(&self, address: IpAddr) -> bool {
        self.addresses.contains(&address)
            || self.names().values().any(|found| found.contains(&address))
    }

    fn names(&self) -> MutexGuard<'_, BTreeMap<String, BTreeSet<IpAddr>>> {
        self.names.lock()
    }

    /// Stores the addresses of a name; keeps the old ones if the look-up found none.
    fn note(&self, name: &str, found: BTreeSet<IpAddr>) {
        if let Some(known) = self.names().get_mut(name).filter(|_| !found.is_empty()) {
            *known = found;
        }
    }
}

/// Looks the names up periodically, for as long as the gateway lives.
async fn look_up(advertised: Weak<Advertised>) {
    let mut tick = interval(NAMES_PERIOD);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let Some(advertised) = advertised.upgrade() else {
            return;
        };
        let names: Vec<String> = advertised.names().keys().cloned().collect();
        for name in names {
            match lookup_host((name.as_str(), 0)).await {
                Ok(found) => {
                    advertised.note(&name, found.map(|it| it.ip().to_canonical()).collect());
                }
                Err(error) => tracing::debug!(%name, %error, "can't resolve an advertised name"),
            }
        }
    }
}

/// Period of the look-ups; dynamic DNS names have about this time to live.
const NAMES_PERIOD: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[tokio::test]
    async fn an_advertised_address_is_the_gateways_own() {
        let advertised = ["203.0.113.5:7443", "gw.invalid"].map(|it| it.parse().unwrap());
        let own = GatewayAddresses::follow(&advertised).await.unwrap();
        assert!(own.contains(ip("203.0.113.5")) && own.contains(ip("::ffff:203.0.113.5")));
        assert!(!own.contains(ip("203.0.113.6")));
        own.advertised
            .note("gw.invalid", [ip("203.0.113.6")].into());
        own.advertised.note("gw.invalid", BTreeSet::new());
        assert!(own.contains(ip("203.0.113.6")), "kept while look-ups fail");
        own.advertised
            .note("gw.invalid", [ip("203.0.113.7")].into());
        assert!(!own.contains(ip("203.0.113.6")));
        own.advertised
            .note("other.invalid", [ip("203.0.113.8")].into());
        assert!(!own.contains(ip("203.0.113.8")));
    }
}
