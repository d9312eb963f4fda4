//! `hawser policy`.

use crate::figures::{left_out, wrap};
use crate::table::{Side, Table, printable};
use hawser_control::PolicyStatus;

/// Returns the policy as text of at most `width` columns a line, at least 40, with a line end at
/// the end.
pub fn render_policy(policy: &PolicyStatus, width: usize) -> String {
    let width = width.max(MIN_WIDTH);
    let mut lines = Vec::new();
    let gateway = GATEWAY.map(str::to_owned);
    let all = [
        (
            "sessions",
            Some(&policy.sessions),
            &policy.sessions_known[..],
        ),
        (
            "connections",
            policy.connections.as_ref(),
            &policy.connections_known,
        ),
        ("packets", policy.packets.as_ref(), &policy.packets_known),
        (
            "transport",
            policy.transport.as_ref(),
            &policy.transports_known,
        ),
        ("gateway", policy.gateway.as_ref(), &gateway),
        ("profile", policy.profile.as_ref(), &policy.profiles_known),
    ];
    for (what, now, known) in all {
        if let Some(now) = now {
            let others: Vec<&str> = known
                .iter()
                .filter(|it| *it != now)
                .map(String::as_str)
                .collect();
            let line = format!("{what:<11}  {now}, or: {}", others.join(" "));
            wrap(&mut lines, &printable(&line), width);
        }
    }
    let mut rules = Table::new([
        ("RULE", Side::Right),
        ("FROM", Side::Left),
        ("NAME", Side::Flexible),
        ("FOR", Side::Flexible),
        ("SAYS", Side::Flexible),
    ]);
    for rule in &policy.rules {
        rules.push([
            rule.number.to_string(),
            rule.source.clone(),
            rule.name.clone().unwrap_or_default(),
            rule.when.clone(),
            rule.then.clone(),
        ]);
    }
    if !rules.is_empty() {
        lines.push(String::new());
        lines.extend(rules.lines(0, width));
    }
    lines.extend(left_out(policy.rule_count, policy.rules.len(), "rules"));
    lines.push(String::new());
    lines.join("\n")
}

const MIN_WIDTH: usize = 40;
/// The uses of a gateway.
const GATEWAY: [&str; 3] = ["always", "auto", "never"];

#[cfg(test)]
mod tests {
    use super::*;
    use hawser_control::RuleStatus;

    #[test]
    fn what_is_in_force_stands_before_what_else_may() {
        let rule = |number, source: &str, when: &str, then: &str| RuleStatus {
            number,
            source: source.to_owned(),
            when: when.to_owned(),
            then: then.to_owned(),
            ..RuleStatus::default()
        };
        let policy = PolicyStatus {
            sessions: "ecf".to_owned(),
            sessions_known: ["auto", "ecf"].map(str::to_owned).into(),
            transport: Some("tcp".to_owned()),
            transports_known: ["tcp", "sctp", "auto"].map(str::to_owned).into(),
            gateway: Some("auto".to_owned()),
            profile: Some("calls".to_owned()),
            profiles_known: ["speed", "calls"].map(str::to_owned).into(),
            rules: vec![
                rule(1, "session", "program firefox", "only wlan0"),
                rule(2, "user", "any connection", "class bulk"),
            ],
            rule_count: 9,
            ..PolicyStatus::default()
        };
        let expected = "\
sessions     ecf, or: auto
transport    tcp, or: sctp auto
gateway      auto, or: always never
profile      calls, or: speed

RULE  FROM     NAME  FOR              SAYS
   1  session        program firefox  only wlan0
   2  user           any connection   class bulk
  and 7 more rules
";
        assert_eq!(render_policy(&policy, 80), expected);
    }
}
