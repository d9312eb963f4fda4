//! One script against the real program, from its start to what stays behind.

mod against_client;
mod against_gateway;
mod conditions;
mod course;

use hawser_session::Side;

pub use self::conditions::Conditions;
use crate::error::HostileError;
use crate::outcome::Outcome;
use crate::script::Script;

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
