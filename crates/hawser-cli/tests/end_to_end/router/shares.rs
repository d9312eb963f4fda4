//! Shares of hosts behind a router that all want the same.

use hawser_skip::name_server::serve_names_if_asked;
use hawser_skip::namespace::in_namespace;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;

use super::super::connections::serve_there;
use super::super::program::until;
use super::super::top::shape;
use super::stage::{Router, v4};

#[test]
fn a_host_with_eight_connections_gets_no_more_by_streams_than_one_with_a_single_one() {
    let test = "router::shares::a_host_with_eight_connections_gets_no_more_by_streams_than_one_with_a_\
         single_one";
    in_namespace(test, || {
        serve_names_if_asked();
        let Some(router) = Router::new(test, 2) else {
            return;
        };
        for link in ["dsl", "lte"] {
            if !shape(&router.net.gateway, link, "20mbit") {
                return hawser_skip::skip(&format!("end_to_end::{test}"), "no tc or tbf here");
            }
        }
        serve_there(&router.net.server, async move |ready| {
            let listener = TcpListener::bind("11.0.0.2:81").await.unwrap();
            ready.send(()).unwrap();
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move { while stream.write_all(&[0; 65_536]).await.is_ok() {} });
            }
        });
        let gateway = router.net.serve();
        let up = router.up(&["--gateway", &router.place().invite()]);
        let log = || format!("{}\n{}", up.log(), gateway.log());
        let mut taking = [(0, 8), (1, 1)].map(|(host, connections)| {
            let take = TAKE.replace("CONNECTIONS", &connections.to_string());
            router.begin(host, &take)
        });
        let received = || [0, 1].map(|host| router.received_by(&v4(host)));
        let all_run = || {
            let [many, one] = received();
            many.iter().filter(|it| **it > MUCH).count() == 8 && one.iter().any(|it| *it > MUCH)
        };
        until("all of them receive", all_run, log);
        let total = || received().map(|it| it.iter().sum::<u64>());
        let before = total();
        let more = || {
            let now = total();
            [0, 1].map(|host| now[host].saturating_sub(before[host]))
        };
        until("a while", || more().iter().sum::<u64>() > 20 * MUCH, log);
        let [many, one] = more();
        // Eight times as much, if each connection had the same.
        assert!(many < 2 * one, "{many}, {one}: {}", log());
        for program in &mut taking {
            let _ = program.kill();
            let _ = program.wait();
        }
        up.end();
    });
}

/// Reads everything from some connections until it is ended.
const TAKE: &str = "
import threading
def take():
    t = socket.create_connection(('11.0.0.2', 81), timeout=50)
    while t.recv(65536):
        pass
for number in range(CONNECTIONS):
    threading.Thread(target=take).start()
";
const MUCH: u64 = 1_000_000;
