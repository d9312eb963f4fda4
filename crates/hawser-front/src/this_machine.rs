//! Addresses that only applications on this machine may reach, and only if they name them directly.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use hawser_link::links::OwnAddresses;

use crate::address::{Refusal, classify, embedded_v4};
use crate::connection::Origin;
use crate::destination::{Destination, Host};
use crate::told_names::ToldNames;
use crate::transport::DialError;

/// The addresses of this machine that other machines may not reach through the proxy port.
///
/// Services that listen on loopback, or trust this machine's addresses, take every connection of
/// Hawser for one of this machine. So an application elsewhere ([`Origin::is_elsewhere`]) reaches
/// no loopback, link-local, unspecified, multicast or broadcast address, and none of this machine's
/// own, in any form. Everything else is as open to it as to local applications.
///
/// A web page runs on this machine, too, and the owner of a name chooses its addresses (DNS
/// rebinding). So the same addresses are removed from the answers for names, unless the machine's
/// owner has defined the name (see `admitted_of_name`).
#[derive(Clone, Debug, Default)]
pub struct ThisMachine {
    own: OwnAddresses,
    /// Also refuse private addresses of names.
    refuses_private: bool,
    told: Arc<ToldNames>,
}

impl ThisMachine {
    /// Protects this machine's addresses. Follows changes of `own`.
    pub fn new(own: OwnAddresses) -> Self {
        Self {
            own,
            ..Self::default()
        }
    }

    /// Sets whether names may lead to private addresses.
    #[must_use]
    pub fn with_private_names(self, are_allowed: bool) -> Self {
        Self {
            refuses_private: !are_allowed,
            ..self
        }
    }

    /// Returns those of `addresses`, found for a destination, that the destination may lead to.
    ///
    /// # Errors
    /// [`DialError::RefusedByPolicy`] if it may lead to none of several addresses.
    pub(crate) async fn admitted_of(
        &self,
        destination: &Destination,
        addresses: Vec<IpAddr>,
    ) -> Result<Vec<IpAddr>, DialError> {
        let Host::Name(name) = &destination.host else {
            return Ok(addresses);
        };
        let had_some = !addresses.is_empty();
        let addresses = self.admitted_of_name(name.as_str(), addresses).await;
        if addresses.is_empty() && had_some {
            Err(DialError::RefusedByPolicy)
        } else {
            Ok(addresses)
        }
    }

    /// Returns those of `addresses`, found for a name, that the name may lead to. `localhost` (RFC
    /// 6761 §6.3), this machine's own name and names in its hosts file may lead to all; other names
    /// may lead to no address of this machine. Names in `.local` (RFC 6762) may lead to all other
    /// machines on its links. If all addresses are unspecified, as in answers of a DNS blocker, the
    /// result is empty.
    pub(crate) async fn admitted_of_name(
        &self,
        name: &str,
        mut addresses: Vec<IpAddr>,
    ) -> Vec<IpAddr> {
        if addresses
            .iter()
            .all(|it| it.to_canonical().is_unspecified())
        {
            return Vec::new();
        }
        let scope = Scope::of(name);
        let is_admitted = |address: &IpAddr| {
            let refusal = classify(*address);
            let is_link_local = refusal == Some(Refusal::LinkLocal);
            let is_private = matches!(refusal, Some(Refusal::Private | Refusal::CarrierNat));
            match scope {
                Scope::Machine => true,
                Scope::Links if is_link_local => !self.owns(*address),
                Scope::Links => !self.has(*address),
                Scope::Internet => !(self.has(*address) || self.refuses_private && is_private),
            }
        };
        let refused = addresses.iter().filter(|it| !is_admitted(it));
        let refused: Vec<IpAddr> = refused.copied().collect();
        if refused.is_empty() {
            return addresses;
        }
        let own = name.to_owned();
        let is_own = tokio::task::spawn_blocking(move || is_named_here(&own, Path::new(ROOT)));
        if is_own.await.unwrap_or(false) {
            return addresses;
        }
        if self.told.add(name) {
            tracing::warn!(
                host = name,
                ?refused,
                "refusing addresses that a name leads to: they are this machine's or private; a \
                 line for the name in /etc/hosts allows them"
            );
        }
        addresses.retain(is_admitted);
        addresses
    }

    /// Tells whether the application at `origin` may reach `address` from here.
    pub(crate) fn admits(&self, origin: &Origin, address: IpAddr) -> bool {
        !origin.is_elsewhere || !self.has(address)
    }

    /// Returns those of `addresses` that the application at `origin` may reach from here.
    ///
    /// # Errors
    /// [`DialError::RefusedByPolicy`] if the application may reach none of them.
    pub(crate) fn admitted(
        &self,
        origin: &Origin,
        mut addresses: Vec<IpAddr>,
    ) -> Result<Vec<IpAddr>, DialError> {
        let before = addresses.len();
        addresses.retain(|address| self.admits(origin, *address));
        if addresses.is_empty() && before > 0 {
            Err(DialError::RefusedByPolicy)
        } else {
            Ok(addresses)
        }
    }

    /// Tells whether `address` is one of the protected addresses.
    pub(crate) fn has(&self, address: IpAddr) -> bool {
        is_local_by_itself(address) || self.owns(address)
    }

    /// Tells whether `address` is one of this machine's own, in any form.
    fn owns(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let embedded = match address {
            IpAddr::V4(_) => Vec::new(),
            IpAddr::V6(address) => embedded_v4(address),
        };
        self.own.contains(address) || embedded.into_iter().any(|v4| self.own.contains(v4.into()))
    }
}

/// Tells whether an address means this machine or its links, wherever it is used.
fn is_local_by_itself(address: IpAddr) -> bool {
    matches!(
        classify(address),
        Some(
            Refusal::Loopback
                | Refusal::LinkLocal
                | Refusal::Unspecified
                | Refusal::Multicast
                | Refusal::Broadcast
        )
    )
}

/// The scope of a name.
#[derive(Clone, Copy)]
enum Scope {
    /// This machine alone.
    Machine,
    /// The links of this machine, where other machines define it.
    Links,
    Internet,
}

impl Scope {
    fn of(name: &str) -> Self {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        match name.rsplit('.').next() {
            Some("localhost") => Self::Machine,
            Some("local") => Self::Links,
            _ => Self::Internet,
        }
    }
}

/// Tells whether this machine's owner has defined a name: in the hosts file below `root`, or as the
/// name of the machine.
fn is_named_here(name: &str, root: &Path) -> bool {
    let name = name.trim_end_matches('.');
    let own = std::fs::read_to_string(root.join("proc/sys/kernel/hostname"));
    // A name with dots may come from the network by DHCP; it is then a name of the internet.
    if !name.contains('.') && own.is_ok_and(|own| own.trim_end().eq_ignore_ascii_case(name)) {
        return true;
    }
    let Ok(hosts) = File::open(root.join("etc/hosts")) else {
        return false;
    };
    let mut lines = BufReader::new(hosts).lines().map_while(Result::ok);
    lines.any(|line| {
        let entry = line.split('#').next().unwrap_or_default();
        let mut names = entry.split_ascii_whitespace().skip(1);
        names.any(|one| one.trim_end_matches('.').eq_ignore_ascii_case(name))
    })
}

const ROOT: &str = "/";

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_name_of_the_internet_leads_to_no_address_of_this_machine() {
        let addresses = |texts: &[&str]| -> Vec<IpAddr> {
            texts.iter().map(|text| text.parse().unwrap()).collect()
        };
        let found = addresses(&[
            "127.0.0.1",
            "9.9.9.9",
            "::1",
            "::ffff:127.0.0.1",
            "169.254.169.254",
            "0.0.0.0",
            "10.0.0.1",
            "fe80::1",
            "64:ff9b::127.0.0.1",
            "fd00::1",
        ]);
        let machine = ThisMachine::default();
        let kept = machine
            .admitted_of_name("rebind.example", found.clone())
            .await;
        assert_eq!(kept, addresses(&["9.9.9.9", "10.0.0.1", "fd00::1"]));
        for local in ["localhost", "LOCALHOST.", "app.localhost"] {
            let kept = machine.admitted_of_name(local, found.clone()).await;
            assert_eq!(kept, found, "{local}");
        }
        for other in ["localhost.example", "local.example", "notlocalhost"] {
            let kept = machine.admitted_of_name(other, found.clone()).await;
            assert_eq!(kept.len(), 3, "{other}");
        }
        let strict = machine.with_private_names(false);
        for machine in [&ThisMachine::default(), &strict] {
            let kept = machine.admitted_of_name("Printer.local.", found.clone());
            let on_links = [
                "9.9.9.9",
                "169.254.169.254",
                "10.0.0.1",
                "fe80::1",
                "fd00::1",
            ];
            assert_eq!(kept.await, addresses(&on_links));
        }
        let kept = strict.admitted_of_name("rebind.example", found).await;
        assert_eq!(kept, addresses(&["9.9.9.9"]));
        let destination = "rebind.example:80".parse().unwrap();
        let refused = strict.admitted_of(&destination, addresses(&["::1"])).await;
        assert_eq!(refused, Err(DialError::RefusedByPolicy));
        let literal = "127.0.0.1:80".parse().unwrap();
        let own = addresses(&["127.0.0.1"]);
        assert_eq!(strict.admitted_of(&literal, own.clone()).await, Ok(own));
    }

    #[tokio::test]
    async fn what_a_blocker_answers_leads_nowhere_and_is_no_warning() {
        let machine = ThisMachine::default();
        let blocked: Vec<IpAddr> = ["0.0.0.0", "::", "::ffff:0.0.0.0"]
            .map(|it| it.parse().unwrap())
            .into();
        for name in ["ads.example", "ads.local", "localhost"] {
            let kept = machine.admitted_of_name(name, blocked.clone()).await;
            assert_eq!(kept, [] as [IpAddr; 0], "{name}");
        }
        assert!(machine.told.add("ads.example"), "it was told");
    }

    #[test]
    fn names_in_the_hosts_file_and_the_machines_own_are_its_owners_word() {
        let root = tempfile::tempdir().unwrap();
        for folder in ["etc", "proc/sys/kernel"] {
            std::fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        let hosts = "127.0.0.1 localhost # other.example\n127.0.0.1\tdev.example Www.Dev.Example\n";
        std::fs::write(root.path().join("etc/hosts"), hosts).unwrap();
        let hostname = root.path().join("proc/sys/kernel/hostname");
        std::fs::write(&hostname, "box\n").unwrap();
        for (name, is_here) in [
            ("dev.example", true),
            ("DEV.example.", true),
            ("www.dev.example", true),
            ("box", true),
            ("box.example", false),
            ("other.example", false),
            ("127.0.0.1", false),
            ("example", false),
        ] {
            assert_eq!(is_named_here(name, root.path()), is_here, "{name}");
        }
        // A name that the network may have given.
        std::fs::write(&hostname, "box.example\n").unwrap();
        assert!(!is_named_here("box.example", root.path()));
    }

    #[test]
    fn askers_elsewhere_reach_nothing_that_is_only_here() {
        let machine = ThisMachine::default();
        let here = Origin::default();
        let elsewhere = Origin {
            is_elsewhere: true,
            ..Origin::default()
        };
        for (address, is_open) in [
            ("127.0.0.1", false),
            ("127.9.9.9", false),
            ("0.0.0.0", false),
            ("169.254.169.254", false),
            ("224.0.0.251", false),
            ("255.255.255.255", false),
            ("::", false),
            ("::1", false),
            ("::127.0.0.1", false),
            ("::ffff:127.0.0.1", false),
            ("::ffff:0:127.0.0.1", false),
            ("64:ff9b::127.0.0.1", false),
            ("2002:7f00:1::1", false),
            ("fe80::1", false),
            ("ff02::fb", false),
            ("192.0.2.1", true),
            ("10.0.0.1", true),
            ("fd00::1", true),
            ("2001:db8::1", true),
        ] {
            let address = address.parse().unwrap();
            assert_eq!(machine.admits(&elsewhere, address), is_open, "{address}");
            assert!(machine.admits(&here, address), "{address}");
        }
    }

    #[test]
    fn of_a_names_addresses_those_that_are_only_here_are_left_out() {
        let elsewhere = Origin {
            is_elsewhere: true,
            ..Origin::default()
        };
        let admitted = |texts: &[&str]| {
            let addresses = texts.iter().map(|text| text.parse().unwrap()).collect();
            ThisMachine::default().admitted(&elsewhere, addresses)
        };
        let kept = vec!["192.0.2.1".parse::<IpAddr>().unwrap()];
        assert_eq!(admitted(&["::1", "192.0.2.1", "127.0.0.1"]), Ok(kept));
        assert_eq!(admitted(&["::1"]), Err(DialError::RefusedByPolicy));
        assert_eq!(admitted(&[]), Ok(Vec::new()));
    }
}
