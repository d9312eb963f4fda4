//! `hawser up`.

use hawser_daemon::setup::{Setup, Usage};
use hawser_daemon::up::{self, UpOptions};

use crate::args::UpArgs;

/// Runs the proxy until the daemon is asked to end.
pub(crate) async fn run(setup: &Setup, args: UpArgs) -> anyhow::Result<()> {
    let mut setup = setup
        .with_transport(args.transport)
        .with_sctp_paths(args.sctp_paths);
    args.apply_to(&mut setup.config.up, &mut setup.config.connection);
    if !setup.config.up.kill_switch && !args.kill_switch_allow.is_empty() {
        let problem = "--kill-switch-allow needs --kill-switch: nothing is closed without it";
        return Err(Usage(problem.to_owned()).into());
    }
    let options = UpOptions {
        direct: args.direct,
        peers: args.peers,
    };
    up::run(&setup, &options).await
}
