//! Compares the best link alone, the kernel's MPTCP, WireGuard over one link, and Hawser in each of
//! its modes, by effects that a user notices.

mod page;
mod report;
mod site;
mod way;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub(crate) use self::page::PageOptions;
use self::report::{CompareReport, Row};
use self::site::Site;
use self::way::Way;
use crate::experiment::Head;
use crate::interactive::Stream;
use crate::measure::{Bench, Programs, StepError, available_controls};
use crate::meter::Congestion;
use crate::scenario::{Direction, Scenario};
use crate::topology::Lab;

/// Options of the experiment.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Seconds of each transfer
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(3..=600))]
    seconds: u64,
    /// Repetitions of each way
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
    /// A WireGuard in user space, such as wireguard-go; left out where none is named
    #[arg(long, value_name = "PROGRAM")]
    wireguard: Option<PathBuf>,
}

/// Measures every way in turns, with logs in `folder`.
pub(crate) fn run(
    scenario: &Scenario,
    options: &Options,
    programs: &Programs,
    folder: &Path,
) -> anyhow::Result<CompareReport> {
    let comparison = Comparison {
        scenario,
        options,
        programs,
    };
    let speaks_mptcp = Lab::shaped(scenario)?.speaks_mptcp();
    let ways = Way::ALL.into_iter().filter(|way| match way {
        Way::Mptcp => speaks_mptcp,
        Way::WireGuard => options.wireguard.is_some(),
        _ => true,
    });
    let mut rows: Vec<Row> = ways.map(Row::new).collect();
    for number in 1..=options.repeat {
        for row in &mut rows {
            let place = folder.join(format!("{}-{number}", row.way.name()));
            if let Err(error) = comparison.go_through(row, &place) {
                row.failures.push(error.to_string());
            }
            eprintln!("  {:<16} {row}", scenario.name);
        }
    }
    Ok(CompareReport {
        head: Head::new("compare", &scenario.name),
        summary: scenario.summary.clone(),
        seconds: options.seconds,
        repeat: options.repeat,
        rows,
    })
}

struct Comparison<'a> {
    scenario: &'a Scenario,
    options: &'a Options,
    programs: &'a Programs,
}

impl Comparison<'_> {
    /// Measures one way once, in a lab of its own. What has been measured until a failure stays.
    fn go_through(&self, row: &mut Row, place: &Path) -> Result<(), StepError> {
        std::fs::create_dir_all(place)?;
        let bench = Bench::new(Lab::shaped(self.scenario)?, place)?;
        let wireguard = self.options.wireguard.as_deref();
        let mut site = Site::start(row.way, self.scenario, &bench, self.programs, wireguard)?;
        let span = Duration::from_secs(self.options.seconds);
        if row.way.learns_rates() {
            row.first.push(site.transfer(Direction::Get, None, span)?);
        }
        let downloaded = self.download(row, &site, span)?;
        row.download.push(downloaded);
        let control = row.control;
        row.upload
            .push(site.transfer(Direction::Put, control, span)?);
        if row.way.outlives_a_link() {
            row.gap.push(site.gap(control, span)?);
        }
        let delays = call(&bench, &site, control, span)?;
        row.add_delays(&delays);
        site.check_alive()?;
        bench.check_emulator()
    }

    /// A download, at first with each congestion control that may be chosen; the better one is kept
    /// for all that follows.
    fn download(&self, row: &mut Row, site: &Site<'_>, span: Duration) -> Result<f64, StepError> {
        if row.control.is_some() || !row.way.has_control() {
            return site.transfer(Direction::Get, row.control, span);
        }
        let mut best: Option<(f64, Congestion)> = None;
        for control in available_controls() {
            let rate = site.transfer(Direction::Get, Some(control), span)?;
            if best.is_none_or(|(known, _)| rate > known) {
                best = Some((rate, control));
            }
        }
        row.control = best.map(|(_, control)| control);
        Ok(best.map_or(0.0, |(rate, _)| rate))
    }
}

/// Seconds that each packet of a call takes, there and back, beside a download.
fn call(
    bench: &Bench,
    site: &Site<'_>,
    control: Option<Congestion>,
    span: Duration,
) -> Result<Vec<f64>, StepError> {
    let stream = Stream::open(bench.lab().client(), &site.echo(control))?;
    std::thread::sleep(SETTLING);
    let from = Instant::now() + SETTLING;
    site.transfer(Direction::Get, control, span + SETTLING)?;
    let until = Instant::now();
    Ok(stream.end()?.between(from, until))
}

/// Until a session is on all links; and as long as slow start fills queues, once with every way.
const SETTLING: Duration = Duration::from_secs(1);
