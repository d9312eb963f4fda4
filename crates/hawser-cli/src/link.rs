//! `hawser link`: tells the running daemon when to use a link.

use anyhow::bail;
use hawser_control::{Request, Response};

use crate::args::LinkArgs;
use crate::setup::Setup;
use crate::status::{no_daemon, request};

/// Has the daemon use the link as the flags say.
pub(crate) async fn run(setup: &Setup, args: &LinkArgs) -> anyhow::Result<()> {
    let asked = Request::SetLink {
        name: args.name.clone(),
        up: args.up.or(args.both),
        down: args.down.or(args.both),
    };
    match request(&setup.state, &asked).await? {
        Some(Response::LinkSet) => Ok(()),
        Some(_) => bail!("the daemon answers something else than was asked"),
        None => Err(no_daemon(&setup.state)),
    }
}
