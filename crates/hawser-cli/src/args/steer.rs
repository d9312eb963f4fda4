//! `hawser link` and `hawser policy`.

use clap::{ArgGroup, Args, Subcommand};
use hawser_config::{ChunkPolicy, ConnectionPolicy, GatewayUse, TransportChoice};
use hawser_policy::Profile;
use hawser_sched::packet::PacketPolicy;
use hawser_types::{LinkUse, SignalStrength, SignalStrengthError};

use super::shared::{TableArgs, link_name};

/// `hawser link`.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("says").multiple(true))]
#[command(override_usage = "hawser link [OPTIONS] NAME")]
pub(crate) struct LinkArgs {
    /// The interface
    #[arg(value_name = "NAME", value_parser = link_name)]
    pub(crate) name: String,
    /// Use in both directions: normal, prefer, backup or never
    #[arg(long = "use", value_name = "WHEN", value_parser = link_use, group = "says")]
    pub(crate) both: Option<LinkUse>,
    /// Use for sending
    #[arg(long, value_name = "WHEN", value_parser = link_use, group = "says")]
    pub(crate) up: Option<LinkUse>,
    /// Use for receiving
    #[arg(long, value_name = "WHEN", value_parser = link_use, group = "says")]
    pub(crate) down: Option<LinkUse>,
    /// Factor for the link's rate in weighted schedulers, from 1 to 1000
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u64).range(1..=1000),
        group = "says"
    )]
    pub(crate) weight: Option<u64>,
    /// Price of a gigabyte, such as 2.5EUR/GB, or 0
    #[arg(long, value_name = "PRICE", group = "says")]
    pub(crate) price: Option<String>,
    /// Limit of the link's traffic in a month, such as 10GB, or none
    #[arg(long, value_name = "SIZE", group = "says")]
    pub(crate) allowance: Option<String>,
    /// Strength of the link's signal, such as -80dBm, instead of what the radio reports; off to
    /// follow the radio again. Not saved
    #[arg(
        long,
        value_name = "STRENGTH",
        value_parser = signal,
        allow_hyphen_values = true,
        conflicts_with = "save",
        group = "says"
    )]
    pub(crate) signal: Option<String>,
    /// Also write the change to the daemon's configuration
    #[arg(long, requires = "says")]
    pub(crate) save: bool,
    /// Show the link as JSON; not with a change
    #[arg(long, conflicts_with = "says")]
    pub(crate) json: bool,
}

impl LinkArgs {
    /// Returns whether the flags change the link; otherwise the command shows it.
    pub(crate) fn is_change(&self) -> bool {
        let uses = [self.both, self.up, self.down];
        let words = [&self.price, &self.allowance, &self.signal];
        uses.iter().any(Option::is_some)
            || words.iter().any(|it| it.is_some())
            || self.weight.is_some()
    }
}

/// `hawser policy`.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct PolicyArgs {
    /// Action on the policy; without an action, the command shows the policy.
    #[command(subcommand)]
    pub(crate) action: Option<PolicyAction>,
    /// Format of the table.
    #[command(flatten)]
    pub(crate) table: TableArgs,
}

/// Changes of the policy.
#[derive(Debug, Subcommand)]
pub(crate) enum PolicyAction {
    /// Change how links are chosen, until the daemon ends
    Set(PolicySetArgs),
}

/// `hawser policy set`.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("says").required(true).multiple(true))]
#[command(override_usage = "hawser policy set [OPTIONS]")]
pub(crate) struct PolicySetArgs {
    /// Scheduler for the chunks of sessions: auto, backlog, round-robin,
    /// weighted-round-robin, least-rtt, load-index, ecf, blest or redundant
    #[arg(long, value_name = "NAME", group = "says")]
    pub(crate) scheduler: Option<ChunkPolicy>,
    /// Scheduler for connections that use one link each: auto, max-throughput,
    /// round-robin, weighted-round-robin or only-one
    #[arg(long, value_name = "NAME", group = "says")]
    pub(crate) connection_scheduler: Option<ConnectionPolicy>,
    /// Scheduler for packets: auto, redundant, least-rtt, ikr, wrrb or wrr
    #[arg(long, value_name = "NAME", group = "says")]
    pub(crate) packet_scheduler: Option<PacketPolicy>,
    /// Carry data of sessions, in both directions, over tcp, sctp (over UDP where UDP passes) or
    /// auto (whichever delivers more)
    #[arg(long, value_name = "NAME", group = "says")]
    pub(crate) transport: Option<TransportChoice>,
    /// Use the gateway for connections that no rule covers: always, auto (where it is faster) or
    /// never
    #[arg(long, value_name = "WHEN", group = "says")]
    pub(crate) via_gateway: Option<GatewayUse>,
    /// Profile whose rules apply after your own: speed, calls or saver
    #[arg(long, value_name = "NAME", group = "says")]
    pub(crate) profile: Option<Profile>,
    /// Also write the change to the daemon's configuration
    #[arg(long)]
    pub(crate) save: bool,
}

fn signal(text: &str) -> Result<String, SignalStrengthError> {
    match text {
        "off" => Ok(text.to_owned()),
        strength => Ok(strength.parse::<SignalStrength>()?.to_string()),
    }
}

fn link_use(text: &str) -> Result<LinkUse, String> {
    let mut all = LinkUse::ALL.iter().copied();
    let found = all.find(|usage| usage.name() == text);
    found.ok_or_else(|| "expected normal, prefer, backup or never".to_owned())
}
