//! What happens to a transfer, and to a session at rest, when a link fails, and when it is back.

mod case;
mod table;

use std::path::Path;
use std::time::Duration;

use hawser_monitor::report::Chart;
use serde::Serialize;

use self::case::Subject;
use crate::contender::{Contender, Equipment};
use crate::experiment::{Findings, Head};
use crate::measure::{Bench, Programs, Session};
use crate::meter::Outcome;
use crate::scenario::{Action, Direction, Scenario, promise};
use crate::timeline;
use crate::topology::Lab;
use crate::verdict::{Asked, Verdict};

/// What to do.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// How often each case; the links take turns in failing
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// Only these troubles
    #[arg(long, value_delimiter = ',')]
    trouble: Vec<Trouble>,
    /// Only beside these loads
    #[arg(long, value_delimiter = ',')]
    load: Vec<Load>,
    /// Seconds before a link fails, without it, and after its return
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=600))]
    part: u64,
    /// Leave MPTCP out
    #[arg(long)]
    only_hawser: bool,
}

/// How a link fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Trouble {
    /// Everything is dropped silently, both equipment.
    BlackHole,
    /// The client's interface loses its carrier; the server sees silence.
    CarrierLoss,
    /// The client's address is replaced by another, for good.
    AddressChange,
}

/// What flows when it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Load {
    /// A transfer to the server.
    Put,
    /// A transfer to the client.
    Get,
    /// Nothing, and half a second later a request on an open connection.
    Idle,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct FailoverReport {
    #[serde(flatten)]
    head: Head,
    repeat: u32,
    part_seconds: f64,
    verdicts: Vec<Verdict>,
    cases: Vec<Case>,
}

/// One contender under one trouble and load.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Case {
    trouble: Trouble,
    load: Load,
    by: String,
    samples: Vec<Sample>,
    failures: Vec<String>,
}

/// One failure of a link.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Sample {
    /// The link that failed, from 1.
    link: usize,
    /// Under load the longest silence at the receiver; at rest the time from a request to the first
    /// byte of its answer.
    gap_seconds: f64,
    /// What is asked of that: 200 ms and a round trip of the quickest link that is left.
    allowed_seconds: f64,
    /// Under load: from the link's return (or change of address) until the receiver has half a
    /// second at 0.95 of what it had in the second before the trouble; nothing when that was never
    /// reached.
    full_rate_after: Option<f64>,
    /// The transfer, with the receiver's timeline.
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<Outcome>,
}

/// Goes through all cases of a scenario, whose own events do not happen, with logs in `folder`.
pub(crate) fn run(
    scenario: &Scenario,
    options: &Options,
    programs: &Programs,
    folder: &Path,
) -> anyhow::Result<FailoverReport> {
    anyhow::ensure!(scenario.links.len() > 1, "no link is left when one fails");
    let bench = Bench::new(Lab::shaped(scenario)?, folder)?;
    let mut session = Session::start(&bench, programs, 1)?;
    let contenders = Contender::all(options.only_hawser, || Contender::mptcp(bench.lab()));
    let part = Duration::from_secs(options.part);
    let mut cases = Vec::new();
    for &trouble in all_when_empty(&options.trouble, &Trouble::ALL) {
        for &load in all_when_empty(&options.load, &Load::ALL) {
            for &contender in &contenders {
                let subject = Subject {
                    scenario,
                    part,
                    equipment: Equipment {
                        bench: &bench,
                        session: Some(&session),
                        link: 0,
                    },
                    contender,
                    trouble,
                    load,
                };
                cases.push(Case::of(&subject, options.repeat));
            }
            // What has been measured until then stays.
            let dead = session.check_alive().err().map(|error| error.to_string());
            let own = cases.iter_mut().rfind(|case| case.is_own());
            if let (Some(dead), Some(case)) = (dead, own) {
                case.failures.push(dead);
            }
        }
    }
    Ok(FailoverReport {
        head: Head::new("failover", &scenario.name),
        repeat: options.repeat,
        part_seconds: part.as_secs_f64(),
        verdicts: cases.iter().flat_map(Case::verdicts).collect(),
        cases,
    })
}

fn all_when_empty<'a, T>(given: &'a [T], all: &'a [T]) -> &'a [T] {
    if given.is_empty() { all } else { given }
}

impl Case {
    fn of(subject: &Subject<'_>, repeat: u32) -> Self {
        let mut case = Self {
            trouble: subject.trouble,
            load: subject.load,
            by: subject.contender.to_string(),
            samples: Vec::new(),
            failures: Vec::new(),
        };
        for number in 0..repeat as usize {
            let link = number % subject.scenario.links.len();
            let name = case.name();
            match subject.run(link) {
                Ok(sample) => {
                    let gap = sample.gap_seconds * 1e3;
                    eprintln!("  {name} {}, link {}: {gap:.0} ms", case.by, sample.link);
                    case.samples.push(sample);
                }
                Err(error) => {
                    eprintln!("  {name} {}: FAILED: {error}", case.by);
                    case.failures.push(error.to_string());
                }
            }
        }
        case
    }

    fn name(&self) -> String {
        format!("{} {}", self.trouble.name(), self.load.name())
    }

    fn is_own(&self) -> bool {
        self.by == Contender::Hawser.to_string()
    }

    /// What is asked of Hawser, of the worst of all times.
    fn verdicts(&self) -> Vec<Verdict> {
        if !self.is_own() {
            return Vec::new();
        }
        let over = |sample: &Sample| sample.gap_seconds - sample.allowed_seconds;
        let worst = self.samples.iter();
        let worst = worst.max_by(|a, b| over(a).total_cmp(&over(b)));
        let mut all = Vec::new();
        if let Some(worst) = worst {
            let what = match self.load {
                Load::Idle => "first byte, s",
                Load::Put | Load::Get => "longest gap, s",
            };
            let asked = Asked::AtMost(worst.allowed_seconds);
            let what = format!("{}: {what}", self.name());
            all.push(Verdict::new(what, worst.gap_seconds, asked));
        }
        if self.load != Load::Idle
            && self.trouble != Trouble::AddressChange
            && let Some(slowest) = self.slowest_return()
        {
            let what = format!("{}: full rate after return, s", self.name());
            all.push(Verdict::new(
                what,
                slowest,
                Asked::AtMost(promise::FULL_RATE.as_secs_f64()),
            ));
        }
        all
    }

    /// Infinite when one never came back.
    fn slowest_return(&self) -> Option<f64> {
        let returns = self.samples.iter().map(|sample| sample.full_rate_after);
        returns
            .map(|after| after.unwrap_or(f64::INFINITY))
            .reduce(f64::max)
    }
}

impl Trouble {
    const ALL: [Self; 3] = [Self::BlackHole, Self::CarrierLoss, Self::AddressChange];

    fn name(self) -> &'static str {
        match self {
            Self::BlackHole => "black hole",
            Self::CarrierLoss => "carrier loss",
            Self::AddressChange => "address change",
        }
    }

    fn begin(self) -> Action {
        match self {
            Self::BlackHole => Action::BlackHole,
            Self::CarrierLoss => Action::CarrierDown,
            Self::AddressChange => Action::AddressChange,
        }
    }

    /// Nothing for what stays.
    fn end(self) -> Option<Action> {
        match self {
            Self::BlackHole => Some(Action::Pass),
            Self::CarrierLoss => Some(Action::CarrierUp),
            Self::AddressChange => None,
        }
    }
}

impl Load {
    const ALL: [Self; 3] = [Self::Put, Self::Get, Self::Idle];

    fn name(self) -> &'static str {
        match self {
            Self::Put => Direction::Put.name(),
            Self::Get => Direction::Get.name(),
            Self::Idle => "at rest",
        }
    }
}

impl Findings for FailoverReport {
    fn head(&self) -> &Head {
        &self.head
    }

    fn render(&self) -> String {
        table::render(self)
    }

    /// One for each trouble under load; of each contender the transfer with the median rate.
    fn charts(&self) -> Vec<Chart> {
        let alike = self.cases.chunk_by(|a, b| a.name() == b.name());
        let charts = alike.map(|cases| {
            let transfers = cases.iter().filter_map(|case| {
                let samples = case.samples.iter();
                let median = timeline::median(samples.filter_map(|it| it.outcome.as_ref()))?;
                Some((case.by.clone(), median.clone()))
            });
            let name = cases.first().map(Case::name).unwrap_or_default();
            timeline::chart(format!("{name}: rate over time"), transfers)
        });
        charts.filter(|chart| !chart.series.is_empty()).collect()
    }

    fn failures(&self) -> usize {
        self.cases.iter().map(|case| case.failures.len()).sum()
    }

    fn verdicts(&self) -> &[Verdict] {
        &self.verdicts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(gap_seconds: f64, allowed_seconds: f64, full_rate_after: Option<f64>) -> Sample {
        Sample {
            link: 1,
            gap_seconds,
            allowed_seconds,
            full_rate_after,
            outcome: None,
        }
    }

    fn case(trouble: Trouble, load: Load, by: &str, samples: Vec<Sample>) -> Case {
        Case {
            trouble,
            load,
            by: by.to_owned(),
            samples,
            failures: Vec::new(),
        }
    }

    #[test]
    fn the_worst_time_counts_beside_what_its_own_link_allows() {
        let samples = vec![sample(0.25, 0.3, Some(1.0)), sample(0.24, 0.22, None)];
        let found = case(Trouble::BlackHole, Load::Put, "hawser", samples).verdicts();
        assert_eq!(found[0].figure, Some(0.24));
        assert_eq!(found[0].asked, Asked::AtMost(0.22));
        assert_eq!(found[1].figure, None);
        assert!(!found[0].met && !found[1].met);
    }

    #[test]
    fn nothing_is_asked_of_others_and_no_return_of_what_stays_or_rests() {
        let of = |trouble, load, by| {
            let samples = vec![sample(0.1, 0.2, None)];
            case(trouble, load, by, samples).verdicts().len()
        };
        assert_eq!(of(Trouble::BlackHole, Load::Put, "mptcp bbr"), 0);
        assert_eq!(of(Trouble::AddressChange, Load::Get, "hawser"), 1);
        assert_eq!(of(Trouble::CarrierLoss, Load::Idle, "hawser"), 1);
        assert_eq!(of(Trouble::CarrierLoss, Load::Get, "hawser"), 2);
    }
}
