//! Associations with another SCTP stack, on the real kernel. Tests that can't be built or run here
//! are reported and skipped.

mod common;

use std::process::Command;

use hawser_skip::TestFolder;

#[test]
fn every_byte_arrives_over_two_links_that_lose_both_ways_between_the_stacks() {
    let name = "every_byte_arrives_over_two_links_that_lose_both_ways_between_the_stacks";
    transfers(name, "lossy", &["--direction", "both"]);
}

#[test]
fn every_byte_arrives_between_hosts_with_one_address_each() {
    let name = "every_byte_arrives_between_hosts_with_one_address_each";
    transfers(name, "lossy", &["--single"]);
}

#[test]
fn every_byte_arrives_though_a_link_falls_silent() {
    transfers(
        "every_byte_arrives_though_a_link_falls_silent",
        "eq-50",
        &["--cut", "--bytes", "6MB"],
    );
}

#[test]
fn every_stack_carries_every_byte_over_cables_without_limits() {
    let name = "every_stack_carries_every_byte_over_cables_without_limits";
    let options = ["--bytes", "3MB", "--message", "20001", "--repeat", "1"];
    if let Some(report) = report(name, "association-speed", &options) {
        assert_eq!(rows_of(&report), 9, "{report}");
    }
}

/// Runs Hawser's stack with itself, to usrsctp and from it; the command fails when a byte is wrong.
fn transfers(test: &str, scenario: &str, options: &[&str]) {
    let scenario = format!(
        "{}/../../scenarios/{scenario}.toml",
        env!("CARGO_MANIFEST_DIR")
    );
    let only = "hawser-hawser,hawser-usrsctp,usrsctp-hawser";
    let mut all = vec![scenario.as_str(), "--only", only];
    if !options.contains(&"--bytes") {
        all.extend(["--bytes", "2MB"]);
    }
    all.extend(options);
    if let Some(report) = report(test, "association", &all) {
        assert!(rows_of(&report) >= 3, "{report}");
    }
}

/// How many rows a report has, each with one transfer that went well.
fn rows_of(report: &serde_json::Value) -> usize {
    let rows = report["rows"].as_array().unwrap();
    for row in rows {
        assert_eq!(row["failures"].as_array().unwrap().len(), 0, "{row}");
        assert_eq!(row["samples"].as_array().unwrap().len(), 1, "{row}");
    }
    rows.len()
}

/// What a command of the lab reports, which must succeed; nothing where it can't be run.
fn report(test: &str, command: &str, options: &[&str]) -> Option<serde_json::Value> {
    if !common::can_make_labs(test) {
        return None;
    }
    let mut lab = Command::new(env!("CARGO_BIN_EXE_hawser-lab"));
    let folder = TestFolder::new();
    lab.args([command, "--json"]).args(options);
    let output = lab.arg("--logs").arg(folder.path()).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    if errors.contains("libusrsctp-dev") {
        hawser_skip::skip(&format!("association::{test}"), &errors);
        return None;
    }
    assert!(output.status.success(), "{errors}");
    Some(serde_json::from_slice(&output.stdout).unwrap())
}
