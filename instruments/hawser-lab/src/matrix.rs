//! The matrix: every fault, under every load, over every transport, compared with expectations.

mod case;
mod expected;
mod fault;
mod report;

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};

use hawser_scenario::no_files;
use parking_lot::Mutex;

use self::case::Case;
use self::expected::Cell;
use self::report::{Found, MatrixReport};
use crate::experiment::{Common, Head, begin};
use crate::measure::Programs;
use crate::scenario::Scenario;

/// Cells and options.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    common: Common,
    /// Cells to run, such as `silent`, `silent/put` or `silent/put/tcp`; all without this
    #[arg(long, value_name = "CELLS", value_delimiter = ',')]
    only: Vec<String>,
    /// Cells to run at once
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=16))]
    jobs: u16,
    /// List the cells, and run none
    #[arg(long)]
    list: bool,
}

impl Arguments {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let cells = chosen(expected::cells()?, &self.only)?;
        if self.list {
            let names: String = cells.iter().map(|cell| cell.name() + "\n").collect();
            crate::output::print(&names)?;
            return Ok(ExitCode::SUCCESS);
        }
        let programs = self.common.programs()?;
        begin()?;
        let place = self.common.place("matrix")?;
        let found = run(&cells, usize::from(self.jobs), &programs, place.path())?;
        self.common.finish(&MatrixReport {
            head: Head::new("matrix", "two-alike"),
            verdicts: found.iter().flat_map(Found::verdicts).collect(),
            cells: found,
        })
    }
}

/// The cells that are named; an error for a name of none.
fn chosen(cells: Vec<Cell>, only: &[String]) -> anyhow::Result<Vec<Cell>> {
    for name in only {
        let is_known = cells.iter().any(|cell| cell.is_named(name));
        anyhow::ensure!(is_known, "no cell of the matrix is called {name}");
    }
    let is_chosen = |cell: &Cell| only.is_empty() || only.iter().any(|name| cell.is_named(name));
    Ok(cells.into_iter().filter(is_chosen).collect())
}

/// Runs all cells, `jobs` at once, each in a lab of its own; results are in the cells' order.
fn run(
    cells: &[Cell],
    jobs: usize,
    programs: &Programs,
    folder: &Path,
) -> anyhow::Result<Vec<Found>> {
    let scenario = Scenario::parse("two-alike", LINKS, &no_files)?;
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                // Programs end with the thread that started them, so each cell stays on one.
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(cell) = cells.get(number) else {
                        return;
                    };
                    let case = Case::new(cell, &scenario, programs, folder);
                    let one = case.run();
                    eprintln!("  {}", one.line());
                    let mut found = found.lock();
                    found.push((number, one));
                }
            });
        }
    });
    let mut found = found.into_inner();
    found.sort_by_key(|(number, _)| *number);
    Ok(found.into_iter().map(|(_, one)| one).collect())
}

/// Slow enough that several cells can run at once on two cores.
const LINKS: &str = r#"
summary = "two links alike, for faults"
payload = "8MB"
[[link]]
rate = "8Mbit/s"
delay = "12ms"
queue = "100ms"
[[link]]
rate = "8Mbit/s"
delay = "12ms"
queue = "100ms"
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_chosen_by_the_beginning_of_their_names() {
        let count = |only: &[&str]| {
            let only: Vec<_> = only.iter().map(|name| (*name).to_owned()).collect();
            chosen(expected::cells().unwrap(), &only).map(|cells| cells.len())
        };
        assert_eq!(count(&["silent"]).unwrap(), 6);
        assert_eq!(count(&["silent/put"]).unwrap(), 3);
        assert_eq!(count(&["silent/put/tcp", "suspend"]).unwrap(), 4);
        assert!(count(&["sil"]).is_err());
    }
}
