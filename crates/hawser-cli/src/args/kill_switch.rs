use clap::{Args, Subcommand};

/// `hawser kill-switch`.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct KillSwitchArgs {
    /// Action on the kill switch; without an action, the command shows whether the switch is on.
    #[command(subcommand)]
    pub(crate) action: Option<KillSwitchAction>,
}

/// Actions on the kill switch.
#[derive(Clone, Copy, Debug, Subcommand)]
pub(crate) enum KillSwitchAction {
    /// Turn the kill switch on before `hawser up --kill-switch` does, such as before the network is
    /// up; networks and interfaces that the configuration opens stay open
    On,
    /// Turn the kill switch off, whether Hawser runs or not
    Off,
}
