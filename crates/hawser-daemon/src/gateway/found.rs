//! Resolves the names in a gateway's invites.

use std::net::IpAddr;
use std::time::Duration;

use hawser_keys::host_port::HostPort;
use hawser_keys::invite::MAX_ADDRESSES;
use hawser_link::links::{list_links, usable};
use hawser_link::names::Names;
use hawser_types::Host;
use tokio::time::timeout;

/// Returns the addresses for an invite: the `advertised` ones, followed by the addresses that their
/// names resolve to now. So a client that can't resolve a name (yet) has addresses to try.
pub async fn with_found(advertised: &[HostPort]) -> Vec<HostPort> {
    let mut addresses = advertised.to_vec();
    let finding = find_all(advertised, &mut addresses);
    if timeout(PATIENCE, finding).await.is_err() {
        tracing::debug!("can't resolve all names of the invite in time");
    }
    addresses.truncate(MAX_ADDRESSES);
    addresses
}

/// Returns whether an invite with the addresses `there` was made for the `advertised` ones. Their
/// names may resolve to other addresses by now.
pub(crate) fn is_made_for(there: &[HostPort], advertised: &[HostPort]) -> bool {
    let (Some(own), Some(found)) = (there.get(..advertised.len()), there.get(advertised.len()..))
    else {
        return false;
    };
    own == advertised && found.iter().all(|it| it.socket_addr().is_some())
}

async fn find_all(advertised: &[HostPort], addresses: &mut Vec<HostPort>) {
    let links = list_links().await.unwrap_or_default();
    let (links, names) = (usable(&links, &[]), Names::new());
    for address in advertised {
        let Host::Name(name) = address.host() else {
            continue;
        };
        let found = names.lookup(name, &links).await.unwrap_or_default();
        let found = found.into_iter().filter(leads_here);
        for ip in found.take(MAX_FOUND) {
            let more = HostPort::new(ip.into(), address.port());
            addresses.extend(more.ok().filter(|more| !addresses.contains(more)));
        }
    }
}

/// Returns whether other hosts may reach this machine at the address. Hosts files often resolve
/// this machine's name to a loopback address.
fn leads_here(ip: &IpAddr) -> bool {
    let is_link_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    !ip.is_loopback() && !ip.is_unspecified() && !is_link_local
}

/// Longest time for resolving: a starting gateway serves its clients' streams only after that.
const PATIENCE: Duration = Duration::from_millis(500);
/// Limit of addresses of one name, so that the invite fits in one line.
const MAX_FOUND: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(texts: &[&str]) -> Vec<HostPort> {
        texts.iter().map(|it| it.parse().unwrap()).collect()
    }

    #[tokio::test]
    async fn names_of_this_machine_alone_add_nothing() {
        let told = addresses(&["localhost:7443", "192.0.2.1:7443"]);
        assert_eq!(with_found(&told).await, told);
    }

    #[test]
    fn an_invite_is_for_the_same_addresses_whatever_their_names_led_to() {
        let told = addresses(&["gw.example:7443", "192.0.2.1:7443"]);
        let is_for = |more: &[&str]| {
            let there = [told.clone(), addresses(more)].concat();
            is_made_for(&there, &told)
        };
        assert!(is_for(&[]) && is_for(&["192.0.2.2:7443"]));
        assert!(!is_for(&["other.example:7443"]));
        assert!(!is_made_for(&told[..1], &told));
        assert!(!is_made_for(&told, &addresses(&["192.0.2.1:7443"])));
    }
}
