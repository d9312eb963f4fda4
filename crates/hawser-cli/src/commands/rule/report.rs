//! Rules and verdicts as text and as JSON.

use std::fmt::Write as _;

use hawser_director::ruled;
use hawser_policy::{
    Action, Condition, Explained, Facts, Miss, Mode, Rule, RuleSet, Source, Verdict,
};
use hawser_sched::connection::{By, GatewayUse};
use serde_json::{Map, Value, json};

/// Returns the rules of the sources that are `shown`, with notes on links that are not `present`.
pub(super) fn list_text(
    set: &RuleSet,
    shown: impl Fn(Source) -> bool,
    present: Option<&[String]>,
) -> String {
    let mut text = String::new();
    for (place, rule) in set.rules().iter().enumerate() {
        if !shown(rule.source) {
            continue;
        }
        let _ = writeln!(text, "{}: {}: {}", title(set, place), rule.when, rule.then);
        for link in unknown_links(rule, present) {
            let _ = writeln!(text, "     no link is called {link} now");
        }
    }
    if text.is_empty() {
        "you have no rule of your own; --builtin shows the built-in ones\n".to_owned()
    } else {
        text
    }
}

/// Returns these rules as JSON.
pub(super) fn list_json(
    set: &RuleSet,
    shown: impl Fn(Source) -> bool,
    present: Option<&[String]>,
) -> Value {
    let rules = set.rules().iter().enumerate();
    let shown = rules.filter(|(_, rule)| shown(rule.source));
    let rule = |(place, rule): (usize, &Rule)| {
        json!({
            "number": place + 1,
            "source": rule.source.to_string(),
            "name": rule.name,
            "when": condition(&rule.when),
            "then": action(&rule.then),
            "unknown_links": unknown_links(rule, present),
        })
    };
    json!({ "rules": shown.map(rule).collect::<Vec<_>>() })
}

/// Describes the verdict of the rules on a connection; with `all`, the effect of each rule. With a
/// gateway in use as `gateway`, also the route.
pub(super) fn test_text(
    set: &RuleSet,
    facts: &Facts<'_>,
    all: bool,
    gateway: Option<GatewayUse>,
) -> String {
    let mut text = String::new();
    let verdict = set.judge(facts);
    for (key, value, by) in fields(&verdict) {
        let by = by.map_or_else(
            || "no rule says anything else".to_owned(),
            |place| title(set, place),
        );
        let _ = writeln!(text, "{key:<7} {value:<24} {by}");
    }
    if let Some((way, why)) = gateway.map(|usage| way(usage, &verdict)) {
        let _ = writeln!(text, "{:<7} {way:<24} {why}", "way");
    }
    for (place, explained) in set.explain(facts).iter().enumerate() {
        match explained.applies {
            Err(miss) if all => {
                let _ = writeln!(text, "  no   {}: {}", title(set, place), why(miss));
            }
            Err(_) => {}
            Ok(()) => {
                let _ = writeln!(
                    text,
                    "  yes  {}: {}",
                    title(set, place),
                    explained.rule.then
                );
            }
        }
    }
    text
}

/// Returns the verdict as JSON, and whether each rule applies.
pub(super) fn test_json(set: &RuleSet, facts: &Facts<'_>, gateway: Option<GatewayUse>) -> Value {
    let verdict = set.judge(facts);
    let way = gateway.map(|usage| way(usage, &verdict));
    let way = way.map(|(way, why)| json!({ "value": way, "why": why }));
    let fields = fields(&verdict).into_iter();
    let field = |(key, value, by): (&str, String, Option<usize>)| {
        let by = by.map(|place| place + 1);
        (key.to_owned(), json!({ "value": value, "rule": by }))
    };
    let explained = set.explain(facts);
    let rule = |(place, one): (usize, &Explained<'_>)| {
        let miss = one.applies.err();
        json!({
            "number": place + 1,
            "source": one.rule.source.to_string(),
            "name": one.rule.name,
            "applies": one.applies.is_ok(),
            "misses": miss.map(|miss| miss.field.key()),
            "known": miss.is_none_or(|miss| miss.known),
        })
    };
    let rules: Vec<Value> = explained.iter().enumerate().map(rule).collect();
    json!({ "verdict": fields.map(field).collect::<Map<_, _>>(), "way": way, "rules": rules })
}

/// Returns the route of a connection with this verdict and a gateway, and the reason, as far as
/// they do not depend on the current links.
fn way(usage: GatewayUse, verdict: &Verdict) -> (&'static str, String) {
    let (by, why) = ruled(usage, verdict, false, false);
    let is_packets = verdict.mode == Mode::Packet && by == Some(By::Gateway);
    let why = if is_packets {
        format!("{why}; as a stream where packets are not captured")
    } else {
        why.to_owned()
    };
    let way = match by {
        _ if is_packets => "as packets",
        Some(By::Link) => "over one link",
        Some(By::Gateway) => "over the gateway",
        None => "over a link or the gateway",
    };
    let unless = if by != Some(By::Link) && !verdict.avoid.is_empty() {
        "; over one link where there are links to avoid"
    } else {
        ""
    };
    (way, format!("{why}{unless}"))
}

/// Returns the fields of a verdict, each with the index of the rule that decided it.
fn fields(verdict: &Verdict) -> [(&'static str, String, Option<usize>); 4] {
    let avoid: Vec<&str> = verdict.avoid.iter().map(|avoid| avoid.name()).collect();
    let avoid = if avoid.is_empty() {
        "nothing".to_owned()
    } else {
        avoid.join(" ")
    };
    [
        ("class", verdict.class.to_string(), verdict.class_by),
        ("links", verdict.links.to_string(), verdict.links_by),
        ("avoid", avoid, verdict.avoid_by),
        ("mode", verdict.mode.to_string(), verdict.mode_by),
    ]
}

/// Formats a rule's number and source as in `3 (user)`, with the rule's name if it has one.
fn title(set: &RuleSet, place: usize) -> String {
    let rule = set.rules().get(place);
    let source = rule.map(|rule| rule.source).unwrap_or_default();
    let name = rule.and_then(|rule| rule.name.as_deref());
    let name = name.map_or(String::new(), |name| format!(" {name}"));
    format!("{:>3} {source}{name}", place + 1)
}

fn why(miss: Miss) -> String {
    let key = miss.field.key();
    if miss.known {
        format!("{key} is another")
    } else {
        format!("{key} is not known")
    }
}

fn unknown_links<'a>(rule: &'a Rule, present: Option<&[String]>) -> Vec<&'a str> {
    let Some(present) = present else {
        return Vec::new();
    };
    let names = rule.then.links.iter().flat_map(|links| links.names());
    let unknown = names.filter(|name| !present.contains(name));
    unknown.map(String::as_str).collect()
}

fn condition(when: &Condition) -> Value {
    let entries = when.entries().into_iter();
    let entry =
        |(field, values): (hawser_policy::Field, _)| (field.key().to_owned(), json!(values));
    Value::Object(entries.map(entry).collect())
}

fn action(then: &Action) -> Value {
    let entries = then.entries().into_iter();
    let entry = |(key, values): (&str, _)| (key.to_owned(), json!(values));
    Value::Object(entries.map(entry).collect())
}
