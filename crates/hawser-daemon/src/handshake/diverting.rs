//! Diverts connections that ask for a bond from the ports of services to Hawser.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::{IpAddr, TcpListener};

use hawser_capture::{CaptureError, Discovery};
use hawser_link::links::Link;
use hawser_types::LinkIndex;

/// The interfaces on which connections are diverted.
#[derive(Debug, Default)]
pub(super) struct Interfaces {
    diverting: BTreeMap<LinkIndex, String>,
    /// Interfaces on which diverting failed. The next change of links tries them again.
    failed: BTreeMap<LinkIndex, String>,
}

/// Begins to listen for diverted connections at these loopback addresses, one for each family.
/// Returns no listeners if the kernel always sends SYN cookies: services' ports do not accept the
/// cookies of Hawser's listener, so diverted connections would be lost.
pub(super) fn listen(
    discovery: &mut Discovery,
    families: &[IpAddr],
) -> Result<Vec<TcpListener>, CaptureError> {
    let always_cookies = std::fs::read_to_string(SYN_COOKIES).is_ok_and(|it| it.trim() == "2");
    if always_cookies {
        tracing::info!(
            "tcp_syncookies is 2: sessions can't begin on services' own ports, so a client's first \
             connection uses no session, and later ones do"
        );
        return Ok(Vec::new());
    }
    discovery.listen(families)
}

impl Interfaces {
    /// Diverts connections on the interfaces of `links`, except loopback and links without
    /// addresses. Stops diverting on all other interfaces.
    pub(super) fn follow(&mut self, discovery: &mut Discovery, links: &[Link]) {
        let leads = |link: &&Link| !link.loopback && !link.addresses.is_empty();
        let name = |link: &Link| (link.index, link.name.clone());
        let wanted: BTreeMap<LinkIndex, String> = links.iter().filter(leads).map(name).collect();
        self.failed
            .retain(|index, name| wanted.get(index) == Some(name));
        self.diverting.retain(|index, name| {
            let stays = wanted.get(index) == Some(name);
            if !stays && let Err(error) = discovery.stop_diverting_on(name) {
                tracing::debug!(%error, %name, "can't stop diverting on an interface, it may be gone");
            }
            stays
        });
        for (index, name) in wanted {
            if self.diverting.contains_key(&index) {
                continue;
            }
            let Err(error) = discovery.divert_on(&name) else {
                self.failed.remove(&index);
                self.diverting.insert(index, name);
                continue;
            };
            if let Entry::Vacant(news) = self.failed.entry(index) {
                tracing::warn!(
                    %error,
                    %name,
                    "can't divert connections on this interface to bond them from their start"
                );
                news.insert(name);
            }
        }
    }
}

/// Tells the program in the kernel this host's addresses, except link-local ones: clients of those
/// have link-local addresses, too, and Hawser does not connect such clients to services.
pub(super) fn set_own<'a>(
    discovery: &mut Discovery,
    addresses: impl IntoIterator<Item = &'a IpAddr>,
) {
    let diverted = addresses.into_iter().filter(|it| may_be_diverted(**it));
    if let Err(error) = discovery.set_own_addresses(diverted.copied()) {
        tracing::debug!(%error, "can't divert connections to new addresses");
    }
}

/// Returns whether connections to this address of the host may be diverted to Hawser.
fn may_be_diverted(own: IpAddr) -> bool {
    let is_link_local = match own.to_canonical() {
        IpAddr::V4(own) => own.is_link_local(),
        IpAddr::V6(own) => own.is_unicast_link_local(),
    };
    !is_link_local && !own.is_loopback()
}

const SYN_COOKIES: &str = "/proc/sys/net/ipv4/tcp_syncookies";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_to_addresses_of_the_link_alone_stay_the_services() {
        for (own, may_be) in [
            ("192.0.2.1", true),
            ("10.0.0.1", true),
            ("2001:db8::1", true),
            ("fd00::1", true),
            ("169.254.3.4", false),
            ("fe80::1", false),
            ("127.0.0.1", false),
            ("::1", false),
        ] {
            assert_eq!(may_be_diverted(own.parse().unwrap()), may_be, "{own}");
        }
    }
}
