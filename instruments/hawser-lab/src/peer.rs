//! Peers among the destinations of connection mode: cost of probing where there are none, and
//! behaviour when one appears.

mod found;
mod hosts;
mod legacy;
mod options;
mod port;
mod report;
mod table;

use std::path::Path;

use self::hosts::Hosts;
use self::legacy::Legacy;
use self::report::PeerReport;
use crate::experiment::{Findings, Head};
use crate::measure::{Bench, Programs};
use crate::scenario::Scenario;
use crate::topology::Lab;
use crate::verdict::Verdict;

pub(crate) use options::Options;

/// Measures both, with logs in `folder`.
pub(crate) fn run(
    scenario: &Scenario,
    options: &Options,
    programs: &Programs,
    folder: &Path,
) -> anyhow::Result<PeerReport> {
    let bench = Bench::new(Lab::shaped(scenario)?, folder)?;
    let hosts = Hosts {
        bench: &bench,
        programs,
    };
    hosts.enrol()?;
    let legacy = legacy::measure(&hosts, options)?;
    let mut verdicts: Vec<_> = legacy.iter().flat_map(Legacy::verdicts).collect();
    let (mut found, mut failures) = (Vec::new(), Vec::new());
    for number in 0..u32::from(options.starts) {
        match found::measure(&hosts, options, scenario, number) {
            Ok(one) => found.push(one),
            Err(error) => failures.push(format!("start {}: {error}", number + 1)),
        }
    }
    if options.starts > 0 {
        verdicts.extend(found::verdicts(&found, options, scenario, failures.len()));
    }
    bench.check_emulator()?;
    Ok(PeerReport {
        head: Head::new("peer", &scenario.name),
        legacy,
        retry_seconds: options.retry,
        found,
        failures,
        verdicts,
    })
}

impl Findings for PeerReport {
    fn head(&self) -> &Head {
        &self.head
    }

    fn table(&self) -> String {
        table::render(self)
    }

    fn failures(&self) -> Vec<String> {
        self.failures.clone()
    }

    fn verdicts(&self) -> &[Verdict] {
        &self.verdicts
    }
}
