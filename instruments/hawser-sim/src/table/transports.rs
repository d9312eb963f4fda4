use std::fmt::{self, Display};

use super::Shown;
use crate::transports::TransportReport;

/// The transports beside each other, one transfer a line.
#[derive(Debug)]
pub struct Transports<'a>(pub &'a [TransportReport]);

impl Display for Transports<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<20} {:<4} {:<5} {:>9} {:>9} {:>9} {:>7}",
            "scenario", "", "", "tcp", "sctp", "auto", "/better"
        )?;
        for report in self.0 {
            for (index, goodputs) in report.transfers.iter().enumerate() {
                writeln!(
                    f,
                    "{:<20} {:<4} {:<5} {:>9} {:>9} {:>9} {:>7}",
                    report.scenario,
                    report.direction.name(),
                    if index == 0 { "first" } else { "later" },
                    Shown(goodputs.tcp),
                    Shown(goodputs.sctp),
                    Shown(goodputs.auto),
                    Shown(goodputs.of_better()),
                )?;
            }
        }
        writeln!(f, "goodput in kbit/s, /better in thousandths")
    }
}
