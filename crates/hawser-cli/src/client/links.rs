//! `hawser links`: the links of the running daemon, and the traffic on each.

use hawser_control::Request;
use hawser_text::render_links;

use crate::args::TableArgs;
use crate::client::ask::{Conversation, width};
use crate::client::status::status;
use hawser_daemon::setup::{Setup, show, show_json};

/// Lists the links.
pub(crate) async fn run(setup: &Setup, args: TableArgs) -> anyhow::Result<()> {
    let mut conversation = Conversation::with_daemon(&setup.state).await?;
    let snapshot = status(&mut conversation, &Request::STATUS_WITHOUT_SESSIONS).await?;
    if args.json {
        show_json(&snapshot.links)
    } else {
        show(&render_links(&snapshot, width()))
    }
}
