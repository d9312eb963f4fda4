//! `hawser link`: tells the running daemon when to use a link.

use anyhow::bail;
use hawser_control::{Request, Response};

use crate::args::LinkArgs;
use crate::ask::{Conversation, OTHER_ANSWER};
use crate::setup::Setup;

/// Has the daemon use the link as the flags say.
pub(crate) async fn run(setup: &Setup, args: &LinkArgs) -> anyhow::Result<()> {
    let asked = Request::SetLink {
        name: args.name.clone(),
        up: args.up.or(args.both),
        down: args.down.or(args.both),
    };
    let mut conversation = Conversation::with_daemon(&setup.state).await?;
    match conversation.ask(&asked).await? {
        Response::LinkSet => Ok(()),
        _ => bail!(OTHER_ANSWER),
    }
}
