//! Forwarding of packets between a gateway's clients on a TUN device and the internet: by the
//! kernel, with or without its address translation.
//!
//! A guard owns the rules and the settings, and removes them when this program ends, however it
//! ends.

mod flows;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;
use std::{fs, io};

use ipnet::IpNet;

use crate::forwarding::{Family, tell_of_firewalls};
use crate::guard::{Guard, GuardError};
use crate::nft::{self, NftError};
pub use flows::FlowLimits;
use flows::{FlowRules, REFUSED, ip};

/// Clients, the kind of forwarding, and the reachable addresses of this machine.
#[derive(Clone, Debug)]
pub struct ExitPlan {
    /// Networks of clients, each given by this machine's address in it.
    pub clients: Vec<IpNet>,
    /// The addresses that the internet sees.
    pub kind: ExitKind,
    /// Networks in which clients may reach addresses of this machine, too.
    pub opened: Vec<IpNet>,
    /// Limits for the flows of each client.
    pub flows: FlowLimits,
}

/// The addresses under which the internet sees clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitKind {
    /// The gateway's own address (RFC 3022).
    Nat,
    /// The clients' own addresses, which other routers route to this machine.
    Routed,
}

/// Forwarding of clients' packets, until this value is dropped.
#[derive(Debug)]
pub struct PacketExit {
    table: String,
    flows: FlowRules,
    guard: Guard,
}

/// Why packets are not forwarded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExitError {
    /// The nftables table could not be created.
    #[error(transparent)]
    Rules(#[from] NftError),
    /// A system setting could not be changed.
    #[error(transparent)]
    Setting(#[from] GuardError),
}

impl PacketExit {
    /// Begins to forward packets that arrive by `device` from clients. Clients cannot reach each
    /// other. Hosts outside can begin flows to clients only if the clients' addresses are routed.
    /// This machine accepts only pings to its inner addresses, and packets to the opened networks.
    ///
    /// # Errors
    /// The system lacks a feature or forbids it: this needs `CAP_NET_ADMIN`.
    ///
    /// Blocks for the time of a few processes.
    pub fn begin(device: &str, plan: &ExitPlan, mut guard: Guard) -> Result<Self, ExitError> {
        let table = table_of(device);
        let room = tracked(MOST_TRACKED);
        let limits = plan.flows.within(room);
        if limits != plan.flows {
            let (setting, most) = (MOST_TRACKED, limits.per_client);
            tracing::warn!(
                setting,
                most,
                "lowered the limit of flows per client to fit the kernel's limit"
            );
        }
        let mut flows = FlowRules::new(&table, plan.kind == ExitKind::Routed, limits, room);
        let script_with = |flows: &FlowRules| {
            // Evaluated before forwarding begins.
            let mut not_forwarded = Family::ALL.to_vec();
            not_forwarded.retain(|family| !family.is_forwarded());
            script(device, plan, flows, &not_forwarded)
        };
        let begun = guard.begin_table(&table, || script_with(&flows));
        if let Err(NftError::Refused(reason)) = begun {
            // Refused without CONFIG_NF_CONNTRACK_TIMEOUT, unless the cause is another one.
            flows = flows.without_time_outs();
            guard.begin_table(&table, || script_with(&flows))?;
            tracing::warn!(
                reason,
                "idle connections of clients count towards limits for five days"
            );
        } else {
            begun?;
        }
        Family::V4.forward(&mut guard)?;
        if plan.clients.iter().any(|net| matches!(net, IpNet::V6(_))) {
            Family::V6.forward(&mut guard)?;
        }
        tell_of_firewalls(device);
        Ok(Self {
            table,
            flows,
            guard,
        })
    }

    /// Counts the flows of each client from now on, by the client's networks. Blocks while the
    /// guard is busy with earlier changes.
    ///
    /// # Errors
    /// The guard has ended.
    pub fn limit_flows(&mut self, owned: &BTreeMap<IpNet, [u8; 32]>) -> io::Result<()> {
        let commands = self.flows.give(owned);
        let mut batches = commands.chunks(IN_A_BATCH);
        batches.try_for_each(|batch| self.guard.change_rules(&batch.join("; ")))
    }

    /// Returns the name of the nftables table.
    pub fn table(&self) -> &str {
        &self.table
    }

    /// Returns the rules as they are, for diagnosis.
    ///
    /// # Errors
    /// `nft` fails.
    pub fn rules(&self) -> io::Result<String> {
        let listed = nft::list(&self.table).map_err(io::Error::other)?;
        listed.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

/// Returns how many packets that would have begun a flow were refused since `table` was created.
/// Blocks for the time of a process.
///
/// # Errors
/// `nft` fails.
pub fn refused_flows(table: &str) -> Result<u64, NftError> {
    nft::counted(table, REFUSED)
}

/// Reads one of the settings of connection tracking, if the kernel has it.
fn tracked(setting: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("{TRACKING}/{setting}")).ok()?;
    text.trim().parse().ok()
}

/// Limits of connections that one client may have this machine begin: the kernel keeps each for two
/// minutes after its end, and one client gets at most an eighth of its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectLimits {
    /// Connections at once, after a pause.
    pub at_once: u32,
    /// Connections per second, in the long run.
    pub per_second: u32,
}

impl ConnectLimits {
    /// Returns the limits by the kernel's present settings; `None` if it tracks no connections.
    pub fn of_kernel() -> Option<Self> {
        let at_once = u32::try_from(tracked(MOST_TRACKED)? / 8).unwrap_or(u32::MAX);
        let per_second = (at_once / KEPT_AFTER_END).max(1);
        Some(Self {
            at_once,
            per_second,
        })
    }
}

/// Returns the longest time for which the kernel may track an idle connection, by its present
/// settings, or by Linux's defaults if the settings can't be read.
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

/// Builds the rules on one line, so that they take effect at once.
fn script(device: &str, plan: &ExitPlan, flows: &FlowRules, not_forwarded: &[Family]) -> String {
    let arriving = arriving(device, plan, &flows.arriving());
    let passing = passing(device, plan, not_forwarded);
    let (definitions, beginning) = (flows.definitions(), flows.passing(device));
    let mut leaving = String::new();
    if plan.kind == ExitKind::Nat {
        // Packets with a client's address that leave by `lo` are for a service of this machine,
        // which must see that address (`foreign_source`).
        for net in &plan.clients {
            let (family, net) = (ip(net), net.trunc());
            let _ = write!(
                leaving,
                "{family} saddr {net} oifname != {{ \"lo\", \"{device}\" }} masquerade; "
            );
        }
    }
    let (table, diverted) = (table_of(device), diverted(plan));
    format!(
        "table inet {table} {{ flags owner; {definitions}chain diverted {{ {diverted}}}; \
         chain arriving {{ type filter hook input priority -10; policy accept; {arriving}}}; \
         chain passing {{ type filter hook forward priority -10; policy accept; \
         {passing}{beginning}}}; \
         chain leaving {{ type nat hook postrouting priority 100; policy accept; {leaving}}}; }}\n"
    )
}

/// Builds rules for packets that the kernel delivers to this machine. The kernel's decision is more
/// current than any list of addresses.
fn arriving(device: &str, plan: &ExitPlan, beginning: &str) -> String {
    let mut arriving = format!("iifname != \"{device}\" accept; {beginning}");
    for net in &plan.clients {
        let (own, icmp) = match net {
            IpNet::V4(net) => (net.addr().to_string(), "icmp"),
            IpNet::V6(net) => (net.addr().to_string(), "icmpv6"),
        };
        let (family, net) = (ip(net), net.trunc());
        let _ = write!(
            arriving,
            "{family} daddr {own} {icmp} type echo-request accept; {family} daddr {net} drop; "
        );
    }
    for net in &plan.opened {
        let _ = write!(arriving, "{} daddr {} accept; ", ip(net), net.trunc());
    }
    arriving.push_str("drop; ");
    arriving
}

/// Builds rules for forwarded packets.
fn passing(device: &str, plan: &ExitPlan, not_forwarded: &[Family]) -> String {
    let mut passing = String::new();
    for family in not_forwarded {
        // Forwarding was off before, and stays off for all other traffic.
        let others = format!("iifname != \"{device}\" oifname != \"{device}\"");
        let _ = write!(passing, "meta nfproto {} {others} drop; ", family.name());
    }
    let _ = write!(passing, "iifname \"{device}\" oifname \"{device}\" drop; ");
    // Rules of this machine redirected the flow, such as to a container, after it was judged.
    let _ = write!(
        passing,
        "iifname \"{device}\" ct status dnat ct direction original jump diverted; "
    );
    if plan.kind == ExitKind::Nat {
        let _ = write!(passing, "oifname \"{device}\" ct state new,invalid drop; ");
        // The kernel would forward these packets without translation, with the client's address.
        let _ = write!(
            passing,
            "iifname \"{device}\" ct state invalid,untracked drop; "
        );
    }
    for way in ["iifname", "oifname"] {
        let clamp = "tcp flags syn tcp option maxseg size set rt mtu";
        let _ = write!(passing, "{way} \"{device}\" {clamp}; ");
    }
    passing
}

/// Builds rules for redirected flows that are still forwarded.
fn diverted(plan: &ExitPlan) -> String {
    let mut diverted = String::new();
    for net in &plan.opened {
        let _ = write!(diverted, "{} daddr {} return; ", ip(net), net.trunc());
    }
    diverted.push_str("drop; ");
    diverted
}

fn table_of(device: &str) -> String {
    format!("hawser_{device}")
}

/// Changes in one batch. Each is a line of some 100 bytes, or of 500 with a chain.
const IN_A_BATCH: usize = 64;
/// Settings of the kernel's connection tracking.
const TRACKING: &str = "/proc/sys/net/netfilter";
/// Most connections that the kernel tracks.
const MOST_TRACKED: &str = "nf_conntrack_max";
/// Seconds for which the kernel keeps a connection that has ended, or a UDP flow with answers, by
/// default (`nf_conntrack_tcp_timeout_time_wait`, `nf_conntrack_udp_timeout_stream`).
const KEPT_AFTER_END: u32 = 120;
/// Default time for which the kernel keeps an idle TCP connection, the longest of all.
const IDLE_TCP: Duration = Duration::from_secs(5 * 24 * 3600);

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(kind: ExitKind) -> ExitPlan {
        ExitPlan {
            clients: ["10.77.0.1/16", "fd77::1/64"].map(net).to_vec(),
            kind,
            opened: vec![net("192.0.2.7/24")],
            flows: FLOWS,
        }
    }

    const FLOWS: FlowLimits = FlowLimits {
        per_client: 8192,
        per_second: 1000,
    };

    fn script_of(kind: ExitKind) -> String {
        let flows = FlowRules::new("hawser_hawser0", kind == ExitKind::Routed, FLOWS, None);
        script("hawser0", &plan(kind), &flows, &[])
    }

    fn net(text: &str) -> IpNet {
        text.parse().unwrap()
    }

    #[test]
    fn clients_have_the_gateways_address_on_the_internet_and_their_own_on_this_machine() {
        let nat = script_of(ExitKind::Nat);
        for leaving in [
            "ip saddr 10.77.0.0/16 oifname != { \"lo\", \"hawser0\" } masquerade; ",
            "ip6 saddr fd77::/64 oifname != { \"lo\", \"hawser0\" } masquerade; ",
        ] {
            assert!(nat.contains(leaving), "{nat}");
        }
        let routed = script_of(ExitKind::Routed);
        assert!(!routed.contains("masquerade"), "{routed}");
    }

    #[test]
    fn of_this_machine_clients_reach_pings_and_what_is_opened() {
        assert_eq!(
            arriving("hawser0", &plan(ExitKind::Nat), "jump from; "),
            "iifname != \"hawser0\" accept; jump from; \
             ip daddr 10.77.0.1 icmp type echo-request accept; ip daddr 10.77.0.0/16 drop; \
             ip6 daddr fd77::1 icmpv6 type echo-request accept; ip6 daddr fd77::/64 drop; \
             ip daddr 192.0.2.0/24 accept; drop; "
        );
    }
}
