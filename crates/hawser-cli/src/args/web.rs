use clap::Args;

/// `hawser web`.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct WebArgs {
    /// Make a new token first; the old one becomes invalid
    #[arg(long)]
    pub(crate) renew: bool,
}
