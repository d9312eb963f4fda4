//! Links without limits: what the machine can carry, and what each process pays for it.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use hawser_types::ByteCount;
use serde::Serialize;

use crate::commands::print;
use crate::cpu;
use crate::interrupt::TemporaryFolder;
use crate::measure::{
    Bench, Machine, Programs, Session, StepError, aligned, median, own_program, wait_for_port,
};
use crate::meter::{Congestion, Order};
use crate::process::Program;
use crate::scenario::Direction;
use crate::topology::{Lab, SERVER};

/// What to measure.
#[derive(Debug)]
pub(crate) struct Options {
    /// Bytes of each transfer.
    pub(crate) bytes: ByteCount,
    /// How often each.
    pub(crate) repeat: u32,
    /// Which ways.
    pub(crate) directions: Vec<Direction>,
    /// The Hawser binary, when it is to be measured.
    pub(crate) hawser: Option<Programs>,
    /// Print JSON.
    pub(crate) json: bool,
    /// Also write JSON into this folder.
    pub(crate) out: Option<PathBuf>,
}

/// One kind of transfer in one direction.
#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Row {
    direction: Direction,
    by: &'static str,
    /// Median goodput.
    gbps: Option<f64>,
    /// Median processor seconds per 10^9 bytes of payload, by process.
    cpu_per_gigabyte: BTreeMap<&'static str, f64>,
    failures: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
struct Report {
    scenario: &'static str,
    machine: Machine,
    repeat: u32,
    payload: u64,
    rows: Vec<Row>,
}

/// Measures plain TCP, MPTCP, two relays and Hawser over two virtual cables.
pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let folder = TemporaryFolder::create()?;
    let bench = Bench::new(Lab::unshaped(LINKS)?, folder.path())?;
    let mut rows = Vec::new();
    for &direction in &options.directions {
        let bytes = options.bytes;
        let plain = |congestion| bench.tcp_order(0, congestion, direction, bytes);
        rows.push(row(options, &bench, "tcp", &plain(Congestion::Cubic), &[]));
        rows.push(row(
            options,
            &bench,
            "tcp bbr",
            &plain(Congestion::Bbr),
            &[],
        ));
        if bench.lab().speaks_mptcp() {
            let order = bench.mptcp_order(Congestion::Cubic, direction, bytes);
            rows.push(row(options, &bench, "mptcp", &order, &[]));
        }
        rows.push(relayed(options, &bench, direction));
        if let Some(programs) = &options.hawser {
            rows.push(bonded(options, &bench, direction, programs));
        }
    }
    let failed = rows.iter().any(|row| !row.failures.is_empty());
    let report = Report {
        scenario: "unshaped",
        machine: Machine::of_this(),
        repeat: options.repeat,
        payload: options.bytes.as_u64(),
        rows,
    };
    if let Some(folder) = &options.out {
        std::fs::create_dir_all(folder)?;
        std::fs::write(
            folder.join("unshaped.json"),
            serde_json::to_vec_pretty(&report)?,
        )?;
    }
    if options.json {
        print(&serde_json::to_string(&report)?)?;
    } else {
        print(&render(&report))?;
    }
    Ok(if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// Plain TCP through a relay on either host, the least that any proxy pair can cost.
fn relayed(options: &Options, bench: &Bench, direction: Direction) -> Row {
    let by = "two relays";
    let start = || -> Result<[Program; 2], StepError> {
        let relay =
            |host: &crate::netns::NetNs, name: &str, from: SocketAddrV4, to: SocketAddrV4| {
                let mut command = host.command(own_program()?);
                command.args(["meter", "relay", &from.to_string(), &to.to_string()]);
                let log = bench.folder().join(format!("{name}.log"));
                let mut program = Program::start(name, command, &log)?;
                wait_for_port(&mut program, from, host)?;
                Ok::<_, StepError>(program)
            };
        let lab = bench.lab();
        let far = relay(lab.server(), "server relay", FAR, bench.server_address())?;
        let near = relay(lab.client(), "client relay", NEAR, FAR)?;
        Ok([near, far])
    };
    match start() {
        Err(error) => failed_row(direction, by, &error),
        Ok([near, far]) => {
            let order = Order {
                server: NEAR,
                ..bench.plain_order(direction, options.bytes)
            };
            let watched = [("client proxy", near.id()), ("server proxy", far.id())];
            row(options, bench, by, &order, &watched)
        }
    }
}

fn bonded(options: &Options, bench: &Bench, direction: Direction, programs: &Programs) -> Row {
    let number = direction as u32;
    match Session::start(bench, programs, number) {
        Err(error) => failed_row(direction, "hawser", &error),
        Ok(session) => {
            let [client, gateway] = session.ids();
            let order = bench.socks_order(session.socks(), direction, options.bytes);
            let watched = [("client proxy", client), ("server proxy", gateway)];
            row(options, bench, "hawser", &order, &watched)
        }
    }
}

fn failed_row(direction: Direction, by: &'static str, error: &StepError) -> Row {
    Row {
        direction,
        by,
        gbps: None,
        cpu_per_gigabyte: BTreeMap::new(),
        failures: vec![error.to_string()],
    }
}

/// Makes one kind of transfer several times, with an eye on the processes that carry it.
fn row(
    options: &Options,
    bench: &Bench,
    by: &'static str,
    order: &Order,
    carriers: &[(&'static str, u32)],
) -> Row {
    let mut watched = carriers.to_vec();
    watched.push(("meter server", bench.meter_id()));
    let gigabytes = order.bytes as f64 / 1e9;
    let (mut speeds, mut failures) = (Vec::new(), Vec::new());
    let mut costs: BTreeMap<&'static str, Vec<f64>> = BTreeMap::new();
    for _ in 0..options.repeat {
        let used = |process: u32| cpu::of(process).unwrap_or_default();
        let before: Vec<_> = watched.iter().map(|(_, process)| used(*process)).collect();
        match bench.transfer(order, LIMIT, &[]) {
            Err(error) => failures.push(error.to_string()),
            Ok(outcome) => {
                eprintln!(
                    "  {} {by:<12} {:>7.2} Gbit/s",
                    order.direction.name(),
                    outcome.mbps / 1e3
                );
                speeds.push(outcome.mbps / 1e3);
                for ((name, process), before) in watched.iter().zip(before) {
                    let spent = used(*process).saturating_sub(before).as_secs_f64();
                    costs.entry(name).or_default().push(spent / gigabytes);
                }
                let client = costs.entry("meter client").or_default();
                client.push(outcome.cpu_seconds / gigabytes);
            }
        }
    }
    let medians = costs.into_iter();
    Row {
        direction: order.direction,
        by,
        gbps: median(speeds.into_iter()),
        cpu_per_gigabyte: medians
            .filter_map(|(name, costs)| Some((name, median(costs.into_iter())?)))
            .collect(),
        failures,
    }
}

fn render(report: &Report) -> String {
    let processes = [
        "meter client",
        "client proxy",
        "server proxy",
        "meter server",
    ];
    let mut header = vec![String::new(), "transfer".to_owned(), "Gbit/s".to_owned()];
    header.extend(processes.map(str::to_owned));
    header.push("all".to_owned());
    let mut rows = vec![header];
    for row in &report.rows {
        let show = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{v:.2}"));
        let mut line = vec![
            row.direction.name().to_owned(),
            row.by.to_owned(),
            show(row.gbps),
        ];
        let cost = |name: &&str| row.cpu_per_gigabyte.get(*name).copied();
        line.extend(processes.iter().map(|name| show(cost(name))));
        line.push(show(processes.iter().filter_map(cost).reduce(|a, b| a + b)));
        rows.push(line);
    }
    let mut text = format!(
        "unshaped: {} over {LINKS} virtual cables, offloads on, median of {}; processor seconds \
         per GB of payload, by process (kernel {}, {} cores)\n\n",
        ByteCount::new(report.payload),
        report.repeat,
        report.machine.kernel,
        report.machine.cores
    );
    text.push_str(&aligned(&rows));
    for row in &report.rows {
        for failure in &row.failures {
            text.push_str(&format!(
                "failed: {} {}: {failure}\n",
                row.direction.name(),
                row.by
            ));
        }
    }
    text
}

const LINKS: usize = 2;
const NEAR: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 5100);
const FAR: SocketAddrV4 = SocketAddrV4::new(SERVER, 5100);
const LIMIT: Duration = Duration::from_secs(180);
