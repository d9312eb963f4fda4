//! Scenarios, read from files of this machine.

use std::path::Path;

pub use hawser_scenario::*;

/// Reads and checks one scenario file; traces are looked up beside it.
pub fn load(path: &Path) -> Result<Scenario, ScenarioError> {
    Scenario::load(path, &|file| std::fs::read_to_string(file))
}
