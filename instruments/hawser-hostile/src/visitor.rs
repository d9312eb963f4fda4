//! Another honest client: short connections and single datagrams, one after another, each with or
//! without an answer.

use std::collections::HashSet;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Semaphore;
use tokio::time::{Instant, interval, sleep, timeout};

/// How many were asked for and how many of them were answered in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Tally {
    /// Connections or datagrams.
    pub asked: u64,
    /// Those whose answer came.
    pub answered: u64,
}

impl Tally {
    /// The part that was answered; `None` without a question.
    pub fn ratio(self) -> Option<f64> {
        (self.asked > 0).then(|| self.answered as f64 / self.asked as f64)
    }

    /// True if 0.9 were answered. More is asked in the lab, where no other programs want the same
    /// processors.
    pub(crate) fn is_enough(self) -> bool {
        self.asked - self.answered <= self.asked.div_ceil(10)
    }
}

/// Connects and sends through a daemon's proxy port until it is dropped.
pub(crate) struct Visitor {
    shared: Arc<Shared>,
    worker: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    /// What is asked now counts.
    counts: AtomicBool,
    stop: AtomicBool,
    connections: Counts,
    datagrams: Counts,
    /// Datagrams that count and whose answers are waited for.
    awaited: Mutex<HashSet<u64>>,
}

#[derive(Debug, Default)]
struct Counts {
    asked: AtomicU64,
    answered: AtomicU64,
}

impl Visitor {
    /// Begins, in a thread of its own. Nothing counts yet.
    pub(crate) fn start(proxy: SocketAddr) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let of_worker = Arc::clone(&shared);
        let worker = std::thread::spawn(move || {
            let shared = Arc::clone(&of_worker);
            // Without origins nothing is answered, which shows.
            runtime.block_on(async move { visit(proxy, shared).await.ok() });
        });
        Ok(Self {
            shared,
            worker: Some(worker),
        })
    }

    /// From now on connections and datagrams count.
    pub(crate) fn begin_to_count(&self) {
        self.shared.counts.store(true, Ordering::Relaxed);
    }

    /// Stops to count once there are enough, and waits for the answers that are still due.
    pub(crate) async fn tallies(&self) -> [Tally; 2] {
        self.wait_until(|it| it.asked >= LEAST_ASKED).await;
        self.shared.counts.store(false, Ordering::Relaxed);
        self.wait_until(|it| it.answered == it.asked).await
    }

    /// Waits for so long as an answer may take.
    async fn wait_until(&self, is_enough: impl Fn(&Tally) -> bool) -> [Tally; 2] {
        let until = Instant::now() + PATIENCE + PERIOD;
        loop {
            let counts = [&self.shared.connections, &self.shared.datagrams];
            let tallies = counts.map(|counts| Tally {
                asked: counts.asked.load(Ordering::Relaxed),
                answered: counts.answered.load(Ordering::Relaxed),
            });
            if tallies.iter().all(&is_enough) || Instant::now() > until {
                return tallies;
            }
            sleep(PERIOD / 5).await;
        }
    }
}

impl Drop for Visitor {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(worker) = self.worker.take() {
            // Its panic would be shown already.
            let _ = worker.join();
        }
    }
}

async fn visit(proxy: SocketAddr, shared: Arc<Shared>) -> io::Result<()> {
    let stream_echo = echo_streams().await?;
    let datagram_echo = echo_datagrams().await?;
    let flow = tokio::spawn(keep_flow(proxy, datagram_echo, Arc::clone(&shared)));
    let mut ticks = interval(PERIOD);
    let places = Arc::new(Semaphore::new(AT_ONCE));
    while !shared.stop.load(Ordering::Relaxed) {
        ticks.tick().await;
        // On a busy machine answers are slow. More questions then would be a flood, too.
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            continue;
        };
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            let _place = place;
            let counts = shared.counts.load(Ordering::Relaxed);
            let asked = u64::from(counts);
            shared.connections.asked.fetch_add(asked, Ordering::Relaxed);
            if let Ok(Ok(())) = timeout(PATIENCE, connect_and_ask(proxy, stream_echo)).await {
                shared
                    .connections
                    .answered
                    .fetch_add(asked, Ordering::Relaxed);
            }
        });
    }
    flow.abort();
    Ok(())
}

/// One connection: a question, and its answer.
async fn connect_and_ask(proxy: SocketAddr, origin: SocketAddr) -> io::Result<()> {
    let mut stream = TcpStream::connect(proxy).await?;
    ask_proxy(&mut stream, CONNECT, origin).await?;
    stream.write_all(QUESTION).await?;
    let mut answer = [0; QUESTION.len()];
    stream.read_exact(&mut answer).await?;
    if answer == QUESTION {
        Ok(())
    } else {
        Err(io::ErrorKind::InvalidData.into())
    }
}

/// Asks a SOCKS proxy; gives the address in its answer.
async fn ask_proxy(
    stream: &mut TcpStream,
    command: u8,
    target: SocketAddr,
) -> io::Result<SocketAddr> {
    stream.write_all(&[5, 1, 0]).await?;
    stream.read_exact(&mut [0; 2]).await?;
    let request = [&[5, command, 0][..], &socks_address(target)].concat();
    stream.write_all(&request).await?;
    let mut answer = [0; 10];
    stream.read_exact(&mut answer).await?;
    let [_, 0, _, _, a, b, c, d, high, low] = answer else {
        return Err(io::ErrorKind::ConnectionRefused.into());
    };
    let port = u16::from_be_bytes([high, low]);
    Ok((Ipv4Addr::new(a, b, c, d), port).into())
}

/// Has a flow of datagrams, and a new one where it ends.
async fn keep_flow(proxy: SocketAddr, origin: SocketAddr, shared: Arc<Shared>) {
    let mut number = 0;
    loop {
        // What is asked without a flow is asked in vain.
        let ended = flow(proxy, origin, &shared, &mut number).await;
        if ended.is_err() && shared.counts.load(Ordering::Relaxed) {
            shared.datagrams.asked.fetch_add(1, Ordering::Relaxed);
        }
        sleep(PERIOD).await;
    }
}

async fn flow(
    proxy: SocketAddr,
    origin: SocketAddr,
    shared: &Shared,
    number: &mut u64,
) -> io::Result<()> {
    let mut control = TcpStream::connect(proxy).await?;
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    // The address that datagrams will come from.
    let own = socket.local_addr()?;
    let relay = timeout(PATIENCE, ask_proxy(&mut control, ASSOCIATE, own)).await??;
    socket.connect((proxy.ip(), relay.port())).await?;
    let header = [&[0, 0, 0][..], &socks_address(origin)].concat();
    let (mut ticks, mut buffer) = (interval(PERIOD), [0; 256]);
    loop {
        tokio::select! {
            _ = ticks.tick() => {
                *number += 1;
                if shared.counts.load(Ordering::Relaxed) {
                    shared.datagrams.asked.fetch_add(1, Ordering::Relaxed);
                    shared.awaited.lock().insert(*number);
                }
                let datagram = [&header[..], &number.to_be_bytes()].concat();
                socket.send(&datagram).await?;
            }
            length = socket.recv(&mut buffer) => {
                let answer = buffer.get(..length?).and_then(|it| it.last_chunk());
                let came = answer.map(|number| u64::from_be_bytes(*number));
                if came.is_some_and(|number| shared.awaited.lock().remove(&number)) {
                    shared.datagrams.answered.fetch_add(1, Ordering::Relaxed);
                }
            }
            ended = control.read_u8() => {
                return Err(ended.err().unwrap_or(io::ErrorKind::InvalidData.into()));
            }
        }
    }
}

/// An address as SOCKS has it; those here are all IPv4.
fn socks_address(address: SocketAddr) -> Vec<u8> {
    let SocketAddr::V4(address) = address else {
        return Vec::new();
    };
    let port = address.port().to_be_bytes();
    [&[1][..], &address.ip().octets(), &port].concat()
}

/// Answers each connection with what it says.
async fn echo_streams() -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        loop {
            let Ok((mut stream, _)) = listener.accept().await else {
                sleep(PERIOD).await;
                continue;
            };
            tokio::spawn(async move {
                let (mut read, mut write) = stream.split();
                tokio::io::copy(&mut read, &mut write).await.ok()
            });
        }
    });
    Ok(address)
}

/// Sends each datagram back.
async fn echo_datagrams() -> io::Result<SocketAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = socket.local_addr()?;
    tokio::spawn(async move {
        let mut buffer = [0; 256];
        loop {
            // A port that has gone is no loss.
            if let Ok((length, from)) = socket.recv_from(&mut buffer).await {
                let _ = socket.send_to(&buffer[..length], from).await;
            }
        }
    });
    Ok(address)
}

const CONNECT: u8 = 1;
const ASSOCIATE: u8 = 3;
const QUESTION: &[u8] = b"is a server here";
/// Between two connections, and between two datagrams.
const PERIOD: Duration = Duration::from_millis(25);
/// Connections and datagrams, however short a script is.
const LEAST_ASKED: u64 = 20;
/// Connections whose answers are waited for.
const AT_ONCE: usize = 4;
/// An answer that comes later comes too late.
const PATIENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_a_tenth_may_be_missing_and_of_a_few_one() {
        let enough = |asked, answered| Tally { asked, answered }.is_enough();
        assert!(enough(200, 180) && !enough(200, 179));
        assert!(enough(5, 4) && !enough(5, 3));
        assert!(enough(0, 0));
        assert_eq!(Tally::default().ratio(), None);
    }
}
