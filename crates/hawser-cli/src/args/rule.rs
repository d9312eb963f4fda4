//! `hawser rule`.

use std::str::FromStr;

use clap::{ArgGroup, Args, Subcommand};
use hawser_config::{HostPort, IpNet, read_user};
use hawser_daemon::rule_files::edit::Spot;
use hawser_policy::{
    Action, Avoid, CgroupPath, Class, Condition, DomainPattern, Dscp, LinkChoice, Mode, Pattern,
    PortRange, Protocol, Rule, Source, User,
};

use super::shared::{TableArgs, link_name, network};

/// `hawser rule`.
#[derive(Args, Debug)]
pub(crate) struct RuleArgs {
    /// Action on the rules.
    #[command(subcommand)]
    pub(crate) action: RuleAction,
}

/// Actions on the rules for connections.
#[derive(Debug, Subcommand)]
pub(crate) enum RuleAction {
    /// List the rules in the order in which they apply, including those of a running daemon
    List {
        /// Also show the rules of the profile and the built-in ones
        #[arg(long)]
        builtin: bool,
        /// Format of the table.
        #[command(flatten)]
        table: TableArgs,
    },
    /// Show what the rules do with a connection, and why
    Test(Box<RuleTestArgs>),
    /// Add a rule, by default after your other rules
    Add(Box<RuleAddArgs>),
    /// Remove a rule of your own, or one of a running daemon
    Remove {
        /// Number of the rule in `hawser rule list`
        #[arg(value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        number: u32,
    },
}

/// `hawser rule test`.
#[derive(Args, Debug)]
pub(crate) struct RuleTestArgs {
    /// Destination, such as example.org:443
    #[arg(long, value_name = "HOST:PORT", value_parser = host_and_port)]
    pub(crate) to: HostPort,
    /// The connection is UDP
    #[arg(long)]
    pub(crate) udp: bool,
    /// Name of the process that connects
    #[arg(long, value_name = "NAME")]
    pub(crate) program: Option<String>,
    /// The path of the program's file
    #[arg(long, value_name = "PATH")]
    pub(crate) executable: Option<String>,
    /// The user who runs the program, by name or number
    #[arg(long, value_name = "USER", value_parser = read_user)]
    pub(crate) user: Option<User>,
    /// Control group of the program
    #[arg(long, value_name = "PATH")]
    pub(crate) cgroup: Option<String>,
    /// Name of the destination, where --to is an address
    #[arg(long, value_name = "NAME")]
    pub(crate) domain: Option<String>,
    /// Address of the destination, where --to is a name
    #[arg(long, value_name = "IP")]
    pub(crate) address: Option<std::net::IpAddr>,
    /// The code point (DSCP) of the connection's packets, such as 46 or ef
    #[arg(long, value_name = "DSCP", value_parser = Dscp::from_str)]
    pub(crate) dscp: Option<Dscp>,
    /// Also show the rules that do not apply
    #[arg(long)]
    pub(crate) all: bool,
    /// Format of the table.
    #[command(flatten)]
    pub(crate) table: TableArgs,
}

/// `hawser rule add`. Lists are separated by commas.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("says").required(true).multiple(true))]
#[command(override_usage = "hawser rule add [OPTIONS]")]
#[command(group = ArgGroup::new("which").multiple(false))]
pub(crate) struct RuleAddArgs {
    /// Apply the rule in the running daemon at once, before all other rules, until the daemon ends;
    /// nothing is saved
    #[arg(long, conflicts_with_all = ["first", "before"])]
    pub(crate) now: bool,
    /// Put the rule before all others, so that it wins over them
    #[arg(long, conflicts_with = "before")]
    first: bool,
    /// Put the rule before this rule of yours, by its name or its number in `hawser rule list`
    #[arg(long, value_name = "RULE")]
    before: Option<String>,
    /// Name of the rule
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// Apply to these programs; * stands for any characters
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = Pattern::from_str)]
    program: Vec<Pattern>,
    /// Apply to these paths of programs; * stands for any characters
    #[arg(long, value_name = "PATH", value_delimiter = ',', value_parser = Pattern::from_str)]
    executable: Vec<Pattern>,
    /// Apply to programs of these users, by name or number
    #[arg(long, value_name = "USER", value_delimiter = ',', value_parser = read_user)]
    user: Vec<User>,
    /// Apply to programs in these control groups, or below
    #[arg(long, value_name = "PATH", value_delimiter = ',', value_parser = CgroupPath::from_str)]
    cgroup: Vec<CgroupPath>,
    /// Apply to these destination names; *.example.org for all names below it
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = DomainPattern::from_str)]
    domain: Vec<DomainPattern>,
    /// Apply to these destination networks
    #[arg(long, value_name = "CIDR", value_delimiter = ',', value_parser = network)]
    address: Vec<IpNet>,
    /// Apply to these destination ports, or ranges such as 5000-5100
    #[arg(long, value_name = "PORT", value_delimiter = ',', value_parser = PortRange::from_str)]
    port: Vec<PortRange>,
    /// Apply to this protocol: tcp or udp
    #[arg(long, value_name = "NAME", value_parser = Protocol::from_str)]
    protocol: Option<Protocol>,
    /// Apply to these code points (DSCP), such as 46 or ef
    #[arg(long, value_name = "DSCP", value_delimiter = ',', value_parser = Dscp::from_str)]
    dscp: Vec<Dscp>,
    /// Apply to connections that other rules put into this class
    #[arg(long, value_name = "CLASS", value_delimiter = ',', value_parser = Class::from_str)]
    of_class: Vec<Class>,
    /// Treat the connections as real-time, interactive, bulk or unknown
    #[arg(
        long,
        value_name = "CLASS",
        value_parser = Class::from_str,
        group = "says",
        conflicts_with = "of_class"
    )]
    class: Option<Class>,
    /// Let the connections use every link
    #[arg(long, groups = ["says", "which"])]
    any_link: bool,
    /// Let the connections use only these links
    #[arg(
        long,
        value_name = "LINK",
        value_delimiter = ',',
        value_parser = link_name,
        groups = ["says", "which"]
    )]
    only: Vec<String>,
    /// Let the connections use the first of these links that works
    #[arg(
        long,
        value_name = "LINK",
        value_delimiter = ',',
        value_parser = link_name,
        groups = ["says", "which"]
    )]
    order: Vec<String>,
    /// Keep the connections off these links
    #[arg(
        long,
        value_name = "LINK",
        value_delimiter = ',',
        value_parser = link_name,
        groups = ["says", "which"]
    )]
    never: Vec<String>,
    /// Keep the connections off links that are metered or carry calls, while there is another link
    #[arg(
        long,
        value_name = "KIND",
        value_delimiter = ',',
        value_parser = Avoid::from_str,
        group = "says"
    )]
    avoid: Vec<Avoid>,
    /// Mode: auto, direct, bonded or packet (as packets, TCP from end to end)
    #[arg(long, value_name = "MODE", value_parser = Mode::from_str, group = "says")]
    mode: Option<Mode>,
}

impl RuleAddArgs {
    /// Returns the place for the rule.
    pub(crate) fn spot(&self) -> Spot {
        match (&self.before, self.first) {
            (Some(rule), _) => Spot::Before(rule.clone()),
            (None, true) => Spot::First,
            (None, false) => Spot::Last,
        }
    }

    /// Returns the rule that the flags describe.
    pub(crate) fn rule(self) -> Rule {
        let links = match (self.only, self.order, self.never) {
            (only, _, _) if !only.is_empty() => Some(LinkChoice::Only(only)),
            (_, order, _) if !order.is_empty() => Some(LinkChoice::Order(order)),
            (_, _, never) if !never.is_empty() => Some(LinkChoice::Except(never)),
            _ => self.any_link.then_some(LinkChoice::Any),
        };
        Rule {
            name: self.name,
            source: Source::User,
            when: Condition {
                program: self.program,
                executable: self.executable,
                user: self.user,
                cgroup: self.cgroup,
                domain: self.domain,
                address: self.address,
                port: self.port,
                protocol: self.protocol,
                dscp: self.dscp,
                class: self.of_class,
            },
            then: Action {
                class: self.class,
                links,
                avoid: (!self.avoid.is_empty()).then_some(self.avoid),
                mode: self.mode,
            },
        }
    }
}

fn host_and_port(text: &str) -> Result<HostPort, String> {
    let expected = "expected a name or an address with a port, such as example.org:443";
    let parsed = text.parse().ok();
    let parsed = parsed.filter(|to: &HostPort| to.port().is_some());
    parsed.ok_or_else(|| expected.to_owned())
}
