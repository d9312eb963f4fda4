use std::fmt::{self, Display};

use super::{Mean, Row, Trial};

/// Table of rows, one line for each method, with a heading for each set of links.
#[derive(Debug)]
pub struct Table<'a>(pub &'a [Row]);

impl Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut last = None;
        for row in self.0 {
            let place = (&row.scenario, &row.value);
            if last != Some(place) {
                last = Some(place);
                heading(f, row)?;
            }
            line(f, row)?;
        }
        writeln!(
            f,
            "throughput in kbit/s, times in ms, ± half of the 95 % interval of the mean over the runs"
        )
    }
}

fn heading(f: &mut fmt::Formatter<'_>, row: &Row) -> fmt::Result {
    write!(f, "{}", row.scenario)?;
    if !row.key.is_empty() {
        write!(f, ", {} {}", row.key, row.value)?;
    }
    writeln!(f, ", {} runs", row.trials.len())?;
    write!(
        f,
        "  {:<23}{:>14}{:>9}{:>11}",
        "", "throughput", "/optimal", "/reachable"
    )?;
    for application in &row.applications {
        let mean = format!("{application} mean");
        write!(f, "{mean:>18}{:>16}", "p95")?;
    }
    writeln!(f)
}

fn line(f: &mut fmt::Formatter<'_>, row: &Row) -> fmt::Result {
    let throughput = row.mean(|trial| trial.throughput);
    let share = |whole: fn(&Trial) -> f64| throughput.mean / row.mean(whole).mean;
    write!(f, "  {:<23}{:>14}", row.method, Shown(throughput))?;
    let shares = [share(|trial| trial.optimal), share(|trial| trial.reachable)];
    write!(f, "{:>9.3}{:>11.3}", shares[0], shares[1])?;
    for number in 0..row.applications.len() {
        let mean = row.mean(|trial: &Trial| trial.applications[number].mean);
        let p95 = row.mean(|trial: &Trial| trial.applications[number].p95);
        write!(f, "{:>18}{:>16}", Shown(mean), Shown(p95))?;
    }
    let unfinished: usize = row.trials.iter().map(|trial| trial.unfinished).sum();
    if unfinished > 0 {
        write!(f, "  {unfinished} never ended")?;
    }
    writeln!(f)
}

struct Shown(Mean);

impl Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Mean { mean, within } = self.0;
        match within {
            Some(within) => f.pad(&format!("{mean:.0} ± {within:.0}")),
            None => f.pad(&format!("{mean:.0}")),
        }
    }
}
