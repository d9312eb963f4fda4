//! Nearly dead links that still answer, beside a healthy one: cells of the simulator's matrix, with
//! real programs over real kernels.

mod report;
mod stage;

use std::path::Path;
use std::process::ExitCode;

use hawser_scenario::dying::{Cell, DyingReport, TRANSPORTS, draw};

use self::report::{Found, LabReport, Run};
use crate::experiment::{Common, Head, begin};
use crate::measure::Programs;

/// Cells and options. A transport that is asked for is that of all cells.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    common: Common,
    /// Number of cells to draw from the matrix
    #[arg(long, value_name = "N", default_value_t = 24)]
    cells: usize,
    /// Seed of the draw
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Run only these cells of the draw, by their numbers
    #[arg(long, value_name = "NUMBERS", value_delimiter = ',')]
    only: Vec<usize>,
    /// List the cells, and run none
    #[arg(long)]
    list: bool,
}

impl Arguments {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let cells = self.chosen()?;
        if self.list {
            let names = cells.iter();
            let names: String = names
                .map(|(number, cell)| format!("{number:>4} {}\n", cell.name()))
                .collect();
            crate::output::print(&names)?;
            return Ok(ExitCode::SUCCESS);
        }
        let programs = self.common.programs()?;
        begin()?;
        let place = self.common.place("dying")?;
        let found = run(&cells, &programs, place.path());
        self.common.finish(&LabReport {
            head: Head::new("dying", &self.name()),
            seed: self.seed,
            verdicts: found.iter().flat_map(Found::verdicts).collect(),
            cells: found,
        })
    }

    /// The cells to run, with their numbers in the draw, from 1.
    fn chosen(&self) -> anyhow::Result<Vec<(usize, Cell)>> {
        let asked = self.common.asked_transport();
        let transports = asked.as_ref().map_or(&TRANSPORTS[..], std::slice::from_ref);
        let drawn = draw(self.cells, self.seed, transports)?;
        for number in &self.only {
            let is_drawn = (1..=drawn.len()).contains(number);
            anyhow::ensure!(is_drawn, "no cell {number} among {} drawn", drawn.len());
        }
        let numbered = (1..).zip(drawn);
        let is_chosen = |number: &usize| self.only.is_empty() || self.only.contains(number);
        Ok(numbered.filter(|(number, _)| is_chosen(number)).collect())
    }

    fn name(&self) -> String {
        let seed = self.seed;
        match self.common.asked_transport() {
            Some(transport) => format!("seed-{seed}-{}", transport.name()),
            None => format!("seed-{seed}"),
        }
    }
}

/// Runs all cells, one after another; each over the healthy link alone just before.
fn run(cells: &[(usize, Cell)], programs: &Programs, folder: &Path) -> Vec<Found> {
    let mut all = Vec::new();
    for (done, (number, cell)) in cells.iter().enumerate() {
        eprintln!("{} of {}: {}", done + 1, cells.len(), cell.name());
        let programs = programs.clone().with_transport(Some(cell.transport));
        let mut found = Found::new(*number, *cell);
        let one = |name: &str, dying, run: &mut Run| {
            let place = folder.join(format!("{number}-{name}"));
            let figures = stage::perform(cell, dying, &programs, &place, run);
            match &figures {
                Ok(figures) => eprintln!("  {name}: {}", report::line(figures)),
                Err(error) => eprintln!("  {name}: FAILED: {error}"),
            }
            figures
        };
        let healthy = one("healthy", 0, &mut found.healthy);
        let with_all = one("all", cell.dying, &mut found.all);
        match (healthy, with_all) {
            (Ok(healthy), Ok(all)) => {
                found.report = Some(DyingReport {
                    cell: *cell,
                    all,
                    healthy,
                });
            }
            (healthy, all) => {
                let failed = [("healthy", healthy.err()), ("all", all.err())];
                let named = |(name, error): (_, Option<_>)| Some(format!("{name}: {}", error?));
                found.failures = failed.into_iter().filter_map(named).collect();
            }
        }
        eprintln!("  {}", found.word());
        all.push(found);
    }
    all
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use hawser_session::TransportChoice;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn chosen(words: &[&str]) -> anyhow::Result<Vec<(usize, Cell)>> {
        let all = ["dying"].iter().chain(words);
        Line::try_parse_from(all)?.arguments.chosen()
    }

    #[test]
    fn without_options_the_draw_has_24_cells_of_both_transports() {
        let cells = chosen(&[]).unwrap();
        assert_eq!(cells.len(), 24);
        assert_eq!(cells[23].0, 24);
        let tcp = |(_, cell): &&(usize, Cell)| cell.transport == TransportChoice::Tcp;
        assert_eq!(cells.iter().filter(tcp).count(), 12);
        assert_ne!(cells, chosen(&["--seed", "2"]).unwrap());
    }

    #[test]
    fn a_transport_that_is_asked_for_is_that_of_all_cells() {
        for name in ["tcp", "sctp", "auto"] {
            let cells = chosen(&["--transport", name]).unwrap();
            let is_asked = |(_, cell): &(usize, Cell)| cell.transport.name() == name;
            assert!(cells.iter().all(is_asked), "{name}");
        }
    }

    #[test]
    fn single_cells_are_those_of_the_same_number_in_the_draw() {
        let all = chosen(&[]).unwrap();
        assert_eq!(chosen(&["--only", "3,17"]).unwrap(), [all[2], all[16]]);
        assert_eq!(chosen(&["--cells", "3"]).unwrap(), all[..3]);
    }

    #[test]
    fn numbers_without_a_cell_are_refused() {
        let refused: [&[&str]; 5] = [
            &["--cells", "0"],
            &["--cells", "2305"],
            &["--only", "0"],
            &["--only", "25"],
            &["--transport", "udp"],
        ];
        for words in refused {
            assert!(chosen(words).is_err(), "{words:?}");
        }
    }
}
