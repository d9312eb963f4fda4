use std::fmt::{self, Display};

use super::DyingReport;

/// Cells of dying links, one a line, and how many are as good as they should be.
#[derive(Debug)]
pub struct DyingTable<'a> {
    reports: &'a [DyingReport],
    lines: usize,
}

impl<'a> DyingTable<'a> {
    /// The first `lines` reports, or all.
    pub fn new(reports: &'a [DyingReport], lines: Option<usize>) -> Self {
        let lines = lines.unwrap_or(reports.len());
        Self { reports, lines }
    }
}

impl Display for DyingTable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<8} {:>5} {:<5} {:>4} {:<7} {:>5} {:<4} {:<3} {:>8} {:>8} {:>6} {:>7} {:>9} {:>9} {:>6}",
            "work",
            "rate",
            "queue",
            "loss",
            "dies",
            "links",
            "",
            "",
            "goodput",
            "healthy",
            "ratio",
            "silence",
            "p99",
            "healthy",
            "ratio"
        )?;
        for report in self.reports.iter().take(self.lines) {
            let cell = &report.cell;
            let least = |list: &[u64]| list.iter().min().copied();
            writeln!(
                f,
                "{:<8} {:>5} {:<5} {:>4} {:<7} {:>5} {:<4} {:<3} {:>8} {:>8} {:>6} {:>7} {:>9} {:>9} {:>6}",
                cell.work.name(),
                cell.rate,
                cell.queue.name(),
                cell.loss,
                cell.dies.name(),
                format!("{}/{}", cell.dying, cell.dying + 1),
                cell.transport.name(),
                cell.direction.name(),
                Shown(least(&report.all.goodputs)),
                Shown(least(&report.healthy.goodputs)),
                Shown(report.of_healthy()),
                report.all.silence,
                Shown(report.all.p99),
                Shown(report.healthy.p99),
                Shown(report.p99_of_healthy()),
            )?;
        }
        let kept = self.reports.iter().filter(|it| it.is_kept()).count();
        writeln!(f, "kept: {kept} of {} cells", self.reports.len())?;
        writeln!(
            f,
            "rate and goodput in kbit/s, loss in hundredths, ratios in thousandths, silence in ms, p99 in us"
        )
    }
}

/// A number, or a dash for one that is not known.
#[derive(Debug)]
pub struct Shown(pub Option<u64>);

impl Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(number) => number.fmt(f),
            None => "-".fmt(f),
        }
    }
}
