//! `hawser link`: shows a link of the running daemon, or tells it how to use the link.

use hawser_control::{LinkChange, Request};
use hawser_text::render_links;

use crate::args::LinkArgs;
use crate::client::ask::{Conversation, width};
use crate::client::status::status;
use hawser_daemon::setup::{Setup, Usage, show, show_json};

/// Changes how the daemon uses the link; without a change in the flags, shows the link.
pub(crate) async fn run(setup: &Setup, args: &LinkArgs) -> anyhow::Result<()> {
    let mut conversation = Conversation::with_daemon(&setup.state).await?;
    if !args.is_change() {
        return look(&mut conversation, args).await;
    }
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
    conversation.change(&asked).await
}

async fn look(conversation: &mut Conversation, args: &LinkArgs) -> anyhow::Result<()> {
    let mut snapshot = status(conversation, &Request::STATUS_WITHOUT_SESSIONS).await?;
    let known: Vec<&str> = snapshot.links.iter().map(|it| it.name.as_str()).collect();
    if !known.contains(&args.name.as_str()) {
        let (name, known) = (&args.name, known.join(", "));
        return Err(Usage(format!("no link is called {name}; there are {known}")).into());
    }
    snapshot.links.retain(|link| link.name == args.name);
    if args.json {
        show_json(&snapshot.links.first())
    } else {
        show(&render_links(&snapshot, width()))
    }
}
