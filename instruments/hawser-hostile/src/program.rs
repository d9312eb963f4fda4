//! The program under test.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::error::HostileError;

/// A daemon of the program; killed when dropped.
pub(crate) struct Program {
    hawser: PathBuf,
    state: PathBuf,
    child: Child,
    log: PathBuf,
}

impl Program {
    /// Starts `hawser --config CONFIG ARGUMENTS…` with its state and its log in `folder`.
    pub(crate) fn start(
        hawser: &Path,
        folder: &Path,
        config: &str,
        arguments: &[&str],
    ) -> Result<Self, HostileError> {
        fs::create_dir_all(folder)?;
        let (state, log) = (folder.join("state"), folder.join("log"));
        let file = folder.join("config.toml");
        fs::write(&file, config)?;
        let child = Command::new(hawser)
            .arg("--state")
            .arg(&state)
            .arg("--config")
            .arg(&file)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log)?)
            .spawn()?;
        Ok(Self {
            hawser: hawser.to_owned(),
            state,
            child,
            log,
        })
    }

    /// Runs a command against the daemon; gives what it printed.
    pub(crate) fn ask(&self, arguments: &[&str]) -> Result<String, HostileError> {
        let mut command = Command::new(&self.hawser);
        command.arg("--state").arg(&self.state).args(arguments);
        let output = command.stdin(Stdio::null()).output()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() {
            Ok(text(&output.stdout))
        } else {
            Err(HostileError::Strange(text(&output.stderr)))
        }
    }

    /// Waits until the daemon answers; gives the first address that it listens at.
    pub(crate) fn listens(&mut self) -> Result<SocketAddr, HostileError> {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(address) = self.status().and_then(|status| {
                let address = status["listen"][0].as_str()?;
                address.parse().ok()
            }) {
                return Ok(address);
            }
            if !self.is_alive() || Instant::now() > until {
                let what = format!("the daemon listens: {}", self.log());
                return Err(HostileError::Never(what));
            }
            std::thread::sleep(POLL);
        }
    }

    /// What `hawser status --json` says; `None` when the daemon does not answer.
    pub(crate) fn status(&self) -> Option<serde_json::Value> {
        let text = self.ask(&["status", "--json"]).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Connections that the daemon has given up so far, since they said nothing in time.
    pub(crate) fn given_up(&self) -> u64 {
        let count = self
            .status()
            .and_then(|it| it["counters"]["door-timed-out"].as_u64());
        count.unwrap_or(0)
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// What it has written so far.
    pub(crate) fn log(&self) -> String {
        self.log_from(0)
    }

    /// What it has written since its log had so many bytes.
    pub(crate) fn log_from(&self, at: u64) -> String {
        let mut bytes = Vec::new();
        if let Ok(mut log) = File::open(&self.log)
            && log.seek(SeekFrom::Start(at)).is_ok()
        {
            // What could be read is what there is.
            let _ = log.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Bytes that it has written so far.
    pub(crate) fn log_length(&self) -> u64 {
        fs::metadata(&self.log).map_or(0, |it| it.len())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // One that has ended by itself can't be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(30);
