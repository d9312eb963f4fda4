//! Real name servers behind links in namespaces.

use std::fs;
use std::path::Path;
use std::time::Duration;

use hawser_skip::name_server::{NameServer, serve_names_if_asked};
use hawser_skip::namespace::{Neighbour, in_namespace, ip};
use hawser_wire::dns::{AddressRecord, AnswerCode, DnsQuestion};
use tokio::time::Instant;

use super::*;
use crate::links::list_links;

/// Two links with a router each, whose name servers have these zones. The system's resolver of the
/// namespace asks a silent server.
struct Net {
    /// Dropped before their namespaces.
    _servers: Vec<NameServer>,
    routers: [Neighbour; 2],
    root: tempfile::TempDir,
}

impl Net {
    fn new(test: &str, zones: [&str; 2]) -> Self {
        let routers = [Neighbour::start(), Neighbour::start()];
        let mut servers = Vec::new();
        for (n, (router, zone)) in routers.iter().zip(zones).enumerate() {
            ip(&format!("link add link{n} type veth peer name peer{n}"));
            router.take(&format!("peer{n}"));
            router.ip(&format!("link set peer{n} up"));
            router.ip(&format!("address add 10.{n}.0.1/24 dev peer{n}"));
            ip(&format!("address add 10.{n}.0.2/24 dev link{n}"));
            ip(&format!("link set link{n} up"));
            ip(&format!(
                "route add default via 10.{n}.0.1 dev link{n} metric 10{n}"
            ));
            servers.push(NameServer::start(router, test, zone));
        }
        let root = tempfile::tempdir().unwrap();
        Self {
            _servers: servers,
            routers,
            root,
        }
    }

    /// Returns the two links, with the own server of each configured.
    async fn links(&self) -> Vec<Link> {
        let mut links = list_links().await.unwrap();
        links.retain(|link| link.name.starts_with("link"));
        assert_eq!(links.len(), 2);
        for (n, link) in links.iter().enumerate() {
            let index = link.index.value();
            let file = self
                .root
                .path()
                .join(format!("run/systemd/netif/links/{index}"));
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, format!("DNS=10.{n}.0.1\n")).unwrap();
        }
        links
    }

    fn names(&self) -> Names {
        Names::with_root(self.root.path().to_path_buf())
    }

    /// Drops all packets to the router of link `n` from now on, as if the line were cut.
    fn silence(&self, n: usize) {
        self.routers[n].ip(&format!("link set peer{n} address 02:00:00:00:00:0{n}"));
        let neighbour =
            format!("neighbour replace 10.{n}.0.1 lladdr 02:00:00:00:00:ff dev link{n}");
        ip(&neighbour);
    }
}

fn in_net<F: Future<Output = ()>>(test: &str, zones: [&str; 2], body: impl FnOnce(Net) -> F) {
    in_namespace(test, || {
        serve_names_if_asked();
        let net = Net::new(test, zones);
        tokio::runtime::Runtime::new().unwrap().block_on(body(net));
    });
}

fn name(text: &str) -> HostName {
    text.parse().unwrap()
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Returns the answer of the links' servers, without the system's resolver.
async fn over_links(names: &Names, host: &str, links: &[Link]) -> Result<Vec<IpAddr>, LookupError> {
    names.over_links(&name(host), links).await
}

#[test]
fn a_silent_first_link_does_not_keep_a_name_from_being_found() {
    let zones = ["gw.example.org=192.0.2.1", "gw.example.org=192.0.2.2"];
    let test = "names::tests::a_silent_first_link_does_not_keep_a_name_from_being_found";
    in_net(test, zones, |net| async move {
        let (links, names) = (net.links().await, net.names());
        net.silence(0);
        let begun = Instant::now();
        let found = names.lookup(&name("gw.example.org"), &links).await;
        println!("found after {:?}", begun.elapsed());
        assert_eq!(found, Ok(vec![address("192.0.2.2")]));
        // The name is asked for over each link: a silent link delays no other.
        let findings = names.search(&name("gw.example.org"), &links);
        let mut findings = std::pin::pin!(findings);
        let found = loop {
            let finding = findings.next().await.unwrap();
            if let Ok(addresses) = finding.result {
                break (finding.link, addresses);
            }
        };
        assert_eq!(found, (Some(links[1].index), vec![address("192.0.2.2")]));
    });
}

#[test]
fn a_name_that_one_network_alone_knows_is_found() {
    let zones = ["a.example.org=192.0.2.1", "b.example.org=192.0.2.2"];
    let test = "names::tests::a_name_that_one_network_alone_knows_is_found";
    in_net(test, zones, |net| async move {
        let (links, names) = (net.links().await, net.names());
        for (host, expected) in [
            ("a.example.org", "192.0.2.1"),
            ("b.example.org", "192.0.2.2"),
        ] {
            let found = over_links(&names, host, &links).await;
            assert_eq!(found, Ok(vec![address(expected)]));
        }
        let found = over_links(&names, "c.example.org", &links).await;
        assert_eq!(found, Err(LookupError::NotFound));
    });
}

#[test]
fn long_answers_come_over_tcp_and_servers_that_fail_do_not_count() {
    let zones = [
        "long.example.org=cut:192.0.2.1,bad.example.org=broken,worse.example.org=broken",
        "bad.example.org=192.0.2.2,long.example.org=silent,worse.example.org=broken",
    ];
    let test = "names::tests::long_answers_come_over_tcp_and_servers_that_fail_do_not_count";
    in_net(test, zones, |net| async move {
        let (links, names) = (net.links().await, net.names());
        let found = over_links(&names, "long.example.org", &links).await;
        assert_eq!(found, Ok(vec![address("192.0.2.1")]));
        let found = over_links(&names, "bad.example.org", &links).await;
        assert_eq!(found, Ok(vec![address("192.0.2.2")]));
        let found = over_links(&names, "worse.example.org", &links).await;
        assert_eq!(found, Err(LookupError::Failed));
    });
}

#[test]
fn what_was_found_is_known_without_a_server() {
    let test = "names::tests::what_was_found_is_known_without_a_server";
    in_net(test, ["gw.example.org=192.0.2.1", ""], |net| async move {
        let (links, names) = (net.links().await, net.names());
        let first = over_links(&names, "gw.example.org", &links).await;
        assert_eq!(first, Ok(vec![address("192.0.2.1")]));
        net.silence(0);
        assert_eq!(over_links(&names, "gw.example.org", &links).await, first);
    });
}

/// Returns the code of the answer to a program that asks `server` for an address of `host`, and the
/// time that it took.
async fn asked(names: &Names, host: &str, server: &str, links: &[Link]) -> (AnswerCode, Duration) {
    let query = DnsQuestion::encode(0x1234, &name(host), AddressRecord::A);
    let begun = Instant::now();
    let server = server.parse().unwrap();
    let message = names.answer(&query, server, links).await.unwrap();
    let question = DnsQuestion::decode(&query).unwrap();
    let answer = question.decode_answer(&message).unwrap().unwrap();
    println!("{host}: {:?} after {:?}", answer.code, begun.elapsed());
    (answer.code, begun.elapsed())
}

#[test]
fn what_programs_ask_is_answered_by_links_where_the_server_is_silent_or_fails() {
    let zones = ["a.example.org=broken", "a.example.org=192.0.2.1"];
    let test =
        "names::tests::what_programs_ask_is_answered_by_links_where_the_server_is_silent_or_fails";
    in_net(test, zones, |net| async move {
        let (links, names) = (net.links().await, net.names());
        let servers = names.servers(&links).await;
        assert_eq!(
            servers,
            ["10.0.0.1:53", "10.1.0.1:53"].map(|it| it.parse().unwrap())
        );
        let fails = "10.0.0.1:53";
        let (code, _) = asked(&names, "a.example.org", fails, &links).await;
        assert_eq!(code, AnswerCode::Found);
        net.silence(0);
        for (host, expected) in [
            ("b.example.org", AnswerCode::NoSuchName),
            ("a.example.org", AnswerCode::Found),
        ] {
            let (code, _) = asked(&names, host, fails, &links).await;
            assert_eq!(code, expected);
        }
        // Names of this machine's neighbours are never asked over links.
        let query = DnsQuestion::encode(1, &name("a.local"), AddressRecord::A);
        let silent = names.answer(&query, fails.parse().unwrap(), &links).await;
        assert_eq!(silent, Err(LookupError::Silent));
    });
}

#[test]
fn a_server_that_knows_more_names_than_links_do_is_believed() {
    let zones = [
        "office.example.org=192.0.2.1",
        "office.example.org=192.0.2.2",
    ];
    let test = "names::tests::a_server_that_knows_more_names_than_links_do_is_believed";
    in_net(test, zones, |net| async move {
        let (links, names) = (net.links().await, net.names());
        for (server, expected) in [("10.0.0.1:53", 1), ("10.1.0.1:53", 2)] {
            let query = DnsQuestion::encode(7, &name("office.example.org"), AddressRecord::A);
            let message = names.answer(&query, server.parse().unwrap(), &links).await;
            let message = message.unwrap();
            assert_eq!(message[..2], [0, 7]);
            assert!(message.ends_with(&[192, 0, 2, expected]), "{message:?}");
        }
        // A message that is not a question is forwarded unchanged, and so is its answer.
        let passed = names.answer(
            b"\0\x09\x28\0\0\0\0\0\0\0\0\0",
            "10.0.0.1:9".parse().unwrap(),
            &links,
        );
        assert_eq!(passed.await, Err(LookupError::Silent));
    });
}

#[test]
fn without_a_server_there_is_an_error_in_time() {
    let test = "names::tests::without_a_server_there_is_an_error_in_time";
    in_net(test, ["", ""], |net| async move {
        let links = net.links().await;
        let names = Names::with_root(Path::new("/nonexistent").to_path_buf());
        for n in [0, 1] {
            net.silence(n);
        }
        let limit = SYSTEM_TIMEOUT + Duration::from_secs(20);
        let host = name("gw.example.org");
        let result = timeout(limit, names.lookup(&host, &links)).await.unwrap();
        assert!(result.is_err(), "{result:?}");
    });
}
