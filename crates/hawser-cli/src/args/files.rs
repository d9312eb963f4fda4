//! Arguments of `hawser send` and `hawser receive`.

use std::path::PathBuf;

use clap::Args;
use hawser_config::{GatewaySource, TransportChoice};
use hawser_file::EntryPath;

use super::door::DoorArgs;

/// `hawser send`.
#[derive(Args, Debug)]
pub(crate) struct SendArgs {
    /// Files and directories to send; - stands for standard input, which needs --name
    #[arg(required = true, value_name = "FILE|DIR|-")]
    pub(crate) files: Vec<PathBuf>,
    /// The invite that `hawser receive` printed: in a file, from standard input (-) or given here,
    /// where other users of this machine can read it
    #[arg(long, value_name = "@FILE|-|URL", allow_hyphen_values = true)]
    pub(crate) to: GatewaySource,
    /// Name at the receiver, for one file or directory, or standard input; may begin with folders,
    /// as in backups/today.sql
    #[arg(long, value_name = "NAME", value_parser = entry_path)]
    pub(crate) name: Option<EntryPath>,
    /// Carry data over tcp, sctp (over UDP where UDP passes) or auto (whichever delivers more)
    /// [default: auto]
    #[arg(long, value_name = "NAME")]
    pub(crate) transport: Option<TransportChoice>,
    /// Print JSON at the end, instead of lines for people
    #[arg(long)]
    pub(crate) json: bool,
}

/// `hawser receive`.
#[derive(Args, Debug)]
pub(crate) struct ReceiveArgs {
    /// Write files into this directory
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    /// Replace files that differ from those that are sent, instead of refusing them
    #[arg(long)]
    pub(crate) replace: bool,
    /// Addresses for senders.
    #[command(flatten)]
    pub(crate) door: DoorArgs,
}

/// Parses a path below the receiver's directory.
fn entry_path(text: &str) -> Result<EntryPath, String> {
    EntryPath::new(text).map_err(|error| error.to_string())
}
