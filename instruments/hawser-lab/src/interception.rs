//! Cost of placing connections by the kernel's programs: added time of connect(2), and speed of one
//! connection.

mod asker;
mod report;
mod table;

use std::io;
use std::net::{SocketAddrV4, TcpListener};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use hawser_capture::{Capture, CaptureError, LinkEntry, RunGroup, Settings};
use hawser_types::{LinkIndex, Rate};

use self::asker::Asker;
use self::report::{Connects, InterceptionReport, Transfers};
use crate::experiment::{Findings, Head};
use crate::process::{Program, output_of};
use crate::statistics::median;
use crate::statistics::{Spread, interval_of_median};
use crate::topology::{Lab, SERVER};
use crate::verdict::{Asked, Verdict};

/// Options of the experiment.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Rounds of connections in a row, with the programs and without, in turns
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: u32,
    /// Number of connections in a row
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    connections: u32,
    /// Number of transfers with iperf3, each with the programs and without, in turns
    #[arg(long, default_value_t = 10)]
    transfers: u32,
    /// Seconds of each transfer
    #[arg(long, default_value_t = 3)]
    seconds: u32,
}

/// Figures of iperf3.
struct Transferred {
    /// Speed in Gbit/s.
    speed: f64,
    bytes: u64,
}

/// Measures over two virtual cables without limits.
pub(crate) fn run(options: &Options, folder: &Path) -> anyhow::Result<InterceptionReport> {
    let lab = Lab::unshaped(LINKS)?;
    let group = RunGroup::create()?;
    let capture = start_capture(&lab, &group)?;
    let server = serve(&lab)?;
    let mut failures = Vec::new();
    let mut connects = Vec::new();
    for protocol in ["tcp", "udp"] {
        let mut plain = Asker::start(&lab, server, None)?;
        let mut captured = Asker::start(&lab, server, Some(&group))?;
        connects.push(compare(protocol, options, &mut plain, &mut captured)?);
    }
    // Or nothing was measured.
    let counts = capture.counts()?;
    let wanted = 2 * u64::from(options.rounds * options.connections);
    anyhow::ensure!(counts.placed >= wanted, "only {} captured", counts.placed);
    let transfers = match transfer(options, &lab, &capture, &group, folder) {
        Ok(transfers) => transfers,
        Err(error) => {
            failures.push(format!("iperf3: {error:#}"));
            Transfers::default()
        }
    };
    Ok(InterceptionReport {
        head: Head::new("interception", "cables"),
        verdicts: judge(&connects, &transfers),
        connects,
        transfers,
        failures,
    })
}

impl Findings for InterceptionReport {
    fn head(&self) -> &Head {
        &self.head
    }

    fn table(&self) -> String {
        table::render(self)
    }

    fn failures(&self) -> Vec<String> {
        self.failures.clone()
    }

    fn verdicts(&self) -> &[Verdict] {
        &self.verdicts
    }
}

/// Both links of the client, for all that runs in `group`.
fn start_capture(lab: &Lab, group: &RunGroup) -> anyhow::Result<Capture> {
    let start = || {
        let mut capture = Capture::start(group.path(), &Settings::default())?;
        let links: Vec<LinkEntry> = lab
            .links()
            .iter()
            .map(|link| entry(&link.interface))
            .collect();
        capture.set_links(&links)?;
        Ok::<_, CaptureError>(capture)
    };
    let started = lab.client().run(|| Ok(start()))?;
    started.context("the programs can't be loaded")
}

/// A link of which much is known, and which is much alike the others, so that decisions take their
/// whole way. To be called in the client's namespace.
fn entry(interface: &str) -> LinkEntry {
    let index = std::ffi::CString::new(interface).map_or(0, |name| {
        // SAFETY: the name ends with a zero, and is only read.
        unsafe { libc::if_nametoindex(name.as_ptr()) }
    });
    LinkEntry {
        index: LinkIndex::new(index),
        name: interface.to_owned(),
        up: Rate::from_bits_per_second(100_000_000),
        down: Rate::from_bits_per_second(100_000_000),
        latency: Duration::from_millis(1),
        usable: true,
        ipv4: true,
        ipv6: true,
        metered: false,
    }
}

/// Accepts connections at the server, and closes them at once.
fn serve(lab: &Lab) -> io::Result<SocketAddrV4> {
    let listener = lab.server().run(|| TcpListener::bind((SERVER, 0)))?;
    let port = listener.local_addr()?.port();
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            drop(stream);
        }
    });
    Ok(SocketAddrV4::new(SERVER, port))
}

/// Makes connections both ways in turns; another one is first in each round.
fn compare(
    protocol: &'static str,
    options: &Options,
    plain: &mut Asker,
    captured: &mut Asker,
) -> io::Result<Connects> {
    let question = format!("{protocol} {}", options.connections);
    let mut all = [Vec::new(), Vec::new()];
    let mut rounds = Vec::new();
    // The first of each warm up.
    plain.ask(&question)?;
    captured.ask(&question)?;
    for round in 0..options.rounds {
        let mut both = [Vec::new(), Vec::new()];
        if round % 2 == 0 {
            both[0] = plain.ask(&question)?;
        }
        both[1] = captured.ask(&question)?;
        if round % 2 == 1 {
            both[0] = plain.ask(&question)?;
        }
        let spreads = [Spread::of(&both[0]), Spread::of(&both[1])];
        if let [Some(without), Some(with)] = spreads {
            rounds.push([without.median, without.p99, with.median, with.p99]);
        }
        for (all, some) in all.iter_mut().zip(both) {
            all.extend(some);
        }
    }
    let added = |place: usize| median(rounds.iter().map(|round| round[place + 2] - round[place]));
    Ok(Connects {
        protocol,
        plain: Spread::of(&all[0]),
        captured: Spread::of(&all[1]),
        added_to_median: added(0),
        added_to_p99: added(1),
        rounds,
    })
}

/// One connection at a time with iperf3, with the programs and without in turns. Either is in a
/// control group of its own: what the kernel accounts to one costs something by itself.
fn transfer(
    options: &Options,
    lab: &Lab,
    capture: &Capture,
    group: &RunGroup,
    folder: &Path,
) -> anyhow::Result<Transfers> {
    let mut transfers = Transfers::default();
    if options.transfers == 0 {
        return Ok(transfers);
    }
    let without = RunGroup::create()?;
    let mut server = lab.server().command("iperf3");
    server.args(["-s", "-p", IPERF_PORT]);
    let mut server = Program::start("iperf3", server, &folder.join("iperf3.log"))?;
    let deadline = Instant::now() + PATIENCE;
    while let Err(error) = iperf(lab, &without, 1) {
        server.check_alive()?;
        anyhow::ensure!(Instant::now() < deadline, error);
        std::thread::sleep(POLL);
    }
    for turn in 0..options.transfers {
        let (mut plain, mut captured) = (0.0, 0.0);
        for is_captured in [turn % 2 == 1, turn % 2 == 0] {
            if is_captured {
                captured = iperf(lab, group, options.seconds)?.speed
            } else {
                plain = iperf(lab, &without, options.seconds)?.speed
            }
        }
        eprintln!("  plain {plain:>7.2} Gbit/s, captured {captured:>7.2} Gbit/s");
        transfers.plain.push(plain);
        transfers.captured.push(captured);
    }
    let pairs = transfers.plain.iter().zip(&transfers.captured);
    let ratios: Vec<f64> = pairs.map(|(plain, captured)| captured / plain).collect();
    transfers.of_plain = median(ratios.iter().copied());
    transfers.interval = interval_of_median(&ratios);
    let count = capture.count_runs()?;
    let bytes = iperf(lab, group, options.seconds)?.bytes;
    transfers.runs = Some((count.so_far()?, bytes));
    Ok(transfers)
}

/// One transfer to the server; gives what arrived there.
fn iperf(lab: &Lab, group: &RunGroup, seconds: u32) -> anyhow::Result<Transferred> {
    let mut command = lab.client().command("iperf3");
    command.args([
        "-J",
        "-p",
        IPERF_PORT,
        "-t",
        &seconds.to_string(),
        "-c",
        &SERVER.to_string(),
    ]);
    // Each end stays on a core of its own, or what is measured is where the scheduler puts them.
    if std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1) {
        command.args(["-A", "0,1"]);
    }
    // Its server may not listen yet.
    command.args(["--connect-timeout", "3000"]);
    group.enter(&mut command)?;
    let limit = Duration::from_secs(u64::from(seconds) + 20);
    let output = output_of("iperf3", command, limit)?;
    let report: serde_json::Value = serde_json::from_str(&output)?;
    let received = &report["end"]["sum_received"];
    let speed = received["bits_per_second"].as_f64();
    let bytes = received["bytes"].as_u64();
    let both = speed.zip(bytes);
    let (speed, bytes) = both.with_context(|| format!("no speed: {}", report["error"]))?;
    Ok(Transferred {
        speed: speed / 1e9,
        bytes,
    })
}

fn judge(connects: &[Connects], transfers: &Transfers) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for connects in connects {
        for (which, added) in [
            ("median", connects.added_to_median),
            ("p99", connects.added_to_p99),
        ] {
            let what = format!("{} connect: added to the {which}, µs", connects.protocol);
            let added = added.map_or(f64::INFINITY, |added| added * 1e6);
            verdicts.push(Verdict::new(what, added, Asked::AtMost(MOST_ADDED)));
        }
    }
    if let Some(of_plain) = transfers.of_plain {
        let what = "one connection: of plain".to_owned();
        verdicts.push(Verdict::new(what, of_plain, Asked::AtLeast(LEAST_OF_PLAIN)));
    }
    if let Some((runs, _)) = transfers.runs {
        let what = "one transfer: runs of the programs".to_owned();
        verdicts.push(Verdict::new(what, runs as f64, Asked::AtMost(MOST_RUNS)));
    }
    verdicts
}

const LINKS: usize = 2;
/// Time for iperf3's server to listen.
const PATIENCE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(100);
const IPERF_PORT: &str = "5201";
/// Microseconds.
const MOST_ADDED: f64 = 20.0;
/// Transfers differ by more than this from one to the next, so no loss of speed is measurable above
/// it.
const LEAST_OF_PLAIN: f64 = 0.99;
/// A few for each of a transfer's two connections, and none for what it carries.
const MOST_RUNS: f64 = 50.0;
