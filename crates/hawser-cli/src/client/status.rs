//! `hawser status`: the state of the daemon that runs in the state directory.

use anyhow::bail;
use hawser_control::{Request, Response, StatusSnapshot};
use hawser_host::kill_switch;
use hawser_keys::store::StateDir;
use hawser_text::{STREAMS_SHOWN, render_status};

use crate::args::TableArgs;
use crate::client::ask::{Conversation, OTHER_ANSWER, width};
use crate::client::kill_switch::told;
use hawser_daemon::setup::{Setup, show, show_json};

/// Shows the state of the daemon.
pub(crate) async fn run(setup: &Setup, args: TableArgs) -> anyhow::Result<()> {
    let wanted = if args.json {
        ALL_SESSIONS
    } else {
        Request::Status {
            sessions: None,
            streams: Some(STREAMS_SHOWN as u64),
        }
    };
    let begun = Conversation::with_daemon(&setup.state).await;
    let mut conversation = match begun {
        Ok(conversation) => conversation,
        // A kill switch blocks traffic even if no daemon runs.
        Err(error) => match kill_switch::find().await {
            Ok(Some(since)) => bail!("{error:#}. {}", told(since)),
            _ => return Err(error),
        },
    };
    let snapshot = status(&mut conversation, &wanted).await?;
    if args.json {
        show_json(&snapshot)
    } else {
        show(&render_status(&snapshot, width()))
    }
}

/// Returns the `wanted` part of the status of the daemon of `state`; `None` if no daemon runs.
pub(crate) async fn ask(
    state: &StateDir,
    wanted: &Request,
) -> anyhow::Result<Option<StatusSnapshot>> {
    match Conversation::begin(state).await? {
        Some(mut conversation) => status(&mut conversation, wanted).await.map(Some),
        None => Ok(None),
    }
}

/// Returns the `wanted` part of the status of the daemon at the other end of `conversation`.
pub(crate) async fn status(
    conversation: &mut Conversation,
    wanted: &Request,
) -> anyhow::Result<StatusSnapshot> {
    match conversation.ask(wanted).await? {
        Response::Status(snapshot) => Ok(*snapshot),
        _ => bail!(OTHER_ANSWER),
    }
}

/// Request for the status with all sessions.
pub(crate) const ALL_SESSIONS: Request = Request::Status {
    sessions: Some(u64::MAX),
    streams: None,
};
