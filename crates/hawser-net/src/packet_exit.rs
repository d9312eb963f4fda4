//! How packets of a gateway's clients get from a TUN device to the internet, and back: by the
//! kernel's forwarding, with its address translation or without.
//!
//! The table of rules is a guard's, as the settings are: all of it goes with this program, however
//! that ends.

use std::fmt::Write as _;
use std::time::Duration;
use std::{fs, io};

use ipnet::IpNet;

use crate::forwarding::{Family, tell_of_firewalls};
use crate::guard::{Guard, GuardError};
use crate::nft::{self, NftError};

/// What the internet sees of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitKind {
    /// The gateway's own address (RFC 3022).
    Nat,
    /// The clients' addresses, which others route here.
    Routed,
}

/// Clients' packets are forwarded for as long as this lives.
#[derive(Debug)]
pub struct PacketExit {
    table: String,
    _guard: Guard,
}

/// Why packets are not forwarded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExitError {
    /// There is no table of rules.
    #[error(transparent)]
    Rules(#[from] NftError),
    /// A setting of the system stays as it is.
    #[error(transparent)]
    Setting(#[from] GuardError),
}

impl PacketExit {
    /// Begins: packets that come by `device` from the networks `clients` are forwarded. Clients
    /// do not reach each other, and nobody reaches clients who did not ask for it, except where
    /// they are routed.
    ///
    /// # Errors
    /// That the system lacks something or forbids it, which takes `CAP_NET_ADMIN`.
    ///
    /// Blocks for the time of a few processes.
    pub fn begin(
        device: &str,
        clients: &[IpNet],
        kind: ExitKind,
        mut guard: Guard,
    ) -> Result<Self, ExitError> {
        let table = table_of(device);
        // Before forwarding begins.
        let mut not_forwarded = Family::ALL.to_vec();
        not_forwarded.retain(|family| !family.is_forwarded());
        let script = script(device, clients, kind, &not_forwarded);
        guard.begin_table(&table, &script)?;
        Family::V4.forward(&mut guard)?;
        if clients.iter().any(|net| matches!(net, IpNet::V6(_))) {
            Family::V6.forward(&mut guard)?;
        }
        tell_of_firewalls(device);
        Ok(Self {
            table,
            _guard: guard,
        })
    }

    /// The rules as they are, for the curious.
    ///
    /// # Errors
    /// That `nft` cannot say.
    pub fn rules(&self) -> io::Result<String> {
        let listed = nft::list(&self.table).map_err(io::Error::other)?;
        listed.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// Returns for how long the kernel may know a connection that is idle, by its settings of this
/// moment; where they can't be read, by those that Linux begins with.
pub fn longest_tracked() -> Duration {
    let settings = fs::read_dir(TRACKING).into_iter().flatten().flatten();
    let seconds = settings.filter_map(|setting| {
        let name = setting.file_name();
        let is_span = name.to_str().is_some_and(|name| name.contains("_timeout"));
        let text = is_span.then(|| fs::read_to_string(setting.path()).ok())??;
        text.trim().parse::<u32>().ok()
    });
    let longest = seconds
        .max()
        .map(|longest| Duration::from_secs(longest.into()));
    longest.unwrap_or(IDLE_TCP)
}

/// The rules, on one line, so that they hold from one moment on.
fn script(device: &str, clients: &[IpNet], kind: ExitKind, not_forwarded: &[Family]) -> String {
    let mut passing = String::new();
    for family in not_forwarded {
        // This machine forwarded nothing before, and still forwards nothing else.
        let others = format!("iifname != \"{device}\" oifname != \"{device}\"");
        let _ = write!(passing, "meta nfproto {} {others} drop; ", family.name());
    }
    let _ = write!(passing, "iifname \"{device}\" oifname \"{device}\" drop; ");
    if kind == ExitKind::Nat {
        let _ = write!(passing, "oifname \"{device}\" ct state new,invalid drop; ");
    }
    for way in ["iifname", "oifname"] {
        let clamp = "tcp flags syn tcp option maxseg size set rt mtu";
        let _ = write!(passing, "{way} \"{device}\" {clamp}; ");
    }
    let mut leaving = String::new();
    if kind == ExitKind::Nat {
        // What bears a client's address by `lo` is on its way to a service of this machine, which
        // is to see that address (`foreign_source`).
        for net in clients {
            let family = if matches!(net, IpNet::V4(_)) {
                "ip"
            } else {
                "ip6"
            };
            let net = net.trunc();
            let _ = write!(
                leaving,
                "{family} saddr {net} oifname != {{ \"lo\", \"{device}\" }} masquerade; "
            );
        }
    }
    let table = table_of(device);
    format!(
        "table inet {table} {{ flags owner; \
         chain passing {{ type filter hook forward priority -10; policy accept; {passing}}}; \
         chain leaving {{ type nat hook postrouting priority 100; policy accept; {leaving}}}; }}\n"
    )
}

fn table_of(device: &str) -> String {
    format!("hawser_{device}")
}

/// Settings of the kernel's connection tracking.
const TRACKING: &str = "/proc/sys/net/netfilter";
/// How long it keeps an idle TCP connection, the longest of all, unless told otherwise.
const IDLE_TCP: Duration = Duration::from_secs(5 * 24 * 3600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_have_the_gateways_address_on_the_internet_and_their_own_on_this_machine() {
        let clients = ["10.77.0.0/16", "fd77::/64"].map(|net| net.parse().unwrap());
        let nat = script("hawser0", &clients, ExitKind::Nat, &[]);
        for leaving in [
            "ip saddr 10.77.0.0/16 oifname != { \"lo\", \"hawser0\" } masquerade; ",
            "ip6 saddr fd77::/64 oifname != { \"lo\", \"hawser0\" } masquerade; ",
        ] {
            assert!(nat.contains(leaving), "{nat}");
        }
        let routed = script("hawser0", &clients, ExitKind::Routed, &[]);
        assert!(!routed.contains("masquerade"), "{routed}");
    }
}
