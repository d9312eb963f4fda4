//! Honest traffic through a daemon's proxy port, beside the hostile peer.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Downloads that follow one another until this is dropped.
pub(crate) struct Honest {
    counts: Arc<Counts>,
    worker: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Counts {
    bytes: AtomicU64,
    wrong: AtomicU64,
    broken: AtomicU64,
    stop: AtomicBool,
}

impl Honest {
    /// Reads from an origin of this process through `proxy`, `pace` bytes a second at most.
    pub(crate) fn start(proxy: SocketAddr, pace: u64) -> io::Result<Self> {
        let origin = start_origin(pace)?;
        let counts = Arc::new(Counts::default());
        let shared = Arc::clone(&counts);
        let worker = std::thread::spawn(move || {
            while !shared.stop.load(Ordering::Relaxed) {
                if download(proxy, origin, &shared).is_err() {
                    shared.broken.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(RETRY);
                }
            }
        });
        Ok(Self {
            counts,
            worker: Some(worker),
        })
    }

    /// Bytes that have come and were right.
    pub(crate) fn bytes(&self) -> u64 {
        self.counts.bytes.load(Ordering::Relaxed)
    }

    /// Blocks of bytes that were not those of the origin.
    pub(crate) fn wrong(&self) -> u64 {
        self.counts.wrong.load(Ordering::Relaxed)
    }

    /// Downloads that ended before their end.
    pub(crate) fn broken(&self) -> u64 {
        self.counts.broken.load(Ordering::Relaxed)
    }
}

impl Drop for Honest {
    fn drop(&mut self) {
        self.counts.stop.store(true, Ordering::Relaxed);
        if let Some(worker) = self.worker.take() {
            // Its panic would be shown already.
            let _ = worker.join();
        }
    }
}

/// Connects through a SOCKS proxy.
pub(crate) fn connect(proxy: SocketAddr, target: SocketAddr) -> io::Result<TcpStream> {
    let SocketAddr::V4(target) = target else {
        return Err(io::ErrorKind::Unsupported.into());
    };
    let mut stream = TcpStream::connect_timeout(&proxy, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(&[5, 1, 0])?;
    stream.read_exact(&mut [0; 2])?;
    let mut request = vec![5, 1, 0, 1];
    request.extend_from_slice(&target.ip().octets());
    request.extend_from_slice(&target.port().to_be_bytes());
    stream.write_all(&request)?;
    let mut answer = [0; 10];
    stream.read_exact(&mut answer)?;
    match answer[1] {
        0 => Ok(stream),
        _ => Err(io::ErrorKind::ConnectionRefused.into()),
    }
}

fn download(proxy: SocketAddr, origin: SocketAddr, counts: &Counts) -> io::Result<()> {
    let mut stream = connect(proxy, origin)?;
    let (mut buffer, mut at) = (vec![0; 64 * 1024], 0);
    while at < OBJECT && !counts.stop.load(Ordering::Relaxed) {
        let length = stream.read(&mut buffer)?;
        if length == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let is_right = (at..)
            .zip(&buffer[..length])
            .all(|(at, it)| pattern(at) == *it);
        if is_right {
            counts.bytes.fetch_add(length as u64, Ordering::Relaxed)
        } else {
            counts.wrong.fetch_add(1, Ordering::Relaxed)
        };
        at += length;
    }
    Ok(())
}

/// Sends an object to each who connects, at `pace` bytes a second.
fn start_origin(pace: u64) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // The reader may go in the middle.
            std::thread::spawn(move || send(stream, pace).ok());
        }
    });
    Ok(address)
}

fn send(mut stream: TcpStream, pace: u64) -> io::Result<()> {
    let (began, mut at) = (Instant::now(), 0);
    while at < OBJECT {
        let end = (at + BLOCK).min(OBJECT);
        let block: Vec<u8> = (at..end).map(pattern).collect();
        stream.write_all(&block)?;
        at = end;
        let due = Duration::from_secs_f64(at as f64 / pace.max(1) as f64);
        std::thread::sleep(due.saturating_sub(began.elapsed()));
    }
    Ok(())
}

fn pattern(at: usize) -> u8 {
    (at ^ (at >> 8) ^ (at >> 16)) as u8
}

/// Bytes of one download; each is a stream of its own.
const OBJECT: usize = 2_000_000;
const BLOCK: usize = 32 * 1024;
const PATIENCE: Duration = Duration::from_secs(30);
const RETRY: Duration = Duration::from_millis(100);
