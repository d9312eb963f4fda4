//! Closed ports, for tests.

use std::net::{Ipv4Addr, SocketAddr};

use socket2::{Domain, Socket, Type};

/// A port of 127.0.0.1 where connections and datagrams are refused, until this is dropped.
///
/// It is taken, and nothing is heard there. One that was free a moment ago would not do: another
/// test may be given it. And one whose listener was dropped may answer for some time: programs that
/// other tests start have all descriptors until they run.
pub struct ClosedPort {
    address: SocketAddr,
    _stream: Socket,
    _datagrams: Socket,
}

impl ClosedPort {
    /// Binds a free port.
    ///
    /// # Panics
    /// Panics if no port is free.
    #[allow(
        clippy::new_without_default,
        reason = "it takes something of the system's"
    )]
    pub fn new() -> Self {
        let taken = (0..TRIES).find_map(|_| Self::try_new());
        taken.expect("a port is free for streams and datagrams")
    }

    fn try_new() -> Option<Self> {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let stream = Socket::new(Domain::IPV4, Type::STREAM, None).ok()?;
        // Without `listen`.
        stream.bind(&any.into()).ok()?;
        let address = stream.local_addr().ok()?.as_socket()?;
        let datagrams = Socket::new(Domain::IPV4, Type::DGRAM, None).ok()?;
        datagrams.bind(&address.into()).ok()?;
        // From now on it takes what comes from itself alone.
        datagrams.connect(&address.into()).ok()?;
        Some(Self {
            address,
            _stream: stream,
            _datagrams: datagrams,
        })
    }

    /// Returns where it is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

const TRIES: u32 = 20;

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::time::Duration;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn connections_and_datagrams_are_refused_and_no_other_socket_gets_it() {
        let port = ClosedPort::new();
        let refused = TcpStream::connect(port.address()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(port.address()).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.send(b"x").unwrap();
        let refused = socket.recv(&mut [0]).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        assert!(TcpListener::bind(port.address()).is_err());
        assert!(UdpSocket::bind(port.address()).is_err());
    }
}
