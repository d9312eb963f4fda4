use std::num::NonZeroU64;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use hawser_scenario::Point;
use hawser_scenario::figures::Table;
use hawser_sim::connections::{self, Method, Rates};

use super::arguments::show;

#[derive(Debug, Args)]
pub(crate) struct ConnectionArguments {
    /// Scenario files with a workload; a sweep gives a table for each value
    #[arg(required = true)]
    scenarios: Vec<PathBuf>,
    /// Runs of each, with seeds from 1
    #[arg(long, default_value = "15")]
    seeds: NonZeroU64,
    /// Only these methods
    #[arg(long, value_delimiter = ',', value_parser = method)]
    only: Vec<Method>,
    /// Only these values of a sweep
    #[arg(long, value_delimiter = ',', value_name = "VALUE")]
    values: Vec<String>,
    /// What is known of the links when a run begins
    #[arg(long, default_value = "learnt")]
    rates: Rates,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

fn method(name: &str) -> Result<Method, String> {
    let found = Method::ALL.into_iter().find(|m| m.to_string() == name);
    found.ok_or_else(|| {
        let all = Method::ALL.map(|method| method.to_string()).join(" ");
        format!("allowed are {all}")
    })
}

impl ConnectionArguments {
    pub(crate) fn execute(self) -> anyhow::Result<()> {
        let mut reports = Vec::new();
        let wanted = |value: &String| {
            self.values.is_empty() || value.is_empty() || self.values.contains(value)
        };
        for path in &self.scenarios {
            let points = Point::load(path, &|file| std::fs::read_to_string(file))?;
            for point in points.iter().filter(|point| wanted(&point.value)) {
                for method in Method::ALL {
                    if !self.only.is_empty() && !self.only.contains(&method) {
                        continue;
                    }
                    let seeds = 1..=self.seeds.get();
                    let report = connections::run(point, method, self.rates, seeds);
                    reports.push(
                        report.with_context(|| format!("{} has no workload", path.display()))?,
                    );
                }
            }
        }
        show(self.json, &reports, Table(&reports))
    }
}
