use clap::{Args, ValueEnum};
use hawser_config::{GatewaySource, HostPort};

/// `hawser setup`.
#[derive(Args, Debug)]
pub(crate) struct SetupArgs {
    /// Enrol with the gateway of the invite in a file, from standard input (-) or given here, where
    /// other users of this machine can read it
    #[arg(
        long,
        value_name = "@FILE|-|URL",
        group = "role",
        allow_hyphen_values = true
    )]
    pub(crate) gateway: Option<GatewaySource>,
    /// Use no gateway, or keep the one that is enrolled
    #[arg(long, group = "role")]
    pub(crate) no_gateway: bool,
    /// Make this machine a gateway for others
    #[arg(long, group = "role", conflicts_with_all = ["metered", "no_metered", "capture"])]
    pub(crate) serve: bool,
    /// With --serve: public address or name of this machine, for invites; may be repeated
    #[arg(long, value_name = "HOST[:PORT]", requires = "serve")]
    pub(crate) advertise: Vec<HostPort>,
    /// This interface is metered: use it only while no other works; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) metered: Vec<String>,
    /// No interface is metered
    #[arg(long, conflicts_with = "metered")]
    pub(crate) no_metered: bool,
    /// Whose connections use the links: programs that you point at the proxy port (proxy), programs
    /// that follow the desktop's proxy settings (desktop), or all programs, which needs root
    /// (system)
    #[arg(long, value_name = "proxy|desktop|system")]
    pub(crate) capture: Option<Whose>,
    /// Start now, and whenever the machine starts or the user logs in
    #[arg(long, value_name = "yes|no")]
    pub(crate) boot: Option<YesNo>,
    /// Ask nothing: keep what no flag changes, with --capture proxy and, where systemd runs, --boot
    /// yes
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Undo what earlier runs have done, the last step first: all of it, or one kind of step
    #[arg(
        long,
        value_name = "STEP",
        num_args = 0..=1,
        default_missing_value = "all",
        exclusive = true
    )]
    pub(crate) undo: Option<Undo>,
}

/// Programs whose connections use the links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Whose {
    /// Programs that you point at the proxy port
    Proxy,
    /// Programs that follow the proxy settings of GNOME or KDE
    Desktop,
    /// All programs of this machine
    System,
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum YesNo {
    Yes,
    No,
}

/// Steps to take back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Undo {
    /// Every step
    All,
    /// The service: stop it, and do not start it at boot
    Boot,
    /// The desktop's proxy settings
    Desktop,
    /// The configuration
    Config,
    /// The gateway: forget it; it still lists this machine
    Gateway,
}
