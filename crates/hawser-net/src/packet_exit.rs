//! How packets of a gateway's clients get from a TUN device to the internet, and back: by the
//! kernel's forwarding, with its address translation or without.
//!
//! The table of rules is a guard's, as the settings are: all of it goes with this program, however
//! that ends.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::time::{Duration, Instant};

use ipnet::IpNet;

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
    /// `nft` is missing, or refuses the rules.
    #[error(transparent)]
    Nft(#[from] NftError),
    /// The guard is gone.
    #[error("cannot tell the guard: {0}")]
    NoGuard(io::Error),
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
        // Before forwarding begins.
        let script = script(device, clients, kind, &families_not_forwarded());
        nft::check(&script)?;
        guard.add_rules(&script).map_err(ExitError::NoGuard)?;
        let table = table_of(device);
        wait_for(&table)?;
        guard.set(FORWARD_V4, "1")?;
        if clients.iter().any(|net| matches!(net, IpNet::V6(_)))
            && read_setting(FORWARD_V6).is_some()
        {
            // Otherwise the kernel would no longer hear what its routers advertise (RFC 4861).
            for setting in router_advertisements() {
                // The interface may have gone meanwhile.
                if let Err(error) = guard.set(&setting, "2") {
                    tracing::debug!(%error, "an interface is left alone");
                }
            }
            guard.set(FORWARD_V6, "1")?;
        }
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

/// Waits until the guard has made the table.
fn wait_for(table: &str) -> Result<(), ExitError> {
    let deadline = Instant::now() + PATIENCE;
    while nft::list(table)?.is_none() {
        if Instant::now() > deadline {
            return Err(NftError::Refused("it does not say why".to_owned()).into());
        }
        std::thread::sleep(POLL);
    }
    Ok(())
}

/// The rules, on one line, so that they hold from one moment on.
fn script(device: &str, clients: &[IpNet], kind: ExitKind, not_forwarded: &[&str]) -> String {
    let mut passing = String::new();
    for family in not_forwarded {
        // This machine forwarded nothing before, and still forwards nothing else.
        let others = format!("iifname != \"{device}\" oifname != \"{device}\"");
        let _ = write!(passing, "meta nfproto {family} {others} drop; ");
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
        for net in clients {
            let family = if matches!(net, IpNet::V4(_)) {
                "ip"
            } else {
                "ip6"
            };
            let net = net.trunc();
            let _ = write!(
                leaving,
                "{family} saddr {net} oifname != \"{device}\" masquerade; "
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

/// The families of which this machine forwards nothing yet.
fn families_not_forwarded() -> Vec<&'static str> {
    // Single interfaces may forward although the machine as such does not.
    let forwards = |family: &str| {
        let settings = of_interfaces(family, "forwarding");
        let mut values = settings.iter().filter_map(|setting| read_setting(setting));
        values.any(|value| value != "0")
    };
    let families = ["ipv4", "ipv6"].into_iter();
    families.filter(|family| !forwards(family)).collect()
}

fn read_setting(setting: &str) -> Option<String> {
    let value = fs::read_to_string(format!("/proc/sys/{setting}")).ok()?;
    Some(value.trim().to_owned())
}

/// The settings of interfaces that hear router advertisements only while nothing is forwarded.
fn router_advertisements() -> Vec<String> {
    let mut settings = of_interfaces("ipv6", "accept_ra");
    settings.retain(|setting| read_setting(setting).as_deref() == Some("1"));
    settings
}

/// A setting of each interface, and of all together.
fn of_interfaces(family: &str, name: &str) -> Vec<String> {
    let folder = format!("net/{family}/conf");
    let Ok(interfaces) = fs::read_dir(format!("/proc/sys/{folder}")) else {
        return Vec::new();
    };
    let interfaces = interfaces.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    interfaces
        .filter(|interface| interface != "default")
        .map(|interface| format!("{folder}/{interface}/{name}"))
        .collect()
}

const FORWARD_V4: &str = "net/ipv4/ip_forward";
const FORWARD_V6: &str = "net/ipv6/conf/all/forwarding";
const PATIENCE: Duration = Duration::from_secs(3);
const POLL: Duration = Duration::from_millis(10);
