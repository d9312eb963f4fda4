//! Settings of the system that are put back when this program ends, however it ends.
//!
//! A guard is a process of its own, started before anything is changed. It hears of each change
//! before it is made, and puts all of them back when its input ends: in order, or because the
//! program was killed.

use std::fs;
use std::io::{self, BufRead, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

/// A guard that runs. Settings are put back when this is dropped.
#[derive(Debug)]
pub struct Guard {
    process: Child,
    /// Taken when its work begins.
    input: Option<ChildStdin>,
}

/// Why a setting is not changed.
#[derive(Debug, thiserror::Error)]
#[error("cannot set {setting} to {value}: {source}")]
pub struct GuardError {
    setting: String,
    value: String,
    source: io::Error,
}

impl Guard {
    /// Starts a guard: `command` is to call [`keep_watch`] with its standard input.
    ///
    /// # Errors
    /// That it can't be run.
    pub fn start(mut command: Command) -> io::Result<Self> {
        // In a group of its own, so that what ends this program from a terminal does not end it.
        let mut process = command.stdin(Stdio::piped()).process_group(0).spawn()?;
        let input = process.stdin.take();
        Ok(Self { process, input })
    }

    /// Sets a file below `/proc/sys` until the end; nothing happens if it has that value already.
    /// Returns what it was before.
    ///
    /// # Errors
    /// That it cannot be read or written.
    pub fn set(&mut self, setting: &str, value: &str) -> Result<String, GuardError> {
        let mut change = || {
            let path = Path::new(SETTINGS).join(setting);
            let before = fs::read_to_string(&path)?.trim().to_owned();
            if before != value {
                let input = self.input.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
                writeln!(input, "{setting} {before} {value}")?;
                input.flush()?;
                fs::write(path, value)?;
            }
            Ok(before)
        };
        change().map_err(|source| GuardError {
            setting: setting.to_owned(),
            value: value.to_owned(),
            source,
        })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.input.take());
        // It does little, and ends.
        let _ = self.process.wait();
    }
}

/// What a guard's process does: notes the changes that it hears of, and puts them back, the last
/// one first, when its input has ended. A setting that has another value than it was given is left
/// as it is: somebody else has set it since.
pub fn keep_watch(input: impl BufRead) {
    let lines = input.lines().map_while(Result::ok);
    let changes: Vec<String> = lines.collect();
    for change in changes.iter().rev() {
        let mut words = change.split(' ');
        let (Some(setting), Some(before), Some(value)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        let path = Path::new(SETTINGS).join(setting);
        let is_ours = fs::read_to_string(&path).is_ok_and(|now| now.trim() == value);
        if is_ours && let Err(error) = fs::write(&path, before) {
            tracing::warn!(%error, setting, "it cannot be put back");
        }
    }
}

const SETTINGS: &str = "/proc/sys";
