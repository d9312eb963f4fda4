//! A UDP socket on one link: many datagrams with one call, both ways.

use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd as _;
use std::sync::Arc;

use bytes::BytesMut;
use hawser_sctp::Local;
use hawser_session::seal::datagram::{DatagramKey, DatagramSealer, OVERHEAD};
use hawser_tunnel::PacketMemory;
use hawser_types::Instant;
use parking_lot::Mutex;
use quinn_udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tokio::sync::Notify;

use hawser_link::bind::{bind_to_interface, mark};
use hawser_link::sys::{lead_to_second, set_int_option};

/// The UDP socket of a place: of a local address on a link.
///
/// Datagrams are gathered under an endpoint's lock, and later sealed and sent without it: by one
/// task at a time, in the order in which they were gathered.
#[derive(Debug)]
pub(super) struct LinkSocket {
    local: Local,
    socket: UdpSocket,
    options: UdpSocketState,
    outbox: Mutex<Outbox>,
    /// Notified when the outbox waits for the socket.
    is_blocked: Notify,
}

/// Datagrams that wait to leave.
#[derive(Debug, Default)]
struct Outbox {
    trains: VecDeque<Train>,
    /// Memory of sent trains, for reuse.
    spare: Vec<Vec<u8>>,
    /// A task is sending, and looks here again before it ends.
    is_busy: bool,
    /// The socket takes no datagrams for now.
    is_full: bool,
    /// Number of datagrams dropped because the outbox was full.
    dropped: u64,
}

/// Datagrams for one remote address, to leave together.
#[derive(Debug)]
struct Train {
    remote: SocketAddr,
    /// The datagrams, one behind the other: all but the last have the size of the first.
    datagrams: Vec<u8>,
    segment: usize,
    /// No datagram may follow, for example since the last one is shorter.
    is_complete: bool,
    /// The train is one datagram, which may leave in fragments.
    may_fragment: bool,
    /// The key that the datagrams are to be sealed with.
    key: Option<Arc<DatagramKey>>,
}

/// Whether other sockets use the port of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sharing {
    /// No other socket uses the port.
    Alone,
    /// This socket is the first of several. Binding it fails if another program has the port.
    First,
    /// Other sockets of this process use the port already.
    Beside,
    /// Another process has sockets at the port, and leaves incoming datagrams to this socket.
    After,
}

impl LinkSocket {
    pub(super) fn bind(local: Local, port: u16, sharing: Sharing) -> io::Result<Self> {
        let address = SocketAddr::new(local.address, port);
        let socket = Socket::new(
            Domain::for_address(address),
            Type::DGRAM,
            Some(Protocol::UDP),
        )?;
        mark(&socket)?;
        if local.link.value() != 0 {
            bind_to_interface(&socket, local.link)?;
        }
        // As much as the system allows, so that a short burst is not lost between two reads.
        let _ = socket.set_recv_buffer_size(BUFFER);
        let _ = socket.set_send_buffer_size(BUFFER);
        socket.set_nonblocking(true)?;
        if local.address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        socket.set_reuse_port(matches!(sharing, Sharing::Beside | Sharing::After))?;
        socket.bind(&address.into())?;
        if sharing == Sharing::After {
            lead_to_second(socket.as_fd())?;
        }
        socket.set_reuse_port(sharing != Sharing::Alone)?;
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

    /// Sends an unsealed datagram, which may be lost, ahead of the gathered ones.
    pub(super) fn send_unsealed(&self, remote: SocketAddr, bytes: &[u8]) {
        if let Err(error) = self.socket.try_send_to(bytes, remote) {
            tracing::debug!(%error, %remote, "cannot send datagram");
        }
    }

    /// Gathers a packet, to be sealed if there is a sealer; it leaves with [`Self::flush`].
    pub(super) fn gather(
        &self,
        now: Instant,
        packet: &hawser_sctp::Transmit,
        sealer: Option<&mut DatagramSealer>,
    ) {
        let most = self.options.max_gso_segments();
        let (remote, may_fragment) = (packet.route.remote, packet.may_fragment);
        let mut outbox = self.outbox.lock();
        if may_fragment {
            outbox.complete_last();
        }
        let is_taken = outbox.gather(now, remote, &packet.datagram, sealer, most);
        if may_fragment && is_taken {
            let last = outbox.complete_last();
            last.into_iter().for_each(|last| last.may_fragment = true);
        }
    }

    /// Sends the gathered datagrams.
    pub(super) fn flush(&self) {
        let mut outbox = self.outbox.lock();
        if outbox.is_busy {
            return;
        }
        outbox.is_busy = true;
        while let Some(mut train) = outbox.trains.pop_front() {
            drop(outbox);
            train.seal();
            let has_left = self.send(&train);
            outbox = self.outbox.lock();
            outbox.is_full = !has_left;
            if has_left {
                if outbox.spare.len() < MAX_SPARE {
                    train.datagrams.clear();
                    outbox.spare.push(train.datagrams);
                }
            } else {
                outbox.trains.push_front(train);
                self.is_blocked.notify_one();
                break;
            }
        }
        outbox.is_busy = false;
    }

    /// Sends a train. Returns false if it is to be tried again when the socket is writable.
    fn send(&self, train: &Train) -> bool {
        let destination = train.remote;
        let transmit = Transmit {
            destination,
            ecn: None,
            contents: &train.datagrams,
            segment_size: Some(train.segment),
            src_ip: None,
        };
        let send = || {
            self.socket.try_io(Interest::WRITABLE, || {
                let socket = UdpSockRef::from(&self.socket);
                self.options.try_send(socket, &transmit)
            })
        };
        let sent = if train.may_fragment {
            // No other task sends meanwhile.
            let allowed = self.let_fragment(true);
            let sent = allowed.and_then(|()| send());
            self.let_fragment(false).and(sent)
        } else {
            send()
        };
        match sent {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
            // The link is down, or a packet too large for it: the association detects the loss.
            Err(error) => tracing::debug!(%error, %destination, "cannot send datagrams"),
            Ok(()) => {}
        }
        true
    }

    /// Allows fragments; otherwise oversized datagrams are dropped, here or by a router.
    fn let_fragment(&self, may: bool) -> io::Result<()> {
        let socket = self.socket.as_fd();
        if self.local.address.is_ipv4() {
            let discovery = if may {
                libc::IP_PMTUDISC_DONT
            } else {
                libc::IP_PMTUDISC_PROBE
            };
            return set_int_option(socket, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, discovery);
        }
        // Routers do not fragment IPv6 packets: fragments have to be small enough for any path.
        let (discovery, whole, most) = if may {
            (libc::IPV6_PMTUDISC_DONT, 0, IPV6_MIN_MTU)
        } else {
            (libc::IPV6_PMTUDISC_PROBE, 1, 0)
        };
        let set = |name, value| set_int_option(socket, libc::IPPROTO_IPV6, name, value);
        set(libc::IPV6_MTU, most)?;
        set(libc::IPV6_DONTFRAG, whole)?;
        set(libc::IPV6_MTU_DISCOVER, discovery)
    }

    /// Waits for datagrams and passes each to `take`, with its source and its destination address.
    /// One call reads as many batches of [`MAX_BATCH`] bytes as `buffers` has room for.
    pub(super) async fn receive(
        &self,
        buffers: &mut [u8],
        memory: &mut PacketMemory,
        mut take: impl FnMut(SocketAddr, Option<IpAddr>, BytesMut),
    ) -> io::Result<()> {
        self.socket.readable().await?;
        let mut metas = [RecvMeta::default(); BATCH_SIZE];
        let count = self.socket.try_io(Interest::READABLE, || {
            let mut slices: Vec<IoSliceMut<'_>> =
                buffers.chunks_mut(MAX_BATCH).map(IoSliceMut::new).collect();
            let socket = UdpSockRef::from(&self.socket);
            self.options.recv(socket, &mut slices, &mut metas)
        })?;
        for (meta, buffer) in metas.iter().zip(buffers.chunks(MAX_BATCH)).take(count) {
            cut(memory, &buffer[..meta.len], meta.stride, |datagram| {
                take(meta.addr, meta.dst_ip, datagram);
            });
        }
        Ok(())
    }
}

impl Outbox {
    /// Prevents that a datagram is added to the last train.
    fn complete_last(&mut self) -> Option<&mut Train> {
        let last = self.trains.back_mut()?;
        last.is_complete = true;
        Some(last)
    }

    /// Adds a packet. Returns false if there was no room for it.
    fn gather(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        packet: &[u8],
        sealer: Option<&mut DatagramSealer>,
        most: usize,
    ) -> bool {
        let size = packet.len() + sealer.as_ref().map_or(0, |_| OVERHEAD);
        let mut sealer = sealer;
        let key = sealer.as_mut().map(|sealer| sealer.key(now));
        let last = self.trains.back();
        if !last.is_some_and(|last| last.takes(remote, size, most, key)) {
            let key = key.cloned();
            let most = if self.is_full {
                MAX_WAITING
            } else {
                MAX_TRAINS
            };
            if self.trains.len() >= most {
                // As in any queue, packets beyond the limit are dropped.
                self.dropped += 1;
                return false;
            }
            let memory = self.spare.pop();
            self.trains.push_back(Train {
                remote,
                datagrams: memory.unwrap_or_else(|| Vec::with_capacity(MAX_BATCH)),
                segment: size,
                is_complete: false,
                may_fragment: false,
                key,
            });
        }
        if let Some(last) = self.trains.back_mut() {
            last.push(now, packet, sealer);
        }
        true
    }
}

impl Train {
    fn takes(
        &self,
        remote: SocketAddr,
        size: usize,
        most: usize,
        key: Option<&Arc<DatagramKey>>,
    ) -> bool {
        let is_alike = match (&self.key, key) {
            (None, None) => true,
            (Some(own), Some(key)) => Arc::ptr_eq(own, key),
            _ => false,
        };
        is_alike
            && self.remote == remote
            && !self.is_complete
            && size <= self.segment
            && self.datagrams.len() < most * self.segment
            && self.datagrams.len() + size <= MAX_BATCH
    }

    fn push(&mut self, now: Instant, packet: &[u8], sealer: Option<&mut DatagramSealer>) {
        let start = self.datagrams.len();
        match sealer {
            None => self.datagrams.extend_from_slice(packet),
            // A sealer without packet numbers left sends nothing: the association notices the loss.
            Some(sealer) => _ = sealer.prepare(now, packet, &mut self.datagrams),
        }
        self.is_complete = self.datagrams.len() - start < self.segment;
    }

    /// Seals the datagrams, once, if there is a key.
    fn seal(&mut self) {
        if let Some(key) = self.key.take() {
            let datagrams = self.datagrams.chunks_mut(self.segment.max(1));
            datagrams.for_each(|datagram| key.seal(datagram));
            self.is_complete = true;
        }
    }
}

/// Copies the data that one call has received, and cuts it into datagrams. Neighbours share memory,
/// but only a little, so that a datagram that is kept keeps little else alive.
fn cut(memory: &mut PacketMemory, received: &[u8], stride: usize, mut take: impl FnMut(BytesMut)) {
    for datagram in received.chunks(stride.max(1)) {
        let room = memory.room_for(datagram.len());
        room.extend_from_slice(datagram);
        take(room.split());
    }
}

/// Sends waiting trains whenever a full socket becomes writable.
pub(super) async fn flush(socket: Arc<LinkSocket>) {
    loop {
        socket.is_blocked.notified().await;
        if socket.socket.writable().await.is_ok() {
            socket.flush();
        }
    }
}

/// Most trains that wait for the sending task: as much as an association's buffer holds.
const MAX_TRAINS: usize = 128;
/// Most trains that wait for a full socket: packets that would wait longer are better lost.
const MAX_WAITING: usize = 4;
/// Most buffers kept for reuse: as many trains as a path without a rate limit gathers at once.
const MAX_SPARE: usize = 16;
/// Most bytes that one call sends or receives.
pub(super) const MAX_BATCH: usize = 65_507;
/// Size of the socket's buffer, each way.
const BUFFER: usize = 4 << 20;
/// Source: RFC 8200 §5.
const IPV6_MIN_MTU: libc::c_int = 1280;

#[cfg(test)]
mod tests;
