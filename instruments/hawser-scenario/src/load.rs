//! Scenarios from files and texts.

use std::path::Path;

use crate::file;
use crate::{InvalidScenario, Point, ReadText, Scenario, ScenarioError};

impl Scenario {
    /// Reads and checks one scenario file; traces are found beside it. `read` returns the text of a
    /// file.
    pub fn load(path: &Path, read: ReadText<'_>) -> Result<Self, ScenarioError> {
        load(path, read, file::parse)
    }

    /// Reads a scenario from its text. `read` returns the text of a trace file, by its name in the
    /// scenario; [`no_files`](crate::no_files) is for a text without traces.
    pub fn parse(name: &str, text: &str, read: ReadText<'_>) -> Result<Self, InvalidScenario> {
        file::parse(name, text, read)
    }
}

impl Point {
    /// Reads and checks a file; returns a scenario for each value of its sweep, or its only one.
    /// Otherwise as [`Scenario::load`].
    pub fn load(path: &Path, read: ReadText<'_>) -> Result<Vec<Self>, ScenarioError> {
        load(path, read, file::parse_points)
    }
}

fn load<T>(
    path: &Path,
    read: ReadText<'_>,
    parse: fn(&str, &str, ReadText<'_>) -> Result<T, InvalidScenario>,
) -> Result<T, ScenarioError> {
    let text = read(path).map_err(|reason| ScenarioError::Read {
        path: path.to_owned(),
        reason,
    })?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let folder = path.parent().unwrap_or(Path::new("."));
    let beside = |trace: &Path| read(&folder.join(trace));
    parse(&name, &text, &beside).map_err(|reason| ScenarioError::Invalid {
        path: path.to_owned(),
        reason: Box::new(reason),
    })
}
