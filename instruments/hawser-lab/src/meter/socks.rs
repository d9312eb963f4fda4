//! The part of SOCKS5 that the meter needs: no authentication, connect to an IPv4 address.

use std::io::{self, Read, Write};
use std::net::{SocketAddrV4, TcpStream};
use std::time::Duration;

/// Opens a connection to `target` through a proxy's `port`, in the calling thread's network
/// namespace. The connection fails when nothing moves for as long as `patience`.
pub(crate) fn open(
    port: SocketAddrV4,
    target: SocketAddrV4,
    patience: Duration,
) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&port.into(), patience)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    connect(&mut stream, target)?;
    Ok(stream)
}

/// Asks the proxy behind `stream` to connect to `target`.
pub(super) fn connect(stream: &mut (impl Read + Write), target: SocketAddrV4) -> io::Result<()> {
    stream.write_all(&[5, 1, 0])?;
    let mut choice = [0; 2];
    stream.read_exact(&mut choice)?;
    if choice != [5, 0] {
        return Err(io::Error::other(format!(
            "the proxy chose {choice:?}, not [5, 0]"
        )));
    }
    let mut request = vec![5, 1, 0, 1];
    request.extend(target.ip().octets());
    request.extend(target.port().to_be_bytes());
    stream.write_all(&request)?;
    let mut reply = [0; 4];
    stream.read_exact(&mut reply)?;
    if reply[1] != 0 {
        return Err(io::Error::other(format!(
            "the proxy refused with code {}",
            reply[1]
        )));
    }
    let mut length = match reply[3] {
        1 => 4,
        4 => 16,
        3 => {
            let mut length = [0];
            stream.read_exact(&mut length)?;
            usize::from(length[0])
        }
        kind => {
            return Err(io::Error::other(format!(
                "the proxy's address is of kind {kind}"
            )));
        }
    };
    length += 2;
    stream.read_exact(&mut vec![0; length])
}
