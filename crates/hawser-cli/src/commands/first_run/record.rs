//! Record of what `hawser setup` has done, so that it can be undone. Each step is recorded before
//! it is done.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use hawser_keys::replace_if_changed;
use hawser_keys::store::{StateDir, StateFile};
use serde::{Deserialize, Serialize};

use crate::args::Undo;

/// A step, with the state before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "kebab-case")]
pub(super) enum Step {
    /// Enrolled with the gateway of this key.
    Gateway { key: String },
    /// Changed the configuration.
    Config {
        file: PathBuf,
        /// Text before the change; `None` if there was no file.
        before: Option<String>,
        /// Text after the change.
        after: String,
    },
    /// Created a file for the service manager.
    Unit {
        file: PathBuf,
        text: String,
        of_user: bool,
    },
    /// Made the service manager start this unit at boot.
    Boot { unit: String, of_user: bool },
    /// Changed the desktop's proxy settings; `before` are commands that restore the old settings.
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

/// The steps that were not undone, in their order.
pub(super) struct Record {
    path: PathBuf,
    steps: Vec<Step>,
}

impl Record {
    pub(super) fn open(state: &StateDir) -> anyhow::Result<Self> {
        // The service user owns the state directory, and must not choose what root undoes.
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

    /// Records a step before it is done. Does nothing if the same step is recorded already.
    pub(super) fn add(&mut self, step: Step) -> anyhow::Result<()> {
        if self.steps.contains(&step) {
            return Ok(());
        }
        self.steps.push(step);
        self.write()
    }

    /// Returns whether an earlier run created this file for the service manager with this text.
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
