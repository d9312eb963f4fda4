use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::{Args, Subcommand};
use hawser_scenario::{Congestion, Line, Link, Loss, Scenario, Service};
use hawser_sched::packet::PacketPolicy;
use hawser_sim::packets::report::{
    ConnectionTable, PacketReport, PacketTable, RateTable, RoamTable,
};
use hawser_sim::packets::{Protocol, Run, chaos};
use hawser_types::{Rate, parse_duration};

use super::arguments::{DirectionChoice, load, no_association, show, show_breaches};

#[derive(Debug, Args)]
pub(crate) struct PacketArguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// One flow of UDP over all links, and a call beside TCP connections both ways
    Run(RunArguments),
    /// One TCP connection inside the tunnel
    Tcp(ConnectionArguments),
    /// One QUIC connection inside the tunnel
    Quic(ConnectionArguments),
    /// Loss, reordering, outages and paths that come and go, drawn from seeds: nothing may be
    /// doubled, stuck or out of order beyond the rule
    Chaos {
        /// How many seeds
        #[arg(long, default_value_t = 10_000)]
        seeds: u64,
        /// The first of them
        #[arg(long, default_value_t = 0)]
        first: u64,
    },
    /// One flow of UDP while links come and go: as they are announced, and as they are not
    Roam(RoamArguments),
    /// One TCP connection while links come and go: as they are announced, and as they are not
    RoamTcp(RoamTcpArguments),
    /// The paper's figure 8: two links of 2:1, one TCP connection, policies beside each other
    Paper {
        #[command(flatten)]
        common: Common,
    },
}

#[derive(Debug, Args)]
struct Common {
    /// Policies that choose the paths
    #[arg(long, value_delimiter = ',', default_value = "auto")]
    policy: Vec<PacketPolicy>,
    /// How long packets are sent
    #[arg(long, value_name = "SPAN", default_value = "12s", value_parser = parse_duration)]
    span: Duration,
    /// The beginning that is not counted
    #[arg(long, value_name = "SPAN", default_value = "2s", value_parser = parse_duration)]
    warm_up: Duration,
    /// Draws what is random
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct RunArguments {
    /// Scenario files; what happens in them is left out
    #[arg(required = true)]
    scenarios: Vec<PathBuf>,
    /// Part of what the paths' payload allows that the flow sends
    #[arg(long, default_value_t = 0.95)]
    share: f64,
    /// Which way the packets go
    #[arg(long, default_value = "get")]
    direction: DirectionChoice,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
struct ConnectionArguments {
    /// Scenario files; what happens in them is left out
    #[arg(required = true)]
    scenarios: Vec<PathBuf>,
    /// The connection's congestion control
    #[arg(long, default_value = "cubic")]
    congestion: Congestion,
    /// Which way the payload goes
    #[arg(long, default_value = "get")]
    direction: DirectionChoice,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
struct RoamArguments {
    /// Scenario files
    #[arg(required = true)]
    scenarios: Vec<PathBuf>,
    /// What is sent; a quarter of the first link's rate when not given
    #[arg(long)]
    rate: Option<Rate>,
    /// Which way the packets go
    #[arg(long, default_value = "get")]
    direction: DirectionChoice,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
struct RoamTcpArguments {
    /// Scenario files
    #[arg(required = true)]
    scenarios: Vec<PathBuf>,
    /// The connection's congestion control
    #[arg(long, default_value = "cubic")]
    congestion: Congestion,
    /// Which way the payload goes
    #[arg(long, default_value = "get")]
    direction: DirectionChoice,
    #[command(flatten)]
    common: Common,
}

impl PacketArguments {
    pub(crate) fn execute(self) -> anyhow::Result<()> {
        match self.what {
            What::Run(arguments) => arguments.execute(),
            What::Tcp(arguments) => arguments.execute(Protocol::Tcp),
            What::Quic(arguments) => arguments.execute(Protocol::Quic),
            What::Roam(arguments) => arguments.execute(),
            What::RoamTcp(arguments) => arguments.execute(),
            What::Chaos { seeds, first } => play(first, seeds),
            What::Paper { common } => {
                let links = [("2:1 equal", 20, 20), ("2:1 20+60 ms", 20, 60)];
                let links = links.map(|(name, near, far)| {
                    (name.to_owned(), vec![link(2800, near), link(1400, far)])
                });
                common.connection(
                    &links,
                    Protocol::Tcp,
                    Congestion::Cubic,
                    DirectionChoice::Get,
                )
            }
        }
    }
}

impl RunArguments {
    fn execute(self) -> anyhow::Result<()> {
        let mut reports = Vec::new();
        for path in &self.scenarios {
            let scenario = load(path)?;
            ensure!(
                scenario.server.is_none(),
                "{}: what all links share is not modelled for packets",
                path.display()
            );
            for policy in &self.common.policy {
                for direction in self.direction.directions() {
                    let run = self.common.run(*policy, direction);
                    reports.push(self.report(&scenario, &run)?);
                }
            }
        }
        show(self.common.json, &reports, PacketTable(&reports))
    }

    fn report(&self, scenario: &Scenario, run: &Run) -> anyhow::Result<PacketReport> {
        let links = &scenario.links;
        let failed = || no_association(&scenario.name);
        let udp = run.udp(links, self.share).with_context(failed)?;
        let call = run.call(links).with_context(failed)?;
        let lone_call = run.lone_call(links).with_context(failed)?;
        let lines = || links.iter().map(|link| link.line(run.direction));
        let lost = lines().zip(&udp.placed);
        let lost: f64 = lost
            .map(|(line, bytes)| line.loss.mean * *bytes as f64)
            .sum();
        let all: u64 = udp.placed.iter().sum();
        let quickest = lines().map(|line| line.delay).min().unwrap_or_default();
        Ok(PacketReport {
            scenario: scenario.name.clone(),
            direction: run.direction.name(),
            own_loss: (lost * 1e6 / all.max(1) as f64) as u64,
            quickest: quickest.as_micros() as u64,
            udp,
            call,
            lone_call,
        })
    }
}

impl ConnectionArguments {
    fn execute(self, protocol: Protocol) -> anyhow::Result<()> {
        let mut sets = Vec::new();
        for path in &self.scenarios {
            let scenario = load(path)?;
            sets.push((scenario.name.clone(), scenario.links.clone()));
        }
        self.common
            .connection(&sets, protocol, self.congestion, self.direction)
    }
}

impl RoamArguments {
    fn execute(self) -> anyhow::Result<()> {
        let mut reports = Vec::new();
        for path in &self.scenarios {
            let scenario = load(path)?;
            for policy in &self.common.policy {
                for direction in self.direction.directions() {
                    let first = scenario.links[0].line(direction).rate.bits_per_second();
                    let rate = Rate::from_bits_per_second(first / 4);
                    let rate = self.rate.unwrap_or(rate);
                    for announced in [true, false] {
                        let run = self.common.run(*policy, direction);
                        let report = run.roam(&scenario, announced, rate);
                        let failed = || no_association(&scenario.name);
                        reports.push(report.with_context(failed)?);
                    }
                }
            }
        }
        show(self.common.json, &reports, RoamTable(&reports))
    }
}

impl RoamTcpArguments {
    fn execute(self) -> anyhow::Result<()> {
        let mut reports = Vec::new();
        for path in &self.scenarios {
            let scenario = load(path)?;
            for policy in &self.common.policy {
                for direction in self.direction.directions() {
                    for announced in [true, false] {
                        let run = self.common.run(*policy, direction);
                        let report = run.roam_tcp(&scenario, announced, self.congestion);
                        let failed = || no_association(&scenario.name);
                        reports.push(report.with_context(failed)?);
                    }
                }
            }
        }
        show(self.common.json, &reports, RateTable(&reports))
    }
}

impl Common {
    fn run(&self, policy: PacketPolicy, direction: hawser_scenario::Direction) -> Run {
        Run {
            policy,
            direction,
            span: self.span,
            warm_up: self.warm_up.min(self.span),
            seed: self.seed,
        }
    }

    fn connection(
        &self,
        sets: &[(String, Vec<Link>)],
        protocol: Protocol,
        congestion: Congestion,
        direction: DirectionChoice,
    ) -> anyhow::Result<()> {
        let mut reports = Vec::new();
        for (name, links) in sets {
            for policy in &self.policy {
                for direction in direction.directions() {
                    let run = self.run(*policy, direction);
                    let report = run.connection(links, protocol, congestion);
                    let failed = || no_association(name);
                    reports.push((name.clone(), report.with_context(failed)?));
                }
            }
        }
        show(self.json, &reports, ConnectionTable(&reports))
    }
}

/// Plays seeds, and reports those that fail.
fn play(first: u64, seeds: u64) -> anyhow::Result<()> {
    let all = first..first + seeds;
    let breaches = all.filter_map(|seed| Some((seed, chaos::play(seed).err()?)));
    let breaches: Vec<_> = breaches.collect();
    let promise = "nothing doubled, stuck or out of order beyond the rule";
    show_breaches(first, seeds, &breaches, promise)
}

/// A link of so many kbit/s, with so many ms each way.
fn link(kilobits: u64, delay: u64) -> Link {
    let line = Line {
        rate: Rate::from_bits_per_second(kilobits * 1000),
        delay: Duration::from_millis(delay),
        jitter: Duration::ZERO,
        loss: Loss {
            mean: 0.0,
            burst: None,
        },
        queue: Duration::from_millis(200),
        service: Service::Steady,
        largest_packet: None,
    };
    Link {
        up: line.clone(),
        down: line,
        behind: None,
        nat: None,
        strip: Vec::new(),
    }
}
