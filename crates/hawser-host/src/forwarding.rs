//! Whether this machine forwards packets, and how that is turned on until a guard restores it.

use std::fs;

use crate::guard::{Guard, GuardError};
use crate::nft;

/// An address family, as the system's settings name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

impl Family {
    pub(crate) const ALL: [Self; 2] = [Self::V4, Self::V6];

    /// Returns the family's name in the settings and in nftables rules.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::V4 => "ipv4",
            Self::V6 => "ipv6",
        }
    }

    /// Returns whether this machine already forwards packets of the family.
    pub(crate) fn is_forwarded(self) -> bool {
        // Single interfaces may forward although the global setting is off.
        let settings = of_interfaces(self, "forwarding");
        let mut values = settings.iter().filter_map(|setting| read(setting));
        values.any(|value| value != "0")
    }

    /// Turns forwarding on for the whole machine.
    pub(crate) fn forward(self, guard: &mut Guard) -> Result<(), GuardError> {
        if self == Self::V4 {
            return guard.set("net/ipv4/ip_forward", "1").map(drop);
        }
        if read(FORWARD_V6).is_none() {
            // A machine without IPv6 makes do with IPv4.
            return Ok(());
        }
        // Interfaces that accept router advertisements only without forwarding: the kernel would
        // ignore these (RFC 4861).
        let mut settings = of_interfaces(Family::V6, "accept_ra");
        settings.retain(|setting| read(setting).as_deref() == Some("1"));
        for setting in settings {
            // The interface may have vanished meanwhile.
            if let Err(error) = guard.set(&setting, "2") {
                tracing::debug!(%error, "cannot keep an interface accepting router advertisements");
            }
        }
        guard.set(FORWARD_V6, "1").map(drop)
    }
}

/// Warns of other programs' firewalls that drop packets forwarded by `device`. Blocks.
pub(crate) fn tell_of_firewalls(device: &str) {
    match nft::dropping_chains() {
        Ok(chains) => {
            for chain in chains {
                tracing::warn!(
                    chain,
                    device,
                    "a firewall drops packets that it has no rule for: it needs a rule for this \
                     device"
                );
            }
        }
        Err(error) => tracing::debug!(%error, "cannot list firewalls of other programs"),
    }
}

/// Returns a setting of one interface; `None` where the interface or the setting does not exist.
pub(crate) fn of_interface(family: Family, interface: &str, name: &str) -> Option<String> {
    read(&setting_of(family, interface, name))
}

/// Returns the path of a setting of one interface, below `/proc/sys`.
pub(crate) fn setting_of(family: Family, interface: &str, name: &str) -> String {
    format!("net/{}/conf/{interface}/{name}", family.name())
}

fn read(setting: &str) -> Option<String> {
    let value = fs::read_to_string(format!("/proc/sys/{setting}")).ok()?;
    Some(value.trim().to_owned())
}

/// Returns the paths of a setting for each interface, and for all together.
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
