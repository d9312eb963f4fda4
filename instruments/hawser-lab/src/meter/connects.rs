//! Times calls of connect(2) alone, on requests line by line.

use std::io::{self, BufRead, Write};
use std::net::{SocketAddr, SocketAddrV4};
use std::time::{Duration, Instant};

use socket2::{Domain, Socket, Type};

/// For each line, `tcp COUNT` or `udp COUNT`, makes so many connections one after the other. The
/// answer is a JSON list with the time of each call, in nanoseconds.
pub(crate) fn connects(server: SocketAddrV4) -> io::Result<()> {
    for line in io::stdin().lock().lines() {
        let line = line?;
        let (kind, count) = line.split_once(' ').unwrap_or((&line, "1"));
        let kind = match kind {
            "tcp" => Type::STREAM,
            "udp" => Type::DGRAM,
            _ => return Err(io::Error::other(format!("unknown: {line}"))),
        };
        let count: u32 = count.parse().map_err(io::Error::other)?;
        let times: io::Result<Vec<u64>> = (0..count).map(|_| connect(kind, server)).collect();
        let mut out = io::stdout().lock();
        writeln!(out, "{}", serde_json::to_string(&times?)?)?;
        out.flush()?;
    }
    Ok(())
}

fn connect(kind: Type, server: SocketAddrV4) -> io::Result<u64> {
    let socket = Socket::new(Domain::IPV4, kind, None)?;
    let to = SocketAddr::V4(server).into();
    let begin = Instant::now();
    socket.connect(&to)?;
    let time = begin.elapsed();
    if kind == Type::STREAM {
        // Ports would run out where each waits for its time.
        socket.set_linger(Some(Duration::ZERO))?;
    }
    Ok(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}
