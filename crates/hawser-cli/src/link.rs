//! `hawser link`: tells the running daemon when to use a link.

use anyhow::bail;
use hawser_control::{LinkChange, Request, Response};

use crate::args::LinkArgs;
use crate::ask::{Conversation, OTHER_ANSWER};
use crate::setup::Setup;

/// Has the daemon use the link as the flags say.
pub(crate) async fn run(setup: &Setup, args: &LinkArgs) -> anyhow::Result<()> {
    let asked = Request::SetLink(LinkChange {
        name: args.name.clone(),
        up: args.up.or(args.both),
        down: args.down.or(args.both),
        ..LinkChange::default()
    });
    let mut conversation = Conversation::with_daemon(&setup.state).await?;
    match conversation.ask(&asked).await? {
        Response::Done { .. } => Ok(()),
        _ => bail!(OTHER_ANSWER),
    }
}
