//! One script against the real program, from its start to the leftovers.

mod against_client;
mod against_gateway;
mod conditions;
mod course;
mod ending;

use std::path::Path;

use hawser_session::Side;

pub use self::conditions::Conditions;
use crate::error::HostileError;
use crate::network::Network;
use crate::outcome::Outcome;
use crate::priority;
use crate::script::Script;

/// Performs a script.
///
/// # Errors
/// When the trial itself could not be made. What the program does wrong is in the outcome.
pub fn run(script: &Script, conditions: &Conditions) -> Result<Outcome, HostileError> {
    // A thread of its own, whose priority can go down and whose end is that of the trial.
    std::thread::scope(|scope| {
        let in_folder = || match &conditions.folder {
            Some(folder) => run_in(script, conditions, &folder.join(script.name)),
            None => run_in(script, conditions, tempfile::tempdir()?.path()),
        };
        let trial = scope.spawn(move || {
            if script.carries_packets {
                Network::make()?.within(in_folder)
            } else {
                in_folder()
            }
        });
        trial
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn run_in(
    script: &Script,
    conditions: &Conditions,
    folder: &Path,
) -> Result<Outcome, HostileError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .on_thread_start(priority::yield_to_all)
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(async {
        match script.side {
            Side::Client => against_gateway::run(script, conditions, folder).await,
            Side::Gateway => against_client::run(script, conditions, folder).await,
        }
    });
    runtime.shutdown_background();
    outcome
}
