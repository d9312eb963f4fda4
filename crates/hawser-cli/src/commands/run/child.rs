//! The program that `hawser run` runs: its start, the signals forwarded to it, and its end.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};

use rustix::process::{Pid, Resource, Signal, getpgrp, getrlimit, kill_process, setrlimit};
use rustix::termios::tcgetpgrp;
use tokio::signal::unix::{Signal as Arrivals, SignalKind, signal};

/// A program that runs with this process's terminal, input and output.
pub(super) struct Child {
    inner: tokio::process::Child,
    signals: Signals,
}

impl Child {
    /// Starts the program. If it can't be run, prints the reason and returns an exit code.
    pub(super) fn start(command: Command) -> anyhow::Result<Result<Self, ExitCode>> {
        // Installed before the program runs, so that no signal is lost or ends this process alone.
        let signals = Signals::listen()?;
        match spawn(command) {
            Ok(inner) => Ok(Ok(Self { inner, signals })),
            Err((program, error)) => Ok(Err(cannot_run(&program, &error))),
        }
    }

    /// Waits for the program's end and forwards signals until then.
    pub(super) async fn end(mut self) -> anyhow::Result<ExitCode> {
        let id = self.inner.id().and_then(|id| i32::try_from(id).ok());
        let id = id.and_then(Pid::from_raw);
        loop {
            tokio::select! {
                status = self.inner.wait() => return Ok(code(status?)),
                signal = self.signals.next() => {
                    if let Some(id) = id
                        && let Err(error) = kill_process(id, signal)
                    {
                        tracing::debug!(%error, ?signal, "can't forward a signal to the program");
                    }
                }
            }
        }
    }
}

/// Prints why a program can't be run, and returns the exit code for that.
pub(crate) fn cannot_run(program: &str, error: &io::Error) -> ExitCode {
    eprintln!("hawser: can't run {program}: {error}");
    ExitCode::from(match error.kind() {
        io::ErrorKind::NotFound => NOT_FOUND,
        _ => NOT_RUNNABLE,
    })
}

/// Starts `command` with the limit of open files that this process was started with.
fn spawn(command: Command) -> Result<tokio::process::Child, (String, io::Error)> {
    let program = command.get_program().to_string_lossy().into_owned();
    let ours = getrlimit(Resource::Nofile);
    let theirs = crate::setup::open_files_before().unwrap_or(ours);
    let set = |limit| {
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::debug!(%error, "can't change the limit of open files");
        }
    };
    set(theirs);
    let spawned = tokio::process::Command::from(command).spawn();
    set(ours);
    spawned.map_err(|error| (program, error))
}

/// Returns the exit code that a shell would show.
fn code(status: ExitStatus) -> ExitCode {
    let signalled = || status.signal().map(|signal| SIGNALLED + signal);
    let code = status.code().or_else(signalled).unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

/// Returns the path at which the system would find `program`.
pub(super) fn find(program: &OsStr) -> Option<PathBuf> {
    let path = Path::new(program);
    if path.components().count() > 1 || path.is_absolute() {
        return Some(path.to_owned());
    }
    let folders = env::var_os("PATH")?;
    let candidates = env::split_paths(&folders).map(|folder| folder.join(program));
    candidates.into_iter().find(|path| path.is_file())
}

/// Signals to forward to the program.
struct Signals {
    all: Vec<(Arrivals, Signal)>,
}

impl Signals {
    fn listen() -> io::Result<Self> {
        let all = PASSED_ON
            .into_iter()
            .map(|passed| Ok((signal(SignalKind::from_raw(passed.as_raw()))?, passed)));
        Ok(Self {
            all: all.collect::<io::Result<_>>()?,
        })
    }

    /// Returns the next signal to forward. Signals typed at the terminal reach the program anyway.
    async fn next(&mut self) -> Signal {
        loop {
            let arrivals = self.all.iter_mut().map(|(arrivals, passed)| {
                let passed = *passed;
                Box::pin(async move {
                    match arrivals.recv().await {
                        Some(()) => passed,
                        None => std::future::pending().await,
                    }
                })
            });
            let signal = futures_util::future::select_all(arrivals).await.0;
            if !(TYPED.contains(&signal) && in_foreground()) {
                return signal;
            }
        }
    }
}

/// Returns whether this process group is in the foreground of a terminal, so that typed signals
/// reach it.
fn in_foreground() -> bool {
    let own = Some(getpgrp());
    let terminals = [
        tcgetpgrp(rustix::stdio::stdin()),
        tcgetpgrp(rustix::stdio::stdout()),
        tcgetpgrp(rustix::stdio::stderr()),
    ];
    terminals.into_iter().any(|group| group.ok() == own)
}

const PASSED_ON: [Signal; 6] = [
    Signal::TERM,
    Signal::HUP,
    Signal::USR1,
    Signal::USR2,
    Signal::INT,
    Signal::QUIT,
];
const TYPED: [Signal; 2] = [Signal::INT, Signal::QUIT];
/// Exit code of shells and `env` for a program that is not found.
const NOT_FOUND: u8 = 127;
const NOT_RUNNABLE: u8 = 126;
const SIGNALLED: i32 = 128;
