//! Packets over a cable without limits: capacity and cost of a tunnel.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::Serialize;

use super::cells;
use super::forwarded::{self, StreamRow};
use super::stage::{self, PAYLOAD, Stage};
use super::tools;
use super::wireguard::{FAR_END, WireGuard};
use crate::cpu;
use crate::experiment::{Findings, Head};
use crate::measure::{Bench, Programs, StepError, own_program};
use crate::meter::DatagramOutcome;
use crate::process::{Program, output_while};
use crate::scenario::Direction;
use crate::statistics::{Spread, median};
use crate::text_table::aligned;
use crate::topology::{Lab, SERVER};
use crate::verdict::{Asked, Verdict};

/// Options of the experiment.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct UnshapedOptions {
    /// Seconds of each flow
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(2..=600))]
    seconds: u64,
    /// Repetitions of each
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
    /// Payload that flows of UDP offer, in Mbit/s
    #[arg(long, default_value_t = 4000)]
    mbps: u64,
    /// Only TCP as streams: of a host behind the router, and of a program of the router
    #[arg(long)]
    only_forwarded: bool,
    /// A WireGuard in user space to measure beside, such as wireguard-go or boringtun-cli
    #[arg(long, value_name = "PROGRAM")]
    wireguard: Option<PathBuf>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct UnshapedPackets {
    #[serde(flatten)]
    head: Head,
    span_seconds: u64,
    repeat: u32,
    verdicts: Vec<Verdict>,
    flows: Vec<FlowRow>,
    pings: Vec<PingRow>,
    streams: Vec<StreamRow>,
    failures: Vec<String>,
}

/// One kind of flow over one carrier.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct FlowRow {
    by: &'static str,
    flow: &'static str,
    direction: Direction,
    /// Median payload that arrived, in Gbit/s, and of each repetition.
    gbps: f64,
    samples: Vec<f64>,
    /// Median share of datagrams that did not arrive; none of TCP.
    lost: Option<f64>,
    /// Median processor seconds for 10^9 bytes of payload, of the tunnel's process at each end.
    cpu_per_gigabyte: BTreeMap<&'static str, f64>,
}

/// Round trips without other traffic, in seconds.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct PingRow {
    by: &'static str,
    round_trip: Option<Spread>,
}

/// What carries packets.
enum Carrier<'a> {
    /// Nothing but the cable.
    Cable,
    Hawser(Box<Stage<'a>>),
    WireGuard(WireGuard),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Tcp,
    Udp,
}

/// One flow, measured once.
struct Sample {
    gbps: f64,
    lost: Option<f64>,
    cpu_per_gigabyte: [f64; 2],
}

/// Measures the cable alone, Hawser's tunnel and WireGuard, with logs in `folder`.
pub(crate) fn run(
    options: &UnshapedOptions,
    programs: &Programs,
    folder: &Path,
) -> anyhow::Result<UnshapedPackets> {
    std::fs::create_dir_all(folder)?;
    let mut report = UnshapedPackets {
        head: Head::new("packets-unshaped", "cable"),
        span_seconds: options.seconds,
        repeat: options.repeat,
        verdicts: Vec::new(),
        flows: Vec::new(),
        pings: Vec::new(),
        streams: Vec::new(),
        failures: Vec::new(),
    };
    if !options.only_forwarded {
        packets(options, programs, folder, &mut report)?;
    }
    let (seconds, repeat) = (options.seconds, options.repeat);
    match forwarded::measure(seconds, repeat, programs, &folder.join("forwarded")) {
        Ok(rows) => report.streams = rows,
        Err(error) => report.failures.push(format!("forwarded TCP: {error:#}")),
    }
    report.verdicts = report.judge();
    Ok(report)
}

/// Measures packets, by each carrier.
fn packets(
    options: &UnshapedOptions,
    programs: &Programs,
    folder: &Path,
    report: &mut UnshapedPackets,
) -> anyhow::Result<()> {
    let bench = Bench::new(Lab::unshaped(1)?, folder)?;
    let stage = Box::new(Stage::new(&bench, programs)?);
    let mut carriers = vec![Carrier::Cable, Carrier::Hawser(stage)];
    let mut servers = vec![server(&bench, SERVER)?];
    if let Some(program) = &options.wireguard {
        match WireGuard::start(&bench, program.as_os_str(), 0) {
            Ok(tunnel) => {
                carriers.push(Carrier::WireGuard(tunnel));
                servers.push(server(&bench, FAR_END)?);
                servers.push(stage::server(&bench, FAR_END, stage::BULK)?);
            }
            Err(error) => report.failures.push(format!("{WIREGUARD}: {error}")),
        }
    }
    let measurement = Measurement {
        options,
        bench: &bench,
    };
    for flow in [Flow::Tcp, Flow::Udp] {
        for direction in [Direction::Put, Direction::Get] {
            measurement.flows(&carriers, flow, direction, report);
        }
    }
    for carrier in &carriers {
        match measurement.ping(carrier) {
            Ok(row) => report.pings.push(row),
            Err(error) => report
                .failures
                .push(format!("{} ping: {error}", carrier.name())),
        }
    }
    Ok(())
}

struct Measurement<'a> {
    options: &'a UnshapedOptions,
    bench: &'a Bench,
}

impl Measurement<'_> {
    /// All carriers in turns: what else the machine does meanwhile falls on each of them.
    fn flows(
        &self,
        carriers: &[Carrier<'_>],
        flow: Flow,
        direction: Direction,
        report: &mut UnshapedPackets,
    ) {
        let mut samples: Vec<Vec<Sample>> = carriers.iter().map(|_| Vec::new()).collect();
        for _ in 0..self.options.repeat {
            for (carrier, samples) in carriers.iter().zip(&mut samples) {
                let name = format!("{} {} {}", carrier.name(), flow.name(), direction.name());
                match self.flow(carrier, flow, direction) {
                    Ok(sample) => {
                        eprintln!("  {name}: {:.2} Gbit/s", sample.gbps);
                        samples.push(sample);
                    }
                    Err(error) => report.failures.push(format!("{name}: {error}")),
                }
            }
        }
        for (carrier, samples) in carriers.iter().zip(&samples) {
            let row = FlowRow::of(carrier, flow, direction, samples);
            report.flows.extend(row);
        }
    }

    fn flow(
        &self,
        carrier: &Carrier<'_>,
        flow: Flow,
        direction: Direction,
    ) -> Result<Sample, StepError> {
        let seconds = self.options.seconds;
        let server = carrier.server();
        let get = direction == Direction::Get;
        let mut command = match flow {
            Flow::Tcp => carrier.command(self.bench, Path::new("iperf3"))?,
            Flow::Udp => carrier.command(self.bench, &own_program()?)?,
        };
        match flow {
            Flow::Tcp => {
                command.arg("-c").arg(server.to_string());
                command.args(["-p", &stage::BULK.to_string(), "-J", "-t"]);
                command.arg(seconds.to_string());
                command.args(get.then_some("-R"));
            }
            Flow::Udp => {
                let server = SocketAddrV4::new(server, PORT);
                command.args(["meter", "datagrams", &server.to_string(), "--mbps"]);
                command.arg(self.options.mbps.to_string());
                command.arg("--length").arg(PAYLOAD.to_string());
                command.arg("--seconds").arg(seconds.to_string());
                command.args(get.then_some("--get"));
            }
        }
        let used = |process| cpu::of(process).unwrap_or_default().as_secs_f64();
        // The processes that carry packets at the client and at the server; none where it is the
        // one that is started, or the kernel.
        let [near, far] = match carrier {
            Carrier::Cable => [None, None],
            Carrier::Hawser(stage) => [None, Some(stage.gateway())],
            Carrier::WireGuard(tunnel) => tunnel.ids().map(Some),
        };
        let before = [near, far].map(|process| process.map_or(0.0, used));
        // A program of a network of its own is carried by a process that ends with it.
        let mut started = 0.0;
        let limit = Duration::from_secs(seconds) + PATIENCE;
        let text = output_while(flow.name(), command, limit, |process| {
            started = f64::max(started, used(process));
        })?;
        let spent = [
            near.map_or(started, |process| used(process) - before[0]),
            far.map_or(0.0, |process| used(process) - before[1]),
        ];
        Sample::read(flow, &text, spent).ok_or_else(|| {
            let start: String = text.chars().take(200).collect();
            std::io::Error::other(format!("no figures: {start}")).into()
        })
    }

    fn ping(&self, carrier: &Carrier<'_>) -> Result<PingRow, StepError> {
        let mut command = carrier.command(self.bench, Path::new("ping"))?;
        let count = self.options.seconds * 50;
        command.args(["-n", "-i", "0.02", "-s", "172", "-c", &count.to_string()]);
        command.arg(carrier.server().to_string());
        let limit = Duration::from_secs(self.options.seconds) + PATIENCE;
        let text = output_while("ping", command, limit, |_| {})?;
        Ok(PingRow {
            by: carrier.name(),
            round_trip: Spread::of(&tools::echoes(&text).round_trips),
        })
    }
}

impl Carrier<'_> {
    fn name(&self) -> &'static str {
        match self {
            Self::Cable => CABLE,
            Self::Hawser(_) => HAWSER,
            Self::WireGuard(_) => WIREGUARD,
        }
    }

    /// The server's address inside.
    fn server(&self) -> Ipv4Addr {
        match self {
            Self::Cable | Self::Hawser(_) => SERVER,
            Self::WireGuard(_) => FAR_END,
        }
    }

    /// A program of the client, whose packets are carried.
    fn command(&self, bench: &Bench, program: &Path) -> Result<Command, StepError> {
        match self {
            Self::Cable | Self::WireGuard(_) => Ok(bench.lab().client().command(program)),
            Self::Hawser(stage) => stage.tunnelled(program),
        }
    }
}

impl Flow {
    fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        }
    }
}

impl Sample {
    fn read(flow: Flow, text: &str, spent: [f64; 2]) -> Option<Self> {
        let (mbps, bytes, lost) = match flow {
            Flow::Tcp => {
                let (mbps, bytes) = tools::tcp_total(text)?;
                (mbps, bytes, None)
            }
            Flow::Udp => {
                let outcome: DatagramOutcome = serde_json::from_str(text).ok()?;
                (outcome.mbps(), outcome.bytes as f64, Some(outcome.lost()))
            }
        };
        Some(Self {
            gbps: mbps / 1e3,
            lost,
            cpu_per_gigabyte: spent.map(|seconds| seconds / (bytes / 1e9)),
        })
    }
}

impl FlowRow {
    fn of(
        carrier: &Carrier<'_>,
        flow: Flow,
        direction: Direction,
        samples: &[Sample],
    ) -> Option<Self> {
        let middle = |of: &dyn Fn(&Sample) -> Option<f64>| median(samples.iter().filter_map(of));
        let mut cpu_per_gigabyte = BTreeMap::new();
        if !matches!(carrier, Carrier::Cable) {
            for (place, name) in ENDS.into_iter().enumerate() {
                let seconds = middle(&|sample| Some(sample.cpu_per_gigabyte[place]));
                cpu_per_gigabyte.insert(name, seconds?);
            }
        }
        Some(Self {
            by: carrier.name(),
            flow: flow.name(),
            direction,
            gbps: middle(&|sample| Some(sample.gbps))?,
            samples: samples.iter().map(|sample| sample.gbps).collect(),
            lost: middle(&|sample| sample.lost),
            cpu_per_gigabyte,
        })
    }

    /// Processor seconds of both ends.
    fn cost(&self) -> f64 {
        self.cpu_per_gigabyte.values().sum()
    }
}

impl UnshapedPackets {
    fn judge(&self) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        for row in self.flows.iter().filter(|row| row.by == HAWSER) {
            let name = |what| format!("{} {}: {what}", row.flow, row.direction.name());
            let asked = if row.flow == "tcp" { TCP } else { UDP };
            verdicts.push(Verdict::new(name("Gbit/s"), row.gbps, asked));
            let is_alike = |other: &&FlowRow| {
                other.by == WIREGUARD && other.flow == row.flow && other.direction == row.direction
            };
            if let Some(other) = self.flows.iter().find(is_alike) {
                let ratio = row.gbps / other.gbps;
                let of = Asked::AtLeast(1.0);
                verdicts.push(Verdict::new(name("Gbit/s of WireGuard's"), ratio, of));
                let ratio = row.cost() / other.cost();
                let of = Asked::AtMost(1.0);
                verdicts.push(Verdict::new(name("s/GB of WireGuard's"), ratio, of));
            }
        }
        let of = |by: &str| self.pings.iter().find(|row| row.by == by)?.round_trip;
        if let (Some(cable), Some(own)) = (of(CABLE), of(HAWSER)) {
            let what = "ping: median above the cable's, ms".to_owned();
            let above = (own.median - cable.median) * 1e3;
            verdicts.push(Verdict::new(what, above, Asked::AtMost(0.3)));
        }
        verdicts.extend(forwarded::judge(&self.streams));
        verdicts
    }
}

impl Findings for UnshapedPackets {
    fn head(&self) -> &Head {
        &self.head
    }

    fn table(&self) -> String {
        let title = format!(
            "packets over a cable without limits, {} s each, median of {}; processor seconds per GB \
             of payload of the tunnel at each end",
            self.span_seconds, self.repeat
        );
        let mut rows = vec![cells(["", "", "", "Gbit/s", "lost", "client", "server"])];
        for row in &self.flows {
            let cost = |name: &str| {
                let cost = row.cpu_per_gigabyte.get(name);
                cost.map_or("-".to_owned(), |it| format!("{it:.2}"))
            };
            rows.push(cells([
                row.flow,
                row.direction.name(),
                row.by,
                &format!("{:.2}", row.gbps),
                &row.lost
                    .map_or(String::new(), |it| format!("{:.1} %", it * 100.0)),
                &cost(ENDS[0]),
                &cost(ENDS[1]),
            ]));
        }
        rows.push(cells(["", "", "", "median, ms", "p99", "max"]));
        for row in &self.pings {
            let millis = |of: fn(&Spread) -> f64| {
                let spread = row.round_trip.as_ref();
                spread.map_or("-".to_owned(), |it| format!("{:.3}", of(it) * 1e3))
            };
            rows.push(cells([
                "ping",
                "",
                row.by,
                &millis(|it| it.median),
                &millis(|it| it.p99),
                &millis(|it| it.max),
            ]));
        }
        rows.extend(forwarded::lines(&self.streams));
        self.head.title(&title) + &aligned(&rows)
    }

    fn failures(&self) -> Vec<String> {
        self.failures.clone()
    }

    fn verdicts(&self) -> &[Verdict] {
        &self.verdicts
    }
}

/// What counts datagrams, and sends them.
fn server(bench: &Bench, address: Ipv4Addr) -> Result<Program, StepError> {
    let mut command = bench.lab().server().command(own_program()?);
    let listen = SocketAddrV4::new(address, PORT);
    command.args(["meter", "datagrams-serve", &listen.to_string()]);
    let log = bench.folder().join(format!("datagrams-{address}.log"));
    Ok(Program::start("datagrams-serve", command, &log)?)
}

const CABLE: &str = "cable";
const HAWSER: &str = "hawser";
const WIREGUARD: &str = "wireguard";
const ENDS: [&str; 2] = ["client", "server"];
const TCP: Asked = Asked::AtLeast(5.0);
const UDP: Asked = Asked::AtLeast(3.0);
const PORT: u16 = 5300;
const PATIENCE: Duration = Duration::from_secs(30);
