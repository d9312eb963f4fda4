//! The measurements of one kind, each a command of its own.

use std::path::PathBuf;
use std::process::ExitCode;

use hawser_types::ByteCount;

use super::begin;
use super::run::Ways;
use crate::measure::Programs;
use crate::scenario;
use crate::{connect, meter, request, short, unshaped};

#[derive(Debug, clap::Args)]
pub(super) struct UnshapedArguments {
    /// Bytes of each transfer
    #[arg(long, default_value = "4GB")]
    size: ByteCount,
    /// How often each transfer is made
    #[arg(long, default_value_t = 3)]
    repeat: u32,
    /// Which way
    #[arg(long, default_value = "both")]
    direction: Ways,
    /// Only these, as the table names them, such as "mptcp,library plain"
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Leave Hawser's proxies out
    #[arg(long)]
    no_hawser: bool,
    /// Print JSON rather than a table
    #[arg(long)]
    json: bool,
    /// Write the figures as DIR/unshaped.json
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The Hawser binary; else beside this one, else built
    #[arg(long, value_name = "PATH")]
    hawser: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(super) struct ShortArguments {
    /// The scenario file
    #[arg(default_value = "scenarios/eq-50.toml")]
    scenario: PathBuf,
    /// How many connections
    #[arg(long, default_value_t = 10_000)]
    connections: u64,
    /// How many at once
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u16).range(1..=2000))]
    parallel: u16,
    /// Print JSON rather than text
    #[arg(long)]
    json: bool,
    /// The Hawser binary; else beside this one, else built
    #[arg(long, value_name = "PATH")]
    hawser: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(super) struct RequestArguments {
    /// The scenario file
    #[arg(default_value = "scenarios/lossy-both.toml")]
    scenario: PathBuf,
    /// How many requests, one after another
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    count: u32,
    /// How often each phase, each time with other random numbers
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// Bytes of a request and of its answer
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=i64::from(meter::MAX_ECHO)))]
    size: u32,
    /// Print JSON rather than a table
    #[arg(long)]
    json: bool,
    /// The Hawser binary; else beside this one, else built
    #[arg(long, value_name = "PATH")]
    hawser: Option<PathBuf>,
    /// Write the raw report as DIR/request-NAME.json
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Leave plain TCP out
    #[arg(long)]
    only_hawser: bool,
    /// Keep the programs' logs in DIR
    #[arg(long, value_name = "DIR")]
    logs: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(super) struct ConnectArguments {
    /// The scenario file
    #[arg(default_value = "scenarios/wifi-lte.toml")]
    scenario: PathBuf,
    /// How many connections of each kind
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repeat: u32,
    /// Print JSON rather than a table
    #[arg(long)]
    json: bool,
    /// The Hawser binary; else beside this one, else built
    #[arg(long, value_name = "PATH")]
    hawser: Option<PathBuf>,
    /// Write the raw report as DIR/connect-NAME.json
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Keep the programs' logs in DIR
    #[arg(long, value_name = "DIR")]
    logs: Option<PathBuf>,
}

impl UnshapedArguments {
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        let hawser = (!self.no_hawser)
            .then(|| Programs::find(self.hawser.as_deref()))
            .transpose()?;
        begin()?;
        unshaped::run(&unshaped::Options {
            bytes: self.size,
            repeat: self.repeat.max(1),
            directions: self.direction.directions(),
            only: self.only,
            hawser,
            json: self.json,
            out: self.out,
        })
    }
}

impl ShortArguments {
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        let scenario = scenario::load(&self.scenario)?;
        let hawser = Programs::find(self.hawser.as_deref())?;
        begin()?;
        short::run(&short::Options {
            scenario,
            connections: self.connections,
            parallel: self.parallel.into(),
            hawser,
            json: self.json,
        })
    }
}

impl RequestArguments {
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        let scenario = scenario::load(&self.scenario)?;
        let hawser = Programs::find(self.hawser.as_deref())?;
        begin()?;
        request::run(&request::Options {
            scenario,
            count: self.count,
            repeat: self.repeat,
            size: self.size,
            hawser,
            json: self.json,
            out: self.out,
            only_hawser: self.only_hawser,
            logs: self.logs,
        })
    }
}

impl ConnectArguments {
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        let scenario = scenario::load(&self.scenario)?;
        let hawser = Programs::find(self.hawser.as_deref())?;
        begin()?;
        connect::run(&connect::Options {
            scenario,
            repeat: self.repeat,
            hawser,
            json: self.json,
            out: self.out,
            logs: self.logs,
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::super::{Cli, Command};
    use super::*;

    fn request(arguments: &[&str]) -> Result<RequestArguments, clap::Error> {
        let all = ["hawser-lab", "request"].iter().chain(arguments);
        Cli::try_parse_from(all).map(|cli| match cli.command {
            Command::Request(arguments) => arguments,
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn a_request_run_needs_no_arguments() {
        let plain = request(&[]).unwrap();
        assert_eq!((plain.count, plain.size, plain.json), (500, 100, false));
        assert_eq!((plain.repeat, plain.only_hawser), (1, false));
        assert!(plain.scenario.ends_with("lossy-both.toml"));
        assert!(plain.hawser.is_none() && plain.out.is_none());
    }

    #[test]
    fn a_request_run_takes_its_options_and_refuses_what_is_out_of_range() {
        let given = request(&["a.toml", "--count", "7", "--size", "9", "--out", "x"]).unwrap();
        assert_eq!((given.count, given.size), (7, 9));
        assert_eq!(given.out, Some(PathBuf::from("x")));
        for wrong in [["--count", "0"], ["--size", "0"], ["--size", "65537"]] {
            assert!(request(&wrong).is_err(), "{wrong:?}");
        }
    }
}
