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
        let (role, remotes) = if remotes.is_empty() {
            ("receive", "-".to_owned())
        } else {
            ("send", list(remotes))
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
            // In this order: what it said before it ended counts.
            let alive = self.0.check_alive();
            let said = self.0.last_words();
            if said.contains(word) {
                return Ok(said);
            }
            alive?;
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

/// Makes a transfer between these stacks, and again where usrsctp crashed, which it does now and
/// then when an association begins on a busy machine. Gives its outcome, and how often usrsctp
/// crashed. No other stack may crash.
pub(super) fn despite_crashes<T>(
    stacks: &[Stack],
    mut transfer: impl FnMut() -> Result<T, StepError>,
) -> (Result<T, StepError>, u32) {
    let mut crashes = 0;
    loop {
        let outcome = transfer();
        let has_usrsctp = stacks.iter().any(|stack| stack.is_usrsctp());
        match &outcome {
            Err(StepError::Program(error)) if has_usrsctp && process::is_crash(error) => {
                eprintln!("  a crash: {error}");
                crashes += 1;
            }
            _ => return (outcome, crashes),
        }
        if crashes > FORGIVEN {
            return (outcome, crashes);
        }
    }
}

/// Crashes of one transfer after which it is made again.
const FORGIVEN: u32 = 2;
const BUILD_LIMIT: Duration = Duration::from_secs(120);
const START_LIMIT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    /// The error of a program that ends so.
    fn ending(script: &str) -> Result<(), StepError> {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]);
        process::output_of("a program", shell, START_LIMIT)?;
        Ok(())
    }

    #[test]
    fn only_crashes_of_usrsctp_are_forgiven_and_not_for_ever() {
        let crash = || ending("kill -SEGV $$");
        let (outcome, crashes) = despite_crashes(&[Stack::Hawser, Stack::Usrsctp], crash);
        assert!(outcome.is_err());
        assert_eq!(crashes, FORGIVEN + 1);

        let mut tries = 0;
        let once = || {
            tries += 1;
            ending(if tries == 1 { "kill -SEGV $$" } else { "true" })
        };
        let (outcome, crashes) = despite_crashes(&[Stack::UsrsctpCmt], once);
        assert!(outcome.is_ok());
        assert_eq!((tries, crashes), (2, 1));

        let (outcome, crashes) = despite_crashes(&[Stack::Hawser], crash);
        assert!(outcome.is_err());
        assert_eq!(crashes, 0);
        let failure = || ending("exit 1");
        assert_eq!(despite_crashes(&[Stack::Usrsctp], failure).1, 0);
    }
}
