//! Name queries of programs while a link is silent, captured or run by Hawser.

use std::process::Command;

use hawser_capture::{Capture, RunGroup, Settings};
use hawser_skip::name_server::serve_names_if_asked;
use hawser_skip::namespace::{in_namespace, in_namespace_of_root};

use super::program::{kernel_captures, until};
use super::silent_link::{
    GATEWAY, HAWSER, Net, SERVER, answer_from, each_silent, has_mounts, with_either_silent,
};

impl Net {
    /// Looks names up by the C library, one after the other, under `hawser run`.
    fn look_up_under_run(&self, via: &str, silent: &str) {
        let mut run = self.command(HAWSER);
        run.arg("--state").arg(self.place.path("client"));
        run.args(["run", "--via", via, "--", "bash", "-c", LOOK_UP]);
        found(run, &format!("{silent} silent, run --via {via}"));
    }

    /// A script under `hawser run`, with its library.
    fn run_python(&self, script: &str) -> Command {
        let mut run = self.command(HAWSER);
        run.arg("--state").arg(self.place.path("client"));
        run.args(["run", "--via", "shim", "--", "python3", "-c", script]);
        run
    }
}

/// Runs `command`, which looks names up by [`LOOK_UP`], and checks the times.
fn found(mut command: Command, what: &str) {
    let output = command.output().unwrap();
    let (out, errors) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert_eq!(out, format!("{GATEWAY}\n").repeat(3), "{what}: {errors}");
    println!(
        "{what}: new names after {}",
        errors.trim().replace('\n', ", ")
    );
}

#[test]
fn programs_find_names_by_a_library_although_any_one_link_is_silent() {
    let test = "program_names::programs_find_names_by_a_library_although_any_one_link_is_silent";
    with_either_silent(test, |net, silent| {
        net.set_silent(silent);
        net.look_up_under_run("shim", silent);
    });
}

#[test]
fn programs_find_names_in_the_kernel_although_any_one_link_is_silent() {
    let test = "program_names::programs_find_names_in_the_kernel_although_any_one_link_is_silent";
    in_namespace_of_root(test, || {
        serve_names_if_asked();
        if !kernel_captures(test) {
            return;
        }
        each_silent(test, |net, silent| {
            net.set_silent(silent);
            net.look_up_under_run("kernel", silent);
        });
    });
}

#[test]
fn programs_find_names_in_a_captured_group_although_any_one_link_is_silent() {
    let test =
        "program_names::programs_find_names_in_a_captured_group_although_any_one_link_is_silent";
    in_namespace_of_root(test, || {
        each_silent(test, |net, silent| {
            let group = RunGroup::create().and_then(|group| {
                Capture::start(group.path(), &Settings::default())?;
                Ok(group)
            });
            let group = match group {
                Ok(group) => group,
                Err(error) => {
                    let test = format!("end_to_end::{test}");
                    return hawser_skip::skip(&test, &error.to_string());
                }
            };
            // Where the daemon is in the group, as with the whole system, what it asks is its own.
            for is_in_group in [false, true] {
                let scope = format!("cgroup:{}", group.path().display());
                let mut up = net.up_command(&["--direct", "--capture", &scope]);
                if is_in_group {
                    group.enter(&mut up).unwrap();
                }
                let client = net.place.launch_command("client", up);
                let listens = || client.listen(&net.place).is_some();
                until("it captures", listens, || client.log());
                net.set_silent(silent);
                let mut shell = net.command("bash");
                group.enter(shell.args(["-c", LOOK_UP])).unwrap();
                let what = format!("{silent} silent, up --capture, in the group: {is_in_group}");
                found(shell, &what);
                client.kill();
            }
        });
    });
}

#[test]
fn programs_that_ask_name_servers_by_themselves_hear_those() {
    let test = "program_names::programs_that_ask_name_servers_by_themselves_hear_those";
    in_namespace(test, || {
        serve_names_if_asked();
        if is_without_python(test) {
            return;
        }
        let net = Net::new(test);
        net.set_silent("dsl");
        let output = net.run_python(ASK).output().unwrap();
        let out = String::from_utf8_lossy(&output.stdout);
        let from = format!("True ('{SERVER}', 53)");
        let mapped = format!("True ('::ffff:{SERVER}', 53)");
        let expected = [&from, &from, &from, &mapped, &from].map(|line| format!("{line}\n"));
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(out, format!("True\n{}", expected.concat()), "{errors}");
    });
}

#[test]
fn programs_find_names_where_their_server_cannot_be_reached() {
    let test = "program_names::programs_find_names_where_their_server_cannot_be_reached";
    in_namespace(test, || {
        serve_names_if_asked();
        if !has_mounts() {
            hawser_skip::skip(&format!("end_to_end::{test}"), "no mount namespace here");
            return;
        }
        let net = Net::new(test);
        // No route leads to either; the links' routers know names as well.
        answer_from(&net.router, ["10.1.0.1", "10.2.0.1"]);
        let servers = "nameserver fd00::53\nnameserver 127.0.0.53\n";
        std::fs::write(net.place.path("resolv.conf"), servers).unwrap();
        net.look_up_under_run("shim", "no link");
    });
}

#[test]
fn programs_find_names_when_hawser_was_killed() {
    let test = "program_names::programs_find_names_when_hawser_was_killed";
    in_namespace(test, || {
        serve_names_if_asked();
        if is_without_python(test) {
            return;
        }
        let net = Net::new(test);
        let script = "import os, signal, socket, threading\n\
                      ask = lambda: print(socket.gethostbyname('first.example.org'))\n\
                      ask()\n\
                      other = threading.Thread(target=ask)\n\
                      other.start()\n\
                      other.join()\n\
                      hawser = os.getppid()\n\
                      os.kill(hawser, signal.SIGKILL)\n\
                      while os.getppid() == hawser: pass\n\
                      print(socket.gethostbyname('second.example.org'))\n";
        let output = net.run_python(script).output().unwrap();
        let out = String::from_utf8_lossy(&output.stdout);
        assert_eq!(out, format!("{GATEWAY}\n").repeat(3), "{output:?}");
    });
}

fn is_without_python(test: &str) -> bool {
    let is_here = Command::new("python3").arg("-V").output().is_ok();
    let reason = match (is_here, has_mounts()) {
        (false, _) => "no python3 here",
        (_, false) => "no mount namespace here",
        _ => return false,
    };
    hawser_skip::skip(&format!("end_to_end::{test}"), reason);
    true
}

/// Queries by the C library and by sockets in five ways; prints for each answer whether it has the
/// address, and its source.
const ASK: &str = r#"
import ctypes, socket
answer = ctypes.create_string_buffer(512)
size = ctypes.CDLL(None).res_query(b"first.example.org", 1, 1, answer, 512)
print(answer.raw[:max(size, 0)].endswith(bytes([11, 22, 33, 44])))
server, inet, inet6 = ("11.22.33.53", 53), socket.AF_INET, socket.AF_INET6
query = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\5first\7example\3org\0\0\1\0\1"
def show(answer, peer):
    print(answer[:2] == query[:2] and answer.endswith(bytes([11, 22, 33, 44])), peer[:2])
def datagrams(family):
    one = socket.socket(family, socket.SOCK_DGRAM)
    one.settimeout(10)
    return one
loose = datagrams(inet)
loose.sendto(query, server)
show(*loose.recvfrom(512))
loose.sendmsg([query], [], 0, server)
answer, _, _, peer = loose.recvmsg(512)
show(answer, peer)
bound = datagrams(inet)
bound.connect(server)
bound.send(query)
assert bound.getpeername() == server, bound.getpeername()
show(*bound.recvfrom(512))
mapped = datagrams(inet6)
mapped.sendto(query, ("::ffff:11.22.33.53", 53))
show(*mapped.recvfrom(512))
stream = socket.create_connection(server, 10)
stream.sendall(len(query).to_bytes(2, "big") + query)
length = int.from_bytes(stream.recv(2), "big")
show(stream.recv(length), stream.getpeername())
"#;
/// Looks three new names up in turn, and prints how long each took.
const LOOK_UP: &str = "TIMEFORMAT=%R; for name in first second third; do \
                       time getent ahosts $name.example.org | head -1 | cut -d ' ' -f 1; done";
