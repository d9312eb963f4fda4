//! Which TCP connections of hosts are sent as packets: connection rules, as nftables chains.
//!
//! The first rule that applies and sets a value decides, as for any connection. The class is
//! decided first, by rules without a class condition. There is one chain for each pair of a class
//! and a value that rules set: links, links to avoid, the mode. A connection whose rules name links
//! or links to avoid is taken over, and the program does the rest.

use hawser_policy::{Class, Condition, LinkChoice, Mode, PortRange, Protocol, Rule};
use ipnet::IpNet;

/// A chain of the nftables table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Chain {
    pub(super) name: String,
    /// Its rules, in nftables syntax.
    pub(super) rules: Vec<String>,
}

impl Chain {
    /// Returns the definition of the chain within a table.
    pub(super) fn definition(&self) -> String {
        let rules: String = self.rules.iter().map(|rule| format!("{rule}; ")).collect();
        format!("chain {} {{ {rules}}}; ", self.name)
    }

    /// Returns the commands that replace the rules of this chain in `table`.
    pub(super) fn replacement(&self, table: &str) -> String {
        let name = &self.name;
        let rules = self.rules.iter();
        let rules = rules.map(|rule| format!("add rule inet {table} {name} {rule}; "));
        format!(
            "flush chain inet {table} {name}; {}",
            rules.collect::<String>()
        )
    }
}

/// Builds the chains. All chains always exist, so that new rules replace them one by one. `pass`:
/// the verdict for connections sent as packets. `own`: the addresses of the device, and the
/// addresses of hosts in the tunnel.
pub(super) fn chains(rules: &[Rule], own: &[IpNet], pass: &str) -> Vec<Chain> {
    let rules: Vec<&Rule> = rules.iter().filter(|rule| may_apply(&rule.when)).collect();
    let is_needed = rules.iter().any(|it| it.then.mode == Some(Mode::Packet));
    let choosing = if is_needed {
        choosing(&rules, own, pass)
    } else {
        Vec::new()
    };
    let mut chains = vec![Chain {
        name: CHOOSING.to_owned(),
        rules: choosing,
    }];
    for (number, class) in Class::ALL.into_iter().enumerate() {
        let of_class = |rule: &&&Rule| {
            let classes = &rule.when.class;
            is_needed && (classes.is_empty() || classes.contains(&class))
        };
        let (mut links, mut avoid, mut mode) = (Vec::new(), Vec::new(), Vec::new());
        for rule in rules.iter().filter(of_class) {
            let then = &rule.then;
            if let Some(choice) = &then.links {
                let to = match choice {
                    LinkChoice::Any => name("avoid", number),
                    _ => TAKEN.to_owned(),
                };
                add(&mut links, &rule.when, &format!("goto {to}"));
            }
            if then.avoid.is_some() {
                add(&mut avoid, &rule.when, &format!("goto {TAKEN}"));
            }
            match then.mode {
                Some(Mode::Packet) => add(&mut mode, &rule.when, pass),
                Some(_) => add(&mut mode, &rule.when, &format!("goto {TAKEN}")),
                None => {}
            }
        }
        if is_needed {
            links.push(format!("goto {}", name("avoid", number)));
            avoid.push(format!("goto {}", name("mode", number)));
        }
        let of_class = [("links", links), ("avoid", avoid), ("mode", mode)];
        chains.extend(of_class.map(|(what, rules)| Chain {
            name: name(what, number),
            rules,
        }));
    }
    chains
}

/// Builds the first chain. Existing connections keep their mode: streams have a socket here, and
/// connections that use the device have an address of the tunnel. For other connections the chain
/// decides the class.
fn choosing(rules: &[&Rule], own: &[IpNet], pass: &str) -> Vec<String> {
    let mut chain = vec![format!("socket transparent 1 goto {TAKEN}")];
    for net in own {
        let family = if net.addr().is_ipv4() { "ip" } else { "ip6" };
        chain.push(format!("ct reply {family} daddr {net} {pass}"));
    }
    let place = |class| Class::ALL.into_iter().position(|it| it == class);
    for rule in rules.iter().filter(|rule| rule.when.class.is_empty()) {
        if let Some(number) = rule.then.class.and_then(place) {
            add(
                &mut chain,
                &rule.when,
                &format!("goto {}", name("links", number)),
            );
        }
    }
    let number = place(Class::default()).unwrap_or_default();
    chain.push(format!("goto {}", name("links", number)));
    chain
}

/// Returns false for rules on a program or a domain, which are unknown for a host's connection.
fn may_apply(when: &Condition) -> bool {
    let asks_unknown = !when.program.is_empty()
        || !when.executable.is_empty()
        || !when.user.is_empty()
        || !when.cgroup.is_empty()
        || !when.domain.is_empty();
    !asks_unknown && when.protocol != Some(Protocol::Udp)
}

/// Appends rules that match packets of the connections that `when` describes, ignoring the class.
fn add(chain: &mut Vec<String>, when: &Condition, then: &str) {
    let ports = set(merged(&when.port).iter().map(ToString::to_string));
    let ports = ports
        .map(|set| format!("tcp dport {set} "))
        .unwrap_or_default();
    if when.address.is_empty() && when.dscp.is_empty() {
        return chain.push(format!("{ports}{then}"));
    }
    let networks = IpNet::aggregate(&when.address);
    for (family, is_v4) in [("ip", true), ("ip6", false)] {
        let own = networks.iter().filter(|net| net.addr().is_ipv4() == is_v4);
        let to = set(own.map(ToString::to_string));
        if to.is_none() && !when.address.is_empty() {
            continue;
        }
        let protocol = if is_v4 { "ipv4" } else { "ipv6" };
        let to = match to {
            Some(set) => format!("{family} daddr {set} "),
            None => format!("meta nfproto {protocol} "),
        };
        let dscp = set(when.dscp.iter().map(ToString::to_string));
        let dscp = dscp
            .map(|set| format!("{family} dscp {set} "))
            .unwrap_or_default();
        chain.push(format!("{to}{dscp}{ports}{then}"));
    }
}

/// Returns an nftables set, or `None` for an empty one.
fn set(values: impl Iterator<Item = String>) -> Option<String> {
    let values: Vec<String> = values.collect();
    (!values.is_empty()).then(|| format!("{{ {} }}", values.join(", ")))
}

/// Merges overlapping ranges, since sets do not allow them.
fn merged(ports: &[PortRange]) -> Vec<PortRange> {
    let mut ports = ports.to_vec();
    ports.sort_unstable();
    let mut merged: Vec<PortRange> = Vec::new();
    for range in ports {
        match merged.last_mut() {
            Some(last) if range.first() <= last.last().saturating_add(1) => {
                let end = last.last().max(range.last());
                *last = PortRange::new(last.first(), end).unwrap_or(*last);
            }
            _ => merged.push(range),
        }
    }
    merged
}

fn name(what: &str, class: usize) -> String {
    format!("{what}_{class}")
}

/// The chain that each TCP packet that may be taken passes.
pub(super) const CHOOSING: &str = "choosing";
/// The chain that takes packets over.
pub(super) const TAKEN: &str = "taken";

#[cfg(test)]
mod tests {
    use hawser_policy::{Action, Avoid};

    use super::*;

    fn rule(when: Condition, then: Action) -> Rule {
        Rule {
            when,
            then,
            ..Rule::default()
        }
    }

    fn of_mode(mode: Mode) -> Action {
        Action {
            mode: Some(mode),
            ..Action::default()
        }
    }

    fn to(networks: &[&str]) -> Condition {
        Condition {
            address: networks.iter().map(|it| it.parse().unwrap()).collect(),
            ..Condition::default()
        }
    }

    fn of(rules: &[Rule], name: &str) -> Vec<String> {
        let own = ["10.83.0.2/32", "fd00::2/128"].map(|it| it.parse().unwrap());
        let all = chains(rules, &own, "accept");
        let found = all.into_iter().find(|chain| chain.name == name);
        found.unwrap().rules
    }

    #[test]
    fn without_a_rule_for_packets_nothing_is_asked() {
        let rules = [rule(to(&["192.0.2.0/24"]), of_mode(Mode::Direct))];
        let all = chains(&rules, &[], "accept");
        assert!(all.iter().all(|chain| chain.rules.is_empty()), "{all:?}");
        // The names are the same as with such a rule.
        let packets = [rule(Condition::default(), of_mode(Mode::Packet))];
        let names = |chains: Vec<Chain>| -> Vec<String> {
            chains.into_iter().map(|chain| chain.name).collect()
        };
        assert_eq!(names(all), names(chains(&packets, &[], "accept")));
    }

    #[test]
    fn the_first_rule_that_applies_decides_by_address_port_and_marking() {
        let ssh = Condition {
            port: vec![
                PortRange::new(20, 22).unwrap(),
                PortRange::new(22, 22).unwrap(),
            ],
            dscp: vec![hawser_policy::Dscp::new(8).unwrap()],
            ..to(&["192.0.2.0/24", "192.0.0.0/8"])
        };
        let at_desk = Condition {
            program: vec!["ssh".parse().unwrap()],
            ..Condition::default()
        };
        let rules = [
            rule(to(&["2001:db8::/32"]), of_mode(Mode::Direct)),
            rule(at_desk, of_mode(Mode::Direct)),
            rule(ssh, of_mode(Mode::Packet)),
        ];
        let expected = [
            "ip6 daddr { 2001:db8::/32 } goto taken",
            "ip daddr { 192.0.0.0/8 } ip dscp { 8 } tcp dport { 20-22 } accept",
        ];
        assert_eq!(of(&rules, "mode_3"), expected);
        assert_eq!(of(&rules, "links_3"), ["goto avoid_3"]);
        let choosing = of(&rules, CHOOSING);
        let begun = [
            "socket transparent 1 goto taken",
            "ct reply ip daddr 10.83.0.2/32 accept",
            "ct reply ip6 daddr fd00::2/128 accept",
            "goto links_3",
        ];
        assert_eq!(choosing, begun);
    }

    #[test]
    fn the_class_comes_first_and_rules_with_links_take_the_connection() {
        let class = |class| Action {
            class: Some(class),
            ..Action::default()
        };
        let of_class = |class| Condition {
            class: vec![class],
            ..Condition::default()
        };
        let only = Action {
            links: Some(LinkChoice::Only(vec!["dsl".to_owned()])),
            ..Action::default()
        };
        let any = Action {
            links: Some(LinkChoice::Any),
            ..Action::default()
        };
        let avoid = Action {
            avoid: Some(vec![Avoid::Metered]),
            ..Action::default()
        };
        let rules = [
            rule(to(&["192.0.2.0/24"]), class(Class::Bulk)),
            rule(to(&["198.51.100.0/24"]), any),
            rule(Condition::default(), only),
            rule(of_class(Class::Bulk), avoid),
            rule(of_class(Class::Bulk), of_mode(Mode::Packet)),
        ];
        assert_eq!(
            of(&rules, CHOOSING)[3],
            "ip daddr { 192.0.2.0/24 } goto links_2"
        );
        let links = [
            "ip daddr { 198.51.100.0/24 } goto avoid_2",
            "goto taken",
            "goto avoid_2",
        ];
        assert_eq!(of(&rules, "links_2"), links);
        assert_eq!(of(&rules, "avoid_2"), ["goto taken", "goto mode_2"]);
        assert_eq!(of(&rules, "mode_2"), ["accept"]);
        assert!(of(&rules, "mode_3").is_empty());
    }
}
