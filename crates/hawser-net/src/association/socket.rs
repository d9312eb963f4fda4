//! A UDP socket on one link: many datagrams with one call, both ways.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::BytesMut;
use hawser_sctp::Local;
use quinn_udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::sync::Notify;

use super::Shared;
use crate::bind::bind_to_interface;

/// The socket of a place.
#[derive(Debug)]
pub(super) struct LinkSocket {
    local: Local,
    socket: UdpSocket,
    options: UdpSocketState,
    outbox: Mutex<Outbox>,
    /// The outbox waits for the socket.
    is_blocked: Notify,
}

/// Datagrams for one remote address, to leave together.
#[derive(Debug, Default)]
struct Outbox {
    remote: Option<SocketAddr>,
    /// One behind the other: all but the last have the size of the first.
    datagrams: Vec<u8>,
    segment: usize,
    /// The last one is shorter: nothing may follow it.
    is_complete: bool,
    /// Datagrams that did not fit when the socket was full.
    dropped: u64,
}

impl LinkSocket {
    pub(super) fn bind(local: Local, port: u16) -> io::Result<Self> {
        let address = SocketAddr::new(local.address, port);
        let socket = Socket::new(
            Domain::for_address(address),
            Type::DGRAM,
            Some(Protocol::UDP),
        )?;
        if local.link.value() != 0 {
            bind_to_interface(&socket, local.link.value())?;
        }
        // As much as the system allows; a short burst should not be lost between two looks.
        let _ = socket.set_recv_buffer_size(BUFFER);
        let _ = socket.set_send_buffer_size(BUFFER);
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        let socket = UdpSocket::from_std(socket.into())?;
        Ok(Self {
            local,
            options: UdpSocketState::new(UdpSockRef::from(&socket))?,
            socket,
            outbox: Mutex::new(Outbox::default()),
            is_blocked: Notify::new(),
        })
    }

    pub(super) fn local(&self) -> Local {
        self.local
    }

    pub(super) fn port(&self) -> io::Result<u16> {
        Ok(self.socket.local_addr()?.port())
    }

    /// Adds a datagram to those that leave together, or begins anew with it.
    pub(super) fn send(&self, remote: SocketAddr, datagram: &[u8]) {
        let mut outbox = self.outbox();
        if !outbox.takes(remote, datagram.len(), self.options.max_gso_segments()) {
            self.flush_outbox(&mut outbox);
        }
        if !outbox.takes(remote, datagram.len(), self.options.max_gso_segments()) {
            // The socket is full: as in any queue, what is too much is lost.
            outbox.dropped += 1;
            return;
        }
        outbox.push(remote, datagram);
    }

    /// Sends what was gathered.
    pub(super) fn flush(&self) {
        self.flush_outbox(&mut self.outbox());
    }

    fn flush_outbox(&self, outbox: &mut Outbox) {
        let Some(destination) = outbox.remote else {
            return;
        };
        let transmit = Transmit {
            destination,
            ecn: None,
            contents: &outbox.datagrams,
            segment_size: Some(outbox.segment),
            src_ip: None,
        };
        let sent = self.socket.try_io(Interest::WRITABLE, || {
            let socket = UdpSockRef::from(&self.socket);
            self.options.try_send(socket, &transmit)
        });
        match sent {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.is_blocked.notify_one();
                return;
            }
            // A link that is down, a packet too large for it: what is lost is found out above.
            Err(error) => tracing::debug!(%error, %destination, "datagrams not sent"),
            Ok(()) => {}
        }
        outbox.clear();
    }

    fn outbox(&self) -> std::sync::MutexGuard<'_, Outbox> {
        self.outbox
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Waits for datagrams and gives each to `take`.
    async fn receive(
        &self,
        buffers: &mut [Vec<u8>],
        mut take: impl FnMut(SocketAddr, BytesMut),
    ) -> io::Result<()> {
        self.socket.readable().await?;
        let mut metas = [RecvMeta::default(); BATCH_SIZE];
        let count = self.socket.try_io(Interest::READABLE, || {
            let mut slices: Vec<IoSliceMut<'_>> =
                buffers.iter_mut().map(|it| IoSliceMut::new(it)).collect();
            let socket = UdpSockRef::from(&self.socket);
            self.options.recv(socket, &mut slices, &mut metas)
        })?;
        for (meta, buffer) in metas.iter().zip(buffers).take(count) {
            for datagram in buffer[..meta.len].chunks(meta.stride.max(1)) {
                take(meta.addr, BytesMut::from(datagram));
            }
        }
        Ok(())
    }
}

impl Outbox {
    fn takes(&self, remote: SocketAddr, size: usize, most: usize) -> bool {
        match self.remote {
            None => true,
            Some(same) => {
                same == remote
                    && !self.is_complete
                    && size <= self.segment
                    && self.datagrams.len() / self.segment.max(1) < most
                    && self.datagrams.len() + size <= MAX_BATCH
            }
        }
    }

    fn push(&mut self, remote: SocketAddr, datagram: &[u8]) {
        if self.remote.is_none() {
            self.remote = Some(remote);
            self.segment = datagram.len();
        }
        self.is_complete = datagram.len() < self.segment;
        self.datagrams.extend_from_slice(datagram);
    }

    fn clear(&mut self) {
        self.remote = None;
        self.datagrams.clear();
        self.is_complete = false;
    }
}

/// Reads a socket for ever.
pub(super) async fn read(shared: Arc<Shared>, socket: Arc<LinkSocket>) {
    let mut buffers = vec![vec![0; MAX_BATCH]; BATCH_SIZE];
    let mut datagrams = Vec::new();
    loop {
        let received = socket
            .receive(&mut buffers, |remote, datagram| {
                datagrams.push((remote, datagram));
            })
            .await;
        match received {
            Ok(()) => shared.handle_datagrams(socket.local(), &mut datagrams),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // Such as a port that is closed at the other end; a link that is gone is told otherwise.
            Err(error) => {
                tracing::debug!(%error, "can't read a socket");
                tokio::task::yield_now().await;
            }
        }
    }
}

/// Sends what a full socket had to leave.
pub(super) async fn flush(socket: Arc<LinkSocket>) {
    loop {
        socket.is_blocked.notified().await;
        if socket.socket.writable().await.is_ok() {
            socket.flush();
        }
    }
}

/// What one call sends or receives at most.
const MAX_BATCH: usize = 65_507;
/// Of the socket, each way.
const BUFFER: usize = 4 << 20;
