//! What `cargo xtask check` says before it starts: its steps, and about how long each takes.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::process::target_folder;

/// One of the checks.
pub(crate) struct Step {
    /// Its name, as a command of this program.
    pub(crate) name: &'static str,
    /// What it does.
    pub(crate) does: &'static str,
    /// Time that it takes on two cores with nothing built.
    pub(crate) first: Duration,
    pub(crate) run: fn() -> Result<()>,
}

/// The time that each step took when it last succeeded here.
#[derive(Default)]
pub(crate) struct Times {
    file: PathBuf,
    seconds: BTreeMap<String, u64>,
}

impl Times {
    /// Reads those of this working copy; there are none if they can't be read.
    pub(crate) fn read(root: &Path) -> Self {
        let file = target_folder(root).join("xtask-check.json");
        let text = std::fs::read(&file).unwrap_or_default();
        let seconds = serde_json::from_slice(&text).unwrap_or_default();
        Self { file, seconds }
    }

    /// Says what `steps` will do, and about how long that takes.
    pub(crate) fn announce(&self, steps: &[Step]) -> String {
        let mut said = String::from("these checks run, also after one has failed:\n");
        let (mut together, mut are_known) = (Duration::ZERO, true);
        for Step {
            name, does, first, ..
        } in steps
        {
            let last = self.seconds.get(*name).copied().map(Duration::from_secs);
            let takes = last.unwrap_or(*first);
            together += takes;
            are_known &= last.is_some();
            let _ = writeln!(said, "  {name:12} {does}: about {}", about(takes));
        }
        let why = if are_known {
            "as the last time"
        } else {
            "on two cores, if nothing is built yet"
        };
        let _ = write!(said, "about {} together, {why}", about(together));
        said
    }

    /// Notes that a step has succeeded, and in which time.
    ///
    /// # Errors
    /// The file can't be written.
    pub(crate) fn note(&mut self, step: &str, took: Duration) -> Result<()> {
        self.seconds.insert(step.to_owned(), took.as_secs());
        let text = serde_json::to_string_pretty(&self.seconds)?;
        std::fs::write(&self.file, text).with_context(|| self.file.display().to_string())
    }
}

/// A time in seconds, or in minutes if there are several.
fn about(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..=99 => format!("{} s", seconds.max(1)),
        seconds => format!("{} min", seconds.div_ceil(60)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEPS: [Step; 2] = [
        Step {
            name: "fmt",
            does: "formatting",
            first: Duration::from_secs(2),
            run: || Ok(()),
        },
        Step {
            name: "test",
            does: "all tests",
            first: Duration::from_secs(3600),
            run: || Ok(()),
        },
    ];

    #[test]
    fn steps_and_their_times_are_announced() {
        let root = std::env::temp_dir().join(format!("xtask-plan-{}", std::process::id()));
        std::fs::create_dir_all(&root).unwrap();
        let mut times = Times {
            file: root.join("times.json"),
            ..Times::default()
        };
        let said = times.announce(&STEPS);
        let lines: Vec<_> = said.lines().collect();
        assert_eq!(lines[1], "  fmt          formatting: about 2 s");
        assert_eq!(
            lines[3],
            "about 61 min together, on two cores, if nothing is built yet"
        );
        times.note("fmt", Duration::ZERO).unwrap();
        times.note("test", Duration::from_secs(99)).unwrap();
        let said = times.announce(&STEPS);
        assert!(
            said.ends_with("about 99 s\nabout 99 s together, as the last time"),
            "{said}"
        );
        std::fs::remove_dir_all(root).unwrap();
    }
}
