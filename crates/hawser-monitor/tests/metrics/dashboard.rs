//! Checks the parts of `contrib/grafana/hawser.json`, without running Grafana.

use std::collections::BTreeSet;

use hawser_control::StatusSnapshot;
use hawser_monitor::metrics::render;
use serde_json::Value;

use super::format::parse;
use super::promtool::check_expressions;

#[test]
fn every_expression_of_the_dashboard_and_of_the_document_is_one_for_prometheus() {
    let mut expressions = expressions(&dashboard());
    let count = expressions.len();
    assert!(count > 20, "{count}");
    expressions.extend(documented());
    assert!(expressions.len() > count + 4);
    let test = "every_expression_of_the_dashboard_and_of_the_document_is_one_for_prometheus";
    check_expressions(test, &expressions);
}

#[test]
fn the_dashboard_names_only_metrics_that_there_are() {
    let families = parse(&render(&StatusSnapshot::default()));
    let known: BTreeSet<String> = families.into_iter().map(|family| family.name).collect();
    for expression in expressions(&dashboard()).into_iter().chain(documented()) {
        let is_inner = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let words = expression.split(|c| !is_inner(c));
        let mut metrics = words.filter(|word| word.starts_with("hawser_")).peekable();
        assert!(metrics.peek().is_some(), "{expression}");
        for metric in metrics {
            assert!(known.contains(metric), "{metric} in {expression}");
        }
    }
}

#[test]
fn panels_have_what_grafana_needs_and_do_not_overlap() {
    let dashboard = dashboard();
    assert_eq!(
        dashboard["id"],
        Value::Null,
        "an imported dashboard has no number yet"
    );
    assert!(dashboard["schemaVersion"].as_u64().unwrap() >= 36);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    assert!(!text(&dashboard["uid"]).is_empty() && !text(&dashboard["title"]).is_empty());
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let source = variables
        .iter()
        .find(|it| it["type"] == "datasource")
        .unwrap();
    assert_eq!(source["query"], "prometheus");
    let mut numbers = BTreeSet::new();
    let mut cells = BTreeSet::new();
    for panel in panels(&dashboard) {
        assert!(numbers.insert(panel["id"].as_u64().unwrap()), "{panel}");
        assert!(!text(&panel["title"]).is_empty(), "{panel}");
        let place = |key: &str| panel["gridPos"][key].as_u64().unwrap();
        assert!(place("x") + place("w") <= 24, "{panel}");
        for x in place("x")..place("x") + place("w") {
            for y in place("y")..place("y") + place("h") {
                assert!(cells.insert((x, y)), "{} overlaps", panel["title"]);
            }
        }
        if panel["type"] == "row" {
            continue;
        }
        assert!(["timeseries", "stat", "bargauge"].contains(&panel["type"].as_str().unwrap()));
        assert!(!text(&panel["description"]).is_empty(), "{panel}");
        assert!(!text(&panel["fieldConfig"]["defaults"]["unit"]).is_empty());
        let mut letters = BTreeSet::new();
        for target in panel["targets"].as_array().unwrap() {
            assert!(letters.insert(text(&target["refId"])), "{panel}");
            let source = format!("${{{}}}", text(&source["name"]));
            assert_eq!(target["datasource"]["uid"], source.as_str());
        }
        assert!(!letters.is_empty());
    }
}

fn dashboard() -> Value {
    serde_json::from_str(DASHBOARD).unwrap()
}

fn panels(dashboard: &Value) -> &[Value] {
    dashboard["panels"].as_array().unwrap()
}

/// Returns the expressions of panels, with Grafana's variables filled in.
fn expressions(dashboard: &Value) -> Vec<String> {
    let targets = panels(dashboard)
        .iter()
        .filter_map(|it| it["targets"].as_array());
    let expressions = targets
        .flatten()
        .map(|target| target["expr"].as_str().unwrap());
    let filled = expressions.map(|it| it.replace("$__rate_interval", "1m"));
    filled.collect()
}

/// Returns the expressions that the document recommends.
fn documented() -> Vec<String> {
    let (_, table) = DOCUMENT.split_once("## What to watch").unwrap();
    let rows = table.lines().filter_map(|line| line.split(" | ").nth(1));
    let expressions = rows.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    expressions.map(str::to_owned).collect()
}

const DASHBOARD: &str = include_str!("../../../../contrib/grafana/hawser.json");
const DOCUMENT: &str = include_str!("../../../../docs/metrics.md");
