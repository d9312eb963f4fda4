//! The directory of `hawser serve`, tested with independent programs.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use super::program::{Daemon, Place, read, until};

/// A gateway with a directory of the domain 127.0.0.1: programs look the domain up and ask there.
struct Stage {
    place: Place,
    daemon: Option<Daemon>,
    at: SocketAddr,
}

impl Stage {
    /// `None`, with a report for `test`, if one of the programs is not installed.
    fn new(test: &str, programs: &[(&str, &str)]) -> Option<Self> {
        for (program, package) in programs {
            let folders = ["/usr/bin", "/usr/local/bin"];
            let mut folders = folders.iter().map(Path::new);
            if !folders.any(|folder| folder.join(program).is_file()) {
                let reason = format!("{program} (package {package}) is not installed");
                hawser_skip::skip(&format!("end_to_end::directory::{test}"), &reason);
                return None;
            }
        }
        let place = Place::new();
        // Both programs know MD5 only, and look at the first challenge.
        let config = "[directory]\ndomains = [\"127.0.0.1\"]\ndigests = [\"MD5\"]\n";
        std::fs::write(place.path("config"), config).unwrap();
        write_private(&place.path("users"), "alice:a\nbob:b\n");
        let mut stage = Self {
            place,
            daemon: None,
            at: ([127, 0, 0, 1], 0).into(),
        };
        stage.start();
        Some(stage)
    }

    /// Starts the gateway: at any port first, and at the same one later.
    fn start(&mut self) {
        let path = |name: &str| self.place.path(name).to_str().unwrap().to_owned();
        let (config, users, at) = (path("config"), path("users"), self.at.to_string());
        let arguments = ["--config", &config, "serve", "--listen", "127.0.0.1:0"];
        let directory = ["--directory-listen", &at, "--directory-users", &users];
        let daemon = self
            .place
            .start("gateway", &[&arguments[..], &directory].concat());
        self.daemon = Some(daemon);
        self.at = self.status()["listen"][0]
            .as_str()
            .unwrap()
            .parse()
            .unwrap();
    }

    fn kill(&mut self) {
        self.daemon.take().unwrap().kill();
    }

    fn status(&self) -> Value {
        self.place.status("gateway").unwrap()["directory"].clone()
    }

    /// The contacts of all users.
    fn contacts(&self) -> Vec<String> {
        let status = self.status();
        let bindings = status["bindings"].as_array().unwrap();
        assert_eq!(status["binding_count"], bindings.len());
        let contacts = bindings
            .iter()
            .map(|it| it["contact"].as_str().unwrap().to_owned());
        contacts.collect()
    }

    /// sipsak registers a contact of alice for ten minutes.
    fn register(&self, contact: &str, password: &str) -> Output {
        let at = self.at.to_string();
        let mut sipsak = Command::new("sipsak");
        sipsak.args([
            "-U", "-C", contact, "-x", "600", "-a", password, "-u", "alice",
        ]);
        // With a port of five digits in the URI it writes four of them into To.
        sipsak.args(["-p", &at, "-s", "sip:alice@127.0.0.1"]);
        sipsak.output().unwrap()
    }

    fn sipp(&self, scenario: &str, own: &str, arguments: &[&str]) -> Command {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/end_to_end/directory/");
        let mut sipp = Command::new("sipp");
        sipp.arg("-sf").arg(format!("{folder}{scenario}.xml"));
        sipp.args(["-m", "1", "-timeout", "60s", "-timeout_error", "-nostdin"]);
        sipp.args(["-i", own]).args(arguments);
        sipp.current_dir(self.place.folder("sipp"));
        sipp
    }

    /// Runs a scenario as alice to its end.
    fn run(&self, scenario: &str) -> Output {
        let at = self.at.to_string();
        let alice = ["-au", "alice", "-ap", "a", "-s", "alice", &at];
        self.sipp(scenario, "127.0.0.1", &alice).output().unwrap()
    }
}

/// Makes a file that its owner alone can read.
pub(crate) fn write_private(path: &Path, text: &str) {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(path).unwrap();
    std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
}

fn text(output: &Output) -> String {
    let (out, error) = (&output.stdout, &output.stderr);
    String::from_utf8_lossy(out).into_owned() + &String::from_utf8_lossy(error)
}

const SIPSAK: (&str, &str) = ("sipsak", "sipsak");
const SIPP: (&str, &str) = ("sipp", "sip-tester");

#[test]
fn sipsak_registers_with_a_password_and_a_kill_loses_nothing() {
    let test = "sipsak_registers_with_a_password_and_a_kill_loses_nothing";
    let Some(mut stage) = Stage::new(test, &[SIPSAK]) else {
        return;
    };
    let refused = stage.register("sip:alice@192.0.2.1:5070", "wrong");
    assert!(!refused.status.success(), "{}", text(&refused));
    assert_eq!(stage.contacts(), [""; 0]);
    let accepted = stage.register("sip:alice@192.0.2.1:5070", "a");
    assert!(accepted.status.success(), "{}", text(&accepted));
    let before = stage.status();
    stage.kill();
    stage.start();
    let after = stage.status();
    let binding = &after["bindings"][0];
    assert_eq!(binding["contact"], "sip:alice@192.0.2.1:5070");
    assert_eq!(binding["address"], "sip:alice@127.0.0.1");
    let left = |status: &Value| status["bindings"][0]["left_ms"].as_f64().unwrap();
    assert!(
        left(&after) < left(&before) && left(&after) > 500_000.0,
        "{after}"
    );
    let shown = stage.place.run("gateway", &["status"]).out;
    assert!(
        shown.contains("DIRECTORY of 127.0.0.1 at 127.0.0.1:"),
        "{shown}"
    );
    assert!(shown.contains("1 of 2 users at 1 contacts"), "{shown}");
    // Who is no user any more is nowhere.
    write_private(&stage.place.path("users"), "bob:b\n");
    until(
        "alice is gone",
        || stage.contacts().is_empty(),
        || stage.status().to_string(),
    );
}

#[test]
fn sipp_registers_several_contacts_fetches_them_and_removes_all() {
    let test = "sipp_registers_several_contacts_fetches_them_and_removes_all";
    let Some(stage) = Stage::new(test, &[SIPP]) else {
        return;
    };
    let output = stage.run("register");
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(stage.contacts(), [""; 0]);
    let counters = stage.place.status("gateway").unwrap()["counters"].clone();
    assert_eq!(counters["directory-registers"], 5, "{counters}");
}

#[test]
fn sipp_gets_a_refusal_for_each_fault() {
    let Some(stage) = Stage::new("sipp_gets_a_refusal_for_each_fault", &[SIPP]) else {
        return;
    };
    let output = stage.run("malformed");
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(stage.contacts(), [""; 0]);
}

/// A program in the background.
pub(crate) struct Background(pub(crate) Child);

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_call_by_name_reaches_who_is_registered_and_follows_the_way_of_the_directory() {
    let test = "a_call_by_name_reaches_who_is_registered_and_follows_the_way_of_the_directory";
    let Some(stage) = Stage::new(test, &[SIPSAK, SIPP]) else {
        return;
    };
    let port = free_port();
    let called = stage
        .sipp("called", CALLED, &["-p", &port])
        .stdout(Stdio::null())
        .spawn();
    let mut called = Background(called.unwrap());
    until("alice listens", || is_taken(&port), String::new);
    let contact = format!("sip:alice@{CALLED}:{port}");
    let registered = stage.register(&contact, "a");
    assert!(registered.status.success(), "{}", text(&registered));
    let at = stage.at.to_string();
    let caller = stage.sipp("caller", "127.0.0.1", &[&at]).output().unwrap();
    assert!(caller.status.success(), "{}", text(&caller));
    assert!(called.0.wait().unwrap().success());
    let counters = stage.place.status("gateway").unwrap()["counters"].clone();
    // INVITE, UPDATE and BYE; ACK is no request with an answer.
    assert_eq!(counters["directory-forwarded"], 3, "{counters}");
}

#[test]
fn a_user_who_watches_another_one_is_told_of_her_contacts() {
    let test = "a_user_who_watches_another_one_is_told_of_her_contacts";
    let Some(stage) = Stage::new(test, &[SIPSAK, SIPP]) else {
        return;
    };
    let at = stage.at.to_string();
    let bob = ["-au", "bob", "-ap", "b", &at];
    let watching = stage
        .sipp("watch", CALLED, &bob)
        .stdout(Stdio::null())
        .spawn();
    let mut watching = Background(watching.unwrap());
    let counters = || stage.place.status("gateway").unwrap()["counters"].clone();
    until(
        "bob watches",
        || counters()["directory-subscribes"] == 1,
        || counters().to_string(),
    );
    let registered = stage.register("sip:alice@192.0.2.1:5070", "a");
    assert!(registered.status.success(), "{}", text(&registered));
    assert!(watching.0.wait().unwrap().success());
}

fn free_port() -> String {
    let socket = UdpSocket::bind((CALLED, 0)).unwrap();
    socket.local_addr().unwrap().port().to_string()
}

/// Whether a program has the port of [`CALLED`]. A trial bind would keep the program off the port
/// at that moment.
fn is_taken(port: &str) -> bool {
    let port: u16 = port.parse().unwrap();
    // As the kernel shows the address: in the order of its bytes in memory.
    let ip: Ipv4Addr = CALLED.parse().unwrap();
    let own = format!(" {:08X}:{port:04X} ", u32::from_ne_bytes(ip.octets()));
    read("/proc/net/udp".as_ref()).contains(&own)
}

/// An address of this machine that is not the directory's domain.
const CALLED: &str = "127.0.0.2";

#[test]
fn what_a_directory_lacks_is_told_before_anything_is_opened() {
    let place = Place::new();
    let ended = place.run("gateway", &["serve", "--directory", "example.org"]);
    ended.expect(2, "--directory-users");
    let ended = place.run("gateway", &["serve", "--directory", "a b"]);
    ended.expect(2, "--directory");
}
