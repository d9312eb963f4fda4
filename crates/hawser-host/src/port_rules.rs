//! nftables rules that redirect connections from one port of this machine to another.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tokio::task::spawn_blocking;

use crate::nft;

/// Returns those of these ports that rules of this machine redirect (`REDIRECT`), each with its
/// target port, if the rule states one. `None` if `nft` is missing or refuses.
///
/// Rules with named sets, and rules for all ports but some, are not recognised.
pub async fn led_elsewhere(ports: BTreeSet<u16>) -> Option<BTreeMap<u16, Option<u16>>> {
    let ruleset = spawn_blocking(nft::list_all).await.ok()?.ok()?;
    Some(redirects(&serde_json::from_str(&ruleset).ok()?, &ports))
}

/// Reads a ruleset, as `nft` prints it.
///
/// Source: libnftables-json(5).
fn redirects(ruleset: &Value, ports: &BTreeSet<u16>) -> BTreeMap<u16, Option<u16>> {
    let items = ruleset["nftables"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let place = |it: &Value, name: &str| [&it["family"], &it["table"], &it[name]].map(Value::clone);
    // Chains of other hooks, such as output. Other chains call those without a hook.
    let chains = items.iter().map(|it| &it["chain"]);
    let others = chains.filter(|it| it["hook"].as_str().is_some_and(|hook| hook != "prerouting"));
    let others: Vec<_> = others.map(|it| place(it, "name")).collect();
    let rules = items.iter().map(|it| &it["rule"]);
    let rules = rules.filter(|it| it.is_object() && !others.contains(&place(it, "chain")));
    let mut found = BTreeMap::new();
    for rule in rules {
        let Some(expressions) = rule["expr"].as_array() else {
            continue;
        };
        let Some(to) = expressions.iter().find_map(redirect) else {
            continue;
        };
        let are_of = |port| expressions.iter().any(|it| is_for(it, port));
        let of_rule = ports
            .iter()
            .filter(|port| to != Some(**port) && are_of(**port));
        for port in of_rule {
            found.entry(*port).or_insert(to);
        }
    }
    found
}

/// Returns the target of a redirect statement; `None` for another statement.
fn redirect(statement: &Value) -> Option<Option<u16>> {
    // A redirect without a port keeps the port.
    if let Some(port) = statement["redirect"].get("port") {
        return Some(port_of(port));
    }
    // The form that `iptables` writes, with a port that `nft` does not show.
    (statement["xt"]["name"] == "REDIRECT").then_some(None)
}

/// Returns whether an expression matches TCP packets to this port, but not to every port.
fn is_for(expression: &Value, port: u16) -> bool {
    let condition = &expression["match"];
    let payload = &condition["left"]["payload"];
    let is_port = payload["field"] == "dport" && (payload["protocol"] != "udp");
    let is_positive = condition["op"] == "==" || condition["op"] == "in";
    is_port && is_positive && has(&condition["right"], port)
}

/// Returns whether a value, a set or a range includes this port.
fn has(value: &Value, port: u16) -> bool {
    if let Some(elements) = value["set"].as_array() {
        return elements.iter().any(|it| has(it, port));
    }
    match value["range"].as_array().map(Vec::as_slice) {
        Some([first, last]) => {
            let (first, last) = (port_of(first), port_of(last));
            first.is_some_and(|it| it <= port) && last.is_some_and(|it| port <= it)
        }
        _ => port_of(value) == Some(port),
    }
}

fn port_of(value: &Value) -> Option<u16> {
    value.as_u64().and_then(|it| u16::try_from(it).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(chain: &str, protocol: &str, op: &str, ports: &str, statement: &str) -> String {
        format!(
            r#"{{"rule": {{"family": "inet", "table": "t", "chain": "{chain}", "expr": [
                {{"match": {{"op": "{op}", "right": {ports},
                    "left": {{"payload": {{"protocol": "{protocol}", "field": "dport"}}}}}}}},
                {statement}]}}}}"#
        )
    }

    #[test]
    fn rules_that_lead_a_port_to_another_one_are_found() {
        let chain = |name: &str, hook: &str| {
            format!(
                r#"{{"chain": {{"family": "inet", "table": "t", "name": "{name}", "type": "nat",
                    "hook": "{hook}"}}}}"#
            )
        };
        let to = |port: u16| format!(r#"{{"redirect": {{"port": {port}}}}}"#);
        let target = r#"{"xt": {"type": "target", "name": "REDIRECT"}}"#;
        let several = r#"{"set": [80, {"range": [90, 95]}]}"#;
        let items = [
            r#"{"metainfo": {"version": "1.0.6"}}"#.to_owned(),
            chain("to", "prerouting"),
            chain("out", "output"),
            rule("to", "tcp", "==", "443", &to(8443)),
            rule("called", "tcp", "==", several, &to(8080)),
            rule("to", "th", "in", "25", target),
            // Not TCP, all ports but one, an unchanged port, a named set, another hook, and another
            // statement.
            rule("to", "udp", "==", "53", &to(5353)),
            rule("to", "tcp", "!=", "1", &to(9)),
            rule("to", "tcp", "==", "22", &to(22)),
            rule("to", "tcp", "==", r#""@s""#, &to(7)),
            rule("out", "tcp", "==", "587", &to(26)),
            rule("to", "tcp", "==", "993", r#"{"accept": null}"#),
            rule("to", "tcp", "==", "995", r#"{"redirect": null}"#),
        ];
        let ruleset = format!(r#"{{"nftables": [{}]}}"#, items.join(","));
        let ruleset = serde_json::from_str(&ruleset).unwrap();
        let found = redirects(&ruleset, &(1..=1000).collect());
        let of_set = [80].into_iter().chain(90..=95).map(|it| (it, Some(8080)));
        let all = [(25, None), (443, Some(8443))].into_iter().chain(of_set);
        assert_eq!(found, all.collect());
        assert!(redirects(&ruleset, &[444].into()).is_empty());
        for nonsense in ["{}", "[]", r#"{"nftables": [{"rule": {"expr": [7]}}, 3]}"#] {
            let nonsense = serde_json::from_str(nonsense).unwrap();
            assert!(redirects(&nonsense, &[443].into()).is_empty());
        }
    }
}
