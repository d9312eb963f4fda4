//! System settings and rules that are undone when this program ends, however it ends.
//!
//! A guard is a separate process, started before anything is changed. The program tells it each
//! change before making it. The guard undoes all of them when its input ends: on a regular exit, or
//! because the program was killed. It ignores signals, since stopping a service sends one to all of
//! its processes.

use std::fmt::Display;
use std::fs;
use std::io::{self, BufRead, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use crate::lan::rules;
use crate::measured::Measured;
use crate::nft::{self, NFT, NftError};
use hawser_link::sys;

/// A running guard. Dropping it restores the settings.
#[derive(Debug)]
pub struct Guard {
    process: Child,
    /// Taken when the guard's work begins.
    input: Option<ChildStdin>,
}

/// Why a setting could not be changed.
#[derive(Debug, thiserror::Error)]
#[error("cannot set {setting} to {value}: {source}")]
pub struct GuardError {
    setting: String,
    value: String,
    source: io::Error,
}

impl Guard {
    /// Starts a guard: `command` must call [`keep_watch`] with its standard input.
    ///
    /// # Errors
    /// The command cannot be run.
    pub fn start(mut command: Command) -> io::Result<Self> {
        // In a process group of its own, so that terminal signals to this program do not end it.
        let mut process = command.stdin(Stdio::piped()).process_group(0).spawn()?;
        let input = process.stdin.take();
        Ok(Self { process, input })
    }

    /// Makes the guard create an nftables table, by a script of one line. The guard owns the table
    /// (`flags owner`), and removes it after all settings are restored.
    ///
    /// # Errors
    /// The guard has ended.
    pub fn add_rules(&mut self, script: &str) -> io::Result<()> {
        self.say(&format!("{RULES} {}", script.trim()))
    }

    /// Tells the guard to change the table that was created last, by commands on one line. Errors
    /// of `nft` are not reported back.
    ///
    /// # Errors
    /// The guard has ended.
    pub(crate) fn change_rules(&mut self, commands: &str) -> io::Result<()> {
        self.say(&format!("{CHANGE} {}", commands.trim()))
    }

    /// As [`Self::add_rules`], for the table `inet NAME`; waits until it is there. The table of a
    /// killed run stays until its guard has undone everything: `script` is called only then, so
    /// that it sees the system without that run's changes. Blocks for the time of a few processes.
    ///
    /// # Errors
    /// The guard has ended, or `nft` refuses.
    pub(crate) fn begin_table(
        &mut self,
        name: &str,
        script: impl FnOnce() -> String,
    ) -> Result<(), NftError> {
        let deadline = Instant::now() + PATIENCE_WITH_OTHERS;
        while nft::list(name)?.is_some() && Instant::now() < deadline {
            std::thread::sleep(POLL);
        }
        let script = script();
        nft::check(&script)?;
        self.add_rules(&script).map_err(NftError::NoGuard)?;
        let deadline = Instant::now() + PATIENCE;
        while nft::list(name)?.is_none() {
            if Instant::now() > deadline {
                return Err(NftError::Refused("the reason is unknown".to_owned()));
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// Makes the guard remove the rules for routes of networks behind this machine when it ends,
    /// before anything else.
    ///
    /// # Errors
    /// The guard has ended.
    pub(crate) fn take_back_lan_rules(&mut self) -> io::Result<()> {
        self.say(&format!("{LAN} rules"))
    }

    /// Makes the guard end these measurements of modems when it ends. Replaces the measurements
    /// that it was told before.
    ///
    /// # Errors
    /// The guard has ended.
    pub(crate) fn end_measuring(&mut self, measured: &Measured) -> io::Result<()> {
        self.say(&format!("{MODEMS} {measured}"))
    }

    fn say(&mut self, line: &str) -> io::Result<()> {
        tell(self.input.as_mut().ok_or(io::ErrorKind::BrokenPipe)?, line)
    }

    /// Sets a file below `/proc/sys` until the guard ends; does nothing if it already has that
    /// value. Returns the previous value.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn set(&mut self, setting: &str, value: &str) -> Result<String, GuardError> {
        let mut change = || {
            let path = Path::new(SETTINGS).join(setting);
            let before = fs::read_to_string(&path)?.trim().to_owned();
            if before != value {
                self.say(&format!("{SET} {setting} {before} {value}"))?;
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
        // The guard has little to do, and ends soon.
        let _ = self.process.wait();
    }
}

/// Runs a guard's process: notes the changes that it reads, and undoes them, the last one first,
/// when its input ends. It leaves a setting that no longer has the value it was given: another
/// program has set it since.
pub fn keep_watch(input: impl BufRead) {
    // `nft` inherits the ignored signals.
    sys::ignore_signals();
    let mut owners: Vec<Child> = Vec::new();
    let (mut changes, mut has_lan_rules, mut measured) = (Vec::new(), false, None);
    for line in input.lines().map_while(Result::ok) {
        match line.split_once(' ') {
            Some((SET, change)) => changes.push(change.to_owned()),
            Some((RULES, script)) => match own_rules(script) {
                Ok(owner) => owners.push(owner),
                Err(error) => eprintln!("hawser: cannot run {NFT}: {error}"),
            },
            Some((CHANGE, commands)) => {
                let input = owners.last_mut().and_then(|owner| owner.stdin.as_mut());
                if let Some(Err(error)) = input.map(|input| tell(input, commands)) {
                    eprintln!("hawser: rules stay as they were: {error}");
                }
            }
            Some((LAN, _)) => has_lan_rules = true,
            Some((MODEMS, modems)) => measured = modems.parse::<Measured>().ok(),
            _ => {}
        }
    }
    if has_lan_rules {
        finish("cannot remove routing rules", rules::take_back());
    }
    if let Some(measured) = measured {
        finish("modems may go on measuring their signals", measured.end());
    }
    for change in changes.iter().rev() {
        let mut words = change.split(' ');
        let (Some(setting), Some(before), Some(value)) = (words.next(), words.next(), words.next())
        else {
            continue;
        };
        let path = Path::new(SETTINGS).join(setting);
        let is_ours = fs::read_to_string(&path).is_ok_and(|now| now.trim() == value);
        if is_ours && let Err(error) = fs::write(&path, before) {
            eprintln!("hawser: {setting} cannot be put back: {error}");
        }
    }
    for mut owner in owners {
        drop(owner.stdin.take());
        let _ = owner.wait();
    }
}

/// Waits for an asynchronous undo step of a guard.
fn finish<E: Display>(otherwise: &str, taken_back: impl Future<Output = Result<(), E>>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let ended = match runtime {
        Ok(runtime) => runtime.block_on(taken_back).map_err(|it| it.to_string()),
        Err(error) => Err(error.to_string()),
    };
    if let Err(error) = ended {
        eprintln!("hawser: {otherwise}: {error}");
    }
}

/// Starts a process that owns a table for as long as its input is open.
fn own_rules(script: &str) -> io::Result<Child> {
    let mut owner = Command::new(NFT)
        .arg("-i")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()?;
    if let Some(input) = &mut owner.stdin {
        tell(input, script)?;
    }
    Ok(owner)
}

fn tell(process: &mut ChildStdin, line: &str) -> io::Result<()> {
    writeln!(process, "{line}")?;
    process.flush()
}

const SET: &str = "set";
const RULES: &str = "rules";
const CHANGE: &str = "change";
const LAN: &str = "lan";
const MODEMS: &str = "modems";

const SETTINGS: &str = "/proc/sys";
const PATIENCE: Duration = Duration::from_secs(3);
/// A guard finishes in milliseconds, unless the machine is busy.
const PATIENCE_WITH_OTHERS: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(10);
