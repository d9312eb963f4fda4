//! The ports of a directory.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hawser_link::bind::{DatagramSocket, listen};
use hawser_sip::fields::Transport;
use tokio::io::ReadBuf;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::error::DirectoryError;
use super::input::Input;
use super::view::Bound;

/// The open ports.
pub(super) struct Sockets {
    pub(super) datagrams: Vec<Arc<DatagramSocket>>,
    streams: Vec<TcpListener>,
    tls: Vec<TcpListener>,
    bound: Bound,
}

impl Sockets {
    /// Opens the ports; each of `plain` for datagrams and streams alike. Needs a runtime.
    pub(super) fn open(plain: &[SocketAddr], tls: &[SocketAddr]) -> Result<Self, DirectoryError> {
        let mut sockets = Self {
            datagrams: Vec::new(),
            streams: Vec::new(),
            tls: Vec::new(),
            bound: Bound::default(),
        };
        for &address in plain {
            let refused = |source| DirectoryError::Listen { address, source };
            let listener = listen(address).map_err(refused)?;
            let bound = listener.local_addr().map_err(refused)?;
            let datagrams = DatagramSocket::listen(bound).map_err(refused)?;
            sockets.datagrams.push(Arc::new(datagrams));
            sockets.streams.push(listener);
            sockets.bound.listen.push(bound);
        }
        for &address in tls {
            let refused = |source| DirectoryError::Listen { address, source };
            let listener = listen(address).map_err(refused)?;
            sockets
                .bound
                .tls
                .push(listener.local_addr().map_err(refused)?);
            sockets.tls.push(listener);
        }
        Ok(sockets)
    }

    pub(super) fn bound(&self) -> Bound {
        self.bound.clone()
    }

    /// Forwards inputs for as long as the receiver of `inputs` exists.
    pub(super) fn hear(self, inputs: &mpsc::Sender<Input>) -> Vec<Arc<DatagramSocket>> {
        for (number, socket) in self.datagrams.iter().enumerate() {
            let number = u32::try_from(number).unwrap_or(u32::MAX);
            tokio::spawn(hear_datagrams(number, Arc::clone(socket), inputs.clone()));
        }
        for listener in self.streams {
            tokio::spawn(accept(listener, Transport::Tcp, inputs.clone()));
        }
        for listener in self.tls {
            tokio::spawn(accept(listener, Transport::Tls, inputs.clone()));
        }
        self.datagrams
    }
}

async fn hear_datagrams(number: u32, socket: Arc<DatagramSocket>, inputs: mpsc::Sender<Input>) {
    let mut buffer = vec![0; MAX_DATAGRAM];
    loop {
        let mut read = ReadBuf::new(&mut buffer);
        let input = match poll_fn(|cx| socket.poll_receive(cx, &mut read)).await {
            Ok(source) => Input::Datagram {
                socket: number,
                source,
                bytes: Bytes::copy_from_slice(read.filled()),
            },
            Err(error) => {
                tracing::debug!(%error, "can't receive a datagram for the directory");
                sleep(PAUSE).await;
                continue;
            }
        };
        if inputs.send(input).await.is_err() {
            return;
        }
    }
}

async fn accept(listener: TcpListener, transport: Transport, inputs: mpsc::Sender<Input>) {
    loop {
        match listener.accept().await {
            Ok((stream, source)) => {
                let source = SocketAddr::new(source.ip().to_canonical(), source.port());
                let transport = transport.clone();
                let input = Input::Connection {
                    stream,
                    transport,
                    source,
                };
                if inputs.send(input).await.is_err() {
                    return;
                }
            }
            Err(error) => {
                tracing::warn!(%error, "the directory can't accept connections");
                sleep(PAUSE).await;
            }
        }
    }
}

const MAX_DATAGRAM: usize = 65_536;
const PAUSE: Duration = Duration::from_millis(100);
