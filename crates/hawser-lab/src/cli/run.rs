//! `hawser-lab run`, and which way.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueEnum;

use super::begin;
use crate::commands;
use crate::measure::{self, Contender, Options, Programs, Report};
use crate::scenario::{self, Direction, Scenario};

#[derive(Debug, clap::Args)]
pub(super) struct RunArguments {
    /// The scenario files
    #[arg(required = true)]
    scenarios: Vec<PathBuf>,
    /// How often each transfer is made
    #[arg(long, default_value_t = 5)]
    repeat: u32,
    /// Print the report as JSON rather than as a table
    #[arg(long)]
    json: bool,
    /// Which way; the scenario's own when not given
    #[arg(long)]
    direction: Option<Ways>,
    /// Only these contenders
    #[arg(long, value_delimiter = ',')]
    only: Vec<Contender>,
    /// Later transfers on each Hawser session
    #[arg(long, default_value_t = 1)]
    warm: u32,
    /// Write the raw report as DIR/NAME.json
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The Hawser binary; else beside this one, else built
    #[arg(long, value_name = "PATH")]
    hawser: Option<PathBuf>,
    /// How many scenarios at once, of those whose links carry 10 Mbit/s or less
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=16))]
    side_by_side: u8,
    /// Keep the programs' logs in DIR/NAME
    #[arg(long, value_name = "DIR")]
    logs: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Ways {
    Put,
    Get,
    Both,
}

impl Ways {
    pub(super) fn directions(self) -> Vec<Direction> {
        match self {
            Self::Put => vec![Direction::Put],
            Self::Get => vec![Direction::Get],
            Self::Both => vec![Direction::Put, Direction::Get],
        }
    }
}

impl RunArguments {
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        let all = [Contender::Tcp, Contender::Mptcp, Contender::Hawser];
        let contenders = if self.only.is_empty() {
            all.to_vec()
        } else {
            self.only
        };
        let wants_hawser = contenders.contains(&Contender::Hawser);
        // All files are read before hours are spent on the first.
        let scenarios = self
            .scenarios
            .iter()
            .map(|path| scenario::load(path))
            .collect::<Result<Vec<_>, _>>()?;
        let options = Options {
            repeat: self.repeat.max(1),
            directions: self.direction.map(Ways::directions).unwrap_or_default(),
            hawser: wants_hawser
                .then(|| Programs::find(self.hawser.as_deref()))
                .transpose()?,
            contenders,
            warm: self.warm,
            logs: self.logs,
        };
        check_names(&scenarios)?;
        begin()?;
        let (mut reports, mut failures) = (Vec::new(), 0);
        let mut trouble = None;
        measure::run_all(
            &scenarios,
            &options,
            self.side_by_side.into(),
            |result| match result {
                Ok(report) => {
                    failures += report.failures();
                    let shown = show(&report, self.json);
                    reports.push(report);
                    let kept = shown.and_then(|()| keep(&reports, self.out.as_deref()));
                    trouble = trouble.take().or(kept.err());
                }
                Err((name, error)) => {
                    failures += 1;
                    eprintln!("{name} was not measured: {error:#}");
                }
            },
        );
        if let Some(trouble) = trouble {
            return Err(trouble);
        }
        if scenarios.len() > 1 && !self.json {
            commands::print(&measure::render_all(&reports))?;
        }
        Ok(if failures == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}

/// Reports are named after their scenarios.
fn check_names(scenarios: &[Scenario]) -> anyhow::Result<()> {
    let mut names: Vec<_> = scenarios.iter().map(|scenario| &scenario.name).collect();
    names.sort();
    match names.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => anyhow::bail!("two scenario files are called {}", pair[0]),
        None => Ok(()),
    }
}

fn show(report: &Report, json: bool) -> anyhow::Result<()> {
    if json {
        commands::print(&serde_json::to_string(report)?)
    } else {
        commands::print(&measure::render(report))
    }
}

/// Writes the last report, and the summary of all there are so far.
fn keep(reports: &[Report], folder: Option<&Path>) -> anyhow::Result<()> {
    let (Some(folder), Some(last)) = (folder, reports.last()) else {
        return Ok(());
    };
    eprintln!("written: {}", last.write(folder)?.display());
    if reports.len() > 1 {
        std::fs::write(folder.join("summary.txt"), measure::render_all(reports))?;
    }
    Ok(())
}
