//! Associations with another SCTP stack, on the real kernel. What can't be built or made here is said
//! and skipped.

mod common;

use std::process::Command;

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

/// Runs Hawser's stack with itself, to usrsctp and from it; the command fails when a byte is wrong.
fn transfers(test: &str, scenario: &str, options: &[&str]) {
    if !common::can_make_labs(test) {
        return;
    }
    let scenario = format!(
        "{}/../../scenarios/{scenario}.toml",
        env!("CARGO_MANIFEST_DIR")
    );
    let mut command = Command::new(env!("CARGO_BIN_EXE_hawser-lab"));
    command.args(["association", &scenario, "--json"]);
    command.args(["--only", "hawser-hawser,hawser-usrsctp,usrsctp-hawser"]);
    if !options.contains(&"--bytes") {
        command.args(["--bytes", "2MB"]);
    }
    let output = command.args(options).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    if errors.contains("libusrsctp-dev") {
        return hawser_skip::skip(&format!("association::{test}"), &errors);
    }
    assert!(output.status.success(), "{errors}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = report["rows"].as_array().unwrap();
    assert!(rows.len() >= 3, "{report}");
    for row in rows {
        assert_eq!(row["failures"].as_array().unwrap().len(), 0, "{row}");
        assert_eq!(row["samples"].as_array().unwrap().len(), 1, "{row}");
    }
}
