//! `hawser top`: the daemon that runs in the state directory, on the terminal.

use std::io::{IsTerminal as _, stdout};
use std::time::Duration;

use anyhow::bail;
use hawser_control::{Request, Response};
use hawser_monitor::top::{self, Ask, Look, NoAnswer};
use hawser_net::store::StateDir;

use crate::args::TopArgs;
use crate::client::ask::Conversation;
use crate::setup::{Setup, explained};

/// Shows it until the user quits.
pub(crate) async fn run(setup: &Setup, args: TopArgs) -> anyhow::Result<()> {
    if !stdout().is_terminal() {
        bail!("`hawser top` needs a terminal; `hawser status` shows the state once");
    }
    // A daemon that never ran is not waited for.
    Conversation::with_daemon(&setup.state).await?;
    let found = Look::of(|name| std::env::var(name).ok());
    let look = Look {
        colour: found.colour && !args.no_color,
        ascii: found.ascii || args.ascii,
    };
    top::run(look, Socket(&setup.state)).await?;
    Ok(())
}

/// The daemon's control socket. Each request has a connection of its own: the daemon has places for
/// few at once.
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
