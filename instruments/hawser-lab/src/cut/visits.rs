//! An application that keeps connections open and opens new ones all the time, and records the
//! outcome of each.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::{Builder, Scope, ScopedJoinHandle, sleep};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::meter::socks;

/// Arguments of the application.
#[derive(Debug, clap::Args)]
pub(crate) struct VisitArguments {
    server: SocketAddrV4,
    /// Written when the first connections are open
    ready: PathBuf,
    /// Written at the end
    report: PathBuf,
    #[arg(long)]
    open: u32,
    #[arg(long)]
    rate: u32,
    #[arg(long)]
    seconds: u32,
    #[arg(long)]
    socks: Option<SocketAddrV4>,
}

/// The outcomes of all connections. Times are of the machine's monotonic clock, in seconds.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Visits {
    pub(super) held: Vec<Held>,
    pub(super) visits: Vec<Visit>,
}

/// A connection that is kept open, with a request from time to time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Held {
    /// The address that the server sees.
    pub(super) from: Ipv4Addr,
    /// Number of requests that were answered.
    pub(super) answers: u32,
    /// The longest of them.
    pub(super) longest: f64,
    /// Reason why a request was not answered.
    pub(super) error: Option<String>,
}

/// A connection for one request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Visit {
    pub(super) began: f64,
    /// Time at which it was established, as far as the application can see.
    pub(super) connected: Option<f64>,
    /// Time at which it was answered, or failed.
    pub(super) ended: f64,
    /// The address that the server saw.
    pub(super) from: Option<Ipv4Addr>,
    pub(super) error: Option<String>,
}

/// Does it, from the first connection to the last.
pub(crate) fn visit(arguments: &VisitArguments) -> io::Result<()> {
    let is_over = AtomicBool::new(false);
    let visits = std::thread::scope(|scope| {
        let held = open(scope, arguments, &is_over);
        // Threads that hold connections end in any case, or the scope would not.
        let visits = held.and_then(|held| Ok((held, come_and_go(scope, arguments)?)));
        is_over.store(true, Ordering::Relaxed);
        let (held, visits) = visits?;
        Ok::<_, io::Error>(Visits {
            held: joined(held)?,
            visits: joined(visits)?,
        })
    })?;
    write_whole(&arguments.report, &serde_json::to_vec(&visits)?)
}

type Threads<'scope, T> = Vec<ScopedJoinHandle<'scope, io::Result<T>>>;

/// Opens the connections that are kept, and returns when all of them are open.
fn open<'scope>(
    scope: &'scope Scope<'scope, '_>,
    arguments: &'scope VisitArguments,
    is_over: &'scope AtomicBool,
) -> io::Result<Threads<'scope, Held>> {
    let (opened, is_open) = mpsc::channel();
    let mut held = Vec::new();
    for _ in 0..arguments.open {
        let opened = opened.clone();
        let keep = move || {
            let stream = connect(arguments)
                .and_then(|mut stream| ask(&mut stream).map(|from| (stream, from)));
            let from = stream.as_ref().map(|(_, from)| *from);
            // When the receiver is gone, another thread has failed and was reported.
            let _ = opened.send(from.map_err(in_words));
            drop(opened);
            stream.map(|(stream, from)| hold(stream, from, is_over))
        };
        held.push(thread().spawn_scoped(scope, keep)?);
        sleep(OPEN_EVERY);
    }
    drop(opened);
    for opened in is_open {
        opened.map_err(|error| io::Error::other(format!("opening: {error}")))?;
    }
    write_whole(&arguments.ready, b"")?;
    Ok(held)
}

fn hold(mut stream: TcpStream, from: Ipv4Addr, is_over: &AtomicBool) -> Held {
    let mut held = Held {
        from,
        answers: 0,
        longest: 0.0,
        error: None,
    };
    let mut is_last = false;
    while !is_last {
        let next = Instant::now() + REQUEST_EVERY;
        while !is_last && Instant::now() < next {
            sleep(POLL);
            is_last = is_over.load(Ordering::Relaxed);
        }
        let began = Instant::now();
        match ask(&mut stream) {
            Ok(_) => {
                held.answers += 1;
                held.longest = held.longest.max(began.elapsed().as_secs_f64());
            }
            Err(error) => {
                held.error = Some(in_words(&error));
                break;
            }
        }
    }
    held
}

/// Makes the connections that come and go, each at its time.
fn come_and_go<'scope>(
    scope: &'scope Scope<'scope, '_>,
    arguments: &'scope VisitArguments,
) -> io::Result<Threads<'scope, Visit>> {
    let began = Instant::now();
    let count = arguments.rate * arguments.seconds;
    let mut visits = Vec::new();
    for number in 0..count {
        let at = began + Duration::from_secs(number.into()) / arguments.rate.max(1);
        sleep(at.saturating_duration_since(Instant::now()));
        visits.push(thread().spawn_scoped(scope, || Ok(one(arguments)))?);
    }
    Ok(visits)
}

fn one(arguments: &VisitArguments) -> Visit {
    let (began, mut connected) = (monotonic(), None);
    let answered = connect(arguments).and_then(|mut stream| {
        connected = Some(monotonic());
        ask(&mut stream)
    });
    Visit {
        began,
        connected,
        ended: monotonic(),
        error: answered.as_ref().err().map(in_words),
        from: answered.ok(),
    }
}

fn connect(arguments: &VisitArguments) -> io::Result<TcpStream> {
    let stream = match arguments.socks {
        Some(port) => socks::open(port, arguments.server, PATIENCE)?,
        None => TcpStream::connect_timeout(&arguments.server.into(), PATIENCE)?,
    };
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Asks the server who it thinks is asking.
fn ask(stream: &mut TcpStream) -> io::Result<Ipv4Addr> {
    stream.write_all(b"GET / HTTP/1.1\r\nHost: server\r\n\r\n")?;
    let mut answer = Vec::new();
    let mut buffer = [0; 2048];
    loop {
        let read = stream.read(&mut buffer)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        answer.extend_from_slice(&buffer[..read]);
        if let Some(address) = address_in(&answer)? {
            return Ok(address);
        }
        if answer.len() > MAX_ANSWER {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
}

/// The address in an answer; `None` while it is not whole.
fn address_in(answer: &[u8]) -> io::Result<Option<Ipv4Addr>> {
    let text = String::from_utf8_lossy(answer);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return Ok(None);
    };
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("Content-Length: "))
        .and_then(|length| length.parse::<usize>().ok());
    match length {
        Some(length) if body.len() < length => Ok(None),
        Some(_) => body.trim().parse().map(Some).map_err(io::Error::other),
        None => Err(io::Error::other(format!("not an answer: {head}"))),
    }
}

/// Describes an error without the parts that differ from one to the next.
fn in_words(error: &io::Error) -> String {
    match error.kind() {
        // What a read gives that has had its time.
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => SILENT.to_owned(),
        io::ErrorKind::Other => error.to_string(),
        kind => kind.to_string(),
    }
}

fn joined<T>(threads: Threads<'_, T>) -> io::Result<Vec<T>> {
    let failed = |_| io::Error::other("a thread of the application's failed");
    let joined = threads.into_iter().map(|thread| thread.join());
    joined
        .map(|joined| joined.unwrap_or_else(|panic| Err(failed(panic))))
        .collect()
}

/// Hundreds wait at once.
fn thread() -> Builder {
    Builder::new().stack_size(256 * 1024)
}

/// Writes the whole file or nothing.
fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let part = path.with_extension("part");
    std::fs::write(&part, bytes)?;
    std::fs::rename(part, path)
}

/// The clock that all processes share, in seconds.
pub(super) fn monotonic() -> f64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel writes to `now`; this clock exists everywhere.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

/// Error of a connection that got nothing for as long as the application waits.
pub(super) const SILENT: &str = "silence";
/// Time that the application waits for anything.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// On each connection that is kept open.
const REQUEST_EVERY: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(50);
const OPEN_EVERY: Duration = Duration::from_millis(5);
const MAX_ANSWER: usize = 16 * 1024;
