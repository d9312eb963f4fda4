//! One script against the real program, from its start to what stays behind.

mod against_client;
mod against_gateway;
mod course;

use std::path::PathBuf;
use std::time::Duration;

use hawser_session::Side;
use hawser_types::ByteCount;

use crate::error::HostileError;
use crate::outcome::Outcome;
use crate::script::Script;

/// Under which conditions scripts are performed.
#[derive(Clone, Debug)]
pub struct Conditions {
    /// The program.
    pub hawser: PathBuf,
    /// Its memory limit.
    pub memory: ByteCount,
    /// Time for which the script is performed again and again; `None` performs it once.
    pub time: Option<Duration>,
    /// Time for which the honest client is measured before.
    pub before: Duration,
    /// Bytes a second that the honest client could have.
    pub pace: u64,
}

impl Conditions {
    /// The conditions of tests: each script once, with 64 MiB.
    pub fn brief(hawser: PathBuf) -> Self {
        Self {
            hawser,
            memory: ByteCount::from_mib(64),
            time: None,
            before: Duration::from_millis(500),
            pace: 4_000_000,
        }
    }
}

/// Performs a script.
///
/// # Errors
/// When the trial itself could not be made. What the program does wrong is in the outcome.
pub fn run(script: &Script, conditions: &Conditions) -> Result<Outcome, HostileError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let folder = tempfile::tempdir()?;
    let outcome = runtime.block_on(async {
        match script.side {
            Side::Client => against_gateway::run(script, conditions, folder.path()).await,
            Side::Gateway => against_client::run(script, conditions, folder.path()).await,
        }
    });
    runtime.shutdown_background();
    outcome
}
