//! `hawser why`: why the running daemon used a link, or did not.

use anyhow::bail;
use hawser_control::{Request, Response, render_why};

use crate::args::WhyArgs;
use crate::ask::{Conversation, OTHER_ANSWER, width};
use crate::setup::{Setup, show, show_json};

/// Says it in words, or as JSON.
pub(crate) async fn run(setup: &Setup, args: &WhyArgs) -> anyhow::Result<()> {
    let mut conversation = Conversation::with_daemon(&setup.state).await?;
    let request = Request::Why {
        session: args.session.clone(),
        stream: args.stream,
    };
    let Response::Why(report) = conversation.ask(&request).await? else {
        bail!(OTHER_ANSWER);
    };
    match args.table.json {
        true => show_json(&report),
        false => show(&render_why(&report, width())),
    }
}
