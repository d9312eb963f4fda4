//! The measurements of one kind, each a command of its own.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use hawser_types::ByteCount;

use crate::experiment::{Common, Findings, Way, begin};
use crate::scenario::{self, Scenario};
use crate::{connect, meter, request, short, unshaped};

#[derive(Debug, clap::Args)]
pub(super) struct UnshapedArguments {
    #[command(flatten)]
    common: Common,
    /// Bytes of each transfer
    #[arg(long, default_value = "4GB")]
    size: ByteCount,
    /// How often each transfer is made
    #[arg(long, default_value_t = 3)]
    repeat: u32,
    /// Which way
    #[arg(long, default_value = "both")]
    direction: Way,
    /// Only these, as the table names them, such as "mptcp,library plain"
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Leave Hawser's proxies out
    #[arg(long)]
    no_hawser: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct ShortArguments {
    #[command(flatten)]
    common: Common,
    /// The scenario file
    #[arg(default_value = "scenarios/eq-50.toml")]
    scenario: PathBuf,
    /// How many connections
    #[arg(long, default_value_t = 10_000)]
    connections: u64,
    /// How many at once
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u16).range(1..=2000))]
    parallel: u16,
}

#[derive(Debug, clap::Args)]
pub(super) struct RequestArguments {
    #[command(flatten)]
    common: Common,
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
    /// Leave plain TCP out
    #[arg(long)]
    only_hawser: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct ConnectArguments {
    #[command(flatten)]
    common: Common,
    /// The scenario file
    #[arg(default_value = "scenarios/wifi-lte.toml")]
    scenario: PathBuf,
    /// How many connections of each kind
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repeat: u32,
}

impl UnshapedArguments {
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        let hawser = (!self.no_hawser)
            .then(|| self.common.programs())
            .transpose()?;
        begin()?;
        let place = self.common.place("unshaped")?;
        let report = unshaped::run(
            &unshaped::Options {
                bytes: self.size,
                repeat: self.repeat.max(1),
                directions: self.direction.directions(),
                only: self.only,
                hawser,
            },
            place.path(),
        )?;
        self.common.finish(&report)
    }
}

impl ShortArguments {
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        let options = short::Options {
            connections: self.connections,
            parallel: self.parallel.into(),
            hawser: self.common.programs()?,
        };
        in_one(&self.common, &self.scenario, |scenario, folder| {
            short::run(scenario, &options, folder)
        })
    }
}

impl RequestArguments {
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        let options = request::Options {
            count: self.count,
            repeat: self.repeat,
            size: self.size,
            hawser: self.common.programs()?,
            only_hawser: self.only_hawser,
        };
        in_one(&self.common, &self.scenario, |scenario, folder| {
            Ok(request::run(scenario, &options, folder))
        })
    }
}

impl ConnectArguments {
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        let options = connect::Options {
            repeat: self.repeat,
            hawser: self.common.programs()?,
        };
        in_one(&self.common, &self.scenario, |scenario, folder| {
            connect::run(scenario, &options, folder)
        })
    }
}

/// Measures in one scenario.
fn in_one<F: Findings + Send>(
    common: &Common,
    file: &Path,
    measure: impl Fn(&Scenario, &Path) -> anyhow::Result<F> + Sync,
) -> anyhow::Result<ExitCode> {
    let scenario = scenario::load(file)?;
    begin()?;
    common.measure_each(&[scenario], None, measure)
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
        assert_eq!((plain.count, plain.size), (500, 100));
        assert_eq!((plain.repeat, plain.only_hawser), (1, false));
        assert!(plain.scenario.ends_with("lossy-both.toml"));
    }

    #[test]
    fn a_request_run_takes_its_options_and_refuses_what_is_out_of_range() {
        let given = request(&["a.toml", "--count", "7", "--size", "9", "--out", "x"]).unwrap();
        assert_eq!((given.count, given.size), (7, 9));
        for wrong in [["--count", "0"], ["--size", "0"], ["--size", "65537"]] {
            assert!(request(&wrong).is_err(), "{wrong:?}");
        }
    }
}
