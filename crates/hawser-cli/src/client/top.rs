//! `hawser top`: a live view of the daemon that runs in the state directory.

use std::io::{IsTerminal as _, stdout};
use std::time::Duration;

use anyhow::bail;
use hawser_control::{Request, Response};
use hawser_keys::store::StateDir;
use hawser_monitor::top::{self, Ask, Look, NoAnswer};

use crate::args::TopArgs;
use crate::client::ask::Conversation;
use hawser_daemon::setup::{Setup, explained};

/// Shows the daemon's state until the user quits.
pub(crate) async fn run(setup: &Setup, args: TopArgs) -> anyhow::Result<()> {
    if !stdout().is_terminal() {
        bail!("`hawser top` needs a terminal; `hawser status` shows the state once");
    }
    // Fail now if no daemon runs; later, the view waits for a daemon that has ended.
    Conversation::with_daemon(&setup.state).await?;
    let found = Look::of(|name| std::env::var(name).ok());
    let look = Look {
        colour: found.colour && !args.no_color,
        ascii: found.ascii || args.ascii,
    };
    top::run(look, Socket(&setup.state)).await?;
    Ok(())
}

/// The daemon's control socket. Each request uses a new connection: the daemon allows few at once.
struct Socket<'a>(&'a StateDir);

impl Ask for Socket<'_> {
    async fn ask(&self, request: Request) -> Result<Response, NoAnswer> {
        let asked = async {
            match Conversation::begin_with_any(self.0).await? {
                Some(mut conversation) => conversation
                    .answer(Duration::ZERO, &request)
                    .await
                    .map(Some),
                None => Ok(None),
            }
        };
        match asked.await {
            Ok(Some(response)) => Ok(response),
            Ok(None) => Err(NoAnswer::NoDaemon),
            Err(error) => {
                let why = explained(&error);
                Err(NoAnswer::Failed { why })
            }
        }
    }
}
