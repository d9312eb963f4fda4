//! `hawser run`: programs without any knowledge of Hawser, over two links.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::clients::{find, is_without, noise, run};
use super::network::{SERVER, SERVER_V6, TwoLinks};
use super::nginx::Nginx;
use super::program::{Ended, Place, until};

/// `hawser run` in the client's network.
fn hawser_run(network: &TwoLinks, place: &Place, via: &str, command: &[&str]) -> Command {
    let mut hawser = network.client.command(env!("CARGO_BIN_EXE_hawser"));
    hawser.arg("--state").arg(place.path("client"));
    hawser.args(["run", "--via", via, "--"]).args(command);
    hawser
}

/// Returns the ways of capturing connections that this machine permits; others are counted as
/// skipped.
pub(crate) fn ways(place: &Place, test: &str) -> &'static [&'static str] {
    let tried = place.run("try", &["run", "--via", "kernel", "--", "true"]);
    if tried.code == 0 {
        return &["shim", "kernel"];
    }
    hawser_skip::skip(
        &format!("real_clients::{test}, in the kernel"),
        tried.err.trim(),
    );
    &["shim"]
}

/// Two links, and a web server behind them.
fn network(place: &Place, test: &str, programs: &[&str]) -> Option<(TwoLinks, Nginx)> {
    if is_without(&[&["nginx", "ip", "nsenter"], programs].concat(), test) {
        return None;
    }
    let network = TwoLinks::new(test)?;
    let address = format!("{SERVER}:80").parse().unwrap();
    let nginx = Nginx::start_in(&network.server, place, address);
    Some((network, nginx))
}

#[test]
fn parallel_downloads_take_both_links() {
    let place = Place::new();
    let test = "parallel_downloads_take_both_links";
    let Some((network, nginx)) = network(&place, test, &["curl"]) else {
        return;
    };
    let content = noise(1, FILE);
    nginx.put("file", &content);
    for way in ways(&place, test) {
        let before = network.received();
        let files = place.path(&format!("{way}-#1"));
        let url = nginx.url("file?[1-8]");
        let output = ["--output", files.to_str().unwrap(), &url];
        let curl = [&PARALLEL_CURL[..], &output].concat();
        run(&place, &mut hawser_run(&network, &place, way, &curl)).out();
        for n in 1..=8 {
            let got = std::fs::read(place.path(&format!("{way}-{n}"))).unwrap();
            assert!(got == content, "{way}: {n}");
        }
        let after = network.received();
        for (before, after) in before.into_iter().zip(after) {
            let share = after - before;
            assert!(share > FILE as u64, "{way}: {share} bytes by one link");
        }
    }
}

#[test]
fn a_daemon_captures_a_control_group_and_leaves_nothing_behind_when_it_is_killed() {
    let place = Place::new();
    let test = "a_daemon_captures_a_control_group_and_leaves_nothing_behind_when_it_is_killed";
    let Some((network, nginx)) = network(&place, test, &["curl"]) else {
        return;
    };
    let captive = ["up", "--listen", "127.0.0.1:0", "--capture"];
    if !ways(&place, test).contains(&"kernel") {
        return;
    }
    nginx.put("file", &noise(1, FILE));
    let group = Group::new(test);
    let wanted = format!("cgroup:{}", group.0.display());
    let mut hawser = network.client.command(env!("CARGO_BIN_EXE_hawser"));
    hawser
        .arg("--state")
        .arg(place.path("client"))
        .args(captive)
        .arg(&wanted);
    hawser.stdin(Stdio::null());
    let daemon = place.launch_command("client", hawser);
    until(
        "the daemon captures",
        || daemon.listen(&place).is_some(),
        || daemon.log(),
    );
    let shares = group.downloads(&place, &network, &nginx);
    assert!(
        shares.iter().all(|share| *share > FILE as u64),
        "{shares:?}\n{}",
        daemon.log()
    );
    daemon.kill();
    let shares = group.downloads(&place, &network, &nginx);
    assert!(shares[1] < FILE as u64, "{shares:?}");
}

/// A control group for a test.
pub(crate) struct Group(pub(crate) PathBuf);

impl Group {
    /// Creates a group with this name.
    pub(crate) fn new(name: &str) -> Self {
        let mounts = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"];
        let root = mounts
            .iter()
            .find(|mount| Path::new(mount).join("cgroup.procs").exists());
        let group = Path::new(root.unwrap()).join(format!("hawser-{name}-{}", std::process::id()));
        std::fs::create_dir(&group).unwrap();
        Self(group)
    }
}

impl Group {
    /// Bytes by each link while a program in it downloads eight files.
    fn downloads(&self, place: &Place, network: &TwoLinks, nginx: &Nginx) -> [u64; 2] {
        let (url, out) = (nginx.url("file?[1-8]"), place.path("out-#1"));
        let output = ["--output", out.to_str().unwrap(), &url];
        let script = format!("echo $$ > {}/cgroup.procs; exec \"$@\"", self.0.display());
        let before = network.received();
        let mut shell = network.client.command("sh");
        shell.args(["-c", &script, "sh"]);
        run(place, shell.args(PARALLEL_CURL).args(output)).out();
        let after = network.received();
        [after[0] - before[0], after[1] - before[1]]
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn a_program_sees_the_addresses_that_it_asked_for() {
    let place = Place::new();
    let test = "a_program_sees_the_addresses_that_it_asked_for";
    let Some((network, _nginx)) = network(&place, test, &["python3"]) else {
        return;
    };
    let script = format!(
        r#"
import socket
def show(family, to, bind=None):
    s = socket.socket(family)
    if bind: s.bind(bind)
    s.connect(to)
    print(s.getpeername()[:2], s.getsockname()[0].startswith(("127.", "::1", "::ffff:127.")))
    return s
show(socket.AF_INET, ("{SERVER}", 80)).dup().getpeername()
show(socket.AF_INET6, ("::ffff:{SERVER}", 80))
show(socket.AF_INET, ("{SERVER}", 80), ("10.7.2.2", 0))
fast = socket.socket()
sent = fast.sendto(b"GET / HTTP/1.0\r\n\r\n", socket.MSG_FASTOPEN, ("{SERVER}", 80))
print(sent, fast.recv(8), fast.getpeername())
for to in ("{SERVER}", 81), ("{SERVER_V6}", 80), ("10.7.1.1", 80):
    try: print(socket.create_connection(to).recv(1))
    except OSError as error: print(type(error).__name__)
"#
    );
    let mut python = hawser_run(&network, &place, "shim", &["python3", "-c", &script]);
    let said = run(&place, &mut python).text();
    let expected = format!(
        "('{SERVER}', 80) True\n\
         ('::ffff:{SERVER}', 80) True\n\
         ('{SERVER}', 80) False\n\
         18 b'HTTP/1.1' ('{SERVER}', 80)\n\
         ConnectionResetError\n\
         ConnectionResetError\n\
         ConnectionRefusedError\n"
    );
    assert_eq!(said, expected);
}

#[test]
fn connections_go_through_when_hawser_was_killed() {
    let place = Place::new();
    let test = "connections_go_through_when_hawser_was_killed";
    let Some((network, nginx)) = network(&place, test, &["python3"]) else {
        return;
    };
    nginx.put("file", b"here it is");
    let script = format!(
        r#"
import os, sys, urllib.request
print(os.getppid(), flush=True)
sys.stdin.readline()
print(urllib.request.urlopen("{}").read().decode(), flush=True)
"#,
        nginx.url("file")
    );
    let mut child = hawser_run(&network, &place, "shim", &["python3", "-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let hawser: i32 = lines.next().unwrap().unwrap().parse().unwrap();
    kill_process(Pid::from_raw(hawser).unwrap(), Signal::KILL).unwrap();
    let mut input = child.stdin.take().unwrap();
    child.wait().unwrap();
    input.write_all(b"\n").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "here it is");
}

#[test]
fn a_daemon_in_the_same_state_directory_is_not_disturbed() {
    let place = Place::new();
    let daemon = place.start("client", &["up", "--listen", "127.0.0.1:0"]);
    let ended = place.run("client", &["run", "--", "sh", "-c", "exit 3"]);
    assert_eq!(ended.code, 3, "{ended:?}");
    daemon.end();
}

#[test]
fn the_exit_code_is_that_of_the_program() {
    let place = Place::new();
    let run = |command: &[&str]| place.run("s", &[&["run", "--"], command].concat());
    assert_eq!(run(&["sh", "-c", "exit 0"]).code, 0);
    assert_eq!(run(&["sh", "-c", "exit 7"]).code, 7);
    assert_eq!(run(&["sh", "-c", "kill -KILL $$"]).code, 128 + 9);
    run(&["hawser-no-such-program"]).expect(127, "can't run hawser-no-such-program");
    run(&["/"]).expect(126, "can't run /");
    place.run("s", &["run"]).expect(2, "PROGRAM");
    place
        .run("s", &["run", "--link", "nosuch", "--", "true"])
        .expect(2, "no link is called nosuch");
    place
        .run("s", &["run", "--via", "magic", "--", "true"])
        .expect(2, "magic");
    place
        .run("s", &["run", "--mode", "bonded", "--", "true"])
        .expect(1, "no gateway is enrolled");
    place
        .run("s", &["run", "--link", "", "--", "true"])
        .expect(2, "--link");
}

#[test]
fn signals_reach_the_program_and_its_output_stays_its_own() {
    let place = Place::new();
    let script = "trap 'echo ended in order; exit 5' TERM; echo ready; while :; do read x; done";
    let mut hawser = place
        .hawser("s", &["run", "--", "sh", "-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Kept open, so that the script waits.
    let _input = hawser.stdin.take();
    let mut out = BufReader::new(hawser.stdout.take().unwrap()).lines();
    assert_eq!(out.next().unwrap().unwrap(), "ready");
    let id = i32::try_from(hawser.id()).ok().and_then(Pid::from_raw);
    kill_process(id.unwrap(), Signal::TERM).unwrap();
    assert_eq!(out.next().unwrap().unwrap(), "ended in order");
    let ended = Ended::of(hawser.wait_with_output().unwrap());
    assert_eq!((ended.code, ended.err.as_str()), (5, ""));
}

#[test]
fn a_static_program_runs_and_it_is_said_that_nothing_is_taken() {
    let test = "a_static_program_runs_and_it_is_said_that_nothing_is_taken";
    if is_without(&["ldconfig"], test) {
        return;
    }
    let place = Place::new();
    // Of the programs that every system has, the one that must not need libraries.
    let program = find("ldconfig").unwrap();
    let ended = place.run(
        "s",
        &[
            "run",
            "--via",
            "shim",
            "--",
            program.to_str().unwrap(),
            "--version",
        ],
    );
    ended.expect(0, "it is linked statically");
}

const PARALLEL_CURL: [&str; 6] = [
    "curl",
    "--silent",
    "--show-error",
    "--fail",
    "--parallel",
    "--parallel-immediate",
];
const FILE: usize = 1_000_000;
