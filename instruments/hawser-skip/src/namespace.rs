//! Network namespaces for tests that need their own interfaces. All functions panic on errors, as
//! tests do.

use std::env;
use std::fs::File;
use std::io::{Read, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::thread;

use rustix::process::{Pid, Signal, kill_process_group};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::skip;

/// Runs `body` as root of a new network namespace, in its own process; `test` is the path of the
/// calling test. Reports a skipped test where the system forbids that.
pub fn in_namespace(test: &str, body: impl FnOnce()) {
    enter(test, &["--user", "--map-root-user", "--net", "--"], body);
}

/// Runs `body` likewise as the machine's root, without a user namespace.
pub fn in_namespace_of_root(test: &str, body: impl FnOnce()) {
    enter(test, &["--net", "--"], body);
}

fn enter(test: &str, arguments: &[&str], body: impl FnOnce()) {
    if env::var(INSIDE).is_ok_and(|inside| inside == test) {
        println!("{ARRIVED}");
        return body();
    }
    if is_forbidden(&named(test)) {
        return;
    }
    if let Some(reason) = no_ip() {
        return skip(&named(test), &reason);
    }
    let child = Command::new("unshare")
        .args(arguments)
        .arg(env::current_exe().unwrap())
        .args(["--exact", test, "--include-ignored", "--nocapture"])
        .env(INSIDE, test)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn();
    let child = match child {
        Ok(child) => child,
        Err(error) => return skip(&named(test), &format!("cannot run unshare: {error}")),
    };
    let (has_passed, out, errors) = finish(child);
    if out.contains(ARRIVED) {
        assert!(has_passed, "in the namespace:\n{out}\n{errors}");
        // The output of the test; the runner hides it by default.
        print!("{out}");
    } else {
        skip(
            &named(test),
            &format!("no namespace here: {}", errors.trim_end()),
        );
    }
}

/// Returns whether tests may make no namespaces now, and then reports `test`, as `crate::test`, as
/// skipped. Tests ask that make namespaces other than by [`in_namespace`].
pub fn is_forbidden(test: &str) -> bool {
    let forbidden = env::var_os(FORBIDDEN).is_some();
    if forbidden {
        skip(test, "fast tests make no namespaces");
    }
    forbidden
}

/// Waits for the end of a program that leads a process group; whether it has succeeded, and what it
/// has said. What a test that failed leaves behind is ended, since it holds the output.
fn finish(mut child: Child) -> (bool, String, String) {
    let said = |stream: Option<Box<dyn Read + Send>>| {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = stream.map(|mut it| it.read_to_end(&mut bytes));
            String::from_utf8_lossy(&bytes).into_owned()
        })
    };
    let out = said(child.stdout.take().map(|it| Box::new(it) as _));
    let errors = said(child.stderr.take().map(|it| Box::new(it) as _));
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let has_passed = child.wait().is_ok_and(|status| status.success());
    if let Some(group) = group {
        let _ = kill_process_group(group, Signal::KILL);
    }
    (has_passed, out.join().unwrap(), errors.join().unwrap())
}

/// Returns the name with its crate, which cargo sets for tests.
fn named(test: &str) -> String {
    let name = env::var("CARGO_PKG_NAME").unwrap_or_default();
    format!("{}::{test}", name.replace('-', "_"))
}

/// Returns why `ip`, which creates interfaces, cannot run here; `None` where it can.
pub fn no_ip() -> Option<String> {
    let error = Command::new("ip").arg("-V").output().err()?;
    Some(format!("cannot run ip: {error}"))
}

/// Runs `ip` with these space-separated arguments.
pub fn ip(arguments: &str) {
    let status = Command::new("ip")
        .args(arguments.split(' '))
        .status()
        .unwrap();
    assert!(status.success(), "ip {arguments}");
}

/// Runs `body` in the network namespace of the process `pid`, in a thread of its own. Sockets that
/// it makes stay there.
pub fn within<T: Send>(pid: u32, body: impl FnOnce() -> T + Send) -> T {
    let namespace = File::open(format!("/proc/{pid}/ns/net")).unwrap();
    let enter = move || {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
        body()
    };
    std::thread::scope(|scope| scope.spawn(enter).join().unwrap())
}

/// A second network namespace beside the test's own.
pub struct Neighbour(Child);

impl Neighbour {
    /// Creates one, which exists until this is dropped.
    pub fn start() -> Self {
        // It prints a line when the namespace exists, and ends with its input.
        let mut child = Command::new("unshare")
            .args(["--net", "--", "sh", "-c", "echo; cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = [0];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut said).unwrap();
        Self(child)
    }

    /// Returns a process in the namespace.
    pub fn process(&self) -> u32 {
        self.0.id()
    }

    /// Moves the interface `name` there.
    pub fn take(&self, name: &str) {
        ip(&format!("link set {name} netns {}", self.0.id()));
    }

    /// Returns a command that runs there.
    pub fn command(&self, program: &str) -> Command {
        let pid = self.0.id().to_string();
        let mut command = Command::new("nsenter");
        command.args(["--target", &pid, "--net", "--", program]);
        command
    }

    /// Runs `ip` there.
    pub fn ip(&self, arguments: &str) {
        let status = self
            .command("ip")
            .args(arguments.split(' '))
            .status()
            .unwrap();
        assert!(status.success(), "ip {arguments} in the neighbour");
    }

    /// Loads these rules of nftables there; fails with what `nft` says.
    pub fn nft(&self, rules: &[u8]) -> Result<(), String> {
        let mut nft = self.command("nft");
        nft.args(["-f", "-"]).stdin(Stdio::piped());
        let mut nft = nft.stderr(Stdio::piped()).spawn().unwrap();
        nft.stdin.take().unwrap().write_all(rules).unwrap();
        let ended = nft.wait_with_output().unwrap();
        let says = String::from_utf8_lossy(&ended.stderr).into_owned();
        ended.status.success().then_some(()).ok_or(says)
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Names the test in the process that runs it in a namespace.
pub(crate) const INSIDE: &str = "HAWSER_TEST_INSIDE_NAMESPACE";
/// Where this is set, no test makes a namespace: `cargo xtask test fast`.
const FORBIDDEN: &str = "HAWSER_NO_NAMESPACES";
const ARRIVED: &str = "arrived in the namespace";
