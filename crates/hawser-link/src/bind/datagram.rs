//! UDP sockets that use one link.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::task::{Context, Poll, ready};

use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::io::ReadBuf;
use tokio::net::UdpSocket;

use super::{ConnectError, bind_to_interface, canonical, mark, source_for};
use crate::links::Link;

/// A UDP socket that sends to any address, by one link or by the system's routes.
#[derive(Debug)]
pub struct DatagramSocket {
    socket: UdpSocket,
    /// Whether the socket is IPv6; it takes IPv4 addresses only as mapped ones.
    is_ipv6: bool,
}

impl DatagramSocket {
    /// Opens a socket with a port of its own, for the family of `remote` and with the address of
    /// `link` that suits `remote`. Needs a tokio runtime.
    ///
    /// # Errors
    /// As for [`connect_on_link`](super::connect_on_link), as far as errors can be seen before
    /// anything is sent.
    pub fn open(link: Option<&Link>, remote: IpAddr) -> Result<Self, ConnectError> {
        let remote = canonical(SocketAddr::new(remote, 0));
        let socket = Socket::new(
            Domain::for_address(remote),
            Type::DGRAM,
            Some(Protocol::UDP),
        )
        .and_then(|socket| mark(&socket).map(|()| socket))
        .map_err(|e| ConnectError::system("open a socket", e))?;
        if let Some(link) = link {
            bind_to_interface(&socket, link.index)
                .map_err(|e| ConnectError::from_bind_to_interface(link, e))?;
        }
        let source = match link {
            Some(link) => source_for(link, remote.ip())?,
            None => None,
        };
        let unspecified = match remote {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let own = SocketAddr::new(source.unwrap_or(unspecified), 0);
        socket
            .bind(&own.into())
            .map_err(|error| match (link, source) {
                (Some(link), Some(source)) => {
                    ConnectError::from_bind_to_address(link, source, error)
                }
                _ => ConnectError::system("take a port", error),
            })?;
        Self::from_socket(socket).map_err(|e| ConnectError::system("open a socket", e))
    }

    /// Opens a socket at a local address; `[::]` receives IPv4 too. Needs a tokio runtime.
    ///
    /// # Errors
    /// The system's error.
    pub fn listen(address: SocketAddr) -> io::Result<Self> {
        let socket = Socket::new(
            Domain::for_address(address),
            Type::DGRAM,
            Some(Protocol::UDP),
        )?;
        mark(&socket)?;
        if address.is_ipv6() && address.ip().is_unspecified() {
            socket.set_only_v6(false)?;
        }
        socket.bind(&address.into())?;
        Self::from_socket(socket)
    }

    fn from_socket(socket: Socket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let socket = UdpSocket::from_std(socket.into())?;
        let is_ipv6 = socket.local_addr()?.is_ipv6();
        Ok(Self { socket, is_ipv6 })
    }

    /// Returns the address in the form of this socket's family.
    fn to_family(&self, remote: SocketAddr) -> SocketAddr {
        match (canonical(remote), self.is_ipv6) {
            (SocketAddr::V4(four), true) => {
                SocketAddr::new(four.ip().to_ipv6_mapped().into(), four.port())
            }
            (remote, _) => remote,
        }
    }

    /// Returns the source address; unspecified where the system chooses one for each datagram.
    ///
    /// # Errors
    /// The system's error.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Connects the socket: it now sends only to `remote` and receives only from it. It also
    /// reports refusals by `remote`: the next send fails with them.
    ///
    /// # Errors
    /// There is no route, or another error of the system.
    pub fn connect(&self, remote: SocketAddr) -> io::Result<()> {
        SockRef::from(&self.socket).connect(&remote.into())
    }

    /// Sends a datagram at once, or not at all.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] while the link has more than it can send; else the system's
    /// error.
    pub fn send_to(&self, payload: &[u8], remote: SocketAddr) -> io::Result<()> {
        // Calls the system directly: tokio would first wait for a readiness event, which a new
        // socket has not had yet.
        SockRef::from(&self.socket)
            .send_to(payload, &self.to_family(remote).into())
            .map(drop)
    }

    /// As [`DatagramSocket::send_to`], to the address that the socket is connected to.
    ///
    /// # Errors
    /// As for [`DatagramSocket::send_to`].
    pub fn send(&self, payload: &[u8]) -> io::Result<()> {
        SockRef::from(&self.socket).send(payload).map(drop)
    }

    /// Receives the next datagram and its sender. Bytes that do not fit `buffer` are lost.
    ///
    /// # Errors
    /// The system's error.
    pub fn poll_receive(
        &self,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<SocketAddr>> {
        let from = ready!(self.socket.poll_recv_from(cx, buffer))?;
        Poll::Ready(Ok(canonical(from)))
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::time::Duration;

    use hawser_skip::namespace::{Neighbour, in_namespace, ip};
    use hawser_types::ByteCount;

    use super::*;
    use crate::links::{list_links, read_counters};

    async fn receive(socket: &DatagramSocket) -> io::Result<(Vec<u8>, SocketAddr)> {
        let mut bytes = [0; 64];
        let mut buffer = ReadBuf::new(&mut bytes);
        let from = poll_fn(|cx| socket.poll_receive(cx, &mut buffer)).await?;
        Ok((buffer.filled().to_vec(), from))
    }

    #[tokio::test]
    async fn the_first_datagram_goes_out_at_once_and_answers_come_with_their_source() {
        let far = DatagramSocket::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let there = far.local_addr().unwrap();
        let near = DatagramSocket::open(None, there.ip()).unwrap();
        near.send_to(b"question", there).unwrap();
        let (question, from) = receive(&far).await.unwrap();
        assert_eq!(
            (&question[..], from.port()),
            (&b"question"[..], near.local_addr().unwrap().port())
        );
        far.send_to(b"answer", from).unwrap();
        assert_eq!(receive(&near).await.unwrap(), (b"answer".to_vec(), there));
    }

    const MAX_TRIES: u32 = 1_000_000;

    #[tokio::test]
    async fn a_connected_socket_reports_a_refusal() {
        let gone = DatagramSocket::listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let there = gone.local_addr().unwrap();
        drop(gone);
        let near = DatagramSocket::open(None, there.ip()).unwrap();
        near.connect(there).unwrap();
        near.send(b"question").unwrap();
        // The host reports the refusal after an unknown delay.
        let again = || near.send(b"question").err();
        let error = (0..MAX_TRIES).find_map(|_| again()).unwrap();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn datagrams_leave_by_their_link_although_another_has_the_same_address() {
        in_namespace(
            "bind::datagram::tests::datagrams_leave_by_their_link_although_another_has_the_same_address",
            || {
                let routers = [Neighbour::start(), Neighbour::start()];
                for ((link, peer), router) in [("one", "uno"), ("two", "due")].iter().zip(&routers)
                {
                    ip(&format!("link add {link} type veth peer name {peer}"));
                    router.take(peer);
                    router.ip(&format!("link set {peer} up"));
                    router.ip(&format!("address add 192.168.8.1/24 dev {peer}"));
                    ip(&format!("address add 192.168.8.100/24 dev {link}"));
                    ip(&format!("link set {link} up"));
                }
                tokio::runtime::Runtime::new().unwrap().block_on(by_each());
            },
        );
    }

    async fn by_each() {
        let links = list_links().await.unwrap();
        let remote: SocketAddr = "192.168.8.1:53".parse().unwrap();
        let find = |name| links.iter().find(|link| link.name == name).unwrap();
        let (one, two) = (find("one"), find("two"));
        for (used, other) in [(one, two), (two, one)] {
            let before = read_counters().await.unwrap();
            let socket = DatagramSocket::open(Some(used), remote.ip()).unwrap();
            for _ in 0..10 {
                socket.send_to(&[0; 1000], remote).unwrap();
            }
            let sent = async || {
                let now = read_counters().await.unwrap();
                [used, other].map(|link| now[&link.index][0] - before[&link.index][0])
            };
            // The datagrams leave once the neighbour's address is known.
            while sent().await[0] < ByteCount::new(10_000) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            assert!(sent().await[1] < ByteCount::new(1000));
        }
    }
}
