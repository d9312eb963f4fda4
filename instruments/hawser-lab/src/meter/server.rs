//! The meter's server: takes puts and answers gets, over TCP and MPTCP.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};

use super::header::{HEADER, Header, Operation};
use super::{Congestion, MAX_ECHO, body};
use crate::open_files::raise_open_files;

/// Listens on `port` of every address; returns once connections can be made.
///
/// What is accepted has the congestion control `congestion` from its first packet. To set it later
/// would not be the same: a connection that began with bbr stays paced for good.
pub fn serve(port: u16, mptcp: bool, congestion: Option<Congestion>) -> io::Result<TcpListener> {
    let protocol = if mptcp {
        Protocol::MPTCP
    } else {
        Protocol::TCP
    };
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(protocol))?;
    if let Some(congestion) = congestion {
        socket.set_tcp_congestion(congestion.name().as_bytes())?;
    }
    socket.set_reuse_address(true)?;
    socket.bind(&SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port).into())?;
    socket.listen(1024)?;
    Ok(socket.into())
}

/// The port of a meter that serves with this protocol and congestion control.
pub fn port(mptcp: bool, congestion: Option<Congestion>) -> u16 {
    let control = match congestion {
        None => 0,
        Some(Congestion::Cubic) => 10,
        Some(Congestion::Bbr) => 20,
    };
    FIRST_PORT + control + u16::from(mptcp)
}

/// Serves every protocol and congestion control that this machine has, until it is killed.
pub(crate) fn serve_all() -> io::Result<()> {
    raise_open_files()?;
    let mut listeners = Vec::new();
    let controls = Congestion::ALL.map(Some);
    // The default last: a program that waits for it then finds the others open too.
    for congestion in controls.into_iter().chain([None]) {
        for mptcp in [true, false] {
            match serve(port(mptcp, congestion), mptcp, congestion) {
                Ok(listener) => listeners.push(listener),
                Err(error) if mptcp || congestion.is_some() => {
                    eprintln!("meter: mptcp {mptcp}, {congestion:?}: {error}");
                }
                Err(error) => return Err(error),
            }
        }
    }
    std::thread::scope(|scope| {
        for listener in &listeners {
            scope.spawn(move || {
                if let Err(error) = serve_until_ended(listener) {
                    eprintln!("meter: {error}");
                }
            });
        }
    });
    Ok(())
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
    let mut header = [0; HEADER];
    connection.read_exact(&mut header)?;
    let header = Header::parse(header)?;
    match header.operation {
        Operation::Put => take(&mut connection, header.size),
        Operation::Get => give(&mut connection, header.size),
        Operation::Echo => echo(&mut connection, header.size),
    }
}

fn take(connection: &mut TcpStream, bytes: u64) -> io::Result<()> {
    let sink = body::drain(connection, bytes, &AtomicU64::new(0))?;
    let receipt = sink.receipt(bytes, body::read_check(connection));
    connection.write_all(&serde_json::to_vec(&receipt)?)
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
const FIRST_PORT: u16 = 5001;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::{Order, first_answer, open_echo};
    use crate::scenario::Direction;

    fn order(size: u64) -> Order {
        let listener = serve(0, false, None).unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || serve_until_ended(&listener));
        Order {
            direction: Direction::Put,
            server: SocketAddrV4::new(Ipv4Addr::LOCALHOST, port),
            bytes: size,
            source: None,
            device: None,
            mptcp: false,
            congestion: None,
            socks: None,
            patience: Duration::from_secs(10),
        }
    }

    fn open(size: u64) -> TcpStream {
        open_echo(&order(size)).unwrap()
    }

    #[test]
    fn an_answer_comes_after_the_connection_stands() {
        let answer = first_answer(&order(100)).unwrap();
        assert!(answer.connected < answer.answered, "{answer:?}");
    }

    #[test]
    fn no_two_kinds_of_connection_share_a_port() {
        let controls = [None, Some(Congestion::Cubic), Some(Congestion::Bbr)];
        let ports = [false, true].map(|mptcp| controls.map(|control| port(mptcp, control)));
        let different: std::collections::BTreeSet<_> = ports.into_iter().flatten().collect();
        assert_eq!(different.len(), 6);
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
