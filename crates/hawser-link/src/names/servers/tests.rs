use std::fs;
use std::path::Path;

use hawser_types::LinkIndex;

use super::*;

fn link(index: u32, name: &str, address: &str) -> Link {
    Link {
        addresses: vec![address.parse().unwrap()],
        has_default_route_v4: true,
        takes_ordinary_v4: true,
        ..Link::new(LinkIndex::new(index), name)
    }
}

fn put(root: &Path, file: &str, text: &str) {
    let path = root.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Returns the servers of links 2 (`dsl`) and 3 (`lte`), as addresses.
async fn found(root: &Path) -> [Vec<String>; 2] {
    let links = [
        link(2, "dsl", "192.0.2.10"),
        link(3, "lte", "198.51.100.10"),
    ];
    let found = ServerFinder::new(root.to_path_buf()).find(&links).await;
    let text = |target: &LinkServers| target.servers.iter().map(|it| it.to_string()).collect();
    [text(&found[0]), text(&found[1])]
}

#[tokio::test]
async fn what_systemd_knows_of_links_counts_first() {
    let root = tempfile::tempdir().unwrap();
    put(root.path(), "etc/resolv.conf", "nameserver 127.0.0.53\n");
    let resolved = "# This is private data. Do not parse.\nLLMNR=yes\n\
                    SERVERS=192.0.2.1 192.0.2.2:853 192.0.2.3:53 192.0.2.4#dns.example fe80::1%2\n";
    put(root.path(), "run/systemd/resolve/netif/2", resolved);
    put(
        root.path(),
        "run/systemd/netif/links/3",
        "OPER_STATE=routable\nDNS=198.51.100.1\n",
    );
    let [dsl, lte] = found(root.path()).await;
    assert_eq!(dsl, ["192.0.2.1:53", "192.0.2.3:53", "192.0.2.4:53"]);
    assert_eq!(lte, ["198.51.100.1:53"]);
}

#[tokio::test]
async fn without_word_on_links_all_servers_are_asked_over_each() {
    let root = tempfile::tempdir().unwrap();
    put(
        root.path(),
        "etc/resolv.conf",
        "nameserver 127.0.0.53\noptions edns0\n",
    );
    let behind = "nameserver 192.0.2.1\nnameserver 198.51.100.1\nnameserver 2001:db8::1\n";
    put(root.path(), "run/systemd/resolve/resolv.conf", behind);
    put(
        root.path(),
        "run/resolvconf/interfaces/lte.dhclient",
        "nameserver 203.0.113.1\n",
    );
    put(
        root.path(),
        "run/resolvconf/interfaces/lte2",
        "nameserver 203.0.113.2\n",
    );
    let [dsl, lte] = found(root.path()).await;
    assert_eq!(dsl, ["192.0.2.1:53", "198.51.100.1:53"]);
    assert_eq!(lte, ["203.0.113.1:53"]);
}

#[tokio::test]
async fn what_is_to_stay_encrypted_or_apart_is_not_asked_in_the_clear() {
    let root = tempfile::tempdir().unwrap();
    put(
        root.path(),
        "run/systemd/resolve/netif/2",
        "DNSOVERTLS=yes\nSERVERS=192.0.2.1\n",
    );
    put(
        root.path(),
        "run/systemd/resolve/netif/3",
        "DEFAULT_ROUTE=no\nSERVERS=198.51.100.1\n",
    );
    put(root.path(), "etc/resolv.conf", "nameserver 203.0.113.1\n");
    assert_eq!(found(root.path()).await, [[""; 0]; 2]);
    put(
        root.path(),
        "run/systemd/resolve/netif/2",
        "SERVERS=192.0.2.1\n",
    );
    assert_eq!(found(root.path()).await[0], ["192.0.2.1:53"]);
    for (setting, is_strict) in [
        ("DNSOverTLS=yes", true),
        ("DNSOverTLS=opportunistic\nDNSSEC=no", false),
        ("DNSSEC=yes", true),
        ("DNSSEC=yes\nDNSSEC=allow-downgrade", false),
    ] {
        let file = "etc/systemd/resolved.conf.d/mine.conf";
        put(root.path(), file, &format!("[Resolve]\n{setting}\n"));
        assert_eq!(
            found(root.path()).await[0].is_empty(),
            is_strict,
            "{setting}"
        );
    }
}

#[test]
fn a_link_that_nothing_is_known_of_asks_its_router_too() {
    let routes = [DefaultRoute {
        link: LinkIndex::new(3),
        gateway: Some("198.51.100.1".parse().unwrap()),
    }];
    let common = ["192.0.2.1", "192.0.2.1", "127.0.0.1"].map(|it| it.parse().unwrap());
    let lte = link(3, "lte", "198.51.100.10");
    let text = |servers: Vec<SocketAddr>| -> Vec<String> {
        servers.iter().map(|it| it.to_string()).collect()
    };
    let chosen = text(choose(&lte, None, &common, &routes));
    assert_eq!(chosen, ["192.0.2.1:53", "198.51.100.1:53"]);
    let chosen = text(choose(&lte, Some(Vec::new()), &common, &routes));
    assert_eq!(chosen, [""; 0]);
}

#[test]
fn names_of_this_machine_and_its_neighbours_are_left_to_the_system() {
    for name in [
        "gw.example.org",
        "gw.example.org.",
        "1.2.0.192.in-addr.arpa",
        "1.1.32.172.in-addr.arpa",
        "1.1.110.in-addr.arpa",
        "8.b.d.0.1.0.0.2.ip6.arpa",
    ] {
        assert!(may_be_asked(name), "{name}");
    }
    for name in [
        "gw",
        "gw.",
        "localhost",
        "a.localhost",
        "printer.local",
        "x.onion",
        "1.2.3.10.in-addr.arpa",
        "10.in-addr.arpa.",
        "1.1.168.192.in-addr.arpa",
        "1.0.31.172.in-addr.arpa",
        "1.2.d.f.ip6.arpa",
    ] {
        assert!(!may_be_asked(name), "{name}");
    }
}
