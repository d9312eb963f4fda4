//! Links that are as good as dead and still answer, beside a healthy one: the cells that the
//! simulator and the lab both perform, and what is asked of them.

mod draw;
mod perform;
mod report;
mod table;

use std::time::Duration;

use hawser_types::{ByteCount, Rate};
use hawser_wire::TransportChoice;
use serde::Serialize;

use crate::{Direction, Line, Link, Loss, Scenario, Service};
pub use draw::{CannotDraw, draw};
pub use perform::{Stage, Transfer};
pub use report::{DyingReport, Figures, LEAST_SHARE, LONGEST_SILENCE, MOST_OF_P99};
pub use table::{DyingTable, Shown};

/// One combination of a dying link, the moment at which it begins to die, and what goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Cell {
    /// Rate of a dying link, in kbit/s.
    pub rate: u64,
    /// Its queue.
    pub queue: Depth,
    /// Its loss, in hundredths.
    pub loss: u8,
    /// When it begins to die.
    pub dies: Dies,
    /// How many links die, beside one that does not.
    pub dying: usize,
    /// Transport of the chunks.
    #[serde(serialize_with = "by_name")]
    pub transport: TransportChoice,
    /// Which way payload goes.
    pub direction: Direction,
    /// Work of the applications.
    pub work: Work,
}

/// Length of a dying link's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Depth {
    /// 30 kB: seconds, at such rates.
    Bytes,
    /// 300 ms.
    Time,
}

/// Moment at which a link begins to die. Until then it carries as much as the healthy one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dies {
    /// Before the session begins.
    Before,
    /// During a transfer.
    During,
    /// Between two transfers.
    Between,
}

/// Work of the applications.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// Transfers of bulk.
    Bulk,
    /// Short requests, one after another.
    Requests,
    /// A call beside bulk.
    Call,
}

impl Cell {
    /// All combinations for one kind of work; the links that die are one of two, or two of three.
    pub fn all(work: Work, dying: usize) -> Vec<Self> {
        Self::combinations(&[work], &[dying], &TRANSPORTS)
    }

    fn combinations(works: &[Work], dying: &[usize], transports: &[TransportChoice]) -> Vec<Self> {
        let mut cells = vec![Self {
            rate: 0,
            queue: Depth::Bytes,
            loss: 0,
            dies: Dies::Before,
            dying: 1,
            transport: TransportChoice::Tcp,
            direction: Direction::Put,
            work: Work::Bulk,
        }];
        vary(&mut cells, works, |cell, work| cell.work = work);
        vary(&mut cells, dying, |cell, dying| cell.dying = dying);
        vary(&mut cells, &RATES, |cell, rate| cell.rate = rate);
        let depths = [Depth::Bytes, Depth::Time];
        vary(&mut cells, &depths, |cell, queue| cell.queue = queue);
        vary(&mut cells, &LOSSES, |cell, loss| cell.loss = loss);
        let times = [Dies::Before, Dies::During, Dies::Between];
        vary(&mut cells, &times, |cell, dies| cell.dies = dies);
        vary(&mut cells, transports, |cell, it| cell.transport = it);
        let directions = [Direction::Put, Direction::Get];
        vary(&mut cells, &directions, |cell, it| cell.direction = it);
        cells
    }

    /// Returns the cell's values in a few words, such as
    /// `bulk put tcp, 1/2 of 20 kbit/s 30kB 5 %, before`.
    pub fn name(&self) -> String {
        let Self {
            rate, loss, dying, ..
        } = self;
        format!(
            "{} {} {}, {dying}/{} of {rate} kbit/s {} {loss} %, {}",
            self.work.name(),
            self.direction.name(),
            self.transport.name(),
            dying + 1,
            self.queue.name(),
            self.dies.name(),
        )
    }

    /// Returns the healthy link, then `dying` others as they are in the beginning; with none of
    /// these it is what the cell is compared with.
    pub fn scenario(&self, dying: usize) -> Scenario {
        let early = match self.dies {
            Dies::Before => self.dying_link(),
            Dies::During | Dies::Between => link(healthy()),
        };
        let links = std::iter::once(link(healthy())).chain(std::iter::repeat_n(early, dying));
        Scenario {
            name: "dying".to_owned(),
            summary: String::new(),
            payload: ByteCount::ZERO,
            directions: Vec::new(),
            seed: SEED,
            links: links.collect(),
            events: Vec::new(),
            server: None,
            workload: None,
        }
    }

    /// Returns a link as it is once it dies.
    pub fn dying_link(&self) -> Link {
        let rate = Rate::from_bits_per_second(self.rate * 1000);
        link(Line {
            rate,
            queue: match self.queue {
                Depth::Bytes => rate.time_for(DEEP).unwrap_or_default(),
                Depth::Time => SHORT,
            },
            loss: Loss {
                mean: f64::from(self.loss) / 100.0,
                burst: None,
            },
            ..healthy()
        })
    }
}

impl Depth {
    /// Returns the name used in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bytes => "30kB",
            Self::Time => "300ms",
        }
    }
}

impl Dies {
    /// Returns the name used in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::During => "during",
            Self::Between => "between",
        }
    }
}

impl Work {
    /// Returns the name used in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bulk => "bulk",
            Self::Requests => "requests",
            Self::Call => "call",
        }
    }
}

fn vary<T: Copy>(cells: &mut Vec<Cell>, values: &[T], set: impl Fn(&mut Cell, T)) {
    let varied = cells.iter().flat_map(|cell| {
        values.iter().map(|value| {
            let mut cell = *cell;
            set(&mut cell, *value);
            cell
        })
    });
    *cells = varied.collect();
}

fn healthy() -> Line {
    Line {
        rate: RATE,
        delay: DELAY,
        jitter: Duration::ZERO,
        loss: Loss::NONE,
        queue: HEALTHY_QUEUE,
        service: Service::Steady,
        largest_packet: None,
    }
}

fn link(line: Line) -> Link {
    Link {
        up: line.clone(),
        down: line,
        behind: None,
        nat: None,
        strip: Vec::new(),
    }
}

fn by_name<S: serde::Serializer>(of: &TransportChoice, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(of.name())
}

/// Rate of the healthy link.
pub const RATE: Rate = Rate::from_bits_per_second(16_000_000);
/// Time that the healthy link needs for a transfer.
pub const TRANSFER: Duration = Duration::from_secs(4);
/// Time from the beginning of a transfer to the moment at which links die during it.
pub const DIES_AT: Duration = Duration::from_secs(3);
/// Time from the beginning of such a transfer to the last look at it.
pub const ENDS: Duration = Duration::from_secs(11);
/// Payload of a request.
pub const REQUEST: ByteCount = ByteCount::new(20_000);
/// Time between the steps of a cell, and before the first one.
pub const REST: Duration = Duration::from_millis(300);
/// Time after which a transfer or a request is given up.
pub const LIMIT: Duration = Duration::from_secs(120);
/// Transports that the matrix has; `auto` ends in one of them.
pub const TRANSPORTS: [TransportChoice; 2] = [TransportChoice::Tcp, TransportChoice::Sctp];

/// Of the links' losses.
const SEED: u64 = 1;
/// In kbit/s.
const RATES: [u64; 4] = [5, 20, 60, 200];
/// In hundredths.
const LOSSES: [u8; 4] = [0, 5, 20, 50];
const DEEP: ByteCount = ByteCount::new(30_000);
const SHORT: Duration = Duration::from_millis(300);
/// Of the healthy link.
const DELAY: Duration = Duration::from_millis(25);
const HEALTHY_QUEUE: Duration = Duration::from_millis(100);
