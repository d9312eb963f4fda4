//! How many flows each client may have in the kernel's table of connections.
//!
//! The kernel counts, since it alone knows which flows it still has. A client's addresses, single
//! ones and networks for its hosts, of both families and of all its tunnels, lead to one chain.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use ipnet::IpNet;

/// Limits for the flows of each client. A flow is what the kernel's connection tracking counts:
/// packets between the same addresses and ports, both ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowLimits {
    /// Flows that the kernel knows at once.
    pub per_client: u32,
    /// Flows that begin in a second; for a moment twice as many.
    pub per_second: u32,
}

/// What the table of rules says about flows.
#[derive(Debug)]
pub(super) struct FlowRules {
    table: String,
    limits: FlowLimits,
    directions: &'static [FlowDirection],
    /// The kernel lets a table say for how long connections are known.
    has_time_outs: bool,
    /// Flows of all clients together.
    most: Option<u32>,
    /// Which client each network is given to in the table.
    given: BTreeMap<IpNet, [u8; 32]>,
    /// Clients that have a chain: their counts stay when their tunnels are closed.
    known: BTreeSet<[u8; 32]>,
}

/// Who begins a flow.
#[derive(Debug)]
struct FlowDirection {
    /// Begins the names of maps, sets and chains.
    name: &'static str,
    /// Where a client's address is in the first packet.
    field: &'static str,
    /// Which end of forwarding its device is.
    device: &'static str,
    /// Some flows of addresses pass that no client has yet. A client sends by its address the
    /// moment before the kernel knows that it is its own; what others send there is only late.
    admits_unknown: bool,
}

impl FlowRules {
    /// Rules that hold for all until clients are told apart. `are_reached`: others may begin flows
    /// to them, too. `room`: connections for which the kernel's table has room; a quarter of them
    /// is left to this machine itself.
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

    /// The same for a kernel whose time-outs hold for all connections alike.
    pub(super) fn without_time_outs(self) -> Self {
        Self {
            has_time_outs: false,
            ..self
        }
    }

    /// Counters, maps and chains for the table, on one line.
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
                // Whole networks are few: to change a map of intervals, all of it is read.
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

    /// Rules for what is forwarded from and to `device`: the first packet of each flow is judged.
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

    /// The same for what clients send to this machine itself.
    pub(super) fn arriving(&self) -> String {
        let name = self.directions[0].name;
        format!("ct state new ct status & confirmed == 0 jump {name}; ")
    }

    /// Gives the clients' networks to them: each to the client with this key, and none that is not
    /// among them any more. Returns commands that belong together; none where nothing changes.
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
            for direction in self.directions {
                let chain = format!("{}_{}", direction.name, hex(key));
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

    /// The map that a network is in, as commands name it.
    fn map(&self, direction: &FlowDirection, net: &IpNet) -> String {
        let kind = if is_single(net) { "" } else { NETWORKS };
        format!(
            "element inet {} {}_{}{kind}",
            self.table,
            direction.name,
            ip(net)
        )
    }

    /// A client's own chain, and the set with its counts. What begins too fast is dropped, so that
    /// it is only late: its sender tries again. What would be one too many is refused, of this
    /// client or of all together.
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

/// Number of lists that a client's flows are counted in, a power of two. The kernel walks a list
/// for each flow that begins, 8,192 flows in up to 5 ms, so that one list would cost a gateway its
/// processors. `ct id` is a keyed hash, and spreads flows alike.
fn buckets(per_client: u32) -> u32 {
    let most = (per_client / BUCKET).clamp(1, MAX_BUCKETS);
    1 << most.ilog2()
}

/// Counts a flow in a set, and refuses it where it is one too many.
fn counted(set: &str, most: u32) -> String {
    let buckets = buckets(most);
    let (mask, in_each) = (buckets - 1, most / buckets);
    format!("add @{set} {{ ct id & {mask} ct count over {in_each} }} goto {REFUSING}")
}

fn is_single(net: &IpNet) -> bool {
    net.prefix_len() == net.max_prefix_len()
}

/// A network in a map: one address without its length, which only maps of intervals have.
fn element(net: &IpNet) -> String {
    if is_single(net) {
        net.addr().to_string()
    } else {
        net.to_string()
    }
}

/// What a set of counts is.
fn of_buckets(buckets: u32) -> String {
    format!("typeof ct id; size {buckets}; flags dynamic;")
}

impl FlowLimits {
    /// These limits where the kernel's table has room for `max` connections: one client may have a
    /// sixteenth of them.
    pub(super) fn within(self, max: Option<u64>) -> Self {
        let most = max.and_then(|max| u32::try_from(max / 16).ok());
        Self {
            per_client: self.per_client.min(most.unwrap_or(u32::MAX)).max(1),
            ..self
        }
    }
}

/// The family of a network in the words of `nft`.
pub(super) const fn ip(net: &IpNet) -> &'static str {
    match net {
        IpNet::V4(_) => "ip",
        IpNet::V6(_) => "ip6",
    }
}

fn hex(key: &[u8; 32]) -> String {
    let mut text = String::new();
    for byte in key {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

const FAMILIES: [(&str, &str); 2] = [("ip", "ipv4"), ("ip6", "ipv6")];
/// Counts what is refused.
pub(super) const REFUSED: &str = "refused_flows";
/// Counts flows of all clients.
const ALL: &str = "all_flows";
/// Ends the names of maps of whole networks.
const NETWORKS: &str = "_networks";
/// Counts and refuses.
const REFUSING: &str = "refused";
/// How many of those refused are told so. Some kernels have one limit for all ICMP errors.
const ANSWERED: &str = "limit rate 20/second burst 20 packets";
/// Counts flows of addresses that no client has yet.
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
/// Flows that a list has at most, unless there are as many lists as there may be.
const BUCKET: u32 = 128;
const MAX_BUCKETS: u32 = 1024;
/// Seconds for which an idle TCP connection is known, in place of five days.
///
/// Source: RFC 5382 §5, the least that a translator may have.
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
        // Its chain is there, with what it has.
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
