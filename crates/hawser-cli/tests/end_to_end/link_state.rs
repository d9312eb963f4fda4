//! The state of a link, which is the same in all views: under load, at rest, and with all links
//! silent.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hawser_skip::name_server::serve_names_if_asked;
use hawser_skip::namespace::in_namespace;
use serde_json::Value;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;

use super::connections::serve_there;
use super::events::{Follower, ask, json, of_link};
use super::program::{Daemon, Place, until};
use super::silent_link::{Net, has_mounts};
use super::top::{Pane, TOP};
use super::web::{exchange, token, web};

#[test]
fn a_silent_link_is_silent_wherever_one_looks_under_load_and_at_rest() {
    let test = "link_state::a_silent_link_is_silent_wherever_one_looks_under_load_and_at_rest";
    with_net(test, |net| {
        let _gateway = net.gateway(false);
        let client = up_with_dashboard(net);
        let eyes = Eyes::open(net, &client, test);
        net.until_complete(&client);
        for link in ["dsl", "lte"] {
            eyes.until(link, "up", "both links well", Eyes::WITHOUT_EVENTS);
        }

        serve_sink(net);
        let load = Load::start(&client, &net.place);
        let carries = |link: &Value| link["traffic"]["up_bps"].as_u64() > Some(1_000_000);
        let both_carry = || {
            json(&net.place, "links")
                .as_array()
                .unwrap()
                .iter()
                .filter(|it| carries(it))
                .count()
                == 2
        };
        until("both links carry", both_carry, || client.log());
        net.set_silent("dsl");
        eyes.until("dsl", "silent", "dsl falls silent under load", Eyes::ALL);
        eyes.agree("dsl", "no answer to what was sent over it");
        assert_eq!(eyes.state("links", "lte"), "up");
        net.set_heard("dsl");
        eyes.until("dsl", "up", "dsl is heard again", Eyes::ALL);
        load.end();

        // Nothing is in flight any more.
        std::thread::sleep(Duration::from_secs(2));
        net.set_silent("lte");
        eyes.until("lte", "silent", "lte falls silent at rest", Eyes::ALL);
        eyes.agree("lte", "no answer to what was sent over it");
        assert_eq!(eyes.state("links", "dsl"), "up");
        net.set_heard("lte");
        eyes.until("lte", "up", "lte is heard again", Eyes::ALL);
        client.end();
    });
}

#[test]
fn with_all_links_silent_the_session_is_interrupted_and_the_gateway_missed() {
    let test =
        "link_state::with_all_links_silent_the_session_is_interrupted_and_the_gateway_missed";
    with_net(test, |net| {
        let _gateway = net.gateway(false);
        let client = up_with_dashboard(net);
        let eyes = Eyes::open(net, &client, test);
        net.until_complete(&client);
        serve_sink(net);
        let load = Load::start(&client, &net.place);
        let has_sent = || eyes.session()["bytes_sent"].as_u64() > Some(1_000_000);
        until("it carries", has_sent, || client.log());

        let begun = Instant::now();
        net.set_silent("dsl");
        net.set_silent("lte");
        let since = eyes.until_interrupted(begun);
        eyes.until_missed(since);
        for link in ["dsl", "lte"] {
            eyes.until(link, "silent", "both silent", Eyes::ALL);
            eyes.agree(link, "no answer to what was sent over it");
        }
        let log = client.log();
        assert!(log.contains("no link of the session answers"), "{log}");

        let begun = Instant::now();
        net.set_heard("dsl");
        net.set_heard("lte");
        let is_back = || eyes.session()["state"] == "established";
        timed(begun, "both heard, status: established", is_back, &eyes);
        let is_reached = || eyes.follower.has_told("gateway", |it| it["is_up"] == true);
        timed(begun, "both heard, events: reached", is_reached, &eyes);
        for link in ["dsl", "lte"] {
            eyes.until(link, "up", "both heard", Eyes::ALL);
        }
        assert_eq!(eyes.gateway()["unreachable_since_unix_ms"], Value::Null);
        load.end();
        client.end();
    });
}

#[test]
fn a_gateway_that_is_not_there_is_told_with_the_reason_until_it_is() {
    let test = "link_state::a_gateway_that_is_not_there_is_told_with_the_reason_until_it_is";
    with_net(test, |net| {
        let gateway = net.gateway(false);
        let client = net.up(&["--gateway", &net.place.invite()]);
        net.until_complete(&client);
        client.end();
        gateway.end();
        let client = net.up(&[]);
        until(
            "the port is open",
            || client.listen(&net.place).is_some(),
            || client.log(),
        );
        let begun = Instant::now();
        let follower = Follower::start(&net.place);
        let is_told = |it: &Value| {
            let reason = it["reason"].as_str().unwrap_or_default();
            it["is_up"] == false && it["since_unix_ms"].is_u64() && reason.contains("refused")
        };
        let told = || follower.has_told("gateway", is_told);
        until("the gateway is missed", told, || {
            format!("{:?} {}", follower.told(), client.log())
        });
        println!(
            "no gateway: told after {:.2} s",
            begun.elapsed().as_secs_f64()
        );
        let log = || client.log().contains("the gateway can't be reached");
        until("the log says so", log, || client.log());
        let _gateway = net.gateway(false);
        let told = || follower.has_told("gateway", |it| it["is_up"] == true);
        until("the gateway is reached", told, || {
            format!("{:?}", follower.told())
        });
        client.end();
    });
}

/// Runs `body` if a net can be created.
fn with_net(test: &str, body: impl Fn(&Net)) {
    in_namespace(test, || {
        serve_names_if_asked();
        if has_mounts() {
            body(&Net::new(test));
        } else {
            hawser_skip::skip(&format!("end_to_end::{test}"), "no mount namespace here");
        }
    });
}

fn up_with_dashboard(net: &Net) -> Daemon {
    let client = net.up(&["--gateway", &net.place.invite(), "--web", "127.0.0.1:0"]);
    let has_dashboard = || web(&net.place, "client").is_some();
    until("it has a dashboard", has_dashboard, || client.log());
    client
}

/// Waits until `condition` holds, and says how long that took.
fn timed(begun: Instant, what: &str, condition: impl FnMut() -> bool, eyes: &Eyes<'_>) {
    until(what, condition, || {
        let (session, told) = (eyes.session(), eyes.follower.told());
        format!("{session}\n{told:?}\n{}", eyes.client.log())
    });
    println!("{what} after {:.2} s", begun.elapsed().as_secs_f64());
}

/// All views of the state of a client's links.
struct Eyes<'a> {
    place: &'a Place,
    client: &'a Daemon,
    web: String,
    token: String,
    follower: Follower,
    /// `hawser top`; `None` without a terminal for it.
    pane: Option<Pane>,
}

/// A link in one view: state, reason, and since when.
type Seen = (String, Value, Value);

impl<'a> Eyes<'a> {
    /// Views with a state from the start.
    const WITHOUT_EVENTS: &'static [&'static str] =
        &["links", "status", "page", "metrics", "history", "top"];
    const ALL: &'static [&'static str] = &[
        "links", "status", "page", "metrics", "history", "top", "events",
    ];

    fn open(net: &'a Net, client: &'a Daemon, test: &str) -> Self {
        let place = &net.place;
        let pane = Pane::open(place, test);
        if let Some(pane) = &pane {
            pane.line(TOP);
        }
        Self {
            place,
            client,
            web: web(place, "client").unwrap(),
            token: token(place, "client"),
            follower: Follower::start(place),
            pane,
        }
    }

    fn session(&self) -> Value {
        self.place.status("client").unwrap()["sessions"][0].clone()
    }

    fn gateway(&self) -> Value {
        self.place.status("client").unwrap()["connections"]["gateway"].clone()
    }

    /// Waits until all views show the session as interrupted; returns since when.
    fn until_interrupted(&self, begun: Instant) -> u64 {
        let is_cut = || self.session()["state"] == "interrupted";
        timed(begun, "both silent, status: interrupted", is_cut, self);
        let cut = self.session();
        let reason = cut["reason"].as_str().unwrap();
        for link in ["dsl: no answer", "lte: no answer"] {
            assert!(reason.contains(link), "{cut}");
        }
        let since = cut["since_unix_ms"].as_u64().unwrap();
        let is_told = |it: &Value| {
            it["to"] == "interrupted" && it["since_unix_ms"] == since && it["reason"].is_string()
        };
        let is_told = || self.follower.has_told("session-state", is_told);
        timed(begun, "both silent, events: interrupted", is_told, self);
        let counted = "\nhawser_sessions{state=\"interrupted\"} 1\n";
        let is_counted = || self.metrics().contains(counted);
        timed(begun, "both silent, metrics: interrupted", is_counted, self);
        since
    }

    /// Waits until all views show that the gateway can't be reached since then.
    fn until_missed(&self, since: u64) {
        let is_missed = |it: &Value| {
            it["is_up"] == false && it["since_unix_ms"] == since && it["reason"].is_string()
        };
        let told = || self.follower.has_told("gateway", is_missed);
        let said = || format!("{:?}", self.follower.told());
        until("the gateway is missed", told, said);
        let gateway = self.gateway();
        assert_eq!(gateway["unreachable_since_unix_ms"], since);
        assert_eq!(gateway["is_up"], false);
        let metrics = self.metrics();
        assert!(metrics.contains("\nhawser_gateway_up 0\n"), "{metrics}");
    }

    fn metrics(&self) -> String {
        exchange(&self.web, &self.token, "GET /metrics", "").1
    }

    /// Returns the view `place` of a link, if it shows the link.
    fn look(&self, place: &str, link: &str) -> Option<Seen> {
        let of = |it: &Value| {
            let state = it["state"].as_str().or(it["to"].as_str())?;
            Some((
                state.to_owned(),
                it["reason"].clone(),
                it["since_unix_ms"].clone(),
            ))
        };
        match place {
            "links" => of(of_link(&json(self.place, "links"), link)),
            "status" => of(of_link(&json(self.place, "status")["links"], link)),
            "page" => {
                let asked = r#"{"api":1,"request":"status"}"#;
                let answer = exchange(&self.web, &self.token, "POST /api/v1/ask", asked).1;
                of(of_link(
                    &serde_json::from_str::<Value>(&answer).unwrap()["links"],
                    link,
                ))
            }
            "history" => {
                let history = ask(self.place, r#"{"api":1,"request":"history","samples":1}"#);
                let mut links = history["links"].as_array().unwrap().iter();
                let link = links.find(|it| it["name"] == link)?;
                let state = link["state"][0].as_str()?.to_owned();
                Some((state, Value::Null, Value::Null))
            }
            "metrics" => {
                let text = self.metrics();
                let state = text.lines().find_map(|line| {
                    let rest = line
                        .strip_prefix("hawser_link_state{")?
                        .strip_suffix("} 1")?;
                    let rest = rest.strip_prefix(&format!("link=\"{link}\",state=\""))?;
                    Some(rest.trim_end_matches('"').to_owned())
                })?;
                Some((state, Value::Null, Value::Null))
            }
            "events" => {
                let told = self.follower.told();
                let mut all = told.iter().rev().filter(|it| it["event"] == "link-state");
                of(all.find(|it| it["link"] == link)?)
            }
            "top" => {
                let text = self.pane.as_ref()?.text();
                let row = text.lines().map(|line| line.trim_start_matches(['>', ' ']));
                let row = row.filter_map(|row| row.strip_prefix(link)).next()?;
                let state = row.split_whitespace().next()?;
                Some((state.to_owned(), Value::Null, Value::Null))
            }
            _ => None,
        }
    }

    fn state(&self, place: &str, link: &str) -> String {
        self.look(place, link).map(|it| it.0).unwrap_or_default()
    }

    /// Waits until all these views show a link in this state, and prints how long each took.
    fn until(&self, link: &str, state: &str, what: &str, places: &[&'static str]) {
        let begun = Instant::now();
        let mut shown: BTreeMap<&str, Duration> = BTreeMap::new();
        let places = places
            .iter()
            .filter(|it| **it != "top" || self.pane.is_some());
        let all: Vec<_> = places.copied().collect();
        let mut look = || {
            for place in &all {
                if !shown.contains_key(place) && self.state(place, link) == state {
                    shown.insert(place, begun.elapsed());
                }
            }
            shown.len() == all.len()
        };
        let said = || {
            let seen: Vec<_> = all.iter().map(|it| (it, self.look(it, link))).collect();
            format!("{link} {seen:?}\n{}", self.client.log())
        };
        until(
            &format!("{what}: {link} is {state} everywhere"),
            &mut look,
            said,
        );
        let took = shown
            .iter()
            .map(|(place, took)| format!("{place} {:.2}", took.as_secs_f64()));
        println!(
            "{what}: {link} {state}, seconds: {}",
            took.collect::<Vec<_>>().join(", ")
        );
    }

    /// Fails unless all views that have them show the same reason and the same time of a link.
    fn agree(&self, link: &str, reason: &str) {
        let expected = self.look("links", link).unwrap();
        assert_eq!(expected.1, reason);
        assert!(expected.2.is_u64(), "{expected:?}");
        for place in ["status", "page", "events"] {
            assert_eq!(self.look(place, link).as_ref(), Some(&expected), "{place}");
        }
        let since = format!("hawser_link_state_since_timestamp_seconds{{link=\"{link}\"}} ");
        let metrics = self.metrics();
        let since = metrics.lines().find_map(|line| line.strip_prefix(&since));
        let since: f64 = since.unwrap().parse().unwrap();
        assert_eq!((since * 1e3).round() as u64, expected.2.as_u64().unwrap());
        let text = self.place.run("client", &["links"]).out;
        assert!(
            text.contains(&format!("\n{link} is silent since ")),
            "{text}"
        );
        assert!(text.contains(reason), "{text}");
    }
}

/// Reads and drops in the router the data for the server's port 9000.
fn serve_sink(net: &Net) {
    serve_there(&net.router, async |ready| {
        let listener = TcpListener::bind(SINK).await.unwrap();
        ready.send(()).unwrap();
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut buffer = vec![0; 65_536];
                while stream.read(&mut buffer).await.is_ok_and(|count| count > 0) {}
            });
        }
    });
}

/// An upload through the client, of some megabytes a second.
struct Load {
    is_over: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<()>,
}

impl Load {
    fn start(client: &Daemon, place: &Place) -> Self {
        let mut stream = TcpStream::connect(client.listen(place).unwrap()).unwrap();
        let request = format!("CONNECT {SINK} HTTP/1.1\r\nHost: {SINK}\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = [0; 512];
        let read = stream.read(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer[..read]).into_owned();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || {
            stream
                .set_write_timeout(Some(Duration::from_secs(1)))
                .unwrap();
            while !ends.load(Ordering::Relaxed) {
                // While all links are silent it waits.
                let _ = stream.write(&[0; 50_000]);
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        Self { is_over, thread }
    }

    fn end(self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
    }
}

/// Beside the name server.
const SINK: &str = "11.22.33.53:9000";
