//! `hawser status`: what the daemon that runs in the state directory is doing.

use anyhow::bail;
use hawser_control::{Request, Response, StatusSnapshot, render_status};
use hawser_net::store::StateDir;

use crate::args::TableArgs;
use crate::ask::{Conversation, OTHER_ANSWER, width};
use crate::setup::{Setup, show, show_json};

/// Shows what the daemon is doing.
pub(crate) async fn run(setup: &Setup, args: TableArgs) -> anyhow::Result<()> {
    let mut conversation = Conversation::with_daemon(&setup.state).await?;
    let snapshot = status(&mut conversation).await?;
    match args.json {
        true => show_json(&snapshot),
        false => show(&render_status(&snapshot, width())),
    }
}

/// What the daemon of `state` is doing; `None` where there is none.
pub(crate) async fn ask(state: &StateDir) -> anyhow::Result<Option<StatusSnapshot>> {
    match Conversation::begin(state).await? {
        Some(mut conversation) => status(&mut conversation).await.map(Some),
        None => Ok(None),
    }
}

/// What the daemon is doing that is at the other end.
pub(crate) async fn status(conversation: &mut Conversation) -> anyhow::Result<StatusSnapshot> {
    match conversation.ask(&Request::Status).await? {
        Response::Status(snapshot) => Ok(*snapshot),
        _ => bail!(OTHER_ANSWER),
    }
}
