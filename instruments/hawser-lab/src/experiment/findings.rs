//! Reports of experiments: their headers, their text, their criteria.

use std::path::Path;

use hawser_monitor::report::Chart;
use serde::Serialize;

use crate::verdict::{self, Verdict};

/// A report of an experiment.
pub(crate) trait Findings: Serialize {
    /// Returns the head of the report.
    fn head(&self) -> &Head;

    /// The figures as text.
    fn table(&self) -> String;

    /// Returns the charts of the report.
    fn charts(&self) -> Vec<Chart> {
        Vec::new()
    }

    /// A line for each measurement that failed: its name and the error.
    fn failures(&self) -> Vec<String>;

    /// Number of measurements that failed.
    fn failure_count(&self) -> usize {
        self.failures().len()
    }

    /// Returns the bounds, and whether they are met.
    fn verdicts(&self) -> &[Verdict] {
        &[]
    }

    /// The report as text, without the verdicts.
    fn render(&self) -> String {
        let mut text = self.table();
        for failure in self.failures() {
            text.push_str(&format!("failed: {failure}\n"));
        }
        text
    }

    /// The verdicts as text.
    fn judgement(&self) -> String {
        let name = self.head().scenario.as_str();
        verdict::lines(self.verdicts().iter().map(|verdict| (name, verdict)))
    }

    /// All reports as one text.
    fn summary(all: &[Self]) -> String
    where
        Self: Sized,
    {
        let mut text: String = all.iter().map(Self::judgement).collect();
        for report in all.iter().filter(|report| report.failure_count() > 0) {
            let (name, count) = (&report.head().scenario, report.failure_count());
            text.push_str(&format!("{name}: {count} measurements failed\n"));
        }
        text
    }
}

/// The failures of a part of a report, each behind the name of the part.
pub(crate) fn named(name: &str, failures: &[String]) -> Vec<String> {
    let lines = failures.iter();
    lines.map(|failure| format!("{name}: {failure}")).collect()
}

/// The first part of every report.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Head {
    /// The command that made it.
    pub experiment: &'static str,
    /// The scenario's name.
    pub scenario: String,
    /// The command line, with the arguments that say what was measured.
    pub command: String,
    /// Seconds since 1970.
    pub unix_time: u64,
    /// Kernel release of the machine that measured.
    pub kernel: String,
    /// Its processor cores in use.
    pub cores: usize,
}

impl Head {
    /// The head of a report that is made now.
    pub(crate) fn new(experiment: &'static str, scenario: &str) -> Self {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease");
        Self {
            experiment,
            scenario: scenario.to_owned(),
            command: command(std::env::args().skip(1)),
            unix_time: now.map_or(0, |since| since.as_secs()),
            kernel: kernel.unwrap_or_default().trim().to_owned(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }

    /// The first lines of a report as text.
    pub(crate) fn title(&self, what: &str) -> String {
        format!(
            "{} {}: {what} (kernel {}, {} cores)\n\n",
            self.experiment, self.scenario, self.kernel, self.cores
        )
    }
}

/// The arguments without those that name places of this machine.
fn command(arguments: impl Iterator<Item = String>) -> String {
    let mut words = vec!["hawser-lab".to_owned()];
    let mut is_place = false;
    for word in arguments {
        let names_one = PLACES.contains(&word.as_str());
        let holds_one = PLACES
            .iter()
            .any(|place| word.starts_with(&format!("{place}=")));
        if !(names_one || holds_one || is_place) {
            let file = Some(Path::new(&word)).filter(|file| file.is_absolute());
            let file = file.and_then(Path::file_name);
            let file = file.map(|name| name.to_string_lossy());
            words.push(file.map_or(word.clone(), |name| format!("scenarios/{name}")));
        }
        is_place = names_one;
    }
    words.join(" ")
}

const PLACES: [&str; 4] = ["--out", "--html", "--logs", "--hawser"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_in_a_report_names_no_place_of_this_machine() {
        let words = "run hunt/long-fat.toml /home/x/eq-50.toml --out /tmp/y --repeat 3 --logs=/tmp/z --hawser h";
        let kept = command(words.split(' ').map(str::to_owned));
        assert_eq!(
            kept,
            "hawser-lab run hunt/long-fat.toml scenarios/eq-50.toml --repeat 3"
        );
    }
}
