use std::fmt::{self, Display};

use super::Shown;
use crate::association::compare::Comparison;
use crate::association::delay::DelayReport;

/// Associations beside sessions, one pair a line.
#[derive(Debug)]
pub struct Comparisons<'a>(pub &'a [Comparison]);

impl Display for Comparisons<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<20} {:<4} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>8} {:>8}",
            "scenario",
            "",
            "sum",
            "best",
            "session",
            "warm",
            "assoc.",
            "warm",
            "/session",
            "repeated"
        )?;
        for report in self.0 {
            let session = &report.session;
            let over_tcp = |n: usize| session.transfers.get(n).and_then(|it| it.goodput);
            let own = |n: usize| report.association.get(n).and_then(|it| it.goodput);
            let repeated = report.association.iter().map(|it| it.repeated).max();
            writeln!(
                f,
                "{:<20} {:<4} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>8} {:>8}",
                session.scenario,
                session.direction.name(),
                Shown(session.sum()),
                Shown(session.best()),
                Shown(over_tcp(0)),
                Shown(over_tcp(1)),
                Shown(own(0)),
                Shown(own(1)),
                Shown(report.of_session()),
                Shown(repeated.map(|bytes| bytes / 1000)),
            )?;
        }
        writeln!(
            f,
            "goodput in kbit/s; /session: warm against warm, in thousandths; repeated in kB, the larger of both transfers"
        )
    }
}

/// Delays of messages, one load a line.
#[derive(Debug)]
pub struct DelayTable<'a>(pub &'a [DelayReport]);

impl Display for DelayTable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<20} {:>4} {:>8} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>6}",
            "scenario",
            "busy",
            "messages",
            "assoc.",
            "p99",
            "goodput",
            "session",
            "p99",
            "goodput",
            "gain"
        )?;
        for report in self.0 {
            let (own, session) = (&report.association, &report.session);
            writeln!(
                f,
                "{:<20} {:>4} {:>8} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>6}",
                report.scenario,
                report.busy,
                own.messages,
                Shown(own.delay.median),
                Shown(own.delay.p99),
                own.goodput,
                Shown(session.delay.median),
                Shown(session.delay.p99),
                session.goodput,
                Shown(report.gain()),
            )?;
        }
        writeln!(
            f,
            "delays in us: median and 99th percentile; goodput of the busy streams in kbit/s; gain: the session's p99 over the\n\
             association's, in hundredths"
        )
    }
}
