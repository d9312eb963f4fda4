//! One end of an association, as a program on a host of the lab.

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::stack::Stack;
use crate::measure::{StepError, own_program};
use crate::meter::AssociationOutcome;
use crate::netns::NetNs;
use crate::process::{self, Program};

/// usrsctp's end, built from C.
#[derive(Debug)]
pub(super) struct Usrsctp(PathBuf);

impl Usrsctp {
    /// Compiles it into `folder`.
    pub(super) fn build(folder: &Path) -> anyhow::Result<Self> {
        let (source, program) = (folder.join("usrsctp.c"), folder.join("usrsctp"));
        std::fs::write(&source, include_str!("usrsctp.c"))?;
        let mut command = Command::new("cc");
        command.args(["-O2", "-o"]).arg(&program).arg(&source);
        command.args(["-lusrsctp", "-lpthread"]);
        let built = process::output_of("cc", command, BUILD_LIMIT);
        built.map_err(|error| {
            anyhow::anyhow!("usrsctp's end can't be built (packages gcc, libusrsctp-dev): {error}")
        })?;
        Ok(Self(program))
    }
}

/// The task of one end.
#[derive(Debug)]
pub(super) struct End<'a> {
    pub(super) stack: Stack,
    pub(super) host: &'a NetNs,
    pub(super) locals: Vec<IpAddr>,
    pub(super) bytes: u64,
    pub(super) message: u32,
    pub(super) usrsctp: &'a Usrsctp,
}

/// An end that waits for the other.
#[derive(Debug)]
pub(super) struct Listening(Program);

impl End<'_> {
    /// Starts it as receiver; its output goes to `log`.
    pub(super) fn listen(&self, log: &Path) -> Result<Listening, StepError> {
        let command = self.command(&[])?;
        let program = Program::start(self.stack.name(), command, log)?;
        let mut listening = Listening(program);
        listening.hear("listening", START_LIMIT)?;
        Ok(listening)
    }

    /// Runs it as sender.
    pub(super) fn send(
        &self,
        remotes: &[IpAddr],
        limit: Duration,
    ) -> Result<AssociationOutcome, StepError> {
        let command = self.command(remotes)?;
        let output = process::output_of(self.stack.name(), command, limit)?;
        outcome(&output)
    }

    /// `remotes`: where the receiver is; none for the receiver itself.
    fn command(&self, remotes: &[IpAddr]) -> Result<Command, StepError> {
        match self.stack {
            Stack::Hawser => self.own("association", &[], remotes),
            Stack::HawserSealed => self.own("association", &["--sealed"], remotes),
            Stack::Quinn => self.own("quic", &[], remotes),
            Stack::Usrsctp => Ok(self.usrsctp("0", remotes)),
            Stack::UsrsctpCmt => Ok(self.usrsctp("1", remotes)),
        }
    }

    fn own(&self, meter: &str, options: &[&str], remotes: &[IpAddr]) -> Result<Command, StepError> {
        let (bytes, message) = (self.bytes.to_string(), self.message.to_string());
        let mut command = self.host.command(own_program()?);
        command.args(["meter", meter, "--locals", &list(&self.locals)]);
        command.args(["--bytes", &bytes, "--message", &message]);
        command.args(options);
        match (remotes.is_empty(), self.stack) {
            (true, Stack::Quinn) => {}
            (true, _) => drop(command.arg("--receive")),
            (false, _) => drop(command.args(["--remotes", &list(remotes)])),
        }
        Ok(command)
    }

    fn usrsctp(&self, cmt: &str, remotes: &[IpAddr]) -> Command {
        let (bytes, message) = (self.bytes.to_string(), self.message.to_string());
        let mut command = self.host.command(&self.usrsctp.0);
        let (role, remotes) = match remotes.is_empty() {
            true => ("receive", "-".to_owned()),
            false => ("send", list(remotes)),
        };
        command.args([role, &list(&self.locals), &remotes, &bytes, &message, cmt]);
        command
    }
}

fn list(addresses: &[IpAddr]) -> String {
    let texts: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
    texts.join(",")
}

impl Listening {
    /// Waits until the first byte has come.
    pub(super) fn begun(&mut self, limit: Duration) -> Result<(), StepError> {
        self.hear("began", limit).map(drop)
    }

    /// Waits for what it has received.
    pub(super) fn outcome(&mut self, limit: Duration) -> Result<AssociationOutcome, StepError> {
        outcome(&self.hear("\"role\"", limit)?)
    }

    /// Waits until it has said `word`: all that it has said.
    fn hear(&mut self, word: &str, limit: Duration) -> Result<String, StepError> {
        let deadline = Instant::now() + limit;
        loop {
            let said = self.0.last_words();
            if said.contains(word) {
                return Ok(said);
            }
            self.0.check_alive()?;
            if Instant::now() > deadline {
                return Err(io::Error::from(io::ErrorKind::TimedOut).into());
            }
            std::thread::sleep(POLL);
        }
    }
}

/// The last line of what an end has said.
fn outcome(output: &str) -> Result<AssociationOutcome, StepError> {
    let mut lines = output.lines().rev();
    let line = lines
        .find(|line| line.contains("\"role\""))
        .unwrap_or(output);
    Ok(serde_json::from_str(line.trim())?)
}

const BUILD_LIMIT: Duration = Duration::from_secs(120);
const START_LIMIT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);
