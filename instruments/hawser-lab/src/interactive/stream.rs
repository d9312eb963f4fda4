//! The stream: a block every 20 ms, and every block's echo.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::meter::{self, Order};
use crate::netns::NetNs;

/// A running stream; it goes on until it is ended or dropped.
#[derive(Debug)]
pub(crate) struct Stream {
    ended: Arc<AtomicBool>,
    sender: Option<JoinHandle<io::Result<Vec<Instant>>>>,
    receiver: Option<JoinHandle<io::Result<Vec<Instant>>>>,
}

impl Stream {
    /// Connects from `host` as `order` says, to an echo of [`BLOCK`] bytes, and begins to send.
    pub(crate) fn open(host: &NetNs, order: &Order) -> io::Result<Self> {
        let mut back = host.run(|| meter::open_echo(order))?;
        let forth = back.try_clone()?;
        let ended = Arc::new(AtomicBool::new(false));
        let watched = Arc::clone(&ended);
        Ok(Self {
            ended,
            sender: Some(std::thread::spawn(move || send(forth, &watched))),
            receiver: Some(std::thread::spawn(move || receive(&mut back))),
        })
    }

    /// Sends no more, and waits for the last echo.
    pub(crate) fn end(mut self) -> io::Result<Echoes> {
        self.ended.store(true, Ordering::Relaxed);
        let sent = joined(self.sender.take())?;
        let received = joined(self.receiver.take())?;
        if sent.len() == received.len() {
            return Ok(Echoes { sent, received });
        }
        let text = format!("{} blocks sent, {} came back", sent.len(), received.len());
        Err(io::Error::other(text))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

/// Times at which every block was sent, and was back.
#[derive(Debug)]
pub(crate) struct Echoes {
    sent: Vec<Instant>,
    received: Vec<Instant>,
}

impl Echoes {
    /// Seconds that those took which were sent in this time.
    pub(crate) fn between(&self, from: Instant, until: Instant) -> Vec<f64> {
        let pairs = self.sent.iter().zip(&self.received);
        pairs
            .filter(|(sent, _)| **sent >= from && **sent < until)
            .map(|(sent, received)| received.duration_since(*sent).as_secs_f64())
            .collect()
    }
}

fn joined(thread: Option<JoinHandle<io::Result<Vec<Instant>>>>) -> io::Result<Vec<Instant>> {
    let result = thread.map(JoinHandle::join);
    match result {
        Some(Ok(times)) => times,
        _ => Err(io::Error::other("the stream's thread failed")),
    }
}

/// A block goes when it is time, whether or not the ones before are back.
fn send(mut stream: TcpStream, ended: &AtomicBool) -> io::Result<Vec<Instant>> {
    let mut sent = Vec::new();
    let mut next = Instant::now();
    while !ended.load(Ordering::Relaxed) {
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
        next += INTERVAL;
        let block = block(sent.len());
        sent.push(Instant::now());
        stream.write_all(&block)?;
    }
    stream.shutdown(Shutdown::Write)?;
    Ok(sent)
}

fn receive(stream: &mut TcpStream) -> io::Result<Vec<Instant>> {
    let mut received = Vec::new();
    let mut echo = [0; BLOCK];
    loop {
        match stream.read_exact(&mut echo) {
            Ok(()) if echo == block(received.len()) => received.push(Instant::now()),
            Ok(()) => return Err(io::Error::other("an echo is not what was sent")),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(received),
            Err(error) => return Err(error),
        }
    }
}

/// Its number, then zeros.
fn block(number: usize) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let number = (number as u64).to_be_bytes();
    block[..number.len()].copy_from_slice(&number);
    block
}

/// Bytes of a block.
pub(crate) const BLOCK: usize = 64;
const INTERVAL: Duration = Duration::from_millis(20);
