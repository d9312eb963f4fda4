//! `hawser serve`.

use hawser_daemon::serve;
use hawser_daemon::setup::Setup;

use crate::args::ServeArgs;

/// Runs the gateway until the daemon is asked to end.
pub(crate) async fn run(setup: &Setup, args: &ServeArgs) -> anyhow::Result<()> {
    let mut setup = setup.clone();
    args.apply_to(&mut setup.config.serve);
    args.directory.apply_to(&mut setup.config.directory);
    serve::run(&setup, args.door.invite_file.as_deref()).await
}
