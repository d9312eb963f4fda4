//! Hosts without Hawser behind a router with several links: TCP, QUIC, calls and name queries of
//! all of them at the same time, and the fairness of their shares.

mod hosts;
mod quic;
mod report;
mod work;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub(crate) use self::hosts::{Hosts, host};
use self::report::{Load, RouterReport, ShareRow};
use self::work::{Asked, Servers, ask_names, call, download};
use crate::captured::{Capture, Captured, Setup};
use crate::experiment::Head;
use crate::measure::{Bench, Programs, StepError};
use crate::scenario::Scenario;
use crate::topology::Lab;

/// Options of the experiment.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Seconds of each load that count; two before them do not
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(2..=600))]
    seconds: u64,
    /// How many hosts
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u8).range(2..=100))]
    hosts: u8,
}

/// Measures one scenario, with logs in `folder`.
pub(crate) fn run(
    scenario: &Scenario,
    options: &Options,
    programs: &Programs,
    folder: &Path,
) -> anyhow::Result<RouterReport> {
    std::fs::create_dir_all(folder)?;
    let bench = Bench::new(Lab::shaped(scenario)?, folder)?;
    let network = Network {
        scenario,
        hosts: Hosts::new(bench.lab(), options.hosts)?,
        bench: &bench,
        span: Duration::from_secs(options.seconds),
    };
    let head = Head::new("router", &scenario.name);
    let mut report = RouterReport::new(head, options.hosts, options.seconds);
    for tcp_as_packets in [false, true] {
        let setup = Setup {
            capture: Capture::Lan(host(1)),
            policy: "auto",
            tcp_as_packets,
        };
        let name = if tcp_as_packets { "packets" } else { "streams" };
        let daemons = Captured::start(&bench, programs, &folder.join(name), setup);
        let daemons = match daemons {
            Ok(daemons) => daemons,
            Err(error) => {
                report.fail(name, &error);
                continue;
            }
        };
        for load in Load::ALL
            .into_iter()
            .filter(|it| it.is_as_packets() == tcp_as_packets)
        {
            match network.share(load) {
                Ok(row) => report.take(row),
                Err(error) => report.fail(load.name(), &error),
            }
        }
        drop(daemons);
    }
    bench.check_emulator()?;
    Ok(report)
}

struct Network<'a> {
    scenario: &'a Scenario,
    hosts: Hosts,
    bench: &'a Bench,
    span: Duration,
}

impl Network<'_> {
    /// One load of all hosts, each of which calls and asks for names besides.
    fn share(&self, load: Load) -> Result<ShareRow, StepError> {
        let servers = Servers::new(self.bench.lab())?;
        let stop = AtomicBool::new(false);
        let row = std::thread::scope(|scope| {
            scope.spawn(|| servers.serve(&stop));
            let row = self.with_calls(load);
            stop.store(true, Ordering::Relaxed);
            row
        })?;
        eprintln!("  {row:?}");
        Ok(row)
    }

    fn with_calls(&self, load: Load) -> Result<ShareRow, StepError> {
        let all = WARM_UP + self.span;
        std::thread::scope(|scope| {
            let others: Vec<_> = self
                .hosts
                .each()
                .map(|(_, host)| {
                    let calls = scope.spawn(move || call(host, all));
                    (calls, scope.spawn(move || ask_names(host, all)))
                })
                .collect();
            let rates = match load {
                Load::Quic => self.quic()?,
                _ => self.tcp(load)?,
            };
            let (mut calls, mut names) = (Vec::new(), Vec::new());
            for (call, name) in others {
                calls.push(joined(call)?);
                names.push(joined(name)?);
            }
            Ok(ShareRow::new(load, rates, &calls, &names))
        })
    }

    /// Mbit/s of each host.
    fn tcp(&self, load: Load) -> Result<Vec<f64>, StepError> {
        let begun = Instant::now();
        let counted = [WARM_UP, WARM_UP + self.span];
        let bytes = std::thread::scope(|scope| {
            let each = self.hosts.each().map(|(number, host)| {
                let connections = load.connections(number);
                scope.spawn(move || download(host, connections, begun, counted))
            });
            let each: Vec<_> = each.collect();
            let died = |_| std::io::Error::other("a thread of a host died");
            let done = each.into_iter().map(|it| it.join().map_err(died)?);
            done.collect::<std::io::Result<Vec<u64>>>()
        })?;
        let span = self.span.as_secs_f64();
        Ok(bytes
            .into_iter()
            .map(|it| it as f64 * 8e-6 / span)
            .collect())
    }

    fn quic(&self) -> Result<Vec<f64>, StepError> {
        quic::downloads(self.bench, self.scenario, &self.hosts, self.span)
    }
}

fn joined(
    thread: std::thread::ScopedJoinHandle<'_, std::io::Result<Asked>>,
) -> Result<Asked, StepError> {
    let died = |_| std::io::Error::other("a thread of a host died");
    Ok(thread.join().map_err(died)??)
}

/// Time until connections have found their rates.
const WARM_UP: Duration = Duration::from_secs(2);
