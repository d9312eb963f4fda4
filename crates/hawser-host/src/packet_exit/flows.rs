//! Limits for the number of flows of each client in the kernel's connection table.
//!
//! The kernel counts, since only it knows which flows it still has. All addresses of a client,
//! single ones and networks for its hosts, of both families and all its tunnels, lead to one chain.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use ipnet::IpNet;

/// Limits for the flows of each client. A flow is an entry of the kernel's connection tracking:
/// packets between the same addresses and ports, both ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowLimits {
    /// Flows that the kernel tracks at once.
    pub per_client: u32,
    /// New flows per second; a burst may have twice as many.
    pub per_second: u32,
}

/// The part of the nftables table that limits flows.
#[derive(Debug)]
pub(super) struct FlowRules {
    table: String,
    limits: FlowLimits,
    directions: &'static [FlowDirection],
    /// Whether the kernel supports connection time-outs per table.
    has_time_outs: bool,
    /// Most flows of all clients together.
    most: Option<u32>,
    /// The client of each network in the table.
    given: BTreeMap<IpNet, [u8; 32]>,
    /// Clients that have a chain: their counts stay when their tunnels are closed.
    known: BTreeSet<[u8; 32]>,
}

/// The side that begins a flow.
#[derive(Debug)]
struct FlowDirection {
    /// Prefix of the names of maps, sets and chains.
    name: &'static str,
    /// Field of the first packet that holds the client's address.
    field: &'static str,
    /// Which interface of a forwarded packet is the clients' device.
    device: &'static str,
    /// Whether some flows of addresses without a client pass. A client may send from its address
    /// just before the kernel knows the owner; packets to such an address can wait.
    admits_unknown: bool,
}

impl FlowRules {
    /// Makes rules that apply to all until clients are told apart. `are_reached`: hosts may also
    /// begin flows to clients. `room`: size of the kernel's table; a quarter of it is left to this
    /// machine.
    pub(super) fn new(
        table: &str,
        are_reached: bool,
        limits: FlowLimits,
        room: Option<u64>,
    ) -> Self {
        let directions = if are_reached {
            &DIRECTIONS[..]
        } else {
            &DIRECTIONS[..1]
        };
        Self {
            table: table.to_owned(),
            limits,
            directions,
            has_time_outs: true,
            most: room.map(|room| u32::try_from(room / 4 * 3).unwrap_or(u32::MAX)),
            given: BTreeMap::new(),
            known: BTreeSet::new(),
        }
    }

    /// Changes the rules for a kernel whose time-outs apply to all connections alike.
    pub(super) fn without_time_outs(self) -> Self {
        Self {
            has_time_outs: false,
            ..self
        }
    }

    /// Returns counters, maps and chains for the table, on one line.
    pub(super) fn definitions(&self) -> String {
        let mut text = format!(
            "counter {REFUSED} {{ }}; \
             chain {REFUSING} {{ counter name {REFUSED}; {ANSWERED} reject with icmpx type \
             admin-prohibited; drop; }}; set {UNKNOWN} {{ {} }}; ",
            of_buckets(BUCKETS_UNKNOWN)
        );
        if let Some(most) = self.most {
            let _ = write!(text, "set {ALL} {{ {} }}; ", of_buckets(buckets(most)));
        }
        let mut timing = String::new();
        for (family, version) in FAMILIES.iter().filter(|_| self.has_time_outs) {
            let _ = write!(
                text,
                "ct timeout tcp_{family} {{ protocol tcp; l3proto {family}; \
                 policy = {{ established : {ESTABLISHED} }}; }}; "
            );
            let _ = write!(
                timing,
                "meta nfproto {version} meta l4proto tcp ct timeout set \"tcp_{family}\"; "
            );
        }
        for direction in self.directions {
            let FlowDirection { name, field, .. } = direction;
            let mut chain = timing.clone();
            for (family, version) in FAMILIES {
                // Networks have small maps of their own: a change reads the whole interval map.
                for (kind, flags) in [("", ""), (NETWORKS, "flags interval; ")] {
                    let map = format!("{name}_{family}{kind}");
                    let _ = write!(
                        text,
                        "map {map} {{ type {version}_addr : verdict; {flags}}}; "
                    );
                    let _ = write!(chain, "{family} {field} vmap @{map}; ");
                }
            }
            if direction.admits_unknown {
                let _ = write!(
                    chain,
                    "add @{UNKNOWN} {{ ct id & {} ct count over {BUCKET} }} \
                     counter name {REFUSED} ",
                    BUCKETS_UNKNOWN - 1
                );
            }
            chain.push_str("drop; ");
            let _ = write!(text, "chain {name} {{ {chain}}}; ");
        }
        text
    }

    /// Returns rules for the first packet of each flow that is forwarded from or to `device`.
    pub(super) fn passing(&self, device: &str) -> String {
        let mut text = String::new();
        for direction in self.directions {
            let _ = write!(
                text,
                "{} \"{device}\" ct state new ct status & confirmed == 0 jump {}; ",
                direction.device, direction.name
            );
        }
        text
    }

    /// Returns the same rules for packets of clients to this machine itself.
    pub(super) fn arriving(&self) -> String {
        let name = self.directions[0].name;
        format!("ct state new ct status & confirmed == 0 jump {name}; ")
    }

    /// Assigns each network to the client with this key, and removes networks that are no longer in
    /// `owned`. Returns commands that belong together; an empty list if nothing changes.
    pub(super) fn give(&mut self, owned: &BTreeMap<IpNet, [u8; 32]>) -> Vec<String> {
        let mut commands = Vec::new();
        let before = std::mem::take(&mut self.given);
        for (net, _) in before
            .iter()
            .filter(|(net, key)| owned.get(*net) != Some(*key))
        {
            let maps = self
                .directions
                .iter()
                .map(|direction| self.map(direction, net));
            commands.extend(maps.map(|map| format!("delete {map} {{ {} }}", element(net))));
        }
        for (net, key) in owned
            .iter()
            .filter(|(net, key)| before.get(*net) != Some(*key))
        {
            let is_new = self.known.insert(*key);
            let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
            for direction in self.directions {
                let chain = format!("{}_{hex}", direction.name);
                if is_new {
                    commands.push(self.chain(&chain));
                }
                let (map, element) = (self.map(direction, net), element(net));
                commands.push(format!("add {map} {{ {element} : goto {chain} }}"));
            }
        }
        self.given.clone_from(owned);
        commands
    }

    /// Returns the map that holds a network, in `nft` syntax.
    fn map(&self, direction: &FlowDirection, net: &IpNet) -> String {
        let kind = if is_single(net) { "" } else { NETWORKS };
        format!(
            "element inet {} {}_{}{kind}",
            self.table,
            direction.name,
            ip(net)
        )
    }

    /// Returns commands for a client's own chain, and the set with its counts. Drops the packets of
    /// flows that begin too fast, so that their senders try again later. Refuses a flow beyond the
    /// limit of this client or of all clients together.
    fn chain(&self, chain: &str) -> String {
        let table = &self.table;
        let rule = format!("add rule inet {table} {chain}");
        let FlowLimits {
            per_client,
            per_second,
        } = self.limits;
        let burst = per_second.saturating_mul(2);
        let mut text = format!(
            "add set inet {table} {chain} {{ {} }}; add chain inet {table} {chain}; \
             {rule} limit rate over {per_second}/second burst {burst} packets \
             counter name {REFUSED} drop; {rule} {}",
            of_buckets(buckets(per_client)),
            counted(chain, per_client)
        );
        if let Some(most) = self.most {
            let _ = write!(text, "; {rule} {}", counted(ALL, most));
        }
        text
    }
}

/// Returns the number of lists for a client's flows, a power of two. The kernel walks a list for
/// each new flow, 8,192 flows in up to 5 ms, so that a single list would exhaust a gateway's
/// processors. `ct id` is a keyed hash, and spreads flows evenly.
fn buckets(per_client: u32) -> u32 {
    let most = (per_client / BUCKET).clamp(1, MAX_BUCKETS);
    1 << most.ilog2()
}

/// Returns the statement that counts a flow in a set, and refuses it beyond the limit.
fn counted(set: &str, most: u32) -> String {
    let buckets = buckets(most);
    let (mask, in_each) = (buckets - 1, most / buckets);
    format!("add @{set} {{ ct id & {mask} ct count over {in_each} }} goto {REFUSING}")
}

fn is_single(net: &IpNet) -> bool {
    net.prefix_len() == net.max_prefix_len()
}

/// Formats a network for a map: without its length if single, since only interval maps have one.
fn element(net: &IpNet) -> String {
    if is_single(net) {
        net.addr().to_string()
    } else {
        net.to_string()
    }
}

/// Returns the definition of a set of counts.
fn of_buckets(buckets: u32) -> String {
    format!("typeof ct id; size {buckets}; flags dynamic;")
}

impl FlowLimits {
    /// Lowers the limits if the kernel's table has room for `max` connections: one client may have
    /// a sixteenth of them.
    pub(super) fn within(self, max: Option<u64>) -> Self {
        let most = max.and_then(|max| u32::try_from(max / 16).ok());
        Self {
            per_client: self.per_client.min(most.unwrap_or(u32::MAX)).max(1),
            ..self
        }
    }
}

/// Returns the family of a network in `nft` syntax.
pub(super) const fn ip(net: &IpNet) -> &'static str {
    match net {
        IpNet::V4(_) => "ip",
        IpNet::V6(_) => "ip6",
    }
}

const FAMILIES: [(&str, &str); 2] = [("ip", "ipv4"), ("ip6", "ipv6")];
/// Counter of refused packets.
pub(super) const REFUSED: &str = "refused_flows";
/// Set that counts flows of all clients.
const ALL: &str = "all_flows";
/// Suffix of the names of maps of whole networks.
const NETWORKS: &str = "_networks";
/// Chain that counts and refuses.
const REFUSING: &str = "refused";
/// Rate of error replies to refused packets. Some kernels have one limit for all ICMP errors.
const ANSWERED: &str = "limit rate 20/second burst 20 packets";
/// Set that counts flows of addresses that no client has yet.
const UNKNOWN: &str = "unknown";
const BUCKETS_UNKNOWN: u32 = 8;
const DIRECTIONS: [FlowDirection; 2] = [
    FlowDirection {
        name: "from",
        field: "saddr",
        device: "iifname",
        admits_unknown: true,
    },
    FlowDirection {
        name: "to",
        field: "daddr",
        device: "oifname",
        admits_unknown: false,
    },
];
/// Most flows of a list, unless the number of lists is at its maximum.
const BUCKET: u32 = 128;
const MAX_BUCKETS: u32 = 1024;
/// Seconds for which an idle TCP connection is tracked, in place of five days.
///
/// Source: RFC 5382 §5, the minimum for a translator.
const ESTABLISHED: u32 = 2 * 3600 + 4 * 60;

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: FlowLimits = FlowLimits {
        per_client: 100,
        per_second: 10,
    };

    fn owned(nets: &[(&str, u8)]) -> BTreeMap<IpNet, [u8; 32]> {
        let owned = nets.iter();
        owned
            .map(|(net, key)| (net.parse().unwrap(), [*key; 32]))
            .collect()
    }

    #[test]
    fn all_networks_of_a_client_lead_to_one_count() {
        let mut rules = FlowRules::new("t", false, LIMITS, None);
        let chain = format!("from_{}", "07".repeat(32));
        let lines = rules.give(&owned(&[("10.83.0.2/32", 7), ("fd48::1:0/112", 7)]));
        let limits = format!(
            "add set inet t {chain} {{ typeof ct id; size 1; flags dynamic; }}; \
             add chain inet t {chain}; add rule inet t {chain} limit rate over 10/second burst 20 \
             packets counter name refused_flows drop; add rule inet t {chain} \
             add @{chain} {{ ct id & 0 ct count over 100 }} goto refused"
        );
        assert_eq!(
            lines,
            [
                limits,
                format!("add element inet t from_ip {{ 10.83.0.2 : goto {chain} }}"),
                format!("add element inet t from_ip6_networks {{ fd48::1:0/112 : goto {chain} }}"),
            ]
        );
        assert!(
            rules
                .give(&owned(&[("10.83.0.2/32", 7), ("fd48::1:0/112", 7)]))
                .is_empty()
        );
    }

    #[test]
    fn an_address_goes_from_one_client_to_another_and_leaves_with_the_last() {
        let mut rules = FlowRules::new("t", false, LIMITS, None);
        rules.give(&owned(&[("10.83.0.2/32", 7)]));
        let gone = "delete element inet t from_ip { 10.83.0.2 }";
        let lines = rules.give(&owned(&[("10.83.0.2/32", 8)]));
        assert_eq!(lines[0], gone);
        let other = format!("from_{}", "08".repeat(32));
        let given = format!("add element inet t from_ip {{ 10.83.0.2 : goto {other} }}");
        assert_eq!(lines.last(), Some(&given));
        assert_eq!(rules.give(&owned(&[])), [gone]);
        // The chain still exists, with its counts.
        assert_eq!(rules.give(&owned(&[("10.83.0.2/32", 8)])), [given]);
    }

    #[test]
    fn flows_that_begin_outside_are_counted_apart_where_clients_are_routed() {
        let mut rules = FlowRules::new("t", true, LIMITS, None);
        let lines = rules.give(&owned(&[("10.83.0.2/32", 7)]));
        let ways: Vec<_> = lines.iter().map(|line| line.contains(" to_")).collect();
        assert_eq!(ways, [false, false, true, true]);
        assert!(rules.passing("tun7").contains("oifname \"tun7\""));
    }

    #[test]
    fn no_list_of_flows_is_long_and_all_of_them_together_have_the_limit() {
        for (per_client, expected) in [
            (1, 1),
            (128, 1),
            (2000, 8),
            (8192, 64),
            (100_000, 512),
            (u32::MAX, 1024),
        ] {
            let buckets = buckets(per_client);
            assert_eq!(buckets, expected, "{per_client}");
            assert!(per_client / buckets >= 1);
        }
    }

    #[test]
    fn addresses_of_no_client_have_a_small_count_and_are_not_reached() {
        let text = FlowRules::new("t", true, LIMITS, None).definitions();
        let (from, to) = text.split_once("chain to ").unwrap();
        assert!(
            from.contains("add @unknown { ct id & 7 ct count over 128 } counter"),
            "{text}"
        );
        assert!(
            to.ends_with("ip6 daddr vmap @to_ip6_networks; drop; }; "),
            "{text}"
        );
    }

    #[test]
    fn a_quarter_of_the_kernels_table_is_the_machines_own() {
        let mut rules = FlowRules::new("t", false, LIMITS, Some(262_144));
        let definitions = rules.definitions();
        assert!(
            definitions.contains("set all_flows { typeof ct id; size 1024;"),
            "{definitions}"
        );
        let lines = rules.give(&owned(&[("10.83.0.2/32", 7)]));
        let all = "add @all_flows { ct id & 1023 ct count over 192 } goto refused";
        assert!(lines[0].ends_with(all), "{lines:?}");
        assert_eq!(LIMITS.within(Some(800)).per_client, 50);
        assert_eq!(LIMITS.within(Some(16_000)).per_client, 100);
        assert_eq!(LIMITS.within(None), LIMITS);
    }
}
