//! Connection mode over two real links, to a server in another network namespace.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::sync::mpsc::Sender;
use std::time::Duration;

use hawser_skip::namespace::{Neighbour, in_namespace, ip};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{interval, timeout};

use super::program::{Place, until};

#[test]
fn a_silent_link_costs_only_what_was_on_it() {
    in_namespace(
        "connections::a_silent_link_costs_only_what_was_on_it",
        || {
            // What would come back over dsl goes nowhere any more.
            cut("silent", |neighbour| {
                neighbour.ip("route add blackhole 10.1.0.2/32");
            });
        },
    );
}

#[test]
fn a_link_without_a_carrier_costs_only_what_was_on_it() {
    in_namespace(
        "connections::a_link_without_a_carrier_costs_only_what_was_on_it",
        || {
            cut("down", |neighbour| neighbour.ip("link set dsl down"));
        },
    );
}

#[test]
fn connections_over_a_link_that_is_switched_off_end_and_others_go_on() {
    in_namespace(
        "connections::connections_over_a_link_that_is_switched_off_end_and_others_go_on",
        || {
            let (place, neighbour) = (Place::new(), two_links());
            serve_echo(&neighbour);
            let policy = ["--connection-scheduler", "round-robin"];
            let arguments = [&["up", "--listen", "127.0.0.1:0"][..], &policy].concat();
            let daemon = place.start("client", &arguments);
            let proxy = daemon.listen(&place).unwrap().parse().unwrap();
            run(async {
                let streams = connect_many(proxy, 8, EVERY).await;
                assert_eq!(streams.len(), 8, "{}", daemon.log());
                ip("link set dsl down");
                // Those that only read would wait for ever.
                let mut reading = JoinSet::new();
                for mut stream in streams {
                    reading.spawn(async move {
                        let read = timeout(PATIENCE, stream.read(&mut [0])).await;
                        (read.ok(), stream)
                    });
                }
                for _ in 0..4 {
                    let (read, _) = reading.join_next().await.unwrap().unwrap();
                    let error = read.expect("no program waits for a lost link").unwrap_err();
                    assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
                }
                let status = status(&place);
                assert_eq!(of_link(&status, "lte")["open"], 4, "{status}");
                assert_eq!(connect_many(proxy, 4, EVERY).await.len(), 4);
            });
            daemon.end();
        },
    );
}

#[test]
fn a_link_that_is_named_may_come_later() {
    in_namespace("connections::a_link_that_is_named_may_come_later", || {
        let (place, neighbour) = (Place::new(), links(&["dsl"]));
        serve_echo(&neighbour);
        let arguments = ["up", "--listen", "127.0.0.1:0", "--link", "lte"];
        let daemon = place.start("client", &arguments);
        let log = daemon.log();
        assert!(log.contains("no link is called lte; there are"), "{log}");
        let proxy = daemon.listen(&place).unwrap().parse().unwrap();
        let connected = || run(connect_many(proxy, 1, EVERY)).len();
        assert_eq!(connected(), 0, "dsl is not to be used");
        add_link(&neighbour, 2, "lte");
        until("lte is used", || connected() == 1, || daemon.log());
        let status = status(&place);
        assert_eq!(of_link(&status, "lte")["placed"], 1, "{status}");
        daemon.end();
    });
}

#[test]
fn a_rule_for_a_program_chooses_its_link_and_what_it_needs_is_learned() {
    in_namespace(
        "connections::a_rule_for_a_program_chooses_its_link_and_what_it_needs_is_learned",
        || {
            let (place, neighbour) = (Place::new(), two_links());
            serve_echo(&neighbour);
            let own = std::fs::read_to_string("/proc/self/comm").unwrap();
            let config = place.path("hawser.toml");
            let rule = format!("[[rule]]\nprogram = {:?}\nonly = \"lte\"\n", own.trim_end());
            std::fs::write(&config, rule).unwrap();
            let config = config.to_str().unwrap();
            let arguments = ["--config", config, "up", "--listen", "127.0.0.1:0"];
            let daemon = place.start("client", &arguments);
            let proxy = daemon.listen(&place).unwrap().parse().unwrap();
            assert_eq!(run(connect_many(proxy, 20, EVERY)).len(), 20);
            let status = status(&place);
            assert_eq!(of_link(&status, "lte")["placed"], 20, "{status}");
            assert_eq!(of_link(&status, "dsl")["placed"], 0, "{status}");
            say_why(&place, own.trim_end());
            // What a connection needed is learned as it ends.
            let all_ended = || of_link(&self::status(&place), "lte")["open"] == 0;
            until("all have ended", all_ended, || daemon.log());
            daemon.end();
            let ledger = rusqlite::Connection::open(place.path("client/ledger.db")).unwrap();
            let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
            let query = "SELECT application, down, connections FROM demand";
            let learned: (String, u64, u64) = ledger.query_row(query, [], read).unwrap();
            assert_eq!(learned, (own.trim_end().to_owned(), 1, 20));
        },
    );
}

#[test]
fn a_captive_portal_is_left_out_and_links_are_measured_before_they_are_used() {
    in_namespace(
        "connections::a_captive_portal_is_left_out_and_links_are_measured_before_they_are_used",
        || {
            let (place, neighbour) = (Place::new(), two_links());
            serve_echo(&neighbour);
            serve_web(&neighbour);
            let config = place.path("hawser.toml");
            let urls = "portal-checks = [\"http://10.99.0.1:81/204\"]\n\
                        probe-downloads = [\"http://10.99.0.1:81/much\"]";
            std::fs::write(&config, format!("[connection]\n{urls}\n")).unwrap();
            let config = config.to_str().unwrap();
            let arguments = ["--config", config, "up", "--listen", "127.0.0.1:0"];
            let daemon = place.start("client", &arguments);
            let is_known = || {
                let status = status(&place);
                let is_measured = of_link(&status, "lte")["down_bps"].as_u64() > Some(0);
                of_link(&status, "dsl")["state"] == "portal" && is_measured
            };
            until("both links are known", is_known, || daemon.log());
            let proxy = daemon.listen(&place).unwrap().parse().unwrap();
            assert_eq!(run(connect_many(proxy, 20, EVERY)).len(), 20);
            let status = status(&place);
            assert_eq!(of_link(&status, "lte")["placed"], 20, "{status}");
            assert_eq!(of_link(&status, "lte")["state"], "sound", "{status}");
            assert_eq!(state(&place, "dsl"), "no-internet");
            assert_eq!(state(&place, "lte"), "up");
            daemon.end();
        },
    );
}

/// Checks `hawser why` for connections that a rule has sent over lte.
fn say_why(place: &Place, program: &str) {
    let why = |arguments: &[&str]| {
        let ended = place.run("client", &[&["why"], arguments].concat());
        assert_eq!(ended.code, 0, "{ended:?}");
        ended.out
    };
    let report: Value = serde_json::from_str(&why(&["--json"])).unwrap();
    let placed = report["placed"]["connections"].as_array().unwrap();
    assert_eq!(placed.len(), 20, "{report}");
    for one in placed {
        assert_eq!(one["destination"], "10.99.0.1:7000", "{one}");
        assert_eq!(one["program"], program, "{one}");
        assert_eq!((&one["link"], &one["why"]), (&"lte".into(), &"only".into()));
        assert_eq!(one["rules"][0]["field"], "links", "{one}");
        assert_eq!(one["candidates"][0]["link"], "lte", "{one}");
        assert!(one["bytes_sent"].as_u64() <= Some(1), "{one}");
    }
    let table = why(&["--connections", "3"]);
    assert_eq!(table.matches("10.99.0.1:7000").count(), 3, "{table}");
    let one = why(&["--connection", "20"]);
    assert!(one.starts_with("CONNECTION 20 at "), "{one}");
    assert!(
        one.contains("auto chose lte, because it is the only"),
        "{one}"
    );
    let none = place.run("client", &["why", "--connection", "21"]);
    none.expect(1, "no connection 21 is remembered; the latest is 20");
    let both = place.run("client", &["why", "6", "--connection", "2"]);
    both.expect(2, "cannot be used with");
}

#[test]
fn a_link_on_which_segments_are_sent_again_shows_it() {
    in_namespace(
        "connections::a_link_on_which_segments_are_sent_again_shows_it",
        || {
            let (place, neighbour) = (Place::new(), two_links());
            serve_echo(&neighbour);
            let policy = ["--connection-scheduler", "round-robin"];
            let arguments = [&["up", "--listen", "127.0.0.1:0"][..], &policy].concat();
            let daemon = place.start("client", &arguments);
            let proxy = daemon.listen(&place).unwrap().parse().unwrap();
            run(async {
                let mut streams = connect_many(proxy, 2, EVERY).await;
                assert_eq!(streams.len(), 2, "{}", daemon.log());
                // What is acknowledged over dsl is not heard of, so it is sent again.
                neighbour.ip("route add blackhole 10.1.0.2/32");
                let before = sent_again();
                for stream in &mut streams {
                    stream.write_all(b"x").await.unwrap();
                }
                until(
                    "it is sent again",
                    || sent_again() > before,
                    || daemon.log(),
                );
                neighbour.ip("route del blackhole 10.1.0.2/32");
                for mut stream in streams {
                    stream.read_exact(&mut [0]).await.unwrap();
                }
            });
            let is_told = || {
                let status = status(&place);
                let [dsl, lte] =
                    ["dsl", "lte"].map(|name| of_link(&status, name)["up_loss"].as_f64());
                dsl > Some(0.0) && lte == Some(0.0)
            };
            until("the loss is told", is_told, || status(&place).to_string());
            daemon.end();
        },
    );
}

/// Returns the segments that TCP has retransmitted in this namespace.
fn sent_again() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
    let mut rows = text.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let (names, values) = (rows.next().unwrap(), rows.next().unwrap());
    let mut both = names.split(' ').zip(values.split(' '));
    let (_, count) = both.find(|(name, _)| *name == "RetransSegs").unwrap();
    count.parse().unwrap()
}

/// Loses a link with 200 connections open and a hundred new ones per second.
fn cut(state_after: &'static str, cut: impl FnOnce(&Neighbour)) {
    let (place, neighbour) = (Place::new(), two_links());
    serve_echo(&neighbour);
    let daemon = place.start("client", &["up", "--listen", "127.0.0.1:0"]);
    let proxy = daemon.listen(&place).unwrap().parse().unwrap();
    run(async move {
        let old = connect_many(proxy, 200, Duration::ZERO).await;
        assert_eq!(old.len(), 200, "{}", daemon.log());
        let before = status(&place);
        let (on_dsl, on_lte) = (
            of_link(&before, "dsl")["open"].as_u64(),
            of_link(&before, "lte")["open"].as_u64(),
        );
        assert_eq!(
            on_dsl.zip(on_lte).map(|(dsl, lte)| dsl + lte),
            Some(200),
            "{before}"
        );
        // A link of which nothing is known counts for five ninths of the system's own, so that five
        // in fourteen are there, 71; less a few that are placed while it is not known which have
        // ended.
        assert!(on_dsl >= Some(100) && on_lte >= Some(45), "{before}");

        cut(&neighbour);
        // In the first second some are caught; none of them fails.
        let caught = connect_many(proxy, 100, EVERY).await.len();
        assert_eq!(caught, 100, "{}", daemon.log());
        let moved_over = status(&place)["moved_over"].as_u64();
        // Then none is caught any more: no connection has waited for the lost link.
        let later = connect_many(proxy, 200, EVERY).await.len();
        assert_eq!(later, 200, "{}", daemon.log());
        let after = status(&place);
        assert_eq!(after["moved_over"].as_u64(), moved_over, "{after}");
        assert_eq!(state(&place, "dsl"), state_after);
        assert_eq!(state(&place, "lte"), "up");

        let mut echoing = JoinSet::new();
        for mut stream in old {
            echoing.spawn(async move { echo(&mut stream).await.is_ok() });
        }
        let (mut alive, on_lte) = (0, on_lte.unwrap());
        let of_those_on_lte = async {
            while alive < on_lte
                && let Some(is_echoed) = echoing.join_next().await
            {
                alive += u64::from(is_echoed.unwrap());
            }
        };
        let _ = timeout(PATIENCE, of_those_on_lte).await;
        assert_eq!(alive, on_lte, "those on the link that lives are untouched");
        let of_others = async {
            while let Some(is_echoed) = echoing.join_next().await {
                assert!(!is_echoed.unwrap(), "more live than were on it");
            }
        };
        let _ = timeout(A_WHILE, of_others).await;
        daemon.end();
    });
}

/// Creates links dsl and lte of this namespace to the neighbour, which has 10.99.0.1.
pub(crate) fn two_links() -> Neighbour {
    links(&["dsl", "lte"])
}

/// Creates these links.
pub(crate) fn links(names: &[&str]) -> Neighbour {
    let neighbour = Neighbour::start();
    ip("link set lo up");
    neighbour.ip("link set lo up");
    neighbour.ip("address add 10.99.0.1/32 dev lo");
    for (net, name) in (1..).zip(names) {
        add_link(&neighbour, net, name);
    }
    neighbour
}

/// Adds a link to a neighbour, with addresses in 10.`net`.0.0/24.
pub(crate) fn add_link(neighbour: &Neighbour, net: u8, name: &str) {
    ip(&format!("link add {name} type veth peer name far"));
    neighbour.take("far");
    neighbour.ip(&format!("link set far name {name} up"));
    neighbour.ip(&format!("address add 10.{net}.0.1/24 dev {name}"));
    ip(&format!("link set {name} up"));
    ip(&format!("address add 10.{net}.0.2/24 dev {name}"));
    ip(&format!(
        "route add default via 10.{net}.0.1 dev {name} metric {net}00"
    ));
}

/// Echoes bytes in the neighbour.
pub(crate) fn serve_echo(neighbour: &Neighbour) {
    serve(neighbour, SERVER, |mut stream| async move {
        let (mut from, mut to) = stream.split();
        tokio::io::copy(&mut from, &mut to).await.map(drop)
    });
}

/// Serves connections to an address of the neighbour's.
fn serve<F>(
    neighbour: &Neighbour,
    address: (&'static str, u16),
    answer: impl Fn(TcpStream) -> F + Send + 'static,
) where
    F: Future<Output = io::Result<()>> + Send + 'static,
{
    serve_there(neighbour, async move |ready| {
        let listener = TcpListener::bind(address).await.unwrap();
        ready.send(()).unwrap();
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream));
        }
    });
}

/// Runs a server in the neighbour, on a thread of its own, until the test's process ends. Returns
/// when it says that it is ready.
pub(crate) fn serve_there(
    neighbour: &Neighbour,
    server: impl AsyncFnOnce(Sender<()>) + Send + 'static,
) {
    let namespace = File::open(format!("/proc/{}/ns/net", neighbour.process())).unwrap();
    let (ready, is_ready) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
        run(server(ready));
    });
    is_ready.recv().unwrap();
}

/// Serves large pages in the neighbour, but redirects clients on dsl to a sign-in page.
pub(crate) fn serve_web(neighbour: &Neighbour) {
    serve(neighbour, ("0.0.0.0", 81), |mut stream| async move {
        let by_dsl = stream.peer_addr()?.ip().to_string() == "10.1.0.2";
        let mut request = [0; 2000];
        let read = stream.read(&mut request).await?;
        let is_check = request[..read].starts_with(b"GET /204 ");
        let answer = match (by_dsl, is_check) {
            (true, _) => "HTTP/1.1 302 Found\r\nLocation: http://portal.example/\r\n\r\n",
            (false, true) => "HTTP/1.1 204 No Content\r\n\r\n",
            (false, false) => "HTTP/1.1 200 OK\r\n\r\n",
        };
        stream.write_all(answer.as_bytes()).await?;
        stream.write_all(&vec![0; 2_000_000]).await
    });
}

/// Returns those of this many connections through the proxy that opened and carry data.
pub(crate) async fn connect_many(
    proxy: SocketAddr,
    count: usize,
    every: Duration,
) -> Vec<TcpStream> {
    let mut connecting = JoinSet::new();
    let mut ticks = interval(every.max(Duration::from_millis(1)));
    for _ in 0..count {
        ticks.tick().await;
        connecting.spawn(async move {
            let mut stream = connect(proxy).await?;
            echo(&mut stream).await.map(|()| stream)
        });
    }
    let ended = connecting.join_all().await;
    ended.into_iter().flatten().collect()
}

/// By SOCKS5.
async fn connect(proxy: SocketAddr) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(proxy).await?;
    stream.write_all(&[5, 1, 0]).await?;
    stream.read_exact(&mut [0; 2]).await?;
    let port = SERVER.1.to_be_bytes();
    let request = [5, 1, 0, 1, 10, 99, 0, 1, port[0], port[1]];
    stream.write_all(&request).await?;
    let mut reply = [0; 10];
    stream.read_exact(&mut reply).await?;
    match reply[1] {
        0 => Ok(stream),
        code => Err(io::Error::other(format!("refused: {code}"))),
    }
}

async fn echo(stream: &mut TcpStream) -> io::Result<()> {
    stream.write_all(b"x").await?;
    stream.read_exact(&mut [0]).await.map(drop)
}

fn status(place: &Place) -> Value {
    place.status("client").unwrap()["connections"].clone()
}

/// Returns the state of a link, from everything that the daemon knows.
fn state(place: &Place, link: &str) -> String {
    let status = place.status("client").unwrap();
    of_link(&status, link)["state"].as_str().unwrap().to_owned()
}

fn of_link<'a>(status: &'a Value, name: &str) -> &'a Value {
    let mut links = status["links"].as_array().unwrap().iter();
    links.find(|link| link["name"] == name).unwrap()
}

pub(crate) fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(future)
}

const SERVER: (&str, u16) = ("10.99.0.1", 7000);
/// Within this time any live link would have an answer.
const A_WHILE: Duration = Duration::from_secs(2);
/// For events that need seconds on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// A hundred per second.
pub(crate) const EVERY: Duration = Duration::from_millis(10);
