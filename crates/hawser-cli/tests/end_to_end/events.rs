//! The visible state of a running daemon: events as they happen, history, traffic of each link, and
//! open connections of programs.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use hawser_skip::namespace::{in_namespace, ip};
use rustix::process::Signal;
use serde_json::Value;

use super::connections::{EVERY, connect_many, run, serve_echo, two_links};
use super::origin::is_without_curl;
use super::program::{Place, read, until};

#[test]
fn a_link_that_its_user_forbids_is_told_of_at_once_until_the_daemon_ends() {
    let place = Place::new();
    let _gateway = place.serve();
    let mut up = place.up("client", &["--gateway", &place.invite()]);
    let follower = Follower::start(&place);
    let set = place.run("client", &["link", "lo", "--use", "never"]);
    assert_eq!(set.code, 0, "{set:?}");
    let is_never = |it: &Value| it["link"] == "lo" && it["up"] == "never" && it["down"] == "never";
    until(
        "the link's use is told",
        || follower.has_told("link-use", is_never),
        || up.log(),
    );
    let is_cut = |it: &Value| it["from"] == "established" && it["to"] == "interrupted";
    until(
        "the session's loss is told",
        || follower.has_told("session-state", is_cut),
        || up.log(),
    );
    let ids: Vec<_> = follower.told().iter().map(|it| it["id"].as_u64()).collect();
    let expected: Vec<_> = (1..=ids.len() as u64).map(Some).collect();
    assert_eq!(ids, expected, "each is told once");

    let text = place.run("client", &["events"]);
    assert!(text.out.contains("lo is used: never"), "{text:?}");
    up.signal(Signal::TERM);
    assert_eq!(up.wait(), Some(0), "{}", up.log());
    assert_eq!(follower.end(), Some(0));
    place
        .run("client", &["events"])
        .expect(1, "no hawser daemon runs");
}

#[test]
fn a_follower_may_stop_at_any_time() {
    let place = Place::new();
    let up = place.up("client", &["--direct"]);
    let follower = Follower::start(&place);
    let set = place.run("client", &["link", "lo", "--up", "backup"]);
    assert_eq!(set.code, 0, "{set:?}");
    let is_told = || follower.has_told("link-use", |it| it["up"] == "backup");
    until("the link's use is told", is_told, || up.log());
    follower.signal(Signal::INT);
    assert_eq!(follower.end(), Some(0));
    up.end();
}

#[test]
fn a_link_that_is_lost_is_told_of_and_what_links_carry_is_counted() {
    in_namespace(
        "events::a_link_that_is_lost_is_told_of_and_what_links_carry_is_counted",
        || {
            let (place, neighbour) = (Place::new(), two_links());
            serve_echo(&neighbour);
            let config = who_matters(&place);
            let policy = ["--connection-scheduler", "round-robin"];
            let arguments = ["--config", &config, "up", "--listen", "127.0.0.1:0"];
            let daemon = place.start("client", &[&arguments[..], &policy].concat());
            let follower = Follower::start(&place);
            let proxy = daemon.listen(&place).unwrap().parse().unwrap();
            run(async {
                // A byte each, there and back.
                let streams = connect_many(proxy, 20, EVERY).await;
                assert_eq!(streams.len(), 20, "{}", daemon.log());
                let counted = |field: &str| {
                    let links = json(&place, "links");
                    let of = |name| of_link(&links, name)["traffic"][field].as_u64();
                    ["dsl", "lte"].map(|name| of(name).unwrap())
                };
                let is_counted = || {
                    let fields = ["sent_bytes", "received_bytes"];
                    fields
                        .iter()
                        .all(|it| counted(it).iter().sum::<u64>() == 20)
                };
                until("every byte is counted", is_counted, || {
                    json(&place, "links").to_string()
                });
                assert!(counted("sent_bytes").iter().all(|it| *it > 0));
                has_open(&place, 20);
            });
            // A second goes by before it is history.
            let history = || ask(&place, r#"{"api":1,"request":"history"}"#);
            until(
                "it is history",
                || has_moved(&history()),
                || history().to_string(),
            );
            ip("link set dsl down");
            let is_down = |it: &Value| it["link"] == "dsl" && it["to"] == "down";
            until(
                "the loss is told",
                || follower.has_told("link-state", is_down),
                || daemon.log(),
            );
            daemon.end();
            assert_eq!(follower.end(), Some(0));
        },
    );
}

/// Whether both links have moved data in the time that a history shows.
fn has_moved(history: &Value) -> bool {
    let links = history["links"].as_array().unwrap();
    let names: Vec<_> = links.iter().map(|link| &link["name"]).collect();
    assert_eq!(names, ["dsl", "lte"], "{history}");
    let total = |link: &Value| -> u64 {
        let moved = link["up_bps"].as_array().unwrap();
        assert_eq!(link["rtt_ms"].as_array().unwrap().len(), moved.len());
        moved.iter().filter_map(Value::as_u64).sum()
    };
    links.iter().all(|link| total(link) > 0)
}

/// `hawser streams` lists so many connections of this process, over both links.
fn has_open(place: &Place, count: usize) {
    let open = json(place, "streams");
    let open = open["connections"].as_array().unwrap();
    assert_eq!(open.len(), count);
    let own = read("/proc/self/comm".as_ref());
    for one in open {
        assert_eq!(one["program"], own.trim_end(), "{one}");
        assert_eq!(one["destination"], "10.99.0.1:7000", "{one}");
    }
    let text = place.run("client", &["streams"]).out;
    assert_eq!(text.matches("10.99.0.1:7000").count(), count, "{text}");
    assert!(text.contains(" dsl ") && text.contains(" lte "), "{text}");
}

#[test]
fn a_stream_shows_the_program_that_asked_for_it() {
    if is_without_curl("events::a_stream_shows_the_program_that_asked_for_it") {
        return;
    }
    let place = Place::new();
    let _gateway = place.serve();
    // Everything goes over the gateway: at first the programs need not be known, then a rule says
    // more of ways, which is not so much that connections wait for long.
    for rules in ["", "[[rule]]\nport = 1\nmode = \"direct\"\n"] {
        let config = place.path("hawser.toml");
        std::fs::write(&config, rules).unwrap();
        let (config, invite) = (config.to_str().unwrap(), place.invite());
        let up = place.up("client", &["--config", config, "--gateway", &invite]);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let silent = listener.local_addr().unwrap();
        let mut curl = Command::new("curl")
            .args(["--silent", "--noproxy", "", "--proxy"])
            .arg(format!("socks5h://{}", up.listen(&place).unwrap()))
            .arg(format!("http://{silent}/"))
            .spawn()
            .unwrap();
        // It was open before the first look.
        let _destination = listener.accept().unwrap();
        let stream = || json(&place, "streams")["sessions"][0]["streams"][0].clone();
        let is_named = || stream()["program"] == "curl";
        until("the program is known", is_named, || {
            format!("{} {}", stream(), up.log())
        });
        assert_eq!(stream()["destination"], silent.to_string());
        curl.kill().unwrap();
        curl.wait().unwrap();
        up.end();
    }
}

/// Writes a configuration with which connections wait until their program is known.
fn who_matters(place: &Place) -> String {
    let config = place.path("hawser.toml");
    let rule = "[[rule]]\nprogram = \"no-program-has-this-name\"\nonly = \"lo\"\n";
    std::fs::write(&config, rule).unwrap();
    config.to_str().unwrap().to_owned()
}

/// `hawser events --follow --json`.
pub(super) struct Follower {
    child: Child,
    out: std::path::PathBuf,
}

impl Follower {
    pub(super) fn start(place: &Place) -> Self {
        let out = place.path("events");
        let mut command = place.hawser("client", &["events", "--follow", "--json"]);
        let child = command
            .stdout(File::create(&out).unwrap())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { child, out }
    }

    /// Returns its output so far.
    pub(super) fn told(&self) -> Vec<Value> {
        let text = read(&self.out);
        let whole = text.rsplit_once('\n').map_or("", |(lines, _)| lines);
        let lines = whole.lines().map(serde_json::from_str);
        lines.collect::<Result<_, _>>().unwrap()
    }

    pub(super) fn has_told(&self, event: &str, which: impl Fn(&Value) -> bool) -> bool {
        let told = self.told();
        told.iter().any(|it| it["event"] == event && which(it))
    }

    fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).unwrap();
        rustix::process::kill_process(rustix::process::Pid::from_raw(id).unwrap(), signal).unwrap();
    }

    /// Its exit code.
    fn end(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the output of `hawser COMMAND --json` for the client.
pub(super) fn json(place: &Place, command: &str) -> Value {
    let ended = place.run("client", &[command, "--json"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    serde_json::from_str(&ended.out).unwrap()
}

/// Returns the client's answer at its control socket.
pub(super) fn ask(place: &Place, request: &str) -> Value {
    let mut socket = UnixStream::connect(place.path("client/control.sock")).unwrap();
    writeln!(socket, "{request}").unwrap();
    let mut line = String::new();
    BufReader::new(socket).read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap()
}

pub(super) fn of_link<'a>(links: &'a Value, name: &str) -> &'a Value {
    let mut links = links.as_array().unwrap().iter();
    links.find(|link| link["name"] == name).unwrap()
}
