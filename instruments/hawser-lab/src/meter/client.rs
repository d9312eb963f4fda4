//! The meter's client.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddrV4, TcpStream};
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, Socket, Type};

use super::header::Header;
use super::{MAX_RECEIPT, Order, Outcome, Receipt, body, socks};
use crate::scenario::Direction;

/// Makes one transfer in the calling thread's network namespace.
///
/// `done` counts the bytes as they arrive (get) or as the kernel takes them (put).
pub fn transfer(order: &Order, done: &AtomicU64) -> io::Result<Outcome> {
    let start = Instant::now();
    let mut stream = connect(order)?;
    let connected = start.elapsed();
    stream.write_all(&Header::transfer(order.direction, order.bytes).bytes())?;
    let receipt = match order.direction {
        Direction::Put => put(&mut stream, order.bytes, done)?,
        Direction::Get => get(&mut stream, order.bytes, done)?,
    };
    Ok(Outcome::new(order.bytes, start, connected, receipt))
}

/// Opens a connection on which the server sends each block of `order.bytes` bytes back.
///
/// The connection keeps the order's patience and the calling thread's network namespace.
pub fn open_echo(order: &Order) -> io::Result<TcpStream> {
    let mut stream = connect(order)?;
    stream.set_nodelay(true)?;
    stream.write_all(&Header::echo(order.bytes).bytes())?;
    Ok(stream)
}

/// Sends a request over a connection of [`open_echo`], and gives the time until the first byte of
/// its answer.
pub(crate) fn ask(stream: &mut TcpStream, request: &[u8]) -> io::Result<Duration> {
    let start = Instant::now();
    stream.write_all(request)?;
    let mut answer = vec![0; request.len()];
    stream.read_exact(answer.get_mut(..1).unwrap_or_default())?;
    let taken = start.elapsed();
    stream.read_exact(answer.get_mut(1..).unwrap_or_default())?;
    if answer == request {
        Ok(taken)
    } else {
        Err(io::Error::other("the answer is not what was asked"))
    }
}

/// Times of a new connection, counted from the call to connect.
#[derive(Clone, Copy, Debug)]
pub struct FirstAnswer {
    /// Until the application may send: behind a proxy, when that has told of success.
    pub connected: Duration,
    /// Until the first byte of the answer to the first bytes sent.
    pub answered: Duration,
}

/// Connects, sends one block of `order.bytes` bytes and waits for it to come back.
pub fn first_answer(order: &Order) -> io::Result<FirstAnswer> {
    let start = Instant::now();
    let mut stream = connect(order)?;
    let connected = start.elapsed();
    stream.set_nodelay(true)?;
    let mut request = Header::echo(order.bytes).bytes().to_vec();
    let block = usize::try_from(order.bytes).unwrap_or(0);
    request.resize(request.len() + block, b'?');
    stream.write_all(&request)?;
    let mut answer = vec![0; block];
    stream.read_exact(answer.get_mut(..1).unwrap_or_default())?;
    let answered = start.elapsed();
    stream.read_exact(answer.get_mut(1..).unwrap_or_default())?;
    if answer.iter().any(|byte| *byte != b'?') {
        return Err(io::Error::other("the answer is not what was asked"));
    }
    Ok(FirstAnswer {
        connected,
        answered,
    })
}

fn put(stream: &mut TcpStream, bytes: u64, done: &AtomicU64) -> io::Result<Receipt> {
    let crc = body::feed(stream, bytes, done)?;
    stream.write_all(&u64::from(crc).to_be_bytes())?;
    stream.shutdown(Shutdown::Write)?;
    let mut text = Vec::new();
    stream.take(MAX_RECEIPT).read_to_end(&mut text)?;
    if text.is_empty() {
        return Err(io::Error::other("the receiver ended without a receipt"));
    }
    Ok(serde_json::from_slice(&text)?)
}

fn get(stream: &mut TcpStream, bytes: u64, done: &AtomicU64) -> io::Result<Receipt> {
    let sink = body::drain(stream, bytes, done)?;
    let check = body::read_check(stream);
    // The sender waits for this; when it is gone already there is nothing left to tell it.
    let _ = stream.write_all(b"x");
    Ok(sink.receipt(bytes, check))
}

/// Connects as the order says, through the SOCKS port where it names one.
fn connect(order: &Order) -> io::Result<TcpStream> {
    let protocol = if order.mptcp {
        Protocol::MPTCP
    } else {
        Protocol::TCP
    };
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(protocol))?;
    if let Some(congestion) = order.congestion {
        socket.set_tcp_congestion(congestion.name().as_bytes())?;
    }
    if let Some(device) = &order.device {
        socket.bind_device(Some(device.as_bytes()))?;
    }
    if let Some(source) = order.source {
        socket.bind(&SocketAddrV4::new(source, 0).into())?;
    }
    let first_hop = order.socks.unwrap_or(order.server);
    socket.connect_timeout(&first_hop.into(), order.patience)?;
    let mut stream: TcpStream = socket.into();
    stream.set_read_timeout(Some(order.patience))?;
    stream.set_write_timeout(Some(order.patience))?;
    if order.socks.is_some() {
        socks::connect(&mut stream, order.server)?;
    }
    Ok(stream)
}
