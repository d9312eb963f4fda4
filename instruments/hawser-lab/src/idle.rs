//! Cost of idle daemons: memory, processor time, wake-ups, and traffic.

mod reading;
mod report;

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use self::reading::Reading;
use self::report::{IdleReport, LinkRow, ProcessRow};
use crate::captured::{Capture, Captured, Setup};
use crate::experiment::{Common, Head, begin};
use crate::measure::{Bench, Programs, Session, StepError};
use crate::topology::Lab;

/// Options of the experiment.
#[derive(Debug, clap::Args)]
pub(crate) struct IdleOptions {
    #[command(flatten)]
    common: Common,
    /// Number of virtual cables, each of which carries a path
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=8))]
    links: u8,
    /// Seconds over which is measured
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// Seconds from the last link's joining until then
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(0..=3_600))]
    settle: u64,
    /// How the client takes connections; else each way in turn
    #[arg(long, value_name = "WAY")]
    only: Option<Way>,
}

/// How a client takes connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Way {
    /// At its SOCKS and HTTP port.
    Proxy,
    /// At that port, and where programs of the host make them (`--capture system`).
    System,
}

/// A client and its gateway; both end when dropped.
enum Daemons<'a> {
    Proxy(Box<Session>),
    System(Box<Captured<'a>>),
}

impl IdleOptions {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let programs = self.common.programs()?;
        begin()?;
        let place = self.common.place("idle")?;
        let mut report = IdleReport {
            head: Head::new("idle", "cables"),
            links: self.links,
            seconds: self.seconds,
            settle: self.settle,
            verdicts: Vec::new(),
            processes: Vec::new(),
            traffic: Vec::new(),
            failures: Vec::new(),
        };
        let ways = [Way::Proxy, Way::System].into_iter();
        for way in ways.filter(|way| self.only.is_none_or(|only| only == *way)) {
            let folder = place.path().join(way.name());
            if let Err(error) = self.measure(way, &programs, &folder, &mut report) {
                report.failures.push(format!("{}: {error}", way.name()));
            }
        }
        report.judge();
        self.common.finish(&report)
    }

    /// Measures both daemons, with state and logs in `folder`.
    fn measure(
        &self,
        way: Way,
        programs: &Programs,
        folder: &Path,
        report: &mut IdleReport,
    ) -> Result<(), StepError> {
        std::fs::create_dir_all(folder)?;
        let bench = Bench::new(Lab::unshaped(self.links.into())?, folder)?;
        let mut daemons = Daemons::start(way, &bench, programs, folder)?;
        eprintln!("  {}: settling for {} s", way.name(), self.settle);
        std::thread::sleep(Duration::from_secs(self.settle));
        let ids = daemons.ids();
        eprintln!(
            "  {}: measuring processes {ids:?} for {} s",
            way.name(),
            self.seconds
        );
        let begun = Instant::now();
        let before = [Reading::of(ids[0])?, Reading::of(ids[1])?];
        std::thread::sleep(Duration::from_secs(self.seconds));
        let after = [Reading::of(ids[0])?, Reading::of(ids[1])?];
        let span = begun.elapsed().as_secs_f64();
        daemons.check_alive()?;
        for (end, (before, after)) in ENDS.into_iter().zip(before.iter().zip(&after)) {
            let row = ProcessRow::between(way.name(), end, before, after, span);
            eprintln!("  {row}");
            report.processes.push(row);
        }
        // Both ends of a cable count the same packets.
        for link in bench.lab().links() {
            let name = &link.interface;
            let counts = [&before[0], &after[0]].map(|reading| reading.traffic.get(name));
            if let [Some(before), Some(after)] = counts {
                let row = LinkRow::between(way.name(), name, *before, *after, span);
                report.traffic.push(row);
            }
        }
        Ok(())
    }
}

impl<'a> Daemons<'a> {
    /// Starts both and waits until the session has a path over each link.
    fn start(
        way: Way,
        bench: &'a Bench,
        programs: &'a Programs,
        folder: &Path,
    ) -> Result<Self, StepError> {
        Ok(match way {
            Way::Proxy => {
                let mut session = Session::start(bench, programs, 1)?;
                session.until_met(bench, programs)?;
                Self::Proxy(Box::new(session))
            }
            Way::System => {
                let setup = Setup {
                    capture: Capture::System,
                    policy: "auto",
                    tcp_as_packets: false,
                };
                let mut captured = Captured::start(bench, programs, folder, setup)?;
                captured.until_met()?;
                Self::System(Box::new(captured))
            }
        })
    }

    /// Process ids of client and gateway.
    fn ids(&self) -> [u32; 2] {
        match self {
            Self::Proxy(session) => session.ids(),
            Self::System(captured) => captured.ids(),
        }
    }

    fn check_alive(&mut self) -> std::io::Result<()> {
        match self {
            Self::Proxy(session) => session.check_alive(),
            Self::System(captured) => captured.check_alive(),
        }
    }
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Self::Proxy => "proxy",
            Self::System => "system",
        }
    }
}

/// In the order of process ids.
const ENDS: [&str; 2] = ["client", "gateway"];
