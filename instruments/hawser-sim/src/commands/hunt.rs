use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use hawser_sim::hunt::{self, Finding, Promise};
use hawser_sim::table::Findings;

use super::arguments::{BondArguments, show};

#[derive(Debug, Args)]
pub(crate) struct HuntArguments {
    /// The first seed; each set has its own, which draws it again
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Link sets to draw
    #[arg(long, default_value_t = 200)]
    count: u64,
    /// Breaches to report, the worst first
    #[arg(long, default_value_t = 10)]
    top: usize,
    /// Print the set of the first seed as a scenario file, and draw no other
    #[arg(long)]
    show: bool,
    /// Write the sets that are reported as scenario files into this folder
    #[arg(long, value_name = "DIR")]
    write: Option<PathBuf>,
    #[command(flatten)]
    bond: BondArguments,
    /// Print the findings as JSON
    #[arg(long)]
    json: bool,
}

impl HuntArguments {
    pub(crate) fn execute(self) -> anyhow::Result<()> {
        if self.show {
            write!(std::io::stdout(), "{}", hunt::text(self.seed).0)?;
            return Ok(());
        }
        let mut findings = self.search()?;
        let summary = summary(&findings);
        findings.sort_by_key(|finding| finding.worst().map_or(u64::MAX, |kept| kept.share));
        findings.truncate(self.top);
        if let Some(folder) = &self.write {
            findings.retain(|finding| finding.broken().next().is_some());
            for finding in &findings {
                write_set(folder, finding)?;
            }
        }
        let text = format!("{summary}{}", Findings(&findings));
        show(self.json, &findings, text)
    }

    fn search(&self) -> anyhow::Result<Vec<Finding>> {
        let config = self.bond.config();
        let mut progress = std::io::stderr();
        let mut findings = Vec::new();
        for seed in self.seed..self.seed.saturating_add(self.count) {
            let finding = hunt::try_seed(seed, &config);
            for kept in finding.broken() {
                let (name, share, figures) = (kept.promise.name(), kept.share, &kept.figures);
                writeln!(progress, "seed {seed}: {name} {share} ({figures})")?;
            }
            findings.push(finding);
        }
        Ok(findings)
    }
}

/// How often each promise was asked for and broken, and by how much in all.
fn summary(findings: &[Finding]) -> String {
    let mut text = String::new();
    for promise in Promise::ALL {
        let shares: Vec<u64> = findings
            .iter()
            .flat_map(|finding| &finding.outcomes)
            .filter(|kept| kept.promise == promise)
            .map(|kept| kept.share)
            .collect();
        let lacks: Vec<u64> = shares
            .iter()
            .map(|share| 1000_u64.saturating_sub(*share))
            .collect();
        let broken = lacks.iter().filter(|lack| **lack > 0).count();
        text += &format!(
            "{:<8} broken {broken} times of {}, by {} thousandths in all\n",
            promise.name(),
            shares.len(),
            lacks.iter().sum::<u64>()
        );
    }
    text
}

fn write_set(folder: &Path, finding: &Finding) -> anyhow::Result<()> {
    let (text, _) = hunt::text(finding.seed);
    let comments: String = finding
        .broken()
        .map(|kept| format!("# Breaks `{}`: {}.\n", kept.promise.name(), kept.figures))
        .collect();
    let path = folder.join(format!("hunt-{}.toml", finding.seed));
    std::fs::write(&path, format!("{comments}{text}"))
        .with_context(|| format!("cannot write {}", path.display()))
}
