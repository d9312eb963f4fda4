//! A stream of datagrams at a constant rate, each with the time at which it was sent.
//!
//! Both ends are threads of the lab, so that one clock tells how long a datagram took.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use hawser_types::Rate;

use crate::meter::BIN;
use crate::scenario::Direction;
use crate::topology::{Lab, SERVER};

/// What is sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    pub(super) direction: Direction,
    /// Of payload.
    pub(super) rate: Rate,
    /// How long it lasts after the beginning that is not counted.
    pub(super) span: Duration,
}

/// One datagram. Times count from the end of the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Datagram {
    pub(super) sent: Duration,
    pub(super) arrived: Option<Duration>,
}

impl Stream {
    /// Sends and receives it. `begun` is called at the end of the beginning, which belongs to no
    /// phase: the far end finds the links' rates in it.
    pub(super) fn run(&self, lab: &Lab, begun: impl FnOnce() + Send) -> io::Result<Vec<Datagram>> {
        let server = lab.server().run(|| UdpSocket::bind((SERVER, PORT)))?;
        let client = lab.client().run(|| {
            let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
            socket.connect((SERVER, PORT))?;
            Ok(socket)
        })?;
        server.connect(greet(&client, &server)?)?;
        let (from, to) = match self.direction {
            Direction::Put => (client, server),
            Direction::Get => (server, client),
        };
        let epoch = Instant::now();
        let counted = epoch + BEGINNING;
        let (sent, arrived) = std::thread::scope(|scope| {
            let receiving = scope.spawn(|| receive(&to, epoch, counted + self.span + DRAINS));
            scope.spawn(move || {
                std::thread::sleep(counted.saturating_duration_since(Instant::now()));
                begun();
            });
            let sent = self.send(&from, epoch);
            let died = |_| io::Error::other("the thread of the receiver died");
            Ok::<_, io::Error>((sent?, receiving.join().map_err(died)??))
        })?;
        let mut datagrams: Vec<_> = sent.into_iter().map(|sent| (sent, None)).collect();
        for (number, at) in arrived {
            if let Some((_, arrived)) = datagrams.get_mut(number) {
                arrived.get_or_insert(at);
            }
        }
        let counted = datagrams.into_iter().filter(|(sent, _)| *sent >= BEGINNING);
        Ok(counted
            .map(|(sent, arrived)| Datagram {
                sent: sent - BEGINNING,
                arrived: arrived.map(|at: Duration| at - BEGINNING),
            })
            .collect())
    }

    /// Returns when each datagram was sent, since `epoch`.
    fn send(&self, from: &UdpSocket, epoch: Instant) -> io::Result<Vec<Duration>> {
        let every = LENGTH as f64 * 8.0 / self.rate.bits_per_second() as f64;
        let mut sent = Vec::new();
        let mut datagram = vec![0; LENGTH];
        let end = BEGINNING + self.span;
        loop {
            let due = Duration::from_secs_f64(every * sent.len() as f64);
            if due >= end {
                return Ok(sent);
            }
            std::thread::sleep(due.saturating_sub(epoch.elapsed()));
            datagram[..8].copy_from_slice(&(sent.len() as u64).to_be_bytes());
            sent.push(epoch.elapsed());
            // While no link is there, there is no way; what is not sent does not arrive.
            let _ = from.send(&datagram);
        }
    }
}

/// Bytes that arrived in each bin.
pub(super) fn timeline(datagrams: &[Datagram]) -> Vec<u64> {
    let mut bins = Vec::new();
    for at in datagrams.iter().filter_map(|it| it.arrived) {
        let bin = (at.as_nanos() / BIN.as_nanos()) as usize;
        if bins.len() <= bin {
            bins.resize(bin + 1, 0);
        }
        bins[bin] += LENGTH as u64;
    }
    bins
}

/// Finds out where the client's datagrams come from.
fn greet(client: &UdpSocket, server: &UdpSocket) -> io::Result<SocketAddr> {
    server.set_read_timeout(Some(LOOK))?;
    let mut nothing = [0; 16];
    for _ in 0..GREETINGS {
        client.send(b"hello")?;
        if let Ok((_, from)) = server.recv_from(&mut nothing) {
            return Ok(from);
        }
    }
    Err(io::Error::new(
        io::ErrorKind::TimedOut,
        "no datagram of the client arrives at the server",
    ))
}

/// The numbers of the datagrams that arrive until `end`, and when, since `epoch`.
fn receive(to: &UdpSocket, epoch: Instant, end: Instant) -> io::Result<Vec<(usize, Duration)>> {
    to.set_read_timeout(Some(LOOK))?;
    let mut arrived = Vec::new();
    let mut datagram = vec![0; 2048];
    while Instant::now() < end {
        let Ok(length) = to.recv(&mut datagram) else {
            continue;
        };
        let at = epoch.elapsed();
        // Greetings are shorter.
        if let Some(number) = datagram[..length].first_chunk() {
            arrived.push((u64::from_be_bytes(*number) as usize, at));
        }
    }
    Ok(arrived)
}

/// Payload of a datagram: as large as those of video calls.
pub(super) const LENGTH: usize = 1200;
const PORT: u16 = 9100;
const BEGINNING: Duration = Duration::from_secs(3);
/// How long what is in flight at the end may take.
const DRAINS: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(100);
const GREETINGS: u32 = 100;
