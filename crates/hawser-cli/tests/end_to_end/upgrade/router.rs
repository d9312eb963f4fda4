//! A router with hosts without any knowledge of Hawser.

use hawser_skip::name_server::serve_names_if_asked;
use hawser_skip::namespace::in_namespace;

use super::super::internet::{SERVER, SERVER_V6};
use super::super::program::until;
use super::super::router::scripts::{ALL, ALL_SAY};
use super::super::router::stage::{Router, state, v4};
use super::traffic::{Traffic, Way};
use super::{until_alone, upgrade};

/// The router and its gateway are replaced while connections and datagrams of a host continue, in
/// both families. The machine also forwards without Hawser: while no process captures the hosts'
/// packets, none of them may bypass Hawser.
#[test]
fn connections_of_hosts_go_on() {
    let test = "upgrade::router::connections_of_hosts_go_on";
    in_namespace(test, || {
        serve_names_if_asked();
        let Some(router) = Router::new(test, 1) else {
            return;
        };
        for setting in ["ipv4/ip_forward", "ipv6/conf/all/forwarding"] {
            std::fs::write(format!("/proc/sys/net/{setting}"), "1").unwrap();
        }
        router.net.gateway.nft(PAST).unwrap();
        let before = state();
        let gateway = router.net.serve();
        let up = router.up(&["--gateway", &router.place().invite()]);
        let log = || format!("{}\n{}", up.log(), gateway.log());
        let traffic = [SERVER, SERVER_V6].map(|server| {
            let way = Way::Ordinary(server);
            Traffic::begin_by(router.place(), way, |script| router.begin(0, script))
        });
        let until_moved = || traffic.iter().for_each(|it| it.until_moved(5, log));
        until_moved();
        let is_stream = || router.of_streams().contains(&v4(0));
        until("they are streams", is_stream, log);

        upgrade(router.place(), "client", &up);
        let is_routed = || up.log().matches("hosts are routed").count() == 2;
        until("the new process routes", is_routed, log);
        until_moved();
        upgrade(router.place(), "gateway", &gateway);
        until_moved();
        assert_eq!(router.python(0, ALL), ALL_SAY, "{}", log());

        for traffic in traffic {
            println!("{}", traffic.end(log));
        }
        let past = router.net.rules();
        assert!(past.contains("counter packets 0 bytes 0"), "{past}");
        until_alone(router.place(), "client", log);
        until_alone(router.place(), "gateway", log);
        up.end();
        assert_eq!(state(), before);
        gateway.end();
    });
}

/// Counts the packets of hosts' connections that the gateway gets directly from the router.
const PAST: &[u8] = b"table inet past {
    chain past {
        type filter hook prerouting priority -300
        iifname { dsl, lte } ip saddr 192.168.77.0/24 meta l4proto tcp counter
    }
}
";
