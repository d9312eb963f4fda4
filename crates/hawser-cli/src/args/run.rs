use std::ffi::{OsStr, OsString};

use clap::{Args, ValueEnum};
use hawser_config::Config;
use hawser_policy::{Mode, UnknownMode};
use hawser_sched::connection::{Class, ConnectionPolicy};

use super::front::{DiscoveryArgs, VouchedArgs};
use super::shared::link_name;

/// `hawser run`.
#[derive(Args, Debug)]
pub(crate) struct RunArgs {
    /// Use only this interface; may be repeated [default: all]
    #[arg(long = "link", value_name = "NAME", value_parser = link_name)]
    pub(crate) links: Vec<String>,
    /// Policy that chooses the link of each connection without a gateway: auto, max-throughput,
    /// round-robin, weighted-round-robin or only-one [default: auto]
    #[arg(long, value_name = "NAME")]
    connection_scheduler: Option<ConnectionPolicy>,
    /// Treat all connections of the program as real-time, interactive, bulk or unknown [default: as
    /// the rules say]
    #[arg(long, value_name = "CLASS")]
    pub(crate) class: Option<Class>,
    /// direct: connect directly, even if a gateway is enrolled; bonded: only over the gateway
    #[arg(
        long,
        value_name = "MODE",
        default_value_t,
        hide_default_value = true,
        value_parser = mode
    )]
    pub(crate) mode: Mode,
    /// How to capture the program's connections: in the kernel (kernel), by a library loaded into
    /// the program (shim), or in the kernel where permitted (auto)
    #[arg(
        long,
        value_name = "WAY",
        default_value = "auto",
        hide_default_value = true,
        hide_possible_values = true
    )]
    pub(crate) via: Via,
    /// Carry all packets of the program: it runs in a network of its own, whose packets go through
    /// a gateway with `--packet-exit`
    #[arg(
        long,
        conflicts_with_all = [
            "connection_scheduler", "class", "mode", "via", "discover", "vouched",
        ]
    )]
    pub(crate) tun: bool,
    #[command(flatten)]
    discovery: DiscoveryArgs,
    #[command(flatten)]
    vouched: VouchedArgs,
    /// The program and its arguments
    #[arg(required = true, last = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

/// Parses the mode of a program's connections. Refuses `packet`: `--tun` carries packets.
fn mode(text: &str) -> Result<Mode, String> {
    match text.parse() {
        Ok(Mode::Packet) => Err("allowed are auto direct bonded; --tun is for packets".to_owned()),
        parsed => parsed.map_err(|error: UnknownMode| error.to_string()),
    }
}

/// Ways to capture the connections of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Via {
    /// In the kernel where that is permitted, else by the library.
    Auto,
    /// By a program in the kernel.
    Kernel,
    /// By a library that is loaded into the program.
    Shim,
}

impl RunArgs {
    /// Overrides settings of the file with those of the flags.
    pub(crate) fn apply_to(&self, config: &mut Config) {
        if let Some(scheduler) = self.connection_scheduler {
            config.connection.scheduler = scheduler;
        }
        if !self.links.is_empty() {
            config.up.links.clone_from(&self.links);
        }
        self.discovery.apply_to(&mut config.up);
        self.vouched.apply_to(&mut config.up);
    }

    /// Returns a one-line error for flags that exclude each other.
    pub(crate) fn contradiction(&self) -> Option<String> {
        if self.mode == Mode::Auto {
            return None;
        }
        let flag = if self.discovery.discover {
            "--discover"
        } else if !self.vouched.vouched.is_empty() {
            "--vouched"
        } else {
            return None;
        };
        Some(format!(
            "{flag} cannot be used with --mode {}: {flag} is for servers that are reached over \
             all links",
            self.mode
        ))
    }

    /// Returns the program's name or path.
    pub(crate) fn program(&self) -> &OsStr {
        // The parser requires at least one word.
        self.command
            .first()
            .map_or(OsStr::new(""), OsString::as_os_str)
    }

    /// Returns the program and its arguments.
    pub(crate) fn command(&self) -> &[OsString] {
        &self.command
    }

    /// Returns the program's arguments.
    pub(crate) fn arguments(&self) -> &[OsString] {
        self.command.get(1..).unwrap_or_default()
    }
}
