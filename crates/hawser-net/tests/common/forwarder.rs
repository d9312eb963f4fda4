//! A TCP forwarder whose connections can be cut, stalled, delayed and tampered with.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;

/// Forwards every connection to one address, until it is dropped.
pub(crate) struct Forwarder {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
    task: tokio::task::JoinHandle<()>,
}

struct Shared {
    to: SocketAddr,
    /// Whether connections are refused.
    down: watch::Sender<bool>,
    /// Whether bytes to the client behind the TLS handshake are withheld.
    mute: AtomicBool,
    pipes: Mutex<Vec<Arc<Pipe>>>,
}

/// One forwarded connection.
pub(crate) struct Pipe {
    state: watch::Sender<State>,
    /// The first bytes from the client.
    said: Mutex<Vec<u8>>,
    forwarded: Mutex<[u64; 2]>,
    over: AtomicBool,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    cut: bool,
    stalled: bool,
    delay: Duration,
    flip: Option<Way>,
}

/// The direction of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    ToGateway = 0,
    ToClient = 1,
}

/// The purpose of a connection, by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The connection began with a TLS handshake.
    First,
    /// The connection joined a session, under this number.
    Join(u32),
    /// The client has sent too few bytes.
    Unknown,
}

impl Forwarder {
    pub(crate) async fn start(to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            to,
            down: watch::Sender::new(false),
            mute: AtomicBool::new(false),
            pipes: Mutex::default(),
        });
        let task = tokio::spawn(listen(Arc::clone(&shared), listener));
        Self {
            address,
            shared,
            task,
        }
    }

    /// Returns the open connections.
    pub(crate) fn pipes(&self) -> Vec<Arc<Pipe>> {
        let mut pipes = self.all_pipes();
        pipes.retain(|pipe| !pipe.over.load(Ordering::SeqCst));
        pipes
    }

    /// Returns all connections so far, in the order of their arrival.
    pub(crate) fn all_pipes(&self) -> Vec<Arc<Pipe>> {
        self.shared.pipes.lock().clone()
    }

    /// Ends all connections; new ones are refused until [`Forwarder::come_up`].
    pub(crate) fn go_down(&self) {
        self.shared.down.send_replace(true);
        self.all_pipes().iter().for_each(|pipe| pipe.cut());
    }

    pub(crate) fn come_up(&self) {
        self.shared.down.send_replace(false);
    }

    /// Sets whether to withhold the gateway's bytes behind the TLS handshake, on new connections.
    pub(crate) fn set_mute(&self, mute: bool) {
        self.shared.mute.store(mute, Ordering::SeqCst);
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.task.abort();
        self.all_pipes().iter().for_each(|pipe| pipe.cut());
    }
}

impl Pipe {
    pub(crate) fn kind(&self) -> Kind {
        match &self.said.lock()[..] {
            [0x16, ..] => Kind::First,
            [b'H', b'W', b'J', b'1', rest @ ..] if rest.len() >= 20 => {
                let channel = [rest[16], rest[17], rest[18], rest[19]];
                Kind::Join(u32::from_be_bytes(channel))
            }
            _ => Kind::Unknown,
        }
    }

    /// Returns the first bytes from the client, up to some thousand.
    pub(crate) fn said(&self) -> Vec<u8> {
        self.said.lock().clone()
    }

    /// Returns the number of bytes in that direction.
    pub(crate) fn forwarded(&self, way: Way) -> u64 {
        self.forwarded.lock()[way as usize]
    }

    /// Ends the connection on both sides.
    pub(crate) fn cut(&self) {
        self.state.send_modify(|state| state.cut = true);
    }

    /// Stops forwarding silently.
    pub(crate) fn stall(&self) {
        self.state.send_modify(|state| state.stalled = true);
    }

    pub(crate) fn go_on(&self) {
        self.state.send_modify(|state| state.stalled = false);
    }

    /// Delays all bytes by this time from now on.
    pub(crate) fn delay(&self, delay: Duration) {
        self.state.send_modify(|state| state.delay = delay);
    }

    /// Flips one bit of the next bytes in that direction.
    pub(crate) fn flip(&self, way: Way) {
        self.state.send_modify(|state| state.flip = Some(way));
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    /// Ends once the connection must be cut.
    async fn wait_for_cut(&self) {
        let mut state = self.state.subscribe();
        let _ = state.wait_for(|state| state.cut).await;
    }

    /// Applies stalls, delay and bit flips to `buffer`; ends once it may be forwarded.
    async fn treat(&self, way: Way, buffer: &mut [u8]) {
        let mut state = self.state.subscribe();
        let _ = state.wait_for(|state| !state.stalled).await;
        let delay = state.borrow().delay;
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        let flipped = self.state.send_if_modified(|state| {
            let due = state.flip == Some(way);
            if due {
                state.flip = None;
            }
            due
        });
        if flipped {
            let middle = buffer.len() / 2;
            buffer[middle] ^= 0x10;
        }
    }
}

/// Listens whenever the forwarder is not down.
async fn listen(shared: Arc<Shared>, mut listener: TcpListener) {
    let address = listener.local_addr().unwrap();
    let mut down = shared.down.subscribe();
    loop {
        tokio::select! {
            () = accept(&shared, listener) => return,
            _ = down.wait_for(|down| *down) => {}
        }
        // Connections are refused, and no other socket gets the port meanwhile.
        let held = TcpSocket::new_v4().unwrap();
        held.set_reuseaddr(true).unwrap();
        held.bind(address).unwrap();
        if down.wait_for(|down| !*down).await.is_err() {
            return;
        }
        listener = held.listen(BACKLOG).unwrap();
    }
}

async fn accept(shared: &Arc<Shared>, listener: TcpListener) {
    while let Ok((near, _)) = listener.accept().await {
        let Ok(far) = TcpStream::connect(shared.to).await else {
            continue;
        };
        let _ = (near.set_nodelay(true), far.set_nodelay(true));
        let pipe = Arc::new(Pipe {
            state: watch::Sender::new(State::default()),
            said: Mutex::default(),
            forwarded: Mutex::default(),
            over: AtomicBool::new(false),
        });
        shared.pipes.lock().push(Arc::clone(&pipe));
        if *shared.down.borrow() {
            // The connection came too late to be cut with the others.
            pipe.cut();
        }
        let mute = shared.mute.load(Ordering::SeqCst);
        tokio::spawn(async move {
            let (near_in, near_out) = near.into_split();
            let (far_in, far_out) = far.into_split();
            let both = async {
                tokio::join!(
                    forward(&pipe, Way::ToGateway, near_in, far_out, false),
                    forward(&pipe, Way::ToClient, far_in, near_out, mute),
                )
            };
            tokio::select! {
                _ = both => {}
                () = pipe.wait_for_cut() => {}
            }
            pipe.over.store(true, Ordering::SeqCst);
        });
    }
}

async fn forward(
    pipe: &Pipe,
    way: Way,
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mute: bool,
) {
    let mut buffer = vec![0; 16 * 1024];
    let mut tls = mute.then(TlsOnly::default);
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        let bytes = &mut buffer[..read];
        if way == Way::ToGateway {
            let mut said = pipe.said.lock();
            let room = MAX_SAID.saturating_sub(said.len()).min(read);
            said.extend_from_slice(&bytes[..room]);
        }
        pipe.treat(way, bytes).await;
        let passed = tls.as_mut().map_or(read, |tls| tls.pass(bytes));
        if to.write_all(&bytes[..passed]).await.is_err() {
            break;
        }
        pipe.forwarded.lock()[way as usize] += passed as u64;
    }
    let _ = to.shutdown().await;
}

/// Tells TLS records from the bytes behind them.
#[derive(Default)]
struct TlsOnly {
    header: VecDeque<u8>,
    left_of_record: usize,
    over: bool,
}

impl TlsOnly {
    /// Returns how many of `bytes`, at the front, belong to TLS records.
    fn pass(&mut self, bytes: &[u8]) -> usize {
        for (position, byte) in bytes.iter().enumerate() {
            if self.over {
                return position;
            }
            if self.left_of_record > 0 {
                self.left_of_record -= 1;
                continue;
            }
            if self.header.is_empty() && !hawser_seal::is_tls_record(*byte) {
                self.over = true;
                return position;
            }
            self.header.push_back(*byte);
            if let [_, _, _, high, low] = *self.header.make_contiguous() {
                self.left_of_record = usize::from(u16::from_be_bytes([high, low]));
                self.header.clear();
            }
        }
        if self.over { 0 } else { bytes.len() }
    }
}

const MAX_SAID: usize = 8 * 1024;
const BACKLOG: u32 = 1024;
