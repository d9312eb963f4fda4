use clap::Args;

use super::shared::TableArgs;

/// `hawser events`.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct EventsArgs {
    /// Go on with what changes from now on, until the daemon ends
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Format of the table; as JSON, one event stands on each line.
    #[command(flatten)]
    pub(crate) table: TableArgs,
}
