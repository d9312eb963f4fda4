//! The meter's server: takes puts and answers gets, over TCP and MPTCP.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::{Congestion, MAX_ECHO, Verdict, body};

/// Listens on `port` of every address; returns once connections can be made.
pub fn serve(port: u16, mptcp: bool) -> io::Result<TcpListener> {
    let protocol = if mptcp {
        Protocol::MPTCP
    } else {
        Protocol::TCP
    };
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(protocol))?;
    socket.set_reuse_address(true)?;
    socket.bind(&SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port).into())?;
    socket.listen(1024)?;
    Ok(socket.into())
}

/// Serves connections until accepting fails.
pub fn serve_until_ended(listener: &TcpListener) -> io::Result<()> {
    loop {
        let (connection, _) = listener.accept()?;
        std::thread::Builder::new().spawn(move || {
            if let Err(error) = handle(connection) {
                eprintln!("meter: {error}");
            }
        })?;
    }
}

fn handle(mut connection: TcpStream) -> io::Result<()> {
    connection.set_read_timeout(Some(PATIENCE))?;
    connection.set_write_timeout(Some(PATIENCE))?;
    let mut header = [0; 17];
    connection.read_exact(&mut header)?;
    let [operation, rest @ ..] = header;
    let (bytes, congestion) = rest.split_at(8);
    let number = |part: &[u8]| part.try_into().map_or(0, u64::from_be_bytes);
    let bytes = number(bytes);
    if let Some(congestion) = Congestion::of_number(number(congestion)) {
        SockRef::from(&connection).set_tcp_congestion(congestion.name().as_bytes())?;
    }
    match operation {
        b'P' => take(&mut connection, bytes),
        b'G' => give(&mut connection, bytes),
        b'E' => echo(&mut connection, bytes),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn take(connection: &mut TcpStream, bytes: u64) -> io::Result<()> {
    let arrived = body::drain(connection, bytes, &AtomicU64::new(0))?;
    let mut check = [0; 8];
    let tail = connection.read_exact(&mut check);
    let verdict = Verdict {
        ok: arrived.bytes == bytes
            && tail.is_ok()
            && u64::from_be_bytes(check) == u64::from(arrived.crc),
        worst: arrived.worst.as_secs_f64(),
        bins: arrived.bins,
    };
    connection.write_all(&serde_json::to_vec(&verdict)?)
}

fn give(connection: &mut TcpStream, bytes: u64) -> io::Result<()> {
    let crc = body::feed(connection, bytes, &AtomicU64::new(0))?;
    connection.write_all(&u64::from(crc).to_be_bytes())?;
    connection.shutdown(Shutdown::Write)?;
    // Until the receiver has it all, so that closing does not cut anything off.
    let _ = connection.read(&mut [0]);
    Ok(())
}

fn echo(connection: &mut TcpStream, size: u64) -> io::Result<()> {
    let size = match u32::try_from(size) {
        Ok(size @ 1..=MAX_ECHO) => size as usize,
        _ => return Err(io::ErrorKind::InvalidData.into()),
    };
    connection.set_nodelay(true)?;
    let mut block = vec![0; size];
    loop {
        match connection.read_exact(&mut block) {
            Ok(()) => connection.write_all(&block)?,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

const PATIENCE: Duration = Duration::from_secs(120);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::{Order, open_echo};
    use crate::scenario::Direction;

    fn open(size: u64) -> TcpStream {
        let listener = serve(0, false).unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || serve_until_ended(&listener));
        open_echo(&Order {
            direction: Direction::Put,
            server: SocketAddrV4::new(Ipv4Addr::LOCALHOST, port),
            bytes: size,
            source: None,
            device: None,
            mptcp: false,
            congestion: None,
            socks: None,
            patience: Duration::from_secs(10),
        })
        .unwrap()
    }

    #[test]
    fn an_echo_answers_block_after_block_on_one_connection() {
        let mut stream = open(3);
        for request in [*b"abc", *b"xyz"] {
            let mut answer = [0; 3];
            stream.write_all(&request).unwrap();
            stream.read_exact(&mut answer).unwrap();
            assert_eq!(answer, request);
        }
    }

    #[test]
    fn an_echo_of_nothing_or_too_much_is_refused() {
        for size in [0, u64::from(MAX_ECHO) + 1, u64::MAX] {
            assert_eq!(open(size).read(&mut [0]).unwrap(), 0, "{size}");
        }
    }
}
