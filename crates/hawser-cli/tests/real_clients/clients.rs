//! Runs client programs, and the two daemons between them and their server.

use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::program::{Daemon, Place, read, until};

/// `hawser serve` and `hawser up`, the latter enrolled with the former.
pub(crate) struct Rope {
    pub(crate) gateway: Daemon,
    pub(crate) up: Daemon,
    /// `ADDRESS:PORT` of the proxy.
    pub(crate) proxy: String,
}

impl Rope {
    pub(crate) fn start(place: &Place) -> Self {
        let gateway = place.serve();
        // It may listen before the invite is there, which then is there as a whole.
        until(
            "an invite is written",
            || place.path("invite").exists(),
            || gateway.log(),
        );
        let up = place.up("client", &["--gateway", &place.invite()]);
        let proxy = up.listen(place).unwrap();
        Self { gateway, up, proxy }
    }

    /// Returns the number of connections that the gateway has made for clients so far.
    pub(crate) fn connected(&self, place: &Place) -> u64 {
        let status = place.status("gateway").unwrap();
        status["counters"]["gateway-connected"].as_u64().unwrap()
    }

    /// Ends both in order.
    pub(crate) fn end(self) {
        self.up.end();
        self.gateway.end();
    }
}

/// Result of a client that has ended.
pub(crate) struct Done {
    pub(crate) status: ExitStatus,
    pub(crate) out: Vec<u8>,
    pub(crate) err: String,
}

impl Done {
    /// What it wrote, when it succeeded.
    pub(crate) fn out(self) -> Vec<u8> {
        assert!(self.status.success(), "{}: {}", self.status, self.err);
        self.out
    }

    pub(crate) fn text(self) -> String {
        String::from_utf8(self.out()).unwrap()
    }
}

/// Runs a client to its end, without the environment's proxies.
pub(crate) fn run(place: &Place, command: &mut Command) -> Done {
    for scheme in ["http", "https", "all", "no"] {
        command.env_remove(format!("{scheme}_proxy"));
        command.env_remove(format!("{scheme}_proxy").to_uppercase());
    }
    let name = Path::new(command.get_program()).file_name().unwrap();
    let name = name.to_str().unwrap();
    let [out, err] = ["out", "err"].map(|end| place.path(&format!("{name}.{end}")));
    command
        .stdin(Stdio::null())
        .stdout(File::create(&out).unwrap())
        .stderr(File::create(&err).unwrap());
    let mut family = Family::start(command);
    let deadline = Instant::now() + PATIENCE;
    while !family.has_ended() {
        assert!(Instant::now() < deadline, "no end of {}", read(&err));
        std::thread::sleep(POLL);
    }
    Done {
        status: family.end(),
        out: std::fs::read(out).unwrap(),
        err: read(&err),
    }
}

/// A program and its descendants; all are killed when dropped.
pub(crate) struct Family(Child);

impl Family {
    /// Starts it in a process group of its own.
    pub(crate) fn start(command: &mut Command) -> Self {
        Self(command.process_group(0).spawn().unwrap())
    }

    fn id(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.0.id()).unwrap()).unwrap()
    }

    /// Whether the first of them has ended. It is left as a zombie, so that its number is not
    /// reused until the others are killed.
    pub(crate) fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        waitid(WaitId::Pid(self.id()), options).unwrap().is_some()
    }

    pub(crate) fn end(&mut self) -> ExitStatus {
        let _ = kill_process_group(self.id(), Signal::KILL);
        self.0.wait().unwrap()
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        // A child that was waited for is remembered as such; its number may be another's by now.
        if let Ok(None) = self.0.try_wait() {
            self.end();
        }
    }
}

/// Bytes without a pattern that a misplaced piece could hide in.
pub(crate) fn noise(mut seed: u64, size: usize) -> Vec<u8> {
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 56) as u8
    };
    (0..size).map(|_| next()).collect()
}

/// Finds a program, also in the folders of administrators.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':')
        .chain(["/usr/sbin", "/sbin"])
        .map(|folder| Path::new(folder).join(program))
        .find(|path| path.is_file())
}

/// Whether one of these programs is not here; says so, for the runner to count the test as skipped.
pub(crate) fn is_without(programs: &[&str], test: &str) -> bool {
    let Some(missing) = programs.iter().find(|program| find(program).is_none()) else {
        return false;
    };
    let reason = format!("no {missing} here");
    hawser_skip::skip(&format!("real_clients::{test}"), &reason);
    true
}

const PATIENCE: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(20);
