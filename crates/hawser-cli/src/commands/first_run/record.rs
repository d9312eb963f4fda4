//! What `hawser setup` has done, so that it can be taken back. Each step is written down before it
//! is done.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use hawser_net::replace_if_changed;
use hawser_net::store::{StateDir, StateFile};
use serde::{Deserialize, Serialize};

use crate::args::Undo;

/// A step, with what was there before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "kebab-case")]
pub(super) enum Step {
    /// Enrolled with the gateway of this key.
    Gateway { key: String },
    /// Changed the configuration.
    Config {
        file: PathBuf,
        /// Its text before; none where there was no file.
        before: Option<String>,
        /// And after.
        after: String,
    },
    /// Made a file of the service manager's.
    Unit {
        file: PathBuf,
        text: String,
        of_user: bool,
    },
    /// Had the service manager start this at boot.
    Boot { unit: String, of_user: bool },
    /// Changed the desktop's proxy settings, which were these, as commands that set them.
    Desktop { before: Vec<Vec<String>> },
}

impl Step {
    fn is(&self, which: Undo) -> bool {
        match which {
            Undo::All => true,
            Undo::Boot => matches!(self, Self::Boot { .. } | Self::Unit { .. }),
            Undo::Desktop => matches!(self, Self::Desktop { .. }),
            Undo::Config => matches!(self, Self::Config { .. }),
            Undo::Gateway => matches!(self, Self::Gateway { .. }),
        }
    }
}

/// The steps that were not taken back, in their order.
pub(super) struct Record {
    path: PathBuf,
    steps: Vec<Step>,
}

impl Record {
    pub(super) fn open(state: &StateDir) -> anyhow::Result<Self> {
        // What root takes back must not be said by a service, whose the state directory is.
        let path = if state.is_system() {
            PathBuf::from(RECORD_OF_ROOT)
        } else {
            state.file(StateFile::Setup.name())
        };
        let steps = match fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text).with_context(|| damaged(&path))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        };
        Ok(Self { path, steps })
    }

    /// Writes down a step that is done next; one that stands here already stays as it is.
    pub(super) fn add(&mut self, step: Step) -> anyhow::Result<()> {
        if self.steps.contains(&step) {
            return Ok(());
        }
        self.steps.push(step);
        self.write()
    }

    /// Whether this file of the service manager's is an earlier run's, with this text.
    pub(super) fn has_made(&self, file: &Path, text: &str) -> bool {
        let is_it = |step: &Step| match step {
            Step::Unit {
                file: made,
                text: with,
                ..
            } => made == file && with == text,
            _ => false,
        };
        self.steps.iter().any(is_it)
    }

    pub(super) fn newest_first(&self, which: Undo) -> Vec<Step> {
        let its = self.steps.iter().rev().filter(|step| step.is(which));
        its.cloned().collect()
    }

    pub(super) fn forget(&mut self, step: &Step) -> anyhow::Result<()> {
        self.steps.retain(|it| it != step);
        self.write()
    }

    fn write(&self) -> anyhow::Result<()> {
        let text = serde_json::to_vec_pretty(&self.steps)?;
        Ok(replace_if_changed(&self.path, &text)?)
    }
}

fn damaged(path: &Path) -> String {
    let (path, then) = (path.display(), StateFile::Setup.without_it());
    format!("{path} is damaged; put back a copy, or move it away: then {then}")
}

const RECORD_OF_ROOT: &str = "/var/lib/hawser-setup.json";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_kept_until_they_are_taken_back() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::resolve(Some(folder.path().to_path_buf())).unwrap();
        let gateway = Step::Gateway { key: "k".into() };
        let boot = Step::Boot {
            unit: "hawser-up.service".into(),
            of_user: false,
        };
        let mut record = Record::open(&state).unwrap();
        record.add(gateway.clone()).unwrap();
        record.add(boot.clone()).unwrap();
        record.add(gateway.clone()).unwrap();
        let mut record = Record::open(&state).unwrap();
        assert_eq!(
            record.newest_first(Undo::All),
            [boot.clone(), gateway.clone()]
        );
        assert_eq!(record.newest_first(Undo::Boot), std::slice::from_ref(&boot));
        record.forget(&boot).unwrap();
        let record = Record::open(&state).unwrap();
        assert_eq!(record.newest_first(Undo::All), [gateway]);
    }
}
