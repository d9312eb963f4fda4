//! The machine's links as plain data: network interfaces, what they can be used for, and which of
//! them to use.
//!
//! A link is known by its interface index, never by its address: two modems may have the same one.

mod select;
#[cfg(test)]
mod tests;

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

pub use select::{full_tunnel, usable};

use crate::LinkIndex;

/// A network interface at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Link {
    /// The kernel's number for the interface, which it keeps for life.
    pub index: LinkIndex,
    /// Its name, which may change.
    pub name: String,
    /// Its kind.
    pub kind: LinkKind,
    /// Addresses of global or site scope that can be bound to now, private ones included. The one
    /// that its default route prefers comes first, those about to be withdrawn last.
    pub addresses: Vec<IpAddr>,
    /// Whether the administrator wants it up.
    pub enabled: bool,
    /// Whether it is enabled, has a carrier and is ready to carry packets.
    pub up: bool,
    /// Whether any routing table has an IPv4 default route by it. A route for half of all
    /// addresses counts, since VPNs use two of them instead.
    pub has_default_route_v4: bool,
    /// The same for IPv6, where `2000::/3` counts too.
    pub has_default_route_v6: bool,
    /// Whether the system's own rules and routes send packets to ordinary IPv4 destinations by it,
    /// or to those in one half of all addresses.
    pub takes_ordinary_v4: bool,
    /// The same for IPv6.
    pub takes_ordinary_v6: bool,
    /// Whether it leads nowhere but here.
    pub loopback: bool,
}

/// Kind of a link, as far as it matters for choosing links.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum LinkKind {
    /// A network card, a modem, PPP, or something stacked on one of these (VLAN, bond, macvlan).
    Hardware,
    /// The loopback interface.
    Loopback,
    /// A bridge, as containers and virtual machines are attached to.
    Bridge,
    /// One end of a virtual cable, as containers have.
    Veth,
    /// A VPN or tunnel, whose packets leave by another link in the end.
    Tunnel,
    /// A device that carries nothing anywhere (dummy, ifb).
    Dummy,
}

/// Why a link cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unusable {
    /// It leads nowhere but here.
    #[error("it is the loopback interface")]
    Loopback,
    /// The administrator has switched it off.
    #[error("it is switched off (ip link set … up switches it on)")]
    Disabled,
    /// No cable, no modem, no network in range.
    #[error("it has no carrier")]
    NoCarrier,
    /// Nothing to send from.
    #[error("it has no usable address")]
    NoAddress,
}

/// A default route by one link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DefaultRoute {
    /// The link.
    pub link: LinkIndex,
    /// The router; none where the link itself is the way out, as with modems.
    pub gateway: Option<IpAddr>,
}

impl Link {
    /// A link of hardware that is up and has neither addresses nor routes.
    pub fn new(index: LinkIndex, name: impl Into<String>) -> Self {
        Self {
            index,
            name: name.into(),
            kind: LinkKind::Hardware,
            addresses: Vec::new(),
            enabled: true,
            up: true,
            has_default_route_v4: false,
            has_default_route_v6: false,
            takes_ordinary_v4: false,
            takes_ordinary_v6: false,
            loopback: false,
        }
    }

    /// The loopback interface as Linux has it, with this address.
    pub fn loopback(address: IpAddr) -> Self {
        Self {
            kind: LinkKind::Loopback,
            addresses: vec![address],
            loopback: true,
            ..Self::new(LinkIndex::new(1), "lo")
        }
    }

    /// Why it cannot be used now; none if it can.
    pub fn why_unusable(&self) -> Option<Unusable> {
        if self.loopback {
            Some(Unusable::Loopback)
        } else if !self.enabled {
            Some(Unusable::Disabled)
        } else if !self.up {
            Some(Unusable::NoCarrier)
        } else if self.addresses.is_empty() {
            Some(Unusable::NoAddress)
        } else {
            None
        }
    }

    /// Whether it has a default route for the family of `remote`.
    pub const fn has_default_route(&self, remote: IpAddr) -> bool {
        match remote {
            IpAddr::V4(_) => self.has_default_route_v4,
            IpAddr::V6(_) => self.has_default_route_v6,
        }
    }

    /// The address of this link to connect to `remote` from: of the same family, and where IPv6
    /// offers both, a local one (`fc00::/7`) to a local one and a global one to a global one.
    pub fn source_address(&self, remote: IpAddr) -> Option<IpAddr> {
        let same_family = || {
            self.addresses
                .iter()
                .filter(|own| own.is_ipv4() == remote.is_ipv4())
        };
        same_family()
            .find(|own| is_local(own) == is_local(&remote))
            .or(same_family().next())
            .copied()
    }
}

impl LinkKind {
    /// Whether it is rather plumbing inside this machine than a way out of it.
    pub const fn is_virtual(self) -> bool {
        !matches!(self, Self::Hardware)
    }
}

impl fmt::Display for LinkKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Hardware => "hardware",
            Self::Loopback => "loopback",
            Self::Bridge => "bridge",
            Self::Veth => "veth",
            Self::Tunnel => "tunnel",
            Self::Dummy => "dummy",
        })
    }
}

fn is_local(address: &IpAddr) -> bool {
    // Only IPv6 has hosts with local and global addresses side by side.
    matches!(address, IpAddr::V6(address) if Ipv6Addr::is_unique_local(address))
}
