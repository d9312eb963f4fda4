//! A lab with the meter's server running: where single transfers are made.

use std::io;
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hawser_types::{ByteCount, Rate};

use crate::meter::{self, Congestion, Order, Outcome};
use crate::process::{self, Program};
use crate::scenario::{Action, Direction, Event};
use crate::topology::{Lab, LabError, SERVER};

/// A lab ready to measure in.
#[derive(Debug)]
pub struct Bench {
    lab: Lab,
    folder: PathBuf,
    meter: Program,
}

/// A step of a measurement that failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StepError {
    /// The lab.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// A program, or the transfer itself.
    #[error("{0}")]
    Program(#[from] io::Error),
    /// The bytes arrived changed or not at all.
    #[error("the transfer finished, but count or check of its bytes is wrong")]
    Corrupted,
    /// The meter printed something else than an outcome.
    #[error("the meter's outcome cannot be read: {0}")]
    Unreadable(#[from] serde_json::Error),
    /// The emulator could not follow.
    #[error("the emulator missed {0} frames: this machine is too slow for the scenario")]
    Missed(u64),
}

impl Bench {
    /// Starts the meter's server in `lab`; logs go to `folder`.
    pub fn new(lab: Lab, folder: &Path) -> Result<Self, StepError> {
        let mut command = lab.server().command(own_program()?);
        command.args(["meter", "serve"]);
        let meter = Program::start("meter", command, &folder.join("meter.log"))?;
        let mut bench = Self {
            lab,
            folder: folder.to_owned(),
            meter,
        };
        let target = bench.server_address();
        wait_for_port(&mut bench.meter, target, bench.lab.server())?;
        Ok(bench)
    }

    /// The lab.
    pub fn lab(&self) -> &Lab {
        &self.lab
    }

    /// Returns the folder of the programs' logs and state.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes one transfer in a process of its own, while `events` happen.
    pub fn transfer(
        &self,
        order: &Order,
        limit: Duration,
        events: &[Event],
    ) -> Result<Outcome, StepError> {
        let missed = self.lab.counters().missed;
        let carried = self.lab.carried();
        let mut command = self.lab.client().command(own_program()?);
        // What is buffered on the way may be all there is: its acknowledgement comes at the very
        // end.
        command.args(arguments(&Order {
            patience: limit,
            ..order.clone()
        }));
        let text = self.during(events, || Ok(process::output_of("meter", command, limit)?));
        let mut outcome: Outcome = serde_json::from_str(&text?)?;
        let links = self.lab.carried().into_iter().zip(carried);
        outcome.wire = links.map(|(now, before)| now.since(before)).collect();
        match self.lab.counters().missed - missed {
            0 if outcome.ok => Ok(outcome),
            0 => Err(StepError::Corrupted),
            missed => Err(StepError::Missed(missed)),
        }
    }

    /// Works while `events` happen, and undoes them.
    pub(crate) fn during<T>(
        &self,
        events: &[Event],
        work: impl FnOnce() -> Result<T, StepError>,
    ) -> Result<T, StepError> {
        let result = std::thread::scope(|scope| {
            let (stop, stopped) = std::sync::mpsc::channel::<()>();
            let play = scope.spawn(move || self.play(events, &stopped));
            let result = work();
            drop(stop);
            let played = play.join().unwrap_or(Ok(()));
            result.and_then(|done| played.map(|()| done))
        });
        self.undo(events)?;
        result
    }

    /// Starts one transfer in a process of its own, and leaves it running.
    pub(crate) fn start_transfer(&self, order: &Order) -> Result<Program, StepError> {
        let mut command = self.lab.client().command(own_program()?);
        command.args(arguments(order));
        let log = self.folder.join("transfer.log");
        Ok(Program::start("transfer", command, &log)?)
    }

    fn play(
        &self,
        events: &[Event],
        stopped: &std::sync::mpsc::Receiver<()>,
    ) -> Result<(), StepError> {
        let start = Instant::now();
        for event in events {
            let left = event.at.saturating_sub(start.elapsed());
            match stopped.recv_timeout(left) {
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
                    self.lab.apply(event.link, event.action)?;
                }
                _ => break,
            }
        }
        Ok(())
    }

    fn undo(&self, events: &[Event]) -> Result<(), StepError> {
        for event in events {
            match event.action {
                Action::BlackHole => self.lab.apply(event.link, Action::Pass)?,
                Action::CarrierDown => self.lab.apply(event.link, Action::CarrierUp)?,
                Action::Pass | Action::CarrierUp | Action::AddressChange => {}
            }
        }
        Ok(())
    }

    /// An error when the emulator has missed a frame so far.
    pub(crate) fn check_emulator(&self) -> Result<(), StepError> {
        match self.lab.counters().missed {
            0 => Ok(()),
            missed => Err(StepError::Missed(missed)),
        }
    }

    /// The process id of the meter's server.
    pub fn meter_id(&self) -> u32 {
        self.meter.id()
    }

    /// Returns the address at which the meter's server takes plain TCP.
    pub fn server_address(&self) -> SocketAddrV4 {
        SocketAddrV4::new(SERVER, meter::port(false, None))
    }

    /// A transfer that leaves everything to the machine's defaults.
    pub fn plain_order(&self, direction: Direction, bytes: ByteCount) -> Order {
        Order {
            direction,
            server: self.server_address(),
            bytes: bytes.as_u64(),
            source: None,
            device: None,
            mptcp: false,
            congestion: None,
            socks: None,
            patience: PATIENCE,
        }
    }

    /// A plain transfer on link `index` alone.
    pub fn tcp_order(
        &self,
        index: usize,
        congestion: Congestion,
        direction: Direction,
        bytes: ByteCount,
    ) -> Order {
        Order {
            device: self
                .lab
                .links()
                .get(index)
                .map(|link| link.interface.clone()),
            congestion: Some(congestion),
            server: SocketAddrV4::new(SERVER, meter::port(false, Some(congestion))),
            ..self.plain_order(direction, bytes)
        }
    }

    /// A transfer over MPTCP, first subflow on link 1.
    pub fn mptcp_order(
        &self,
        congestion: Congestion,
        direction: Direction,
        bytes: ByteCount,
    ) -> Order {
        Order {
            source: self.lab.links().first().map(|link| link.address()),
            mptcp: true,
            congestion: Some(congestion),
            server: SocketAddrV4::new(SERVER, meter::port(true, Some(congestion))),
            ..self.plain_order(direction, bytes)
        }
    }

    /// A transfer through a SOCKS port of the client host.
    pub fn socks_order(
        &self,
        socks: SocketAddrV4,
        direction: Direction,
        bytes: ByteCount,
    ) -> Order {
        Order {
            socks: Some(socks),
            ..self.plain_order(direction, bytes)
        }
    }
}

/// Waits until `target` takes connections from inside `namespace`, or `program` ends.
pub(crate) fn wait_for_port(
    program: &mut Program,
    target: SocketAddrV4,
    namespace: &crate::netns::NetNs,
) -> io::Result<()> {
    let deadline = Instant::now() + START_LIMIT;
    loop {
        program.check_alive()?;
        let tried = namespace.run(|| {
            std::net::TcpStream::connect_timeout(&target.into(), Duration::from_secs(1)).map(drop)
        });
        match tried {
            Ok(()) => return Ok(()),
            Err(error) if Instant::now() >= deadline => {
                let said = program.last_words();
                return Err(io::Error::new(
                    error.kind(),
                    format!("{target} does not answer: {error}; {said}"),
                ));
            }
            Err(_) => std::thread::sleep(POLL),
        }
    }
}

/// Returns the limit for the time of a transfer: several times the time at the rate, and more for
/// events and on `lossy` links.
pub(crate) fn limit_for(bytes: ByteCount, rate: Rate, events: &[Event], lossy: bool) -> Duration {
    let ideal = rate
        .time_for(bytes)
        .unwrap_or(Duration::ZERO)
        .min(Duration::from_secs(600));
    let last_event = events.last().map_or(Duration::ZERO, |event| event.at);
    ideal * if lossy { 60 } else { 12 } + last_event * 2 + Duration::from_secs(30)
}

fn arguments(order: &Order) -> Vec<String> {
    let mut list = vec!["meter".to_owned(), order.direction.name().to_owned()];
    list.extend([order.server.to_string(), order.bytes.to_string()]);
    let mut option = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            list.extend([format!("--{name}"), value]);
        }
    };
    option("src", order.source.map(|source| source.to_string()));
    option("device", order.device.clone());
    option("proto", order.mptcp.then(|| "mptcp".to_owned()));
    option("cc", order.congestion.map(|c| c.name().to_owned()));
    option("socks", order.socks.map(|socks| socks.to_string()));
    option("patience", Some(order.patience.as_secs().to_string()));
    list
}

/// This very program, which is also the meter.
pub(crate) fn own_program() -> io::Result<PathBuf> {
    std::env::current_exe()
}

const PATIENCE: Duration = Duration::from_secs(60);
const START_LIMIT: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(20);
