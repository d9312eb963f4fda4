//! The two ends of busy streams and of the one with messages, in one process, so that one clock
//! measures a message's delay.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use socket2::Socket;

use crate::meter::socks;
use crate::netns::NetNs;
use crate::topology::SERVER;

/// Takes the sent bytes, on the server's host.
#[derive(Debug)]
pub(super) struct Sink {
    listener: Socket,
    taken: Arc<Taken>,
    arrivals: Receiver<Instant>,
}

#[derive(Debug)]
struct Taken {
    busy_bytes: AtomicU64,
    busy_streams: AtomicU64,
    /// The one stream of messages says here when each is there.
    arrivals: Mutex<Option<Sender<Instant>>>,
}

impl Sink {
    /// Listens at [`PLACE`] until it is dropped.
    pub(super) fn open(server: &NetNs) -> io::Result<Self> {
        let listener = server.run(|| TcpListener::bind(PLACE))?;
        let (sender, arrivals) = channel();
        let taken = Arc::new(Taken {
            busy_bytes: AtomicU64::new(0),
            busy_streams: AtomicU64::new(0),
            arrivals: Mutex::new(Some(sender)),
        });
        let shared = Arc::clone(&taken);
        let listening = listener.try_clone()?;
        std::thread::spawn(move || {
            for stream in listening.incoming().map_while(Result::ok) {
                let taken = Arc::clone(&shared);
                std::thread::spawn(move || taken.take(stream));
            }
        });
        Ok(Self {
            listener: listener.into(),
            taken,
            arrivals,
        })
    }

    /// Bytes of busy streams so far.
    pub(super) fn busy_bytes(&self) -> u64 {
        self.taken.busy_bytes.load(Ordering::Relaxed)
    }

    /// Returns the number of busy streams that have begun.
    pub(super) fn busy_streams(&self) -> u64 {
        self.taken.busy_streams.load(Ordering::Relaxed)
    }

    /// Returns the time at which each of so many messages arrived.
    pub(super) fn arrivals(&self, count: usize, limit: Duration) -> io::Result<Vec<Instant>> {
        let deadline = Instant::now() + limit;
        let next = |number| {
            let left = deadline.saturating_duration_since(Instant::now());
            let late = |_| io::Error::other(format!("{number} of {count} messages arrived"));
            self.arrivals.recv_timeout(left).map_err(late)
        };
        (0..count).map(next).collect()
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        // Its thread waits no longer.
        let _ = self.listener.shutdown(Shutdown::Both);
    }
}

impl Taken {
    /// Takes what comes on one connection. Where it breaks off, what is missing says so.
    fn take(&self, mut stream: TcpStream) {
        let mut kind = [0];
        if stream.read_exact(&mut kind).is_err() {
            return;
        }
        if kind == [BUSY] {
            self.busy_streams.fetch_add(1, Ordering::Relaxed);
            let mut buffer = vec![0; 64 * 1024];
            while let Ok(bytes @ 1..) = stream.read(&mut buffer) {
                self.busy_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
            }
            return;
        }
        let sender = self.arrivals.lock().take();
        let Some(sender) = sender else { return };
        let (mut message, mut number) = ([0; MESSAGE], 0_u64);
        while stream.read_exact(&mut message).is_ok() && message == self::message(number) {
            number += 1;
            if sender.send(Instant::now()).is_err() {
                return;
            }
        }
    }
}

/// Busy streams: each sends as much as it can, until this is dropped.
#[derive(Debug)]
pub(super) struct Busy {
    ended: Arc<AtomicBool>,
    streams: Vec<TcpStream>,
    senders: Vec<JoinHandle<()>>,
}

impl Busy {
    pub(super) fn start(client: &NetNs, socks: SocketAddrV4, count: u32) -> io::Result<Self> {
        let mut busy = Self {
            ended: Arc::new(AtomicBool::new(false)),
            streams: Vec::new(),
            senders: Vec::new(),
        };
        for _ in 0..count {
            let mut stream = open(client, socks, BUSY)?;
            busy.streams.push(stream.try_clone()?);
            let ended = Arc::clone(&busy.ended);
            busy.senders.push(std::thread::spawn(move || {
                let block = vec![0; 16 * 1024];
                while !ended.load(Ordering::Relaxed) && stream.write_all(&block).is_ok() {}
            }));
        }
        Ok(busy)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        for stream in &self.streams {
            // It is over anyway.
            let _ = stream.shutdown(Shutdown::Both);
        }
        for sender in self.senders.drain(..) {
            let _ = sender.join();
        }
    }
}

/// Sends messages at their times, on a stream of their own: when each was sent.
pub(super) fn send(
    client: &NetNs,
    socks: SocketAddrV4,
    span: Duration,
) -> io::Result<Vec<Instant>> {
    let mut stream = open(client, socks, MESSAGES)?;
    let begin = Instant::now();
    let (mut next, mut sent) = (begin, Vec::new());
    while next < begin + span {
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
        next += INTERVAL;
        let message = message(sent.len() as u64);
        sent.push(Instant::now());
        stream.write_all(&message)?;
    }
    Ok(sent)
}

fn open(client: &NetNs, port: SocketAddrV4, kind: u8) -> io::Result<TcpStream> {
    let mut stream = client.run(|| socks::open(port, PLACE, PATIENCE))?;
    stream.set_nodelay(true)?;
    stream.write_all(&[kind])?;
    Ok(stream)
}

/// Its number, then zeros.
fn message(number: u64) -> [u8; MESSAGE] {
    let mut message = [0; MESSAGE];
    message[..8].copy_from_slice(&number.to_be_bytes());
    message
}

/// Bytes of a message.
pub(super) const MESSAGE: usize = 1000;
const INTERVAL: Duration = Duration::from_millis(100);
const PLACE: SocketAddrV4 = SocketAddrV4::new(SERVER, 5901);
/// Longest time without progress of a connection.
const PATIENCE: Duration = Duration::from_secs(60);
const BUSY: u8 = b'b';
const MESSAGES: u8 = b'm';
