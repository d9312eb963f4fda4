//! `hawser link`: tells the running daemon how to use a link.

use hawser_control::{LinkChange, Request};

use crate::args::LinkArgs;
use crate::client::ask::Conversation;
use crate::setup::Setup;

/// Has the daemon use the link as the flags say.
pub(crate) async fn run(setup: &Setup, args: &LinkArgs) -> anyhow::Result<()> {
    let asked = Request::SetLink(LinkChange {
        name: args.name.clone(),
        up: args.up.or(args.both),
        down: args.down.or(args.both),
        weight: args.weight,
        price: args.price.clone(),
        allowance: args.allowance.clone(),
        signal: args.signal.clone(),
        save: args.save,
    });
    let mut conversation = Conversation::with_daemon(&setup.state).await?;
    conversation.change(&asked).await
}
