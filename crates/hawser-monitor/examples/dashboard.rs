//! Serves the dashboard of a simulated daemon of the requested size, and prints the cost:
//!
//! ```sh
//! cargo run --release --example dashboard -- --links 10 --streams 500 --seconds 60
//! ```
//!
//! It prints the address of the dashboard, and after a minute the processor time of the whole
//! process.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hawser_control::{
    Change, ChannelStatus, ErrorReason, Event, HistoryReport, LinkHistory, LinkState, LinkStatus,
    LinkTraffic, PathState, PathStatus, PolicyStatus, Request, Response, SessionState,
    SessionStatus, StatusSnapshot, StreamStatus,
};
use hawser_monitor::web::{Daemon, Server, Token};
use hawser_types::{ByteCount, LinkIndex, Rate, StreamId};
use parking_lot::Mutex;
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::watch;

#[tokio::main]
async fn main() -> ExitCode {
    let Some(wanted) = Wanted::read(std::env::args().skip(1)) else {
        eprintln!("usage: dashboard [--links N] [--streams N] [--seconds N] [--port N]");
        return ExitCode::from(2);
    };
    let daemon = Arc::new(Made::new(wanted));
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, wanted.port));
    // The token is no secret: the daemon is simulated.
    let token = Token::new("example");
    let (_tokens, tokens) = watch::channel(token.clone());
    let server = match Server::bind(address, tokens, daemon.clone()) {
        Ok(server) => server,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    println!("{}", token.url(server.local_addr()));
    tokio::spawn(Arc::clone(&daemon).tick());
    let begun = Instant::now();
    server.run(tokio::time::sleep(wanted.span)).await;
    let (wall, used) = (begun.elapsed(), processor_time());
    println!(
        "{:.3} s of processor time in {:.1} s: {:.2} % of a core; process {}, {} snapshots of {} bytes",
        used.as_secs_f64(),
        wall.as_secs_f64(),
        100.0 * used.as_secs_f64() / wall.as_secs_f64(),
        std::process::id(),
        daemon.taken(),
        hawser_control::encode_response(&Response::Status(Box::new(daemon.status())))
            .map_or(0, |line| line.len()),
    );
    ExitCode::SUCCESS
}

/// Options of the command line.
#[derive(Clone, Copy)]
struct Wanted {
    links: u32,
    streams: u64,
    span: Duration,
    port: u16,
}

impl Wanted {
    fn read(mut arguments: impl Iterator<Item = String>) -> Option<Self> {
        let mut wanted = Self {
            links: 10,
            streams: 500,
            span: Duration::from_secs(3600),
            port: 0,
        };
        while let Some(name) = arguments.next() {
            let value = arguments.next()?;
            match name.as_str() {
                "--links" => wanted.links = value.parse().ok()?,
                "--streams" => wanted.streams = value.parse().ok()?,
                "--seconds" => wanted.span = Duration::from_secs(value.parse().ok()?),
                "--port" => wanted.port = value.parse().ok()?,
                _ => return None,
            }
        }
        Some(wanted)
    }
}

/// Simulated links and streams whose rates rise and fall.
struct Made {
    wanted: Wanted,
    begun: Instant,
    changes: watch::Sender<u64>,
    policy: Mutex<PolicyStatus>,
    taken: Mutex<u64>,
}

impl Made {
    fn new(wanted: Wanted) -> Self {
        let names = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect();
        Self {
            wanted,
            begun: Instant::now(),
            changes: watch::Sender::new(0),
            policy: Mutex::new(PolicyStatus {
                sessions: "auto".to_owned(),
                sessions_known: names(&["auto", "backlog", "ecf"]),
                connections: Some("auto".to_owned()),
                connections_known: names(&["auto", "only-one"]),
                ..PolicyStatus::default()
            }),
            taken: Mutex::default(),
        }
    }

    async fn tick(self: Arc<Self>) {
        let mut ticks = tokio::time::interval(SECOND);
        loop {
            ticks.tick().await;
            self.changes.send_modify(|number| *number += 1);
        }
    }

    fn taken(&self) -> u64 {
        *self.taken.lock()
    }

    fn status(&self) -> StatusSnapshot {
        let second = self.begun.elapsed().as_secs();
        let links = (0..self.wanted.links).map(|number| link(number, second));
        let session = SessionStatus {
            id: "1".to_owned(),
            peer: "gw.example".to_owned(),
            state: SessionState::Established,
            scheduler: "auto".to_owned(),
            paths: (0..self.wanted.links)
                .map(|number| path(number, second))
                .collect(),
            stream_count: self.wanted.streams,
            streams: (0..self.wanted.streams)
                .map(|number| stream(number, second))
                .collect(),
            ..SessionStatus::default()
        };
        StatusSnapshot {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime: self.begun.elapsed(),
            links: links.collect(),
            session_count: 1,
            all_sessions: std::iter::once(&session).collect(),
            sessions: vec![session],
            ..StatusSnapshot::default()
        }
    }

    fn history(&self) -> HistoryReport {
        let seconds = 0..300;
        let link = |number| LinkHistory {
            name: name(number),
            index: LinkIndex::new(number + 1),
            up: seconds.clone().map(|second| rate(number, second)).collect(),
            down: seconds
                .clone()
                .map(|second| rate(number + 3, second))
                .collect(),
            rtt: seconds
                .clone()
                .map(|second| Some(rtt(number, second)))
                .collect(),
            state: seconds.clone().map(|_| Some(LinkState::Up)).collect(),
        };
        HistoryReport {
            at_unix_ms: unix_ms(),
            every: SECOND,
            links: (0..self.wanted.links).map(link).collect(),
        }
    }
}

impl Daemon for Made {
    fn answer(&self, request: &Request) -> Response {
        match request {
            Request::Status { .. } => {
                *self.taken.lock() += 1;
                Response::Status(Box::new(self.status()))
            }
            Request::History { .. } => Response::History(Box::new(self.history())),
            Request::Policy => {
                let policy = self.policy.lock();
                Response::Policy(Box::new(policy.clone()))
            }
            Request::Events { after, .. } => {
                let event = Event {
                    id: 1,
                    at_unix_ms: unix_ms(),
                    what: Change::LinkAppeared {
                        link: name(0),
                        state: LinkState::Up,
                    },
                };
                Response::Events {
                    events: [event]
                        .into_iter()
                        .filter(|event| event.id > *after)
                        .collect(),
                    latest: 1,
                }
            }
            Request::SetScheduler { scheduler, .. } => {
                let mut policy = self.policy.lock();
                policy.sessions.clone_from(scheduler);
                Response::Done { saved: None }
            }
            _ => Response::Error {
                reason: ErrorReason::Unsupported,
                message: "this daemon does not exist".to_owned(),
            },
        }
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}

fn name(number: u32) -> String {
    format!("wwan{number}")
}

/// Returns a rate that rises and falls, at a different pace for each number.
fn rate(number: u32, second: u64) -> Rate {
    let pace = u64::from(number) + 2;
    Rate::from_bits_per_second((second * pace) % 40 * 1_000_000 / pace)
}

fn rtt(number: u32, second: u64) -> Duration {
    Duration::from_millis(20 + 3 * u64::from(number) + second % 7)
}

fn link(number: u32, second: u64) -> LinkStatus {
    LinkStatus {
        name: name(number),
        index: LinkIndex::new(number + 1),
        addresses: vec![IpAddr::from([192, 0, 2, (number % 250 + 1) as u8])],
        state: LinkState::Up,
        traffic: LinkTraffic {
            up: rate(number, second),
            down: rate(number + 3, second),
            rtt: Some(rtt(number, second)),
            up_loss: Some(0.001),
            queue: Some(Duration::from_millis(4)),
            cwnd_bytes: ByteCount::from_kib(256),
            ..LinkTraffic::default()
        },
        ..LinkStatus::default()
    }
}

fn path(number: u32, second: u64) -> PathStatus {
    let channel = ChannelStatus {
        rtt: Some(rtt(number, second)),
        cwnd_bytes: ByteCount::from_kib(128),
        delivery_rate: rate(number, second),
        congestion: "bbr".to_owned(),
        ..ChannelStatus::default()
    };
    PathStatus {
        link: name(number),
        index: LinkIndex::new(number + 1),
        state: PathState::Up,
        up: rate(number, second),
        down: rate(number + 3, second),
        channels: vec![channel.clone(), channel],
        ..PathStatus::default()
    }
}

fn stream(number: u64, second: u64) -> StreamStatus {
    StreamStatus {
        id: StreamId::new(4 * number),
        destination: Some(format!("host{number}.example.org:443")),
        bytes_sent: ByteCount::new(1000 * second),
        bytes_received: ByteCount::new(50_000 * second),
        age: Duration::from_secs(second),
        program: Some("firefox".to_owned()),
        rate: Rate::from_bits_per_second(400_000 + number),
    }
}

/// Returns the processor time that the whole process has used so far.
fn processor_time() -> Duration {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    let (seconds, rest) = (used.tv_sec.unsigned_abs(), used.tv_nsec.unsigned_abs());
    Duration::from_secs(seconds) + Duration::from_nanos(rest)
}

fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

const SECOND: Duration = Duration::from_secs(1);
