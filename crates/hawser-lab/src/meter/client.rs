//! The meter's client.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddrV4, TcpStream};
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use socket2::{Domain, Protocol, Socket, Type};

use super::{Congestion, MAX_VERDICT, Order, Outcome, Verdict, body, socks};
use crate::cpu;
use crate::scenario::Direction;

/// Makes one transfer in the calling thread's network namespace.
///
/// `done` counts the bytes as they arrive (get) or as the kernel takes them (put).
pub fn transfer(order: &Order, done: &AtomicU64) -> io::Result<Outcome> {
    let start = Instant::now();
    let mut stream = connect(order)?;
    let connected = start.elapsed();
    let operation = match order.direction {
        Direction::Put => b'P',
        Direction::Get => b'G',
    };
    stream.write_all(&header(operation, order))?;
    let verdict = match order.direction {
        Direction::Put => put(&mut stream, order.bytes, done)?,
        Direction::Get => get(&mut stream, order.bytes, done)?,
    };
    let seconds = start.elapsed().as_secs_f64();
    Ok(Outcome {
        bytes: order.bytes,
        connect_seconds: connected.as_secs_f64(),
        seconds,
        mbps: order.bytes as f64 * 8.0 / seconds / 1e6,
        ok: verdict.ok,
        worst_gap: verdict.worst,
        timeline: verdict.bins,
        cpu_seconds: cpu::of_this_process(),
    })
}

/// Opens a connection on which the server sends each block of `order.bytes` bytes back.
///
/// The connection keeps the order's patience and the calling thread's network namespace.
pub fn open_echo(order: &Order) -> io::Result<TcpStream> {
    let mut stream = connect(order)?;
    stream.set_nodelay(true)?;
    stream.write_all(&header(b'E', order))?;
    Ok(stream)
}

fn header(operation: u8, order: &Order) -> Vec<u8> {
    let mut header = vec![operation];
    header.extend(order.bytes.to_be_bytes());
    header.extend(Congestion::number(order.congestion).to_be_bytes());
    header
}

fn put(stream: &mut TcpStream, bytes: u64, done: &AtomicU64) -> io::Result<Verdict> {
    let crc = body::feed(stream, bytes, done)?;
    stream.write_all(&u64::from(crc).to_be_bytes())?;
    stream.shutdown(Shutdown::Write)?;
    let mut text = Vec::new();
    stream.take(MAX_VERDICT).read_to_end(&mut text)?;
    if text.is_empty() {
        return Err(io::Error::other("the receiver ended without a verdict"));
    }
    Ok(serde_json::from_slice(&text)?)
}

fn get(stream: &mut TcpStream, bytes: u64, done: &AtomicU64) -> io::Result<Verdict> {
    let arrived = body::drain(stream, bytes, done)?;
    let mut check = [0; 8];
    let tail = stream.read_exact(&mut check);
    // The sender waits for this; when it is gone already there is nothing left to tell it.
    let _ = stream.write_all(b"x");
    Ok(Verdict {
        ok: arrived.bytes == bytes
            && tail.is_ok()
            && u64::from_be_bytes(check) == u64::from(arrived.crc),
        worst: arrived.worst.as_secs_f64(),
        bins: arrived.bins,
    })
}

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
