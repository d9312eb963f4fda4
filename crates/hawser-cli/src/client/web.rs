//! `hawser web`: prints the address of the dashboard.

use anyhow::{Context as _, bail};
use hawser_control::Request;
use hawser_keys::store::StateDir;

use super::ask::Conversation;
use super::status;
use crate::args::WebArgs;
use hawser_daemon::dashboard::{renew_token, token};
use hawser_daemon::setup::{Setup, show};

/// Prints the address of the dashboard with its token; `--renew` replaces the token first.
pub(crate) async fn run(setup: &Setup, args: WebArgs) -> anyhow::Result<()> {
    if args.renew {
        renew(&setup.state).await?;
    }
    let snapshot = status::ask(&setup.state, &Request::STATUS_WITHOUT_SESSIONS).await?;
    match snapshot.as_ref().map(|snapshot| snapshot.web) {
        Some(Some(web)) => show(&format!("{}\n", token(&setup.state)?.url(web))),
        _ if args.renew => show("no dashboard is served now; the new token applies once one is\n"),
        Some(None) => bail!(
            "the daemon serves no dashboard; start it with --web 127.0.0.1:7480, or say so in the \
             configuration"
        ),
        None => bail!("no hawser daemon runs in {}", setup.state.path().display()),
    }
}

/// Replaces the token. The daemon refuses the old token from then on.
async fn renew(state: &StateDir) -> anyhow::Result<()> {
    renew_token(state)?;
    if let Some(mut daemon) = Conversation::begin(state).await? {
        let told = daemon.change(&Request::ReadToken).await;
        told.context("the daemon may still accept the old token until it is restarted")?;
    }
    Ok(())
}
