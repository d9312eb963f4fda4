use std::fmt::{self, Display};

use hawser_scenario::figures::{Mean, Trial};

use crate::connections::Report;

/// Workloads, one method a line, with a heading for each set of links.
#[derive(Debug)]
pub struct Connections<'a>(pub &'a [Report]);

impl Display for Connections<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut last = None;
        for report in self.0 {
            let place = (&report.scenario, &report.value);
            if last != Some(place) {
                last = Some(place);
                heading(f, report)?;
            }
            line(f, report)?;
        }
        writeln!(
            f,
            "throughput in kbit/s, times in ms, ± half of the 95 % interval of the mean over the runs"
        )
    }
}

fn heading(f: &mut fmt::Formatter<'_>, report: &Report) -> fmt::Result {
    write!(f, "{}", report.scenario)?;
    if !report.key.is_empty() {
        write!(f, ", {} {}", report.key, report.value)?;
    }
    writeln!(f, ", {} runs", report.trials.len())?;
    write!(
        f,
        "  {:<23}{:>14}{:>9}{:>11}",
        "", "throughput", "/optimal", "/reachable"
    )?;
    for application in &report.applications {
        let mean = format!("{application} mean");
        write!(f, "{mean:>18}{:>16}", "p95")?;
    }
    writeln!(f)
}

fn line(f: &mut fmt::Formatter<'_>, report: &Report) -> fmt::Result {
    let throughput = report.mean(|trial| trial.throughput);
    let share = |whole: fn(&Trial) -> f64| throughput.mean / report.mean(whole).mean;
    write!(f, "  {:<23}{:>14}", report.method, Shown(throughput))?;
    let shares = [share(|trial| trial.optimal), share(|trial| trial.reachable)];
    write!(f, "{:>9.3}{:>11.3}", shares[0], shares[1])?;
    for number in 0..report.applications.len() {
        let mean = report.mean(|trial: &Trial| trial.applications[number].mean);
        let p95 = report.mean(|trial: &Trial| trial.applications[number].p95);
        write!(f, "{:>18}{:>16}", Shown(mean), Shown(p95))?;
    }
    let unfinished: usize = report.trials.iter().map(|trial| trial.unfinished).sum();
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
