//! The paper's experiments (SCTP-E1, SCTP-E2): three links between two hosts, with different rates
//! and delays, and their utilisation.

use std::fmt;
use std::time::Duration;

use hawser_scenario::{Line, Loss, Service};
use hawser_sctp::{AssociationConfig, Control, LossRule, Selection};
use hawser_types::{ByteCount, Rate};
use serde::Serialize;

use super::bulk::{self, Bulk};
use super::fabric::{Disorder, Fabric, LinkModel, Wiring};

/// One row of a table of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Row {
    /// Which table.
    pub table: u8,
    /// Mbit/s of links a, b, c.
    pub rates: [u32; 3],
    /// Their delays, in units of 10 µs.
    pub delays: [u32; 3],
    /// What the paper uses of their sum, in percent.
    pub paper: f64,
}

/// The rows of table 3 (SCTP-E1), with the delays that the figure beside it lost: its row 2, 5, 10
/// is table 4's row 2, 8, 3.
pub const TABLE_3: [Row; 5] = [
    row(3, [2, 2, 5], [2, 8, 3], 79.9),
    row(3, [2, 5, 5], [2, 8, 3], 86.9),
    row(3, [5, 5, 5], [2, 8, 3], 89.2),
    row(3, [2, 5, 10], [2, 8, 3], 81.3),
    row(3, [5, 5, 10], [2, 8, 3], 85.8),
];

/// The rows of table 4 (SCTP-E2).
pub const TABLE_4: [Row; 10] = [
    row(4, [2, 5, 10], [2, 48, 63], 92.3),
    row(4, [2, 5, 10], [2, 8, 23], 91.9),
    row(4, [2, 5, 10], [2, 48, 23], 85.8),
    row(4, [2, 5, 10], [2, 8, 3], 81.3),
    row(4, [2, 5, 10], [2, 48, 143], 87.1),
    row(4, [2, 5, 10], [2, 8, 143], 86.6),
    row(4, [2, 5, 10], [62, 3, 53], 78.8),
    row(4, [2, 5, 10], [2, 128, 143], 84.7),
    row(4, [2, 5, 10], [2, 48, 303], 38.1),
    row(4, [2, 5, 10], [2, 128, 303], 37.6),
];

/// What is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Variant {
    /// The paper's algorithm alone: packets of 1500 bit, its delays, least round-trip time first,
    /// and the specification of its time for all else.
    Paper,
    /// Likewise, but losses are told for each path by itself, and windows grow with news of their
    /// own path.
    PaperPerPath,
    /// Hawser's choices, with packets of 1500 bytes and delays that are eight times as long.
    Hawser,
}

/// What all rows are run with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setup {
    /// How long a transfer would take if all links were used whole.
    pub span: Duration,
    /// Draws what is random.
    pub seed: u64,
    /// In how many times the shortest round trip a link has to answer to be used, by the paper; 4
    /// there.
    pub theta: f64,
    /// How many missing reports make a chunk lost, in [`Variant::Paper`]; 4 in the specification.
    pub reports: u32,
}

/// What came of a row.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct RowReport {
    /// The row.
    pub row: Row,
    /// How it was run.
    pub variant: Variant,
    /// How much of the links' sum was used by packets that brought something new, in percent,
    /// counting whole IP packets.
    pub used: f64,
    /// Likewise by all packets.
    pub carried: f64,
    /// The share of each link in what was carried, in percent.
    pub shares: [f64; 3],
    /// Payload, Mbit/s.
    pub goodput: f64,
    /// Packets lost.
    pub lost: u64,
}

/// Runs all rows of both tables in each of these ways; `None`: no association came to be.
pub fn run_all(variants: &[Variant], setup: &Setup) -> Option<Vec<RowReport>> {
    let rows = TABLE_3.into_iter().chain(TABLE_4);
    let each = rows.flat_map(|row| variants.iter().map(move |variant| (row, *variant)));
    each.map(|(row, variant)| run(row, variant, setup))
        .collect()
}

/// Runs a row; `None`: no association came to be.
pub fn run(row: Row, variant: Variant, setup: &Setup) -> Option<RowReport> {
    let span = setup.span;
    let scale = if variant == Variant::Hawser { 8 } else { 1 };
    let packet = ByteCount::new(PACKET_BITS / 8 * scale);
    let config = variant.config(packet, setup);
    let models = [0, 1, 2].map(|link| model(&row, link, scale as u32, packet));
    let packet = ByteCount::from(config.max_packet) + IP_HEADER;
    // SCTP's common header, and that of one chunk with data.
    let headers = ByteCount::new(12 + if config.interleaving { 20 } else { 16 });
    let payload = packet - IP_HEADER - headers;
    let mut fabric = Fabric::new([&config; 2], &models, 3, setup.seed);
    fabric.set_wiring(Wiring::Parallel);
    fabric.set_overhead(IP_HEADER);
    let sum = row.rates.map(u64::from).into_iter().sum::<u64>();
    let bulk = Bulk {
        size: Rate::from_bits_per_second(sum * 1_000_000) * span,
        message: payload,
        up: true,
        limit: span * 10,
    };
    let outcome = bulk::over(&mut fabric, &config, &bulk)?;
    let carried: Vec<f64> = outcome.carried.iter().map(|c| c.as_u64() as f64).collect();
    let total: f64 = carried.iter().sum();
    let megabits = |rate: Rate| rate.bits_per_second() as f64 / 1e6;
    let whole = packet.as_u64() as f64 / payload.as_u64() as f64;
    Some(RowReport {
        row,
        variant,
        used: 100.0 * megabits(outcome.goodput()) / sum as f64 * whole,
        carried: 100.0 * megabits(outcome.throughput()) / sum as f64,
        shares: [0, 1, 2].map(|link| 100.0 * carried[link] / total),
        goodput: megabits(outcome.goodput()),
        lost: outcome.lost.iter().sum(),
    })
}

impl Setup {
    /// As the paper and the specification have it.
    pub fn new(span: Duration, seed: u64) -> Self {
        Self {
            span,
            seed,
            theta: 4.0,
            reports: 4,
        }
    }
}

/// A row of the paper a line, with what each variant used of the sum, what it sent, and the links'
/// shares of that, in percent.
pub struct Table<'a>(pub &'a [RowReport]);

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_same = |a: &RowReport, b: &RowReport| a.row == b.row;
        let mut rows = self.0.chunk_by(is_same).peekable();
        write!(
            f,
            "{:<6} {:<8} {:<11} {:>5}",
            "table", "Mbit/s", "10 us", "paper"
        )?;
        for report in rows.peek().into_iter().copied().flatten() {
            write!(f, "  {:>8} sent {:<8}", report.variant.name(), "shares")?;
        }
        for reports in rows {
            let row = reports[0].row;
            let list = |numbers: [u32; 3]| numbers.map(|n| n.to_string()).join(",");
            let (rates, delays) = (list(row.rates), list(row.delays));
            write!(
                f,
                "\n{:<6} {rates:<8} {delays:<11} {:>5.1}",
                row.table, row.paper
            )?;
            for report in reports {
                let shares = report.shares.map(|share| format!("{share:.0}")).join("/");
                write!(
                    f,
                    "  {:>8.0} {:>4.0} {shares:<8}",
                    report.used, report.carried
                )?;
            }
        }
        writeln!(f)
    }
}

impl Variant {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Paper, Self::PaperPerPath, Self::Hawser];

    fn name(self) -> &'static str {
        match self {
            Self::Paper => "alone",
            Self::PaperPerPath => "per path",
            Self::Hawser => "hawser",
        }
    }

    fn config(self, packet: ByteCount, setup: &Setup) -> AssociationConfig {
        let paper = AssociationConfig {
            selection: Selection::Paper { theta: setup.theta },
            losses: LossRule::Reports {
                missing: setup.reports,
            },
            ..AssociationConfig::paper()
        };
        let base = match self {
            Self::Hawser => AssociationConfig::default(),
            Self::Paper => paper,
            Self::PaperPerPath => AssociationConfig {
                control: Control::Reno,
                losses: LossRule::PerPath,
                ..paper
            },
        };
        AssociationConfig {
            // Chunks are whole words.
            max_packet: (packet - IP_HEADER).as_usize() / 4 * 4,
            ..base
        }
    }
}

fn model(row: &Row, link: usize, scale: u32, packet: ByteCount) -> LinkModel {
    let rate = Rate::from_bits_per_second(u64::from(row.rates[link]) * 1_000_000);
    let queue = ByteCount::new(packet.as_u64() * QUEUE_PACKETS);
    let up = Line {
        rate,
        delay: Duration::from_micros(10) * row.delays[link] * scale,
        jitter: Duration::ZERO,
        loss: Loss {
            mean: LOSS,
            burst: None,
        },
        queue: rate.time_for(queue).unwrap_or_default(),
        service: Service::Steady,
        largest_packet: None,
    };
    // The paper's round trip is p/b + ε: the way back counts for nothing.
    let down = Line {
        rate: up.rate + Rate::from_bits_per_second(1_000_000_000),
        delay: Duration::ZERO,
        ..up.clone()
    };
    LinkModel {
        up,
        down,
        disorder: Disorder::default(),
    }
}

const fn row(table: u8, rates: [u32; 3], delays: [u32; 3], paper: f64) -> Row {
    Row {
        table,
        rates,
        delays,
        paper,
    }
}

/// The paper's PMTU.
const PACKET_BITS: u64 = 1500;
/// The default of the paper's simulator.
const QUEUE_PACKETS: u64 = 50;
/// In the middle of the paper's 0.001 to 0.1 %.
const LOSS: f64 = 0.0001;
const IP_HEADER: ByteCount = ByteCount::new(20);
