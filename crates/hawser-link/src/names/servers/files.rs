//! The files that list name servers.

use std::fs::{self, File};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use crate::links::Link;
use hawser_keys::read_bounded;

/// Returns the servers of one link, from the first file that lists any; `None` if no file does.
///
/// An empty list means that only the system's resolver may ask over this link.
pub(super) fn of_link(root: &Path, link: &Link) -> Option<Vec<IpAddr>> {
    let index = link.index.value();
    // Written by systemd-resolved for NetworkManager or another program, and by systemd-networkd
    // for DHCP.
    for file in [
        format!("run/systemd/resolve/netif/{index}"),
        format!("run/systemd/netif/links/{index}"),
    ] {
        let found = read(&root.join(file)).and_then(|text| assignments(&text));
        if let Some(servers) = found {
            return Some(if is_strict(root) { Vec::new() } else { servers });
        }
    }
    // Written by DHCP clients and PPP for resolvconf, one file for each source of addresses.
    let folders = [
        "run/resolvconf/interfaces",
        "run/resolvconf/interface",
        "run/dhcpcd/hook-state/resolv.conf",
    ];
    for folder in folders {
        let mut servers = Vec::new();
        for file in files_of(&root.join(folder), &link.name) {
            let text = read(&file).unwrap_or_default();
            servers.extend(name_servers(&text));
        }
        if !servers.is_empty() {
            return Some(servers);
        }
    }
    None
}

/// Returns the servers of the whole machine, except resolvers on it.
pub(super) fn common(root: &Path) -> Vec<IpAddr> {
    if is_strict(root) {
        return Vec::new();
    }
    // If the first file lists a resolver on this machine, the others list the servers behind it.
    let files = [
        "etc/resolv.conf",
        "run/systemd/resolve/resolv.conf",
        "run/NetworkManager/no-stub-resolv.conf",
    ];
    for file in files {
        let text = read(&root.join(file)).unwrap_or_default();
        let mut servers = name_servers(&text);
        servers.retain(|server| !server.is_loopback());
        if !servers.is_empty() {
            return servers;
        }
    }
    Vec::new()
}

/// Returns all servers that programs may be configured to ask, resolvers on this machine included.
pub(super) fn named(root: &Path) -> Vec<IpAddr> {
    let files = [
        "etc/resolv.conf",
        "run/systemd/resolve/stub-resolv.conf",
        "run/systemd/resolve/resolv.conf",
        "run/NetworkManager/no-stub-resolv.conf",
    ];
    let texts = files.iter().filter_map(|file| read(&root.join(file)));
    texts.flat_map(|text| name_servers(&text)).collect()
}

/// Returns the files in `folder` for the interface `name`: the file name is the interface name,
/// optionally followed by a dot and the program that wrote it.
fn files_of(folder: &Path, name: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let entries = entries.take(MAX_FILES).filter_map(Result::ok);
    let mut files: Vec<_> = entries
        .filter(|entry| {
            let own = entry.file_name();
            let rest = own.to_str().and_then(|own| own.strip_prefix(name));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
        .map(|entry| entry.path())
        .collect();
    files.sort();
    files
}

/// Returns the servers in a file of systemd; `None` if it lists none.
fn assignments(text: &str) -> Option<Vec<IpAddr>> {
    let value = |keys: &[&str]| {
        let mut lines = text.lines().filter_map(|line| line.split_once('='));
        lines.find_map(|(key, value)| keys.contains(&key).then_some(value.trim()))
    };
    let servers = value(&["SERVERS", "DNS"])?;
    let is_apart = value(&["DEFAULT_ROUTE", "DNS_DEFAULT_ROUTE"]) == Some("no");
    let is_encrypted = value(&["DNSOVERTLS", "DNS_OVER_TLS"]) == Some("yes");
    if is_apart || is_encrypted {
        // These servers are for the names of one network only, or only for encrypted queries.
        return Some(Vec::new());
    }
    let servers: Vec<_> = servers.split_whitespace().filter_map(server).collect();
    (!servers.is_empty()).then_some(servers)
}

/// Returns whether the machine's resolver must ask encrypted, or must validate answers: then
/// answers of other servers are no substitute.
fn is_strict(root: &Path) -> bool {
    let folder = root.join("etc/systemd/resolved.conf.d");
    let more = fs::read_dir(folder).into_iter().flatten().take(MAX_FILES);
    let mut more: Vec<_> = more.filter_map(Result::ok).map(|it| it.path()).collect();
    more.sort();
    let mut files = vec![root.join("etc/systemd/resolved.conf")];
    files.append(&mut more);
    let texts: Vec<String> = files.iter().filter_map(|file| read(file)).collect();
    // The last line with a key takes precedence.
    let is_on = |key: &str| {
        let lines = texts.iter().flat_map(|text| text.lines());
        let mut values = lines.filter_map(|line| line.strip_prefix(key));
        let value = values.next_back().map(str::trim);
        matches!(value, Some("yes" | "true" | "1" | "on"))
    };
    is_on("DNSOverTLS=") || is_on("DNSSEC=")
}

/// Returns the servers of a `resolv.conf`.
fn name_servers(text: &str) -> Vec<IpAddr> {
    let mut servers = Vec::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        if words.next() == Some("nameserver") {
            servers.extend(words.next().and_then(server));
        }
    }
    servers
}

/// Parses an address with an optional port, scope or certificate name. A server with a port other
/// than 53 does not speak plain DNS.
fn server(text: &str) -> Option<IpAddr> {
    let address = text.split('#').next()?;
    if let Ok(address) = address.parse::<SocketAddr>() {
        return (address.port() == PORT).then_some(address.ip());
    }
    address.split('%').next()?.parse().ok()
}

/// Returns the text of a small file, whatever its encoding.
fn read(path: &Path) -> Option<String> {
    // Skips pipes and devices, which could block.
    if !fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let file = File::open(path).ok()?;
    let bytes = read_bounded(&file, path, MAX_FILE).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The port of name servers.
pub(super) const PORT: u16 = 53;
const MAX_FILE: u64 = 64 * 1024;
const MAX_FILES: usize = 256;
