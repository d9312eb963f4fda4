//! One flow of UDP in trains: many datagrams with one call, cut by the kernel (GSO, USO).

use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use quinn::udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use serde::{Deserialize, Serialize};
use socket2::SockRef;

/// The client's task.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct DatagramOrder {
    /// The server
    server: SocketAddr,
    /// Let the server send
    #[arg(long)]
    get: bool,
    /// Payload of a datagram in bytes
    #[arg(long, default_value_t = 1392, value_parser = clap::value_parser!(u16).range(32..=1472))]
    length: u16,
    /// Payload to send in Mbit/s
    #[arg(long)]
    mbps: u64,
    /// How long
    #[arg(long)]
    seconds: u64,
}

/// What the receiver has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct DatagramOutcome {
    /// Datagrams that the sender's kernel took.
    pub(crate) sent: u64,
    /// Datagrams that arrived.
    pub(crate) arrived: u64,
    /// Payload that arrived.
    pub(crate) bytes: u64,
    /// Those that arrived after a later one.
    pub(crate) disordered: u64,
    /// From the first one to the last one.
    pub(crate) seconds: f64,
}

impl DatagramOutcome {
    /// Payload that arrived, in Mbit/s.
    pub(crate) fn mbps(&self) -> f64 {
        self.bytes as f64 * 8e-6 / self.seconds.max(1e-9)
    }

    /// Share of datagrams that did not arrive.
    pub(crate) fn lost(&self) -> f64 {
        1.0 - self.arrived as f64 / self.sent.max(1) as f64
    }
}

/// Sends to a server, or has it send.
pub(crate) fn run_datagrams(order: &DatagramOrder) -> anyhow::Result<DatagramOutcome> {
    let end = End::bind((Ipv4Addr::UNSPECIFIED, 0).into())?;
    let mut last = Head {
        kind: if order.get { ASK } else { END },
        length: order.length.into(),
        mbps: order.mbps,
        seconds: order.seconds,
        number: 0,
    };
    if !order.get {
        last.number = end.send(order.server, last)?;
    }
    // As any datagram, it may be lost.
    for _ in 0..ATTEMPTS {
        end.socket.send_to(&last.encode(), order.server)?;
        if !end.waits_for(PATIENCE)? {
            continue;
        }
        let mut answer = vec![0; MAX_TRAIN];
        if !order.get {
            let length = end.socket.recv(&mut answer)?;
            return serde_json::from_slice(&answer[..length]).context("the server's answer");
        }
        let (mut tally, mut buffers) = (Tally::default(), buffers());
        let mut is_over = false;
        while !is_over {
            ensure!(end.waits_for(PATIENCE)?, "the server sends nothing more");
            end.receive(&mut buffers, |_, datagram| {
                is_over |= tally.take(datagram) == Some(END)
            })?;
        }
        return Ok(tally.outcome);
    }
    bail!("the server does not answer")
}

/// Counts what clients send, and sends what they ask for, for ever. For one client at a time.
pub(crate) fn serve_datagrams(listen: SocketAddr) -> anyhow::Result<()> {
    let end = End::bind(listen)?;
    let (mut tally, mut buffers) = (Tally::default(), buffers());
    loop {
        end.waits_for(Duration::MAX)?;
        let mut asked = None;
        end.receive(&mut buffers, |client, datagram| {
            let kind = tally.take(datagram);
            if let Some(kind @ (ASK | END)) = kind {
                asked = Head::decode(datagram).map(|head| (kind, client, head));
            }
        })?;
        match asked {
            Some((ASK, client, head)) => {
                let number = end.send(client, head)?;
                let last = Head {
                    kind: END,
                    number,
                    ..head
                };
                for _ in 0..ENDS {
                    std::thread::sleep(PAUSE);
                    end.socket.send_to(&last.encode(), client)?;
                }
            }
            Some((_, client, _)) => {
                let answer = serde_json::to_vec(&tally.outcome)?;
                end.socket.send_to(&answer, client)?;
            }
            None => {}
        }
    }
}

/// Memory for what one call receives.
fn buffers() -> Vec<Vec<u8>> {
    vec![vec![0; MAX_TRAIN]; BATCH_SIZE]
}

/// What every datagram begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    kind: u8,
    /// Payload of a datagram of the flow.
    length: u64,
    mbps: u64,
    seconds: u64,
    /// Of a datagram of the flow; at its end, how many there were.
    number: u64,
}

impl Head {
    const LENGTH: usize = 32;

    fn encode(&self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        let words = [self.length, self.mbps, self.seconds, self.number];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        bytes[0] = self.kind;
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.first_chunk::<{ Self::LENGTH }>()?;
        let mut words = [0; 4];
        for (word, place) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = place
                .iter()
                .fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        }
        let [length, mbps, seconds, number] = words;
        Some(Self {
            kind: bytes[0],
            length: length & 0xffff,
            mbps,
            seconds,
            number,
        })
    }
}

/// Counts the datagrams of one flow.
#[derive(Debug, Default)]
struct Tally {
    outcome: DatagramOutcome,
    next: u64,
    began: Option<Instant>,
    is_over: bool,
}

impl Tally {
    /// Counts a datagram, and returns its kind.
    fn take(&mut self, datagram: &[u8]) -> Option<u8> {
        let head = Head::decode(datagram)?;
        match head.kind {
            DATA => {
                if std::mem::take(&mut self.is_over) {
                    *self = Self::default();
                }
                let began = *self.began.get_or_insert_with(Instant::now);
                self.outcome.arrived += 1;
                self.outcome.bytes += datagram.len() as u64;
                self.outcome.disordered += u64::from(head.number < self.next);
                self.outcome.seconds = began.elapsed().as_secs_f64();
                self.next = self.next.max(head.number + 1);
            }
            END => {
                self.outcome.sent = head.number;
                self.is_over = true;
            }
            _ => {}
        }
        Some(head.kind)
    }
}

/// A socket, with what the kernel can do for it.
struct End {
    socket: UdpSocket,
    options: UdpSocketState,
}

impl End {
    fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = UdpSocket::bind(address)?;
        let options = UdpSocketState::new(UdpSockRef::from(&socket))?;
        // A call would otherwise wait for as many datagrams as it has room for.
        socket.set_nonblocking(true)?;
        let sizes = SockRef::from(&socket);
        let _ = sizes.set_recv_buffer_size(BUFFER);
        let _ = sizes.set_send_buffer_size(BUFFER);
        Ok(Self { socket, options })
    }

    /// Sends a flow in trains at its rate; returns the number of datagrams.
    fn send(&self, to: SocketAddr, flow: Head) -> io::Result<u64> {
        let length = usize::try_from(flow.length).unwrap_or(0).max(Head::LENGTH);
        let count = (MAX_TRAIN / length).min(self.options.max_gso_segments());
        let mut train = vec![0; length * count];
        let span = Duration::from_secs(flow.seconds.min(MAX_SECONDS));
        let began = Instant::now();
        let mut number = 0;
        while began.elapsed() < span {
            let due = flow.mbps as f64 * 1e6 / 8.0 * began.elapsed().as_secs_f64();
            if number as f64 * length as f64 > due {
                std::thread::sleep(PACE);
                continue;
            }
            for datagram in train.chunks_mut(length) {
                let head = Head {
                    kind: DATA,
                    number,
                    ..flow
                };
                datagram[..Head::LENGTH].copy_from_slice(&head.encode());
                number += 1;
            }
            let transmit = Transmit {
                destination: to,
                ecn: None,
                contents: &train,
                segment_size: Some(length),
                src_ip: None,
            };
            let socket = UdpSockRef::from(&self.socket);
            match self.options.try_send(socket, &transmit) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    // It did not leave, and the next train has its numbers.
                    number -= count as u64;
                    self.poll(libc::POLLOUT, PATIENCE)?;
                }
                sent => sent?,
            }
        }
        Ok(number)
    }

    /// Takes what has come with one call, of which there must be something.
    fn receive(
        &self,
        buffers: &mut [Vec<u8>],
        mut take: impl FnMut(SocketAddr, &[u8]),
    ) -> io::Result<()> {
        let mut metas = [RecvMeta::default(); BATCH_SIZE];
        let mut slices: Vec<_> = buffers.iter_mut().map(|it| IoSliceMut::new(it)).collect();
        let socket = UdpSockRef::from(&self.socket);
        let count = match self.options.recv(socket, &mut slices, &mut metas) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            received => received?,
        };
        for (meta, buffer) in metas.iter().zip(buffers).take(count) {
            let datagrams = buffer[..meta.len].chunks(meta.stride.max(1));
            datagrams.for_each(|datagram| take(meta.addr, datagram));
        }
        Ok(())
    }

    /// Waits until something has come; returns false after `limit`.
    fn waits_for(&self, limit: Duration) -> io::Result<bool> {
        self.poll(libc::POLLIN, limit)
    }

    fn poll(&self, events: libc::c_short, limit: Duration) -> io::Result<bool> {
        let mut poll = libc::pollfd {
            fd: self.socket.as_raw_fd(),
            events,
            revents: 0,
        };
        let millis = i32::try_from(limit.as_millis()).unwrap_or(-1);
        // SAFETY: one pollfd, which lives until the call returns.
        match unsafe { libc::poll(&raw mut poll, 1, millis) } {
            -1 => Err(io::Error::last_os_error()),
            ready => Ok(ready > 0),
        }
    }
}

/// Kinds of datagrams: of a flow, its end, and what asks for one.
const DATA: u8 = 1;
const END: u8 = 2;
const ASK: u8 = 3;
/// Ends of a flow that are sent, since some may be lost.
const ENDS: u32 = 3;
const ATTEMPTS: u32 = 20;
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(50);
/// How exactly the rate is kept.
const PACE: Duration = Duration::from_micros(100);
const MAX_TRAIN: usize = 65_507;
const MAX_SECONDS: u64 = 600;
const BUFFER: usize = 8 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn data(number: u64) -> Vec<u8> {
        let head = Head {
            kind: DATA,
            length: 100,
            mbps: 7,
            seconds: 3,
            number,
        };
        assert_eq!(Head::decode(&head.encode()), Some(head));
        [&head.encode()[..], &[0; 68]].concat()
    }

    #[test]
    fn what_is_lost_or_late_is_counted_until_the_next_flow() {
        let mut tally = Tally::default();
        for number in [0, 1, 4, 3] {
            assert_eq!(tally.take(&data(number)), Some(DATA));
        }
        let mut end = data(5);
        end[0] = END;
        assert_eq!(tally.take(&end), Some(END));
        let DatagramOutcome {
            sent,
            arrived,
            bytes,
            disordered,
            ..
        } = tally.outcome;
        assert_eq!((sent, arrived, bytes, disordered), (5, 4, 400, 1));
        assert!((tally.outcome.lost() - 0.2).abs() < 1e-9);
        tally.take(&data(0));
        assert_eq!(tally.outcome.arrived, 1);
        assert_eq!(tally.take(&[0; 9]), None);
    }

    #[test]
    fn a_flow_arrives_over_loopback() {
        let listen: SocketAddr = {
            let free = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            free.local_addr().unwrap()
        };
        std::thread::spawn(move || serve_datagrams(listen));
        for get in [false, true] {
            let order = DatagramOrder {
                server: listen,
                get,
                length: 1000,
                mbps: 20,
                seconds: 1,
            };
            // Until the server listens, datagrams are refused.
            let outcome = (0..100).find_map(|_| {
                std::thread::sleep(Duration::from_millis(20));
                run_datagrams(&order).ok()
            });
            let outcome = outcome.expect("the flow arrives");
            assert!(outcome.arrived > 0 && outcome.arrived <= outcome.sent);
            assert_eq!(outcome.bytes, outcome.arrived * 1000);
        }
    }
}
