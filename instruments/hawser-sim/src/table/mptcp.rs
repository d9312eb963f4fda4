use std::fmt::{self, Display};

use super::Shown;
use crate::against_mptcp::MptcpReport;

/// Transfers beside those of MPTCP, one a line.
#[derive(Debug)]
pub struct BesideMptcp<'a>(pub &'a [MptcpReport]);

impl Display for BesideMptcp<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<20} {:<4} {:<5} {:>8} {:>8} {:>8} {:<5} {:>8} {:>6} {:>6} {:>8} {:>8} {:>6}",
            "scenario",
            "",
            "",
            "best",
            "sum",
            "mptcp",
            "",
            "hawser",
            "/mptcp",
            "/best",
            "queue",
            "hawser",
            "/mptcp"
        )?;
        for report in self.0 {
            for (index, hawser) in report.hawser.iter().enumerate() {
                writeln!(
                    f,
                    "{:<20} {:<4} {:<5} {:>8} {:>8} {:>8} {:<5} \
                     {:>8} {:>6} {:>6} {:>8} {:>8} {:>6}",
                    report.scenario,
                    report.direction.name(),
                    if index == 0 { "first" } else { "later" },
                    Shown(report.best),
                    Shown(report.sum),
                    Shown(report.mptcp.goodput),
                    report.control.name(),
                    Shown(hawser.goodput),
                    Shown(report.of_mptcp(hawser)),
                    Shown(report.of_best(hawser)),
                    report.mptcp.queue,
                    hawser.queue,
                    Shown(report.queue_of_mptcp(hawser)),
                )?;
            }
        }
        writeln!(
            f,
            "goodput in kbit/s; queue: mean time in queues in us; /: Hawser's part in thousandths"
        )
    }
}
