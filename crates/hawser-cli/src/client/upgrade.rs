//! `hawser upgrade`: a new process takes over from the running daemon.

use std::time::Duration;

use anyhow::bail;
use hawser_control::{Request, Response};

use super::ask::Conversation;
use crate::args::UpgradeArgs;
use hawser_daemon::setup::{Setup, show};

/// Has a new process replace the daemon, and waits until the new process serves.
pub(crate) async fn run(setup: &Setup, args: &UpgradeArgs) -> anyhow::Result<()> {
    let mut daemon = Conversation::with_daemon(&setup.state).await?;
    let request = Request::Upgrade { limit: args.limit };
    match daemon.ask_for(PATIENCE, &request).await? {
        Response::Upgraded { process_id } => show(&format!(
            "process {process_id} has taken over; connections that were open before go on \
             until they end\n"
        )),
        _ => bail!("the daemon sent an unexpected answer"),
    }
}

/// The new process connects to a gateway before it takes over.
const PATIENCE: Duration = Duration::from_secs(30);
