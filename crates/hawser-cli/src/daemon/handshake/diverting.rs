//! Connections that want a bond are given to Hawser on the ports of services.

use std::collections::BTreeMap;
use std::net::{IpAddr, TcpListener};

use hawser_capture::{CaptureError, Discovery};
use hawser_net::links::Link;
use hawser_types::LinkIndex;

/// The interfaces on which that is done, or was tried.
#[derive(Debug, Default)]
pub(super) struct Interfaces(BTreeMap<LinkIndex, String>);

/// Begins to listen for such connections. None where nobody may have them: services' ports take no
/// cookies that Hawser's listener has sent, so where the kernel always sends cookies such
/// connections would be lost.
pub(super) fn listen(discovery: &mut Discovery) -> Result<Vec<TcpListener>, CaptureError> {
    let always_cookies = std::fs::read_to_string(SYN_COOKIES).is_ok_and(|it| it.trim() == "2");
    if always_cookies {
        tracing::info!(
            "tcp_syncookies is 2: connections that want a bond have none from their beginning, and \
             later ones have"
        );
        return Ok(Vec::new());
    }
    discovery.listen()
}

impl Interfaces {
    /// Diverts on all `links` that lead to other hosts, and on none that is gone.
    pub(super) fn follow(&mut self, discovery: &mut Discovery, links: &[Link]) {
        let leads = |link: &&Link| !link.loopback && !link.addresses.is_empty();
        let name = |link: &Link| (link.index, link.name.clone());
        let wanted: BTreeMap<LinkIndex, String> = links.iter().filter(leads).map(name).collect();
        self.0.retain(|index, name| {
            let stays = wanted.get(index) == Some(name);
            if !stays && let Err(error) = discovery.stop_diverting_on(name) {
                tracing::debug!(%error, %name, "the interface is gone");
            }
            stays
        });
        for (index, name) in wanted {
            if self.0.contains_key(&index) {
                continue;
            }
            if let Err(error) = discovery.divert_on(&name) {
                tracing::warn!(
                    %error,
                    %name,
                    "connections that come by this interface have no bond from their beginning"
                );
            }
            self.0.insert(index, name);
        }
    }
}

/// Has the program know which addresses are this host's.
pub(super) fn set_own<'a>(
    discovery: &mut Discovery,
    addresses: impl IntoIterator<Item = &'a IpAddr>,
) {
    let elsewhere = addresses.into_iter().filter(|it| !it.is_loopback());
    if let Err(error) = discovery.set_own_addresses(elsewhere.copied()) {
        tracing::debug!(%error, "connections to new addresses have no bond from their beginning");
    }
}

const SYN_COOKIES: &str = "/proc/sys/net/ipv4/tcp_syncookies";
