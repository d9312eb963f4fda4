//! Whether this machine forwards packets, and how that is turned on until a guard takes it back.

use std::fs;

use crate::guard::{Guard, GuardError};
use crate::nft;

/// A family of addresses, as the system's settings name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    pub(crate) const ALL: [Self; 2] = [Self::V4, Self::V6];

    /// Its name in the settings and in rules of nftables.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::V4 => "ipv4",
            Self::V6 => "ipv6",
        }
    }

    /// Whether this machine forwards something of it already.
    pub(crate) fn is_forwarded(self) -> bool {
        // Single interfaces may forward although the machine as such does not.
        let settings = of_interfaces(self, "forwarding");
        let mut values = settings.iter().filter_map(|setting| read(setting));
        values.any(|value| value != "0")
    }

    /// Has the whole machine forward it.
    pub(crate) fn forward(self, guard: &mut Guard) -> Result<(), GuardError> {
        if self == Self::V4 {
            return guard.set("net/ipv4/ip_forward", "1").map(drop);
        }
        if read(FORWARD_V6).is_none() {
            // A machine without IPv6 does with IPv4.
            return Ok(());
        }
        // Otherwise the kernel would no longer hear what its routers advertise (RFC 4861).
        for setting in router_advertisements() {
            // The interface may have gone meanwhile.
            if let Err(error) = guard.set(&setting, "2") {
                tracing::debug!(%error, "an interface is left alone");
            }
        }
        guard.set(FORWARD_V6, "1").map(drop)
    }
}

/// Warns of firewalls of others that drop what is forwarded by `device`. Blocks.
pub(crate) fn tell_of_firewalls(device: &str) {
    match nft::dropping_chains() {
        Ok(chains) => {
            for chain in chains {
                tracing::warn!(
                    chain,
                    device,
                    "a firewall drops what it has no rule for: it needs one for this device"
                );
            }
        }
        Err(error) => tracing::debug!(%error, "firewalls of others are not known"),
    }
}

/// A setting of one interface; `None` where that does not exist.
pub(crate) fn of_interface(family: Family, interface: &str, name: &str) -> Option<String> {
    read(&setting_of(family, interface, name))
}

/// The path of a setting of one interface, below `/proc/sys`.
pub(crate) fn setting_of(family: Family, interface: &str, name: &str) -> String {
    format!("net/{}/conf/{interface}/{name}", family.name())
}

fn read(setting: &str) -> Option<String> {
    let value = fs::read_to_string(format!("/proc/sys/{setting}")).ok()?;
    Some(value.trim().to_owned())
}

/// The settings of interfaces that hear router advertisements only while nothing is forwarded.
fn router_advertisements() -> Vec<String> {
    let mut settings = of_interfaces(Family::V6, "accept_ra");
    settings.retain(|setting| read(setting).as_deref() == Some("1"));
    settings
}

/// A setting of each interface, and of all together.
fn of_interfaces(family: Family, name: &str) -> Vec<String> {
    let folder = format!("/proc/sys/net/{}/conf", family.name());
    let Ok(interfaces) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let interfaces = interfaces.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    interfaces
        .filter(|interface| interface != "default")
        .map(|interface| setting_of(family, &interface, name))
        .collect()
}

const FORWARD_V6: &str = "net/ipv6/conf/all/forwarding";
