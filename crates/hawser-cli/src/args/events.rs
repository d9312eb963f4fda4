use clap::Args;

use super::shared::TableArgs;

/// `hawser events`.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct EventsArgs {
    /// Keep running and show changes as they happen, until the daemon ends
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// Format of the table; as JSON, one event stands on each line.
    #[command(flatten)]
    pub(crate) table: TableArgs,
}
