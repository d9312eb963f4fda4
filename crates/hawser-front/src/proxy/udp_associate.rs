//! Datagrams of SOCKS5 clients (RFC 1928 §7).

use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering;
use std::task::{Context as TaskContext, Poll};

use hawser_link::bind::DatagramSocket;
use tokio::io::{AsyncReadExt, ReadBuf};
use tracing::debug;

use super::context::{Context, Ends};
use super::parse::Malformed;
use super::socks5::{self, Failure, MAX_DATAGRAM_HEADER};
use super::stats::ProxyCounters;
use crate::datagram::{DatagramPort, with_buffer};
use crate::destination::{Destination, Host};
use crate::tally::Present;
use crate::transport::{ByteStream, DialError};

/// A port of this machine that receives one client's datagrams, and the port that sends them.
pub(super) struct UdpAssociation<'a> {
    socket: DatagramSocket,
    address: SocketAddr,
    sender: Sender,
    port: Box<dyn DatagramPort>,
    counters: &'a ProxyCounters,
    _present: Present<'a>,
}

/// The sender that an association admits: the machine that asked for it, and one of its ports.
struct Sender {
    ip: IpAddr,
    /// `None` until the first datagram, if the client did not name a port.
    port: Option<u16>,
    /// Source address of the sender's datagrams.
    heard: Option<SocketAddr>,
}

impl<'a> UdpAssociation<'a> {
    /// Opens an association for the client of a connection. The client announces that it will send
    /// from `sender`.
    pub(super) async fn open<D>(
        context: &'a Context<D>,
        ends: Ends,
        sender: &Destination,
    ) -> Result<Self, Failure> {
        let ports = context
            .datagrams
            .as_ref()
            .ok_or(Failure::Malformed(Malformed::Command))?;
        let counters = &*context.counters;
        let present = Present::new(&counters.associations);
        let open = counters.associations.load(Ordering::Relaxed);
        if open > context.config.max_associations as u64 {
            counters.over_limit.fetch_add(1, Ordering::Relaxed);
            return Err(Failure::Dial(DialError::LimitReached));
        }
        let asker = context.origin().await.map_err(Failure::Dial)?;
        let failed = |error: std::io::Error| {
            debug!(%error, "cannot open a udp port for a client");
            Failure::Dial(DialError::from_io(&error))
        };
        // The address that the client connected to, with its scope.
        let mut own = ends.own;
        own.set_port(0);
        let socket = DatagramSocket::listen(canonical(own)).map_err(failed)?;
        Ok(Self {
            address: socket.local_addr().map_err(failed)?,
            socket,
            sender: Sender::new(ends.peer.ip(), sender),
            port: ports.open(asker).map_err(Failure::Dial)?,
            counters,
            _present: present,
        })
    }

    /// Tells the client where to send to.
    pub(super) fn reply(&self) -> Vec<u8> {
        socks5::associated(self.address)
    }

    /// Forwards datagrams in both directions until the client ends the connection of its request.
    pub(super) async fn run<C: ByteStream>(mut self, client: &mut C) {
        let mut waste = [0; 256];
        loop {
            tokio::select! {
                read = client.read(&mut waste) => match read {
                    // The client has nothing to send on this connection: ignored.
                    Ok(1..) => {}
                    Ok(0) | Err(_) => return,
                },
                () = poll_fn(|cx| self.poll_carry(cx)) => return,
            }
        }
    }

    /// Ready when the association can't go on.
    fn poll_carry(&mut self, cx: &mut TaskContext<'_>) -> Poll<()> {
        for _ in 0..MAX_ROUNDS {
            let up = match with_buffer(|memory| self.poll_up(cx, memory)) {
                Poll::Ready(Err(error)) => {
                    debug!(%error, "a client's udp port failed");
                    return Poll::Ready(());
                }
                Poll::Ready(Ok(())) => true,
                Poll::Pending => false,
            };
            // After sending: receiving completes work that sending has begun.
            let down = with_buffer(|memory| self.poll_down(cx, memory)).is_ready();
            if !up && !down {
                return Poll::Pending;
            }
        }
        // Other tasks get a turn.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Takes one datagram from the client.
    fn poll_up(
        &mut self,
        cx: &mut TaskContext<'_>,
        memory: &mut [u8],
    ) -> Poll<std::io::Result<()>> {
        let mut buffer = ReadBuf::new(memory);
        let from = std::task::ready!(self.socket.poll_receive(cx, &mut buffer))?;
        if !self.sender.admits(from) {
            self.drop_one();
            return Poll::Ready(Ok(()));
        }
        match socks5::parse_datagram(buffer.filled()) {
            Ok((destination, payload)) => {
                let length = payload.len();
                if self.port.send(&destination, payload) {
                    self.counters.datagrams_up.fetch_add(1, Ordering::Relaxed);
                    self.counters.bytes.add_up(length);
                } else {
                    self.drop_one();
                }
            }
            Err(reason) => {
                self.counters.malformed.add(reason);
                self.drop_one();
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Sends one datagram to the client.
    fn poll_down(&mut self, cx: &mut TaskContext<'_>, memory: &mut [u8]) -> Poll<()> {
        let Some((room, payload)) = memory.split_first_chunk_mut() else {
            return Poll::Pending;
        };
        let mut buffer = ReadBuf::new(payload);
        let from = std::task::ready!(self.port.poll_receive(cx, &mut buffer));
        let length = buffer.filled().len();
        let header = socks5::put_datagram_header(from, room);
        let datagram = memory.get(MAX_DATAGRAM_HEADER - header..MAX_DATAGRAM_HEADER + length);
        match self.sender.heard.zip(datagram) {
            Some((client, datagram)) if self.socket.send_to(datagram, client).is_ok() => {
                self.counters.datagrams_down.fetch_add(1, Ordering::Relaxed);
                self.counters.bytes.add_down(length);
            }
            _ => self.drop_one(),
        }
        Poll::Ready(())
    }

    fn drop_one(&self) {
        self.counters
            .datagrams_dropped
            .fetch_add(1, Ordering::Relaxed);
    }
}

impl Sender {
    /// `peer`: the client's address as its connection shows it. The announced address is used only
    /// if it agrees: a client behind an address translator does not know its address.
    fn new(peer: IpAddr, said: &Destination) -> Self {
        let ip = peer.to_canonical();
        let says_so = said.host == Host::Ip(ip) && said.port != 0;
        Self {
            ip,
            port: says_so.then_some(said.port),
            heard: None,
        }
    }

    fn admits(&mut self, from: SocketAddr) -> bool {
        let is_own = from.ip().to_canonical() == self.ip
            && *self.port.get_or_insert(from.port()) == from.port();
        if is_own {
            self.heard = Some(from);
        }
        is_own
    }
}

fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => SocketAddr::new(ip.into(), address.port()),
        // Unchanged: it may have a scope.
        IpAddr::V6(_) => address,
    }
}

const MAX_ROUNDS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn sender(said: &str) -> Sender {
        Sender::new("::ffff:192.0.2.1".parse().unwrap(), &said.parse().unwrap())
    }

    fn admits(sender: &mut Sender, from: &str) -> bool {
        sender.admits(from.parse().unwrap())
    }

    #[test]
    fn the_first_port_of_the_clients_machine_has_the_association() {
        for said in ["0.0.0.0:0", "0.0.0.0:9", "192.0.2.1:0", "10.0.0.1:9"] {
            let mut sender = sender(said);
            assert!(!admits(&mut sender, "192.0.2.2:7"));
            assert_eq!(sender.heard, None);
            assert!(admits(&mut sender, "192.0.2.1:7"), "{said}");
            assert!(!admits(&mut sender, "192.0.2.1:8"));
            assert!(admits(&mut sender, "[::ffff:192.0.2.1]:7"));
        }
    }

    #[test]
    fn a_client_that_knows_its_port_has_it_from_the_beginning() {
        let mut sender = sender("192.0.2.1:9");
        assert!(!admits(&mut sender, "192.0.2.1:7"));
        assert!(admits(&mut sender, "192.0.2.1:9"));
    }
}
