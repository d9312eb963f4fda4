//! Small requests on one open connection, one after another, alone and beside a bulk transfer:
//! how long does an answer take?

mod phase;
mod table;

use std::path::{Path, PathBuf};

use serde::Serialize;

use self::phase::Subject;
use crate::contender::Contender;
use crate::emulator::Counters;
use crate::experiment::{Findings, Head};
use crate::measure::{Programs, quickest_link};
use crate::meter;
use crate::scenario::{Direction, Scenario};
use crate::statistics::Spread;

/// What to do.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The scenario file
    #[arg(default_value = "scenarios/lossy-both.toml")]
    pub(crate) scenario: PathBuf,
    /// How many requests, one after another
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) count: u32,
    /// How often each phase, each time with other random numbers
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) repeat: u32,
    /// Bytes of a request and of its answer
    #[arg(
        long,
        default_value_t = 100,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(meter::MAX_ECHO))
    )]
    pub(crate) size: u32,
    /// Leave plain TCP out
    #[arg(long)]
    pub(crate) only_hawser: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct RequestReport {
    #[serde(flatten)]
    head: Head,
    count: u32,
    repeat: u32,
    size: u32,
    /// The link with the shortest round trip, from 1; plain TCP uses it alone.
    better_link: usize,
    /// Its round trip when nothing waits, from the scenario.
    base_rtt_seconds: f64,
    phases: Vec<Phase>,
}

/// All requests of one contender beside one kind of bulk.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Phase {
    by: String,
    /// Which way the bulk went; nothing without bulk.
    bulk: Option<Direction>,
    /// Of all runs together; nothing when no answer came.
    rtt_seconds: Option<Spread>,
    p99_over_base_rtt: Option<f64>,
    runs: Vec<Run>,
}

/// A phase gone through once.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Run {
    /// Of the scenario's loss and of the pauses.
    seed: u64,
    /// What passed each link meanwhile in the bulk's direction, in Mbit/s with all headers.
    link_mbps: Vec<f64>,
    failure: Option<String>,
    /// What the emulator did in the run's lab; nothing when there was none.
    emulator: Option<Counters>,
    /// What client and gateway have counted; empty without Hawser.
    hawser: std::collections::BTreeMap<String, u64>,
    /// Every round trip in seconds, in order.
    samples: Vec<f64>,
}

/// Measures every contender without bulk and beside bulk either way, with logs in `folder`.
pub(crate) fn run(
    scenario: &Scenario,
    options: &Options,
    programs: &Programs,
    folder: &Path,
) -> anyhow::Result<RequestReport> {
    let (better, base_rtt) = quickest_link(scenario);
    let mut phases = Vec::new();
    for contender in Contender::all(options.only_hawser, Contender::tcp) {
        for bulk in [None, Some(Direction::Put), Some(Direction::Get)] {
            let subject = Subject {
                scenario,
                options,
                programs,
                contender,
                bulk,
                better,
            };
            phases.push(Phase::of(&subject, folder, base_rtt.as_secs_f64()));
        }
    }
    Ok(RequestReport {
        head: Head::new("request", &scenario.name),
        count: options.count,
        repeat: options.repeat,
        size: options.size,
        better_link: better + 1,
        base_rtt_seconds: base_rtt.as_secs_f64(),
        phases,
    })
}

impl Findings for RequestReport {
    fn head(&self) -> &Head {
        &self.head
    }

    fn render(&self) -> String {
        table::render(self)
    }

    fn failures(&self) -> usize {
        let runs = self.phases.iter().flat_map(|phase| &phase.runs);
        runs.filter(|run| run.failure.is_some()).count()
    }
}

impl Phase {
    fn of(subject: &Subject<'_>, folder: &Path, base_rtt: f64) -> Self {
        let bulk = subject.bulk.map_or("none", Direction::name);
        let runs: Vec<_> = (0..subject.options.repeat)
            .map(|number| {
                let contender = subject.contender;
                eprintln!("{contender}, bulk: {bulk}, run {}", number + 1);
                // What one run leaves in queues and buffers must not reach the next.
                let name = format!("{contender}-{bulk}-{}", number + 1).replace(' ', "-");
                subject.run(&folder.join(name), number)
            })
            .collect();
        let samples: Vec<_> = runs.iter().flat_map(|run| run.samples.clone()).collect();
        let rtt_seconds = Spread::of(&samples);
        Self {
            by: subject.contender.to_string(),
            bulk: subject.bulk,
            rtt_seconds,
            p99_over_base_rtt: rtt_seconds
                .filter(|_| base_rtt > 0.0)
                .map(|spread| spread.p99 / base_rtt),
            runs,
        }
    }
}
