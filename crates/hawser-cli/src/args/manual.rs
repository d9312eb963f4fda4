use std::path::PathBuf;

use clap::Args;
use clap_complete::Shell;

/// `hawser completions`.
#[derive(Args, Debug)]
pub(crate) struct CompletionsArgs {
    /// Name of the shell
    #[arg(value_name = "SHELL")]
    pub(crate) shell: Shell,
}

/// `hawser man`.
#[derive(Args, Debug)]
pub(crate) struct ManArgs {
    /// Write the pages of all commands into this directory [default: the first page, to standard
    /// output]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}
