use std::time::Duration;

use clap::{Args, ValueEnum};
use hawser_scenario::dying::{Cell, Depth, Dies, DyingReport, DyingTable, Work};
use hawser_sim::dying;
use hawser_types::parse_duration;
use hawser_wire::TransportChoice;

use super::arguments::{Carried, DirectionChoice, show};
use crate::trace;

#[derive(Debug, Args)]
pub(crate) struct DyingArguments {
    /// What goes on: transfers of bulk, short requests, a call beside bulk
    #[arg(long, default_value = "bulk")]
    work: WorkChoice,
    /// How many links die beside a healthy one, 1 or 2
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=2))]
    dying: u8,
    /// Only cells of one transport
    #[arg(long)]
    transport: Option<Carried>,
    /// Only cells of one direction
    #[arg(long, default_value = "both")]
    direction: DirectionChoice,
    /// Only cells in which links begin to die then
    #[arg(long)]
    dies: Option<DiesChoice>,
    /// Only cells of one rate, in kbit/s: 5, 20, 60 or 200
    #[arg(long)]
    rate: Option<u64>,
    /// Only cells of one loss, in hundredths: 0, 5, 20 or 50
    #[arg(long)]
    loss: Option<u8>,
    /// Only cells with queues of 30 kB
    #[arg(long)]
    deep: bool,
    /// Print so many cells, the worst first; all by default
    #[arg(long, value_name = "COUNT")]
    worst: Option<usize>,
    /// Print how the sender and its channels stand, so often, to the error output
    #[arg(long, value_name = "SPAN", value_parser = parse_duration)]
    trace: Option<Duration>,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum WorkChoice {
    /// Transfers of bulk
    Bulk,
    /// Short requests, one after another
    Requests,
    /// A call beside bulk
    Call,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum DiesChoice {
    /// Before the session begins
    Before,
    /// During a transfer
    During,
    /// Between two transfers
    Between,
}

impl DyingArguments {
    pub(crate) fn execute(self) -> anyhow::Result<()> {
        let mut cells = Cell::all(self.work.into(), usize::from(self.dying));
        cells.retain(|cell| self.wants(cell));
        anyhow::ensure!(!cells.is_empty(), "the matrix has no such cell");
        let mut reports = dying::run(&cells, self.trace.map(trace::observer));
        reports.sort_by_key(DyingReport::badness);
        let table = DyingTable::new(&reports, self.worst);
        show(self.json, &reports, table)
    }

    fn wants(&self, cell: &Cell) -> bool {
        let transport = self.transport.map(TransportChoice::from);
        let dies = self.dies.map(Dies::from);
        self.direction.directions().contains(&cell.direction)
            && transport.is_none_or(|it| it == cell.transport)
            && dies.is_none_or(|it| it == cell.dies)
            && self.rate.is_none_or(|it| it == cell.rate)
            && self.loss.is_none_or(|it| it == cell.loss)
            && (!self.deep || cell.queue == Depth::Bytes)
    }
}

impl From<WorkChoice> for Work {
    fn from(choice: WorkChoice) -> Self {
        match choice {
            WorkChoice::Bulk => Self::Bulk,
            WorkChoice::Requests => Self::Requests,
            WorkChoice::Call => Self::Call,
        }
    }
}

impl From<DiesChoice> for Dies {
    fn from(choice: DiesChoice) -> Self {
        match choice {
            DiesChoice::Before => Self::Before,
            DiesChoice::During => Self::During,
            DiesChoice::Between => Self::Between,
        }
    }
}
