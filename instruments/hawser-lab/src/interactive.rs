//! An interactive stream beside bulk: 64 bytes every 20 ms each way, while bulk fills the links.
//! How much later do they arrive than without it?

mod report;
mod stream;
mod table;

use std::path::Path;
use std::time::{Duration, Instant};

use hawser_types::ByteCount;

use self::report::{InteractiveReport, Phase, alone};
pub(crate) use self::stream::{BLOCK, Stream};
use crate::contender::{Contender, Equipment};
use crate::experiment::{Findings, Head, named};
use crate::measure::{Bench, Programs, StepError, limit_for, quickest_link};
use crate::scenario::{Direction, Scenario, promise};
use crate::statistics::Spread;
use crate::topology::Lab;
use crate::verdict::{Asked, Verdict};

/// Options of the experiment.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    // The stream runs as long without bulk.
    /// Seconds that bulk takes over all links
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(3..=3600))]
    seconds: u64,
    /// Repetitions of each phase
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// Leave plain TCP and MPTCP out
    #[arg(long)]
    only_hawser: bool,
}

/// Measures every contender without bulk and beside bulk either way, with logs in `folder`.
pub(crate) fn run(
    scenario: &Scenario,
    options: &Options,
    programs: &Programs,
    folder: &Path,
) -> anyhow::Result<InteractiveReport> {
    let (best, _) = quickest_link(scenario);
    let mut contenders = vec![Contender::Hawser];
    if !options.only_hawser {
        contenders.extend(Contender::tcp());
        contenders.extend(Contender::mptcp(&Lab::shaped(scenario)?));
    }
    let mut phases = Vec::new();
    for contender in contenders {
        for bulk in [None, Some(Direction::Put), Some(Direction::Get)] {
            let subject = Subject {
                scenario,
                options,
                programs,
                contender,
                bulk,
                best,
            };
            phases.push(subject.phase(folder));
        }
    }
    let jitter = scenario.links.get(best);
    let jitter = jitter.map_or(0.0, |link| {
        (link.up.jitter + link.down.jitter).as_secs_f64()
    });
    Ok(InteractiveReport {
        head: Head::new("interactive", &scenario.name),
        span_seconds: options.seconds as f64,
        repeat: options.repeat,
        best_link: best + 1,
        jitter_seconds: jitter,
        verdicts: verdicts(&phases, jitter),
        phases,
    })
}

impl Options {
    fn span(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }
}

/// One phase to measure.
#[derive(Clone, Copy, Debug)]
struct Subject<'a> {
    scenario: &'a Scenario,
    options: &'a Options,
    programs: &'a Programs,
    contender: Contender,
    bulk: Option<Direction>,
    /// The link that plain TCP uses, from 0.
    best: usize,
}

impl Subject<'_> {
    fn phase(&self, folder: &Path) -> Phase {
        let bulk = self.bulk.map_or("none", Direction::name);
        let mut phase = Phase {
            by: self.contender.to_string(),
            bulk: self.bulk,
            echo_seconds: None,
            bulk_mbps: Vec::new(),
            samples: Vec::new(),
            failures: Vec::new(),
        };
        for number in 1..=self.options.repeat {
            eprintln!("  {}, bulk: {bulk}, run {number}", phase.by);
            let place = format!("{}-{bulk}-{number}", phase.by).replace(' ', "-");
            if let Err(error) = self.measure(&folder.join(place), &mut phase) {
                phase.failures.push(error.to_string());
            }
        }
        phase.echo_seconds = Spread::of(&phase.samples);
        phase
    }

    /// Goes through the phase once, in a lab of its own: what stays in buffers does not reach the
    /// next.
    fn measure(&self, place: &Path, phase: &mut Phase) -> Result<(), StepError> {
        std::fs::create_dir_all(place)?;
        let bench = Bench::new(Lab::shaped(self.scenario)?, place)?;
        let mut session = self.contender.session(&bench, self.programs)?;
        let equipment = Equipment {
            bench: &bench,
            session: session.as_ref(),
            link: self.best,
        };
        let block = ByteCount::new(BLOCK as u64);
        let order = equipment.order(self.contender, Direction::Put, block);
        let stream = Stream::open(bench.lab().client(), &order)?;
        // Until MPTCP and Hawser are on all links.
        std::thread::sleep(SETTLING);
        let from = Instant::now();
        let until = match self.bulk {
            None => {
                std::thread::sleep(self.options.span());
                Instant::now()
            }
            Some(direction) => {
                let (order, limit) = self.bulk_order(&equipment, direction);
                let outcome = bench.transfer(&order, limit, &[])?;
                phase.bulk_mbps.push(outcome.mbps);
                Instant::now()
            }
        };
        // Slow start fills queues once with every contender.
        let from = if self.bulk.is_some() {
            from + SETTLING
        } else {
            from
        };
        phase.samples.extend(stream.end()?.between(from, until));
        if let Some(session) = &mut session {
            session.check_alive()?;
        }
        bench.check_emulator()
    }

    fn bulk_order(
        &self,
        equipment: &Equipment<'_>,
        direction: Direction,
    ) -> (crate::meter::Order, Duration) {
        let rate = match self.contender {
            Contender::Tcp(_) => self.scenario.links[self.best].line(direction).rate,
            Contender::Hawser | Contender::Mptcp(_) => self.scenario.total_rate(direction),
        };
        let bytes = rate * self.options.span();
        let limit = limit_for(bytes, rate, &[], true);
        (equipment.order(self.contender, direction, bytes), limit)
    }
}

fn verdicts(phases: &[Phase], jitter: f64) -> Vec<Verdict> {
    let own = Contender::Hawser.to_string();
    let beside = phases
        .iter()
        .filter(|phase| phase.by == own && phase.bulk.is_some());
    let judged = beside.filter_map(|phase| {
        let added = phase.added(alone(phases, phase))?;
        let bulk = phase.bulk.map_or("none", Direction::name);
        let asked = Asked::AtMost(promise::ADDED_DELAY.as_secs_f64() * 1e3 + jitter * 1e3);
        let what = format!("beside {bulk}: p99 over the median alone, ms");
        Some(Verdict::new(what, added * 1e3, asked))
    });
    judged.collect()
}

impl Findings for InteractiveReport {
    fn head(&self) -> &Head {
        &self.head
    }

    fn table(&self) -> String {
        table::render(self)
    }

    fn failures(&self) -> Vec<String> {
        let of = |phase: &Phase| named(&phase.name(), &phase.failures);
        self.phases.iter().flat_map(of).collect()
    }

    fn verdicts(&self) -> &[Verdict] {
        &self.verdicts
    }
}

const SETTLING: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(by: &str, bulk: Option<Direction>, seconds: f64) -> Phase {
        Phase {
            by: by.to_owned(),
            bulk,
            echo_seconds: Spread::of(&[seconds]),
            bulk_mbps: Vec::new(),
            samples: Vec::new(),
            failures: Vec::new(),
        }
    }

    #[test]
    fn hawser_beside_bulk_is_set_against_hawser_alone_and_the_links_jitter() {
        let put = Some(Direction::Put);
        let phases = [
            phase("tcp bbr", None, 0.5),
            phase("hawser", None, 0.02),
            phase("hawser", put, 0.055),
            phase("tcp bbr", put, 0.9),
        ];
        let of = |jitter| {
            let found = verdicts(&phases, jitter);
            assert_eq!(found.len(), 1);
            (found[0].figure.map(f64::round), found[0].met)
        };
        assert_eq!(of(0.0), (Some(35.0), false));
        assert_eq!(of(0.006), (Some(35.0), true));
    }
}
