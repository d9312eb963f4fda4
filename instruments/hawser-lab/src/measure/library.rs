//! Two programs that embed the library, one on each host.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hawser::Encryption;

use super::bench::{Bench, StepError, own_program};
use super::hawser::wait_for_file;
use crate::meter::{CrowdOrder, CrowdOutcome, Embedding, LibraryOrder, Outcome};
use crate::process::{self, Program};
use crate::topology::SERVER;

/// An endpoint that listens on the server host.
#[derive(Debug)]
pub(crate) struct LibraryServer {
    pub(crate) program: Program,
    /// The file with its invites, one in a line.
    pub(crate) invite: PathBuf,
}

impl Bench {
    /// Starts an endpoint on the server host, with its log and its invites for `clients` in
    /// `folder`.
    pub(crate) fn serve_library(
        &self,
        folder: &Path,
        clients: u32,
        how: Embedding,
    ) -> Result<LibraryServer, StepError> {
        std::fs::create_dir_all(folder)?;
        let invite = folder.join("invite");
        let mut command = self.lab().server().command(own_program()?);
        // Port 0: several of them stand side by side.
        command.args(["meter", "library-serve", &format!("{SERVER}:0")]);
        command.arg(&invite).args(["--count", &clients.to_string()]);
        command.args(flags(how));
        let log = folder.join("library.log");
        let mut program = Program::start("library server", command, &log)?;
        wait_for_file(&mut program, &invite)?;
        Ok(LibraryServer { program, invite })
    }

    /// Makes one transfer from an endpoint on the client host, in a process of its own.
    pub(crate) fn library_transfer(
        &self,
        order: &LibraryOrder,
        limit: Duration,
    ) -> Result<Outcome, StepError> {
        let mut command = self.lab().client().command(own_program()?);
        let operation = format!("library-{}", order.direction.name());
        command.args(["meter", &operation]);
        command.arg(order.bytes.to_string());
        command.arg(&order.invite).arg(&order.state);
        command.args(flags(order.how));
        for link in &order.links {
            command.args(["--link", link]);
        }
        let text = process::output_of("library client", command, limit)?;
        let outcome: Outcome = serde_json::from_str(&text)?;
        if outcome.ok {
            Ok(outcome)
        } else {
            Err(StepError::Corrupted)
        }
    }

    /// Makes one transfer for each invite at the same time, from a process on the client host.
    pub(crate) fn crowd_transfer(
        &self,
        order: &CrowdOrder,
        limit: Duration,
    ) -> Result<CrowdOutcome, StepError> {
        let mut command = self.lab().client().command(own_program()?);
        let operation = format!("crowd-{}", order.direction.name());
        command.args(["meter", &operation, &order.bytes.to_string()]);
        command.arg(&order.invites).args(flags(order.how));
        for link in &order.links {
            command.args(["--link", link]);
        }
        let text = process::output_of("crowd of clients", command, limit)?;
        let outcome: CrowdOutcome = serde_json::from_str(&text)?;
        if outcome.ok {
            Ok(outcome)
        } else {
            Err(StepError::Corrupted)
        }
    }
}

fn flags(how: Embedding) -> impl Iterator<Item = &'static str> {
    let plain = (how.encryption == Encryption::None).then_some("--plain");
    let transport = ["--transport", how.transport.name()];
    transport.into_iter().chain(plain)
}
