//! The registrar of `hawser-sip`, asked by programs that others have written.

#[path = "sip_tools/server.rs"]
mod server;

use std::path::Path;
use std::process::{Command, Output};

use server::Server;

/// Runs a program, or reports that the test is skipped where it is not installed.
fn run(test: &str, program: &str, package: &str, arguments: &[&str]) -> Option<Output> {
    let folders = ["/usr/bin", "/usr/local/bin"];
    if !folders
        .iter()
        .any(|folder| Path::new(folder).join(program).is_file())
    {
        let reason = format!("{program} (package {package}) is not installed");
        hawser_skip::skip(&format!("hawser-net::sip_tools::{test}"), &reason);
        return None;
    }
    Some(Command::new(program).args(arguments).output().unwrap())
}

fn text(output: &Output) -> String {
    let (out, error) = (&output.stdout, &output.stderr);
    String::from_utf8_lossy(out).into_owned() + &String::from_utf8_lossy(error)
}

#[test]
fn sipsak_registers_with_a_proof_and_not_without() {
    let server = Server::start();
    // With a port of five digits in the URI it writes four of them into To.
    let (uri, proxy) = ("sip:alice@127.0.0.1", server.address().to_string());
    let test = "sipsak_registers_with_a_proof_and_not_without";
    let register = |password: &str| {
        let contact = "sip:alice@192.0.2.1:5070";
        let arguments = [
            "-U", "-C", contact, "-x", "600", "-a", password, "-u", "alice", "-p", &proxy, "-s",
            uri,
        ];
        run(test, "sipsak", "sipsak", &arguments)
    };
    let Some(refused) = register("wrong") else {
        return;
    };
    assert!(!refused.status.success(), "{}", text(&refused));
    assert_eq!(server.contacts("alice"), [""; 0]);
    let accepted = register("a").unwrap();
    assert!(accepted.status.success(), "{}", text(&accepted));
    assert_eq!(server.contacts("alice"), ["sip:alice@192.0.2.1:5070"]);
}

/// Scenarios of sipp: what it sends, and what it waits for. It fails when anything else comes.
fn sipp(test: &str, scenario: &str) -> Option<(Server, Output)> {
    let server = Server::start();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sip_tools/");
    let file = format!("{folder}{scenario}.xml");
    let address = server.address().to_string();
    let arguments = [
        "-sf",
        &file,
        "-m",
        "1",
        "-au",
        "alice",
        "-ap",
        "a",
        "-s",
        "alice",
        "-timeout",
        "30s",
        "-timeout_error",
        "-nostdin",
        "-i",
        "127.0.0.1",
        &address,
    ];
    let output = run(test, "sipp", "sip-tester", &arguments)?;
    Some((server, output))
}

#[test]
fn sipp_registers_several_contacts_fetches_them_and_removes_all() {
    let test = "sipp_registers_several_contacts_fetches_them_and_removes_all";
    let Some((server, output)) = sipp(test, "register") else {
        return;
    };
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(server.contacts("alice"), [""; 0]);
}

#[test]
fn sipp_gets_a_refusal_for_each_fault() {
    let Some((server, output)) = sipp("sipp_gets_a_refusal_for_each_fault", "malformed") else {
        return;
    };
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(server.contacts("alice"), [""; 0]);
}
