//! The command line, parsed without side effects.
//!
//! Flags take precedence over the configuration file: each `apply_to` merges the flags of one
//! command into the configuration, once.

mod directory;
mod door;
mod enclosed;
mod events;
mod files;
mod first_run;
mod front;
mod kill_switch;
mod manual;
mod peers;
mod rule;
mod run;
mod shared;
mod steer;
mod upgrade;
mod web;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::RangedI64ValueParser;
use clap::{Args, Parser, Subcommand, ValueEnum, value_parser};
use hawser_config::{
    CaptureScope, ConnectionConfig, ConnectionPolicy, GatewaySource, GatewayUse, HostPort, IpNet,
    MAX_LIMIT, PacketExit, ServeConfig, UpConfig,
};
use hawser_daemon::setup::TAKING_OVER;
use hawser_keys::identity::PublicKey;
use hawser_session::{SctpPaths, TransportChoice};
use hawser_types::{ByteCount, MIN_JOIN_PORT, StreamId};

use shared::{link_name, network, socket_address};

pub(crate) use directory::{DirectoryArgs, RegistrationArgs};
use door::DoorArgs;
pub(crate) use enclosed::{EnclosedArgs, KeeperArgs};
pub(crate) use events::EventsArgs;
pub(crate) use files::{ReceiveArgs, SendArgs};
pub(crate) use first_run::{SetupArgs, Undo, Whose, YesNo};
pub(crate) use front::{DiscoveryArgs, FrontArgs, VouchedArgs, VoucherArgs};
pub(crate) use kill_switch::{KillSwitchAction, KillSwitchArgs};
pub(crate) use manual::{CompletionsArgs, ManArgs};
pub(crate) use peers::{KeySource, PeersAction, PeersArgs, Removed};
pub(crate) use rule::{RuleAction, RuleAddArgs, RuleArgs, RuleTestArgs};
pub(crate) use run::{RunArgs, Via};
pub(crate) use shared::TableArgs;
pub(crate) use steer::{LinkArgs, PolicyAction, PolicyArgs, PolicySetArgs};
pub(crate) use upgrade::UpgradeArgs;
pub(crate) use web::WebArgs;

/// Makes all of a machine's internet links act as one.
#[derive(Debug, Parser)]
#[command(name = "hawser", version, term_width = 79, max_term_width = 79)]
pub(crate) struct Cli {
    /// Options of every command.
    #[command(flatten)]
    pub(crate) global: Global,
    /// The command to run.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Flags that stand before or after the command.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Global {
    /// Directory of keys, peers and the daemon's socket [default: the XDG state directory, or
    /// /var/lib/hawser for root]
    #[arg(long, global = true, value_name = "DIR", help_heading = GLOBAL)]
    pub(crate) state: Option<PathBuf>,
    /// Read this configuration file [default, if it is there: ~/.config/hawser/hawser.toml; for
    /// root /etc/hawser/hawser.toml; with --state hawser.toml in DIR]
    #[arg(long, global = true, value_name = "F", help_heading = GLOBAL)]
    pub(crate) config: Option<PathBuf>,
    /// Level of the log on standard error [default: info for daemons, else warn]
    #[arg(
        long,
        global = true,
        value_name = "LEVEL",
        hide_possible_values = true,
        help_heading = GLOBAL
    )]
    pub(crate) log: Option<LogLevel>,
    /// Format of the log: text, or json with one object a line [default: text]
    #[arg(
        long,
        global = true,
        value_name = "FORMAT",
        hide_possible_values = true,
        help_heading = GLOBAL
    )]
    pub(crate) log_format: Option<LogFormat>,
    /// Take over from the process that started this one, as part of `hawser upgrade`.
    #[arg(long = TAKING_OVER, global = true, hide = true)]
    pub(crate) taking_over: bool,
}

/// Format of the log's lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Text, for people.
    #[default]
    Text,
    /// JSON, for programs.
    Json,
}

/// Level of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogLevel {
    /// Log nothing.
    Off,
    /// Log errors.
    Error,
    /// Also log warnings.
    Warn,
    /// Also log normal events.
    Info,
    /// Also log reasons.
    Debug,
    /// Also log every step.
    Trace,
}

impl LogLevel {
    /// The level's name as log filters know it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a gateway, the far end of clients' sessions
    Serve(ServeArgs),
    /// Open a proxy port for applications, and use every link
    Up(UpArgs),
    /// Run one program and spread its connections over every link
    Run(RunArgs),
    /// Send files to a waiting `hawser receive`
    Send(SendArgs),
    /// Receive files into a directory
    Receive(ReceiveArgs),
    /// Set up this machine by at most four questions, or undo that
    Setup(SetupArgs),
    /// Make an invite to this gateway, or list or revoke invites
    Invite(InviteArgs),
    /// Print the file in which a web server's owner publishes this machine's key
    Voucher(VoucherArgs),
    /// List, add or remove hosts known by name and clients of this gateway
    Peers(PeersArgs),
    /// Show what the running daemon is doing
    Status(TableArgs),
    /// List the links, with the traffic on each
    Links(TableArgs),
    /// List the open streams, with the links that carry them
    Streams(TableArgs),
    /// Show changes of links, sessions, paths and rules
    Events(EventsArgs),
    /// Print the address of the running daemon's dashboard, with its token
    Web(WebArgs),
    /// Watch and control the running daemon in the terminal
    Top(TopArgs),
    /// Have a new process of the program take over from the running daemon; connections stay open
    Upgrade(UpgradeArgs),
    /// Show a link, or change how it is used
    Link(LinkArgs),
    /// Show or change how the running daemon chooses links
    Policy(PolicyArgs),
    /// List, test or change the rules for connections
    Rule(RuleArgs),
    /// Explain why the running daemon used each link or not
    Why(WhyArgs),
    /// Measure each link alone, then all together
    Bench(BenchArgs),
    /// Show whether the kill switch is on, turn it on, or remove it
    KillSwitch(KillSwitchArgs),
    /// Find what keeps Hawser from working on this machine, and suggest fixes
    Doctor(TableArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
    /// Print the manual page, or write those of all commands
    Man(ManArgs),
    /// Run a program in a network of its own, whose packets another process carries
    #[command(hide = true)]
    Enclosed(EnclosedArgs),
    /// Keep the network of such a program until the data that it has sent is acknowledged
    #[command(hide = true)]
    Keeper(KeeperArgs),
    /// Restore settings of the system when standard input ends
    #[command(hide = true)]
    Guard,
}

impl Command {
    /// Returns whether the command runs until a signal or a request ends it.
    pub(crate) fn is_daemon(&self) -> bool {
        matches!(self, Self::Serve(_) | Self::Up(_) | Self::Receive(_))
    }
}

/// `hawser serve`.
#[derive(Args, Debug)]
pub(crate) struct ServeArgs {
    /// Addresses for clients.
    #[command(flatten)]
    pub(crate) door: DoorArgs,
    /// Let clients reach this private, link-local or loopback network; may be repeated
    #[arg(long, value_name = "CIDR", value_parser = network)]
    pub(crate) allow_destination: Vec<IpNet>,
    /// Also carry clients' packets to the internet, from this machine's address (nat) or from their
    /// own (routed); needs root or CAP_NET_ADMIN, and nftables
    #[arg(long, value_name = "nat|routed")]
    pub(crate) packet_exit: Option<PacketExit>,
    /// Take clients' inner addresses from this network; once for IPv4 and once for IPv6 [default:
    /// 10.83.0.0/16 and fd48:6177:7365:72::/64]
    #[arg(long, value_name = "CIDR", value_parser = network)]
    pub(crate) packet_pool: Vec<IpNet>,
    /// Let one client's packets have this many flows at once [default: 8192]
    #[arg(long, value_name = "COUNT", value_parser = limit())]
    pub(crate) packet_flows_per_client: Option<u32>,
    /// Let one client's packets begin this many flows in a second [default: 1000]
    #[arg(long, value_name = "COUNT", value_parser = limit())]
    pub(crate) packet_flows_per_second: Option<u32>,
    /// Relay between clients that know each other by name where both are behind NAT
    #[arg(long)]
    pub(crate) meet: bool,
    /// Add this interface to the sessions of clients that run with --accept-joins and do not reach
    /// the gateway over it: the gateway connects from it to the addresses that the clients come
    /// from. May be repeated
    #[arg(long = "further-link", value_name = "NAME", value_parser = link_name)]
    pub(crate) further_links: Vec<String>,
    /// Services of this machine.
    #[command(flatten)]
    pub(crate) front: FrontArgs,
    /// SIP directory that runs beside the gateway.
    #[command(flatten)]
    pub(crate) directory: DirectoryArgs,
    /// Serve the dashboard and the metrics at this loopback address, such as 127.0.0.1:7481
    #[arg(long, value_name = "ADDR:PORT", value_parser = web_address)]
    pub(crate) web: Option<SocketAddr>,
}

/// `hawser up`.
#[derive(Args, Debug)]
pub(crate) struct UpArgs {
    /// Enrol with the gateway of the invite in a file, from standard input (-) or given here, where
    /// other users of this machine can read it [default: the gateway enrolled with before; without
    /// one, connect directly, each connection over one of the links]
    #[arg(long, value_name = "@FILE|-|URL", allow_hyphen_values = true)]
    pub(crate) gateway: Option<GatewaySource>,
    /// Connect directly, even if a gateway is enrolled
    #[arg(long, conflicts_with = "gateway")]
    pub(crate) direct: bool,
    /// Use the gateway for connections that no rule covers: always, auto (where it is faster) or
    /// never [default: always]
    #[arg(long, value_name = "WHEN")]
    pub(crate) via_gateway: Option<GatewayUse>,
    /// Enrol with the peer of this invite, for connections to it alone; may be repeated
    #[arg(long = "peer", value_name = "@FILE|-|URL", allow_hyphen_values = true)]
    pub(crate) peers: Vec<GatewaySource>,
    /// Listen for applications at this address [default: 127.0.0.1:1080]
    #[arg(long, value_name = "ADDR:PORT", value_parser = socket_address)]
    pub(crate) listen: Option<SocketAddr>,
    /// Use only this interface, even if it appears later; may be repeated [default: all]
    #[arg(long = "link", value_name = "NAME", value_parser = link_name)]
    pub(crate) links: Vec<String>,
    /// Allow an address in --listen that other machines can reach; needs --password-file or
    /// --no-password
    #[arg(long)]
    pub(crate) allow_lan: bool,
    /// Require the user name and password in this file (USER:PASSWORD) from every client of the
    /// port
    #[arg(long, value_name = "FILE", conflicts_with = "no_password")]
    pub(crate) password_file: Option<PathBuf>,
    /// Require no password, even if other machines can reach the port
    #[arg(long)]
    pub(crate) no_password: bool,
    /// Policy that chooses the link of each direct connection: auto, max-throughput, round-robin,
    /// weighted-round-robin or only-one [default: auto]
    #[arg(long, value_name = "NAME")]
    pub(crate) connection_scheduler: Option<ConnectionPolicy>,
    /// Carry data over tcp, sctp (over UDP where UDP passes) or auto (whichever delivers more)
    /// [default: auto]
    #[arg(long, value_name = "NAME")]
    pub(crate) transport: Option<TransportChoice>,
    /// Send SCTP data over all paths that answer (all), or over the fastest as in the paper (paper)
    /// [default: all]
    #[arg(long, value_name = "NAME")]
    pub(crate) sctp_paths: Option<SctpPaths>,
    /// Capture the traffic of all programs (system), or the connections of a control group; needs
    /// root, or CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON. Or be the router of the hosts behind an
    /// interface (lan); needs root or CAP_NET_ADMIN, nftables, and a gateway with --packet-exit.
    /// May be repeated
    #[arg(long, value_name = "system|cgroup:PATH|lan:NAME")]
    pub(crate) capture: Vec<CaptureScope>,
    /// Block all traffic that does not go through Hawser, even after Hawser has ended or was
    /// killed, until `hawser kill-switch off`. Needs --capture system and a gateway. Replies to TCP
    /// connections and pings from outside still leave, so remote logins go on
    #[arg(long)]
    pub(crate) kill_switch: bool,
    /// Let all programs reach this network despite the kill switch; may be repeated
    #[arg(long, value_name = "CIDR", value_parser = network)]
    pub(crate) kill_switch_allow: Vec<IpNet>,
    /// The name of this host.
    #[command(flatten)]
    pub(crate) registration: RegistrationArgs,
    /// Let other hosts begin connections to this machine, and to the hosts behind it, by a gateway
    /// with `--packet-exit routed`, whose inner addresses may be public then; for --capture system
    /// and lan. Without this flag, only replies are accepted
    #[arg(long)]
    pub(crate) accept_inbound: bool,
    /// Let the gateway connect to this TCP port, 1024 or higher, on this machine's links, to add
    /// links of its own to the session; for `hawser serve --further-link`. Other hosts get no
    /// answer at this port. The firewall must let these connections in, and there must be no
    /// address translation on the way
    #[arg(
        long,
        value_name = "PORT",
        value_parser = value_parser!(u16).range(i64::from(MIN_JOIN_PORT)..)
    )]
    pub(crate) accept_joins: Option<u16>,
    /// Servers that this machine has not enrolled with.
    #[command(flatten)]
    pub(crate) discovery: DiscoveryArgs,
    /// Names whose servers must match vouchers.
    #[command(flatten)]
    pub(crate) vouched: VouchedArgs,
    /// Serve the dashboard and the metrics at this loopback address, such as 127.0.0.1:7480
    #[arg(long, value_name = "ADDR:PORT", value_parser = web_address)]
    pub(crate) web: Option<SocketAddr>,
}

/// `hawser invite`.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct InviteArgs {
    /// Action on the invites; without an action, the command makes an invite.
    #[command(subcommand)]
    pub(crate) action: Option<InviteAction>,
    /// How long the invite is valid, such as 30min or 24h
    #[arg(long, value_name = "DURATION", value_parser = time_to_live)]
    pub(crate) ttl: Option<Duration>,
    /// Address at which the client reaches this gateway, instead of those of `hawser serve`; may be
    /// repeated
    #[arg(long, value_name = "HOST[:PORT]")]
    pub(crate) advertise: Vec<HostPort>,
    /// Also show the invite as a QR code
    #[arg(long)]
    pub(crate) qr: bool,
}

/// Actions on a gateway's invites.
#[derive(Debug, Subcommand)]
pub(crate) enum InviteAction {
    /// List the invites, without their secrets
    List(TableArgs),
    /// Withdraw an invite
    Revoke {
        /// Id of the invite, as `hawser invite list` shows it
        #[arg(value_name = "ID", value_parser = invite_id, allow_hyphen_values = true)]
        id: PublicKey,
    },
}

/// `hawser top`.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct TopArgs {
    /// Show ASCII only [default: unless the locale is UTF-8]
    #[arg(long)]
    pub(crate) ascii: bool,
    /// Show no colours [default: if NO_COLOR is set, or the terminal has none]
    #[arg(long)]
    pub(crate) no_color: bool,
}

/// `hawser why`.
#[derive(Args, Debug)]
pub(crate) struct WhyArgs {
    /// Explain this stream, by its number in `hawser status` [default: all together]
    #[arg(value_name = "STREAM", value_parser = stream)]
    pub(crate) stream: Option<StreamId>,
    /// Explain this session, by its name in `hawser status` [default: all]
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,
    /// Explain this connection that uses one link, by its number in `hawser why`
    #[arg(
        long,
        value_name = "ID",
        conflicts_with_all = ["stream", "session", "dump", "connections"]
    )]
    pub(crate) connection: Option<u64>,
    /// Explain this many of the latest connections that use one link each [default: 20]
    #[arg(
        long,
        value_name = "N",
        conflicts_with_all = ["stream", "session", "dump"],
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    pub(crate) connections: Option<u64>,
    /// Write the recording to this file, for `hawser-sim replay`; it contains no payload
    #[arg(long, value_name = "FILE", conflicts_with_all = ["stream", "json"])]
    pub(crate) dump: Option<PathBuf>,
    /// Include the destinations of streams in the recording
    #[arg(long, requires = "dump")]
    pub(crate) destinations: bool,
    /// Format of the table.
    #[command(flatten)]
    pub(crate) table: TableArgs,
}

/// `hawser bench`.
#[derive(Args, Debug)]
pub(crate) struct BenchArgs {
    /// Amount to send in each measurement, such as 20MB [default: depends on the links]
    #[arg(long, value_name = "BYTES", value_parser = size)]
    pub(crate) size: Option<ByteCount>,
    /// Format of the result.
    #[command(flatten)]
    pub(crate) table: TableArgs,
}

impl ServeArgs {
    /// Overrides settings of the file with those of the flags.
    pub(crate) fn apply_to(&self, config: &mut ServeConfig) {
        self.door.apply_to(config);
        if !self.allow_destination.is_empty() {
            config.allow_destination.clone_from(&self.allow_destination);
        }
        if let Some(exit) = self.packet_exit {
            config.packet_exit = exit;
        }
        if !self.packet_pool.is_empty() {
            config.packet_pool.clone_from(&self.packet_pool);
        }
        let limits = &mut config.limits;
        let (at_once, rate) = (self.packet_flows_per_client, self.packet_flows_per_second);
        limits.packet_flows_per_client = at_once.unwrap_or(limits.packet_flows_per_client);
        limits.packet_flows_per_second = rate.unwrap_or(limits.packet_flows_per_second);
        config.meet |= self.meet;
        if !self.further_links.is_empty() {
            config.further_links.clone_from(&self.further_links);
        }
        self.front.apply_to(&mut config.front);
        config.web = self.web.or(config.web);
    }
}

impl UpArgs {
    /// Overrides settings of the file with those of the flags.
    pub(crate) fn apply_to(&self, config: &mut UpConfig, connection: &mut ConnectionConfig) {
        if let Some(scheduler) = self.connection_scheduler {
            connection.scheduler = scheduler;
        }
        if let Some(usage) = self.via_gateway {
            connection.gateway = usage;
        }
        if let Some(listen) = self.listen {
            config.listen = listen;
        }
        if !self.links.is_empty() {
            config.links.clone_from(&self.links);
        }
        if self.gateway.is_some() {
            config.gateway.clone_from(&self.gateway);
        }
        config.allow_lan |= self.allow_lan;
        if self.password_file.is_some() {
            config.password_file.clone_from(&self.password_file);
            config.no_password = false;
        }
        if self.no_password {
            config.password_file = None;
            config.no_password = true;
        }
        self.registration.apply_to(config);
        self.discovery.apply_to(config);
        self.vouched.apply_to(config);
        config.accept_inbound |= self.accept_inbound;
        config.accept_joins = self.accept_joins.or(config.accept_joins);
        config.kill_switch |= self.kill_switch;
        if !self.kill_switch_allow.is_empty() {
            config.kill_switch_allow.clone_from(&self.kill_switch_allow);
        }
        if !self.capture.is_empty() {
            config.capture.clone_from(&self.capture);
        }
        config.web = self.web.or(config.web);
    }
}

fn limit() -> RangedI64ValueParser<u32> {
    value_parser!(u32).range(1..=i64::from(MAX_LIMIT))
}

fn web_address(text: &str) -> Result<SocketAddr, String> {
    let expected = || format!("expected {}", hawser_config::WEB_ADDRESS);
    hawser_config::read_web_address(text).ok_or_else(expected)
}

fn time_to_live(text: &str) -> Result<Duration, String> {
    let span = hawser_types::parse_duration(text).map_err(|error| error.to_string())?;
    if (MIN_TTL..=MAX_TTL).contains(&span) {
        Ok(span)
    } else {
        Err("expected a time from 1s to 365d".to_owned())
    }
}

fn size(text: &str) -> Result<ByteCount, String> {
    match text.parse::<ByteCount>() {
        Ok(ByteCount::ZERO) => Err("expected a size greater than 0".to_owned()),
        Ok(size) => Ok(size),
        Err(error) => Err(error.to_string()),
    }
}

fn stream(text: &str) -> Result<StreamId, String> {
    let expected = "expected a stream's number, such as 6";
    text.parse()
        .map(StreamId::new)
        .map_err(|_| expected.to_owned())
}

fn invite_id(text: &str) -> Result<PublicKey, String> {
    text.parse()
        .map_err(|error| format!("expected an id as `hawser invite list` shows it: {error}"))
}

const GLOBAL: &str = "For every command";
const MIN_TTL: Duration = Duration::from_secs(1);
const MAX_TTL: Duration = Duration::from_secs(365 * 86_400);

#[cfg(test)]
mod tests;
