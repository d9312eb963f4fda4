//! Child programs that never outlive the lab.

use std::fs::File;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A program in the background, with its output in a file; ended when dropped.
#[derive(Debug)]
pub struct Program {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Program {
    /// Starts `command` in a process group of its own; both outputs go to `log`.
    pub fn start(name: &str, mut command: Command, log: &Path) -> io::Result<Self> {
        let file = File::create(log)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .process_group(0)
            .spawn()
            .map_err(|e| io::Error::new(e.kind(), format!("cannot start {name}: {e}")))?;
        Ok(Self {
            name: name.to_owned(),
            child,
            log: log.to_owned(),
        })
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends it without warning.
    pub fn kill(mut self) {
        self.kill_at_once();
    }

    /// Ends it without warning, for one that another takes the place of.
    pub(crate) fn kill_at_once(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            signal_group(self.child.id(), libc::SIGKILL);
        }
        let _ = self.child.wait();
    }

    /// An error with the end of its output when the program has ended.
    pub fn check_alive(&mut self) -> io::Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => Err(io::Error::other(Ended {
                name: self.name.clone(),
                status,
                said: self.last_words(),
            })),
        }
    }

    /// The end of what the program wrote.
    pub fn last_words(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let tail = &text[text.len().saturating_sub(MAX_LAST_WORDS)..];
        String::from_utf8_lossy(tail).trim().to_owned()
    }
}

/// A program that ended when it should not, or not as it should.
#[derive(Debug, thiserror::Error)]
#[error("{name} ended ({status}): {said}")]
struct Ended {
    name: String,
    status: ExitStatus,
    /// The end of what it wrote.
    said: String,
}

/// Tells whether the error is that a signal ended a program, such as a memory fault of its own.
pub(crate) fn is_crash(error: &io::Error) -> bool {
    let ended = error.get_ref().and_then(|it| it.downcast_ref::<Ended>());
    ended.is_some_and(|ended| ended.status.signal().is_some())
}

impl Drop for Program {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            signal_group(self.child.id(), libc::SIGTERM);
            if !matches!(
                wait_until(&mut self.child, Instant::now() + GRACE, || {}),
                Ok(Some(_))
            ) {
                signal_group(self.child.id(), libc::SIGKILL);
            }
        }
        let _ = self.child.wait();
    }
}

/// Runs a command that prints its result, and gives what it printed.
///
/// It is killed at the time limit, which is an error.
pub fn output_of(name: &str, command: Command, limit: Duration) -> io::Result<String> {
    output_while(name, command, limit, |_| {})
}

/// As [`output_of`], and has `look` look at the process, whose id it is told, a few hundred times a
/// second.
pub(crate) fn output_while(
    name: &str,
    mut command: Command,
    limit: Duration,
    mut look: impl FnMut(u32),
) -> io::Result<String> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(|e| io::Error::new(e.kind(), format!("cannot start {name}: {e}")))?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    std::thread::scope(|scope| {
        let out = scope.spawn(move || read_all(stdout));
        let err = scope.spawn(move || read_all(stderr));
        let id = child.id();
        let ended = wait_until(&mut child, Instant::now() + limit, || look(id))?;
        if ended.is_none() {
            signal_group(child.id(), libc::SIGKILL);
            child.wait()?;
        }
        let out = out.join().unwrap_or_default();
        let err = err.join().unwrap_or_default();
        match ended {
            Some(status) if status.success() => Ok(out),
            Some(status) => Err(io::Error::other(Ended {
                name: name.to_owned(),
                status,
                said: err.trim().to_owned(),
            })),
            None => Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!("{name} did not finish within {limit:?}"),
            )),
        }
    })
}

fn read_all(from: Option<impl io::Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(mut from) = from {
        let _ = from.read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn wait_until(
    child: &mut Child,
    deadline: Instant,
    mut look: impl FnMut(),
) -> io::Result<Option<ExitStatus>> {
    loop {
        look();
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        std::thread::sleep(POLL);
    }
}

fn signal_group(leader: u32, signal: libc::c_int) {
    if let Ok(leader) = libc::pid_t::try_from(leader)
        && leader > 1
    {
        // SAFETY: a plain system call; the child is not yet waited for, so the id is still its.
        unsafe {
            libc::kill(-leader, signal);
        }
    }
}

/// An orderly end of a session may take three seconds.
const GRACE: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(5);
const MAX_LAST_WORDS: usize = 2_000;
