//! Lookup of a local TCP socket's cookie by its two addresses.

use std::io;
use std::net::SocketAddr;

use crate::diag::{Diagnosis, Found};

/// Asks the kernel for the cookie of the socket at `local` connected to `remote`; `None` if there
/// is none in this network namespace.
///
/// # Errors
/// Fails with the kernel's error.
pub(super) fn cookie_of(local: SocketAddr, remote: SocketAddr) -> io::Result<Option<u64>> {
    let found = Diagnosis::open()?.find(local, remote)?;
    Ok(found.as_ref().map(Found::cookie))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use socket2::SockRef;

    use super::*;

    fn check(listen: &str, connect: impl Fn(u16) -> SocketAddr) {
        let Ok(listener) = TcpListener::bind(listen) else {
            return assert!(listen.contains(':'), "no IPv4 on loopback");
        };
        let port = listener.local_addr().unwrap().port();
        let client = TcpStream::connect(connect(port)).unwrap();
        let (accepted, peer) = listener.accept().unwrap();
        let local = accepted.local_addr().unwrap();
        let cookie = SockRef::from(&client).cookie().unwrap();
        assert_eq!(cookie_of(peer, local).unwrap(), Some(cookie));
        // A closed socket with unsent data is still known by its addresses.
        drop(client);
        assert_eq!(cookie_of(peer, local).unwrap(), Some(cookie));
    }

    #[test]
    fn the_cookie_is_what_the_socket_itself_says() {
        check("127.0.0.1:0", |port| ([127, 0, 0, 1], port).into());
        // A socket for IPv6 that goes to an IPv4 address.
        check("127.0.0.1:0", |port| {
            format!("[::ffff:127.0.0.1]:{port}").parse().unwrap()
        });
        check("[::1]:0", |port| format!("[::1]:{port}").parse().unwrap());
    }

    #[test]
    fn no_socket_no_cookie() {
        let address = "127.0.0.1:1".parse().unwrap();
        assert_eq!(cookie_of(address, address).unwrap(), None);
    }
}
