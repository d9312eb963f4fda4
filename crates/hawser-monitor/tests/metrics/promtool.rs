//! Checks of the format and of expressions by Prometheus' own tool.

use std::io::Write as _;
use std::process::{Command, Stdio};

use hawser_control::StatusSnapshot;
use hawser_monitor::metrics::render;
use serde_json::json;

use super::sample::{link, rich};

/// Fails unless promtool accepts all of these expressions; reports a missing promtool.
pub(crate) fn check_expressions(test: &str, expressions: &[String]) {
    let rule = |(number, expression): (usize, &String)| json!({"record": format!("expression:{number}"), "expr": expression});
    let rules: Vec<_> = expressions.iter().enumerate().map(rule).collect();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.yml");
    // JSON is YAML.
    let groups = json!({"groups": [{"name": "all", "rules": rules}]});
    std::fs::write(&file, groups.to_string()).unwrap();
    check(test, &["check", "rules", file.to_str().unwrap()], "");
}

#[test]
fn promtool_finds_nothing_to_complain_about() {
    let mut odd = rich();
    odd.links.push(link("a\\b\"c\nd{},", 7));
    for snapshot in [StatusSnapshot::default(), rich(), odd] {
        let test = "promtool_finds_nothing_to_complain_about";
        check(test, &["check", "metrics"], &render(&snapshot));
    }
}

fn check(test: &str, arguments: &[&str], input: &str) {
    let child = Command::new("promtool")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        hawser_skip::skip(&format!("metrics::{test}"), "promtool is not installed");
        return;
    };
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let complaints = String::from_utf8_lossy(&output.stderr);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{complaints}");
    assert_eq!(complaints, "");
}
