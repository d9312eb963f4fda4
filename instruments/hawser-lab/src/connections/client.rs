//! An application that fetches things, each over a connection of its own.

use std::io::{self, Read, Write};
use std::net::SocketAddrV4;
use std::time::{Duration, Instant};

use hawser_scenario::figures::Served;

use super::hosts::port_of;
use crate::measure::SOCKS;
use crate::meter::socks;
use crate::netns::NetNs;
use crate::scenario::Arrival;
use crate::topology::SERVER;

/// Fetches what is to be fetched, from now on, through the daemon's port; ends with the last one.
pub(super) fn serve(host: &NetNs, arrivals: &[Arrival]) -> io::Result<Vec<Served>> {
    host.run(|| {
        let began = Instant::now();
        std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for arrival in arrivals {
                let at = began + arrival.at;
                std::thread::sleep(at.saturating_duration_since(Instant::now()));
                // Hundreds may wait at once.
                let builder = std::thread::Builder::new().stack_size(256 * 1024);
                threads.push(builder.spawn_scoped(scope, move || {
                    let ended = fetch(arrival).map(|()| began.elapsed()).ok();
                    Served {
                        arrival: *arrival,
                        ended,
                    }
                })?);
            }
            let join = |thread: std::thread::ScopedJoinHandle<'_, Served>| {
                let failed = |_| io::Error::other("a thread that fetches failed");
                thread.join().map_err(failed)
            };
            threads.into_iter().map(join).collect()
        })
    })
}

fn fetch(arrival: &Arrival) -> io::Result<()> {
    let target = SocketAddrV4::new(SERVER, port_of(arrival.application));
    let mut stream = socks::open(SOCKS, target, PATIENCE)?;
    let last = arrival.size.as_u64() - 1;
    let request = format!(
        "GET /data HTTP/1.1\r\nHost: {SERVER}\r\nRange: bytes=0-{last}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes())?;
    let mut head = Vec::new();
    let mut buffer = vec![0; 16 * 1024];
    let mut body = 0;
    let mut in_body = false;
    loop {
        let read = stream.read(&mut buffer)? as u64;
        if read == 0 {
            break;
        }
        if in_body {
            body += read;
            continue;
        }
        head.extend_from_slice(&buffer[..read as usize]);
        if let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") {
            in_body = true;
            body = (head.len() - end - 4) as u64;
        } else if head.len() > MAX_HEAD {
            break;
        }
    }
    let is_whole = head.starts_with(b"HTTP/1.1 206") && body == arrival.size.as_u64();
    if is_whole {
        Ok(())
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

/// A connection fails when nothing arrives for this long.
const PATIENCE: Duration = Duration::from_secs(300);
const MAX_HEAD: usize = 16 * 1024;
