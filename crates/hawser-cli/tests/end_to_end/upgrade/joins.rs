//! A client that accepts channels which its gateway opens.

use std::process::Command;

use hawser_skip::namespace::in_namespace;

use super::super::further_links::{BY_LTE, Net, ORIGIN, PORT};
use super::super::internet::serve_echoes;
use super::super::program::{Daemon, until};
use super::traffic::{Traffic, Way};
use super::{standing, until_alone, upgrade};

/// The client is replaced while a connection goes over both links of the gateway. Then the link
/// from which only the gateway can connect is lost and returns: its connections for the old
/// process's session arrive at the new one's port and are passed to the old process.
#[test]
fn a_gateway_joins_a_session_of_the_old_process() {
    let test = "upgrade::joins::a_gateway_joins_a_session_of_the_old_process";
    in_namespace(test, || {
        let Some(net) = Net::start(test) else { return };
        serve_echoes(&net.host, ORIGIN);
        let gateway = net.gateway(&["--further-link", "lte"]);
        let client = net.client(&["--accept-joins", PORT]);
        let log = || client.log() + &gateway.log();
        let proxy = client.listen(&net.place).unwrap();
        let traffic = Traffic::begin(&net.place, Way::Proxy(&proxy, ORIGIN));
        traffic.until_moved(5, log);
        until("the gateway has joined", || has_joined(&client), log);

        upgrade(&net.place, "client", &client);
        net.host.ip("link set lte down");
        until("the link is lost", || !has_joined(&client), log);
        net.host.ip("link set lte up");
        net.host.ip(BY_LTE);
        until("the gateway has joined again", || has_joined(&client), log);
        traffic.until_moved(5, log);

        println!("{}", traffic.end(log));
        until_alone(&net.place, "client", log);
        client.end();
        gateway.end();
    });
}

/// Whether the gateway opened a connection that a daemon's first process holds.
fn has_joined(client: &Daemon) -> bool {
    standing(
        Command::new("ss"),
        Some(client),
        &["sport", "=", &format!(":{PORT}")],
    )
}
