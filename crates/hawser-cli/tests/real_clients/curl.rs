//! curl by each protocol of the proxy port.

use std::process::Command;

use super::clients::{Rope, is_without, noise, run};
use super::nginx::Nginx;
use super::program::Place;

#[test]
fn curl_reads_and_writes_files_by_every_proxy_protocol() {
    let test = "curl_reads_and_writes_files_by_every_proxy_protocol";
    if is_without(&["nginx", "curl"], test) {
        return;
    }
    let place = Place::new();
    let (nginx, rope) = (Nginx::start(&place), Rope::start(&place));
    let (small, large) = (noise(1, SMALL), noise(2, LARGE));
    nginx.put("small", &small);
    nginx.put("large", &large);
    for (protocol, options) in PROTOCOLS {
        let proxy = format!("{}://{}", options[0], rope.proxy);
        let curl = |arguments: &[&str]| {
            let arguments = [&options[1..], arguments].concat();
            curl(&place, &proxy, &arguments)
        };
        let before = rope.connected(&place);
        assert!(curl(&[&nginx.url("small")]) == small, "{protocol}: small");
        assert!(curl(&[&nginx.url("large")]) == large, "{protocol}: large");

        let (file, name) = (nginx.path("large"), format!("upload/{protocol}"));
        curl(&["--upload-file", file.to_str().unwrap(), &nginx.url(&name)]);
        let written = std::fs::read(nginx.path(&name)).unwrap();
        assert!(written == large, "{protocol}: upload");
        nginx.logged(&["PUT", &name, "201"]);
        assert_eq!(rope.connected(&place), before + 3, "{protocol}");
    }
    rope.end();
}

#[test]
fn curl_leaves_names_to_the_gateway() {
    if is_without(&["nginx", "curl"], "curl_leaves_names_to_the_gateway") {
        return;
    }
    let place = Place::new();
    let (nginx, rope) = (Nginx::start(&place), Rope::start(&place));
    nginx.put("small", b"found by name");
    for scheme in ["socks5h", "socks4a", "http"] {
        let proxy = format!("{scheme}://{}", rope.proxy);
        let url = format!("http://localhost:{}/small", nginx.address.port());
        assert_eq!(curl(&place, &proxy, &[&url]), b"found by name", "{scheme}");
    }
    rope.end();
}

/// Runs curl through a proxy, and returns what it wrote.
fn curl(place: &Place, proxy: &str, arguments: &[&str]) -> Vec<u8> {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--fail", "--proxy", proxy])
        // It would go around the proxy for names that the machine's settings list.
        .args(["--noproxy", ""])
        .args(arguments);
    run(place, &mut curl).out()
}

/// A name, and the scheme of the proxy's address with further options.
const PROTOCOLS: [(&str, &[&str]); 4] = [
    ("socks5", &["socks5h"]),
    ("socks4a", &["socks4a"]),
    ("connect", &["http", "--proxytunnel"]),
    ("http", &["http"]),
];
const SMALL: usize = 1_234;
const LARGE: usize = 20_000_000;
