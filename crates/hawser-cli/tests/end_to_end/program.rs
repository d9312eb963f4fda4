//! Starts the program, waits for it and ends it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use hawser_skip::TestFolder;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A folder for one test, with a state directory and a log for each end.
pub(crate) struct Place {
    folder: TestFolder,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self {
            folder: TestFolder::new(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A folder in it.
    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    /// `hawser --state STATE ARGUMENTS…`.
    pub(crate) fn hawser(&self, state: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hawser"));
        command.arg("--state").arg(self.path(state));
        command.args(arguments).stdin(Stdio::null());
        command
    }

    /// Runs it to its end.
    pub(crate) fn run(&self, state: &str, arguments: &[&str]) -> Ended {
        Ended::of(self.hawser(state, arguments).output().unwrap())
    }

    /// Starts a daemon, and waits until it says where it listens.
    pub(crate) fn start(&self, state: &str, arguments: &[&str]) -> Daemon {
        let daemon = self.launch(state, arguments);
        until(
            "the daemon listens",
            || daemon.listen(self).is_some(),
            || daemon.log(),
        );
        daemon
    }

    /// Starts a daemon without waiting.
    pub(crate) fn launch(&self, state: &str, arguments: &[&str]) -> Daemon {
        self.launch_command(state, self.hawser(state, arguments))
    }

    /// Starts a daemon by a command that ends in it.
    pub(crate) fn launch_command(&self, state: &str, mut command: Command) -> Daemon {
        let log = self.path(&format!("{state}.log"));
        let child = command
            .stdout(Stdio::null())
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        Daemon {
            child,
            log,
            state: state.to_owned(),
        }
    }

    /// `hawser serve` that lets clients reach this machine; its invite is in the file `invite`.
    pub(crate) fn serve(&self) -> Daemon {
        let invite = self.path("invite");
        let invite = invite.to_str().unwrap();
        let arguments = ["serve", "--listen", "127.0.0.1:0", "--invite-file", invite];
        let allowed = ["--allow-destination", "127.0.0.0/8"];
        self.start("gateway", &[&arguments[..], &allowed].concat())
    }

    /// `hawser up` with these further arguments.
    pub(crate) fn up(&self, state: &str, arguments: &[&str]) -> Daemon {
        let always = ["up", "--listen", "127.0.0.1:0", "--link", "lo"];
        self.start(state, &[&always[..], arguments].concat())
    }

    /// `@FILE` with the invite in it.
    pub(crate) fn invite(&self) -> String {
        format!("@{}", self.path("invite").display())
    }

    /// Returns the output of `hawser status --json`; `None` without an answer of a daemon.
    pub(crate) fn status(&self, state: &str) -> Option<Value> {
        let ended = self.run(state, &["status", "--json"]);
        (ended.code == 0).then(|| serde_json::from_str(&ended.out).unwrap())
    }
}

/// Output of a command that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Fails unless it ended with `code` and complained about `about`.
    pub(crate) fn expect(&self, code: i32, about: &str) {
        assert_eq!(self.code, code, "{self:?}");
        assert!(self.err.contains(about), "{self:?}");
    }
}

/// A daemon; it is killed when dropped.
pub(crate) struct Daemon {
    child: Child,
    log: PathBuf,
    state: String,
}

impl Daemon {
    /// Returns the address at which it accepts connections.
    pub(crate) fn listen(&self, place: &Place) -> Option<String> {
        let status = place.status(&self.state)?;
        Some(status["listen"][0].as_str()?.to_owned())
    }

    pub(crate) fn log(&self) -> String {
        read(&self.log)
    }

    /// Its process.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let id = i32::try_from(self.child.id()).ok();
        kill_process(id.and_then(Pid::from_raw).unwrap(), signal).unwrap();
    }

    /// The exit code that it has ended with, if it has ended.
    pub(crate) fn ended(&mut self) -> Option<i32> {
        let status = self.child.try_wait().unwrap()?;
        Some(status.code().unwrap_or(-1))
    }

    /// Waits until it has ended by itself; its exit code, if it was not killed.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < deadline, "it does not end: {}", self.log());
            std::thread::sleep(POLL);
        }
    }

    /// Ends it in order.
    pub(crate) fn end(mut self) {
        self.signal(Signal::TERM);
        assert_eq!(self.wait(), Some(0), "{}", self.log());
    }

    /// Kills it at once.
    pub(crate) fn kill(mut self) {
        self.signal(Signal::KILL);
        self.wait();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Counts the channels over TCP of a path in `hawser status --json`.
pub(super) fn tcp_channels(path: &Value) -> usize {
    let channels = path["channels"].as_array().into_iter().flatten();
    channels.filter(|it| it["transport"].is_null()).count()
}

/// Returns whether the kernel's program may run here. If not, the test is skipped, with a report.
pub(crate) fn kernel_captures(test: &str) -> bool {
    let tried = Place::new().run("try", &["run", "--via", "kernel", "--", "true"]);
    if tried.code != 0 {
        hawser_skip::skip(&format!("end_to_end::{test}"), tried.err.trim());
    }
    tried.code == 0
}

/// Waits until `condition` holds; `said` explains the failure if it never does.
pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool, said: impl Fn() -> String) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "never: {what}\n{}", said());
        std::thread::sleep(POLL);
    }
}

pub(crate) fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);
