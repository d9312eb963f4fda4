use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use clap::Args;
use hawser_sched::chunk::ChunkPolicy;
use hawser_session::recorder::Recording;
use hawser_sim::replay::{conditions::Conditions, replay};

use super::arguments::show;

#[derive(Debug, Args)]
pub(crate) struct ReplayArguments {
    /// What `hawser why --dump` or `hawser-sim run --record` wrote
    recording: PathBuf,
    /// Ask this policy for bulk, and not the one that was recorded
    #[arg(long)]
    scheduler: Option<ChunkPolicy>,
    /// Print what the links could do meanwhile, as a scenario file, and ask no policy
    #[arg(long, conflicts_with_all = ["scheduler", "json"])]
    scenario: bool,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

impl ReplayArguments {
    pub(crate) fn execute(self) -> anyhow::Result<()> {
        let about = || format!("can't read {}", self.recording.display());
        let bytes = std::fs::read(&self.recording).with_context(about)?;
        let recording = Recording::parse(&bytes).with_context(about)?;
        if self.scenario {
            let Some(conditions) = Conditions::of(&recording) else {
                bail!("nothing was sent while it recorded, so that nothing is known of its links");
            };
            write!(std::io::stdout(), "{conditions}")?;
            return Ok(());
        }
        let report = replay(&recording, self.scheduler);
        show(self.json, &report, &report)?;
        if self.scheduler.is_none() && report.is_whole && report.same < report.decisions {
            bail!("the policy decides otherwise than it did then");
        }
        Ok(())
    }
}
