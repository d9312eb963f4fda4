//! A port that answers for one name server, or for all of them, over UDP and TCP.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hawser_link::bind::{SocketOptions, connect_on_link};
use hawser_wire::dns::DnsQuestion;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::answering::{Answering, Meant};

/// A port, open until this is dropped.
#[derive(Debug)]
pub(super) struct Port {
    pub(super) number: u16,
    tasks: [JoinHandle<()>; 2],
}

impl Port {
    /// Opens a port that answers for `server`.
    pub(super) async fn open(server: SocketAddr, answering: Arc<Answering>) -> io::Result<Self> {
        let (listener, socket) = bind(server.ip()).await?;
        Self::serve(listener, socket, Meant::For(server), answering)
    }

    /// Answers at this port number, over both protocols.
    pub(super) fn serve(
        listener: TcpListener,
        socket: UdpSocket,
        meant: Meant,
        answering: Arc<Answering>,
    ) -> io::Result<Self> {
        let number = listener.local_addr()?.port();
        let stub = Stub { meant, answering };
        let tasks = [
            tokio::spawn(stub.clone().serve_datagrams(Arc::new(socket))),
            tokio::spawn(stub.serve_connections(listener)),
        ];
        Ok(Self { number, tasks })
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// Returns the loopback address that answers for `server`: the one of its family, which the sockets
/// of applications can reach.
pub(super) fn loopback(server: IpAddr) -> IpAddr {
    match server {
        IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
    }
}

/// Binds both protocols to a port with the same number.
async fn bind(server: IpAddr) -> io::Result<(TcpListener, UdpSocket)> {
    let mut tries = 0;
    loop {
        let listener = TcpListener::bind((loopback(server), 0)).await?;
        match UdpSocket::bind(listener.local_addr()?).await {
            Ok(socket) => return Ok((listener, socket)),
            Err(error) if tries >= MAX_TRIES => return Err(error),
            Err(_) => tries += 1,
        }
    }
}

#[derive(Clone)]
struct Stub {
    meant: Meant,
    answering: Arc<Answering>,
}

impl Stub {
    async fn serve_datagrams(self, socket: Arc<UdpSocket>) {
        let mut buffer = vec![0; MAX_QUERY + 1];
        loop {
            let (length, from) = match socket.recv_from(&mut buffer).await {
                Ok(received) => received,
                Err(error) => {
                    tracing::debug!(%error, "can't receive an application's name query");
                    sleep(EXHAUSTED_PAUSE).await;
                    continue;
                }
            };
            let query = &buffer[..length];
            let Some(number) = query.first_chunk().copied().map(u16::from_be_bytes) else {
                continue;
            };
            if length > MAX_QUERY {
                continue;
            }
            // Without a place, the query is dropped, and the application asks again.
            let Some(place) = self.answering.limits.question(from, number) else {
                continue;
            };
            let (stub, socket, query) = (self.clone(), Arc::clone(&socket), query.to_vec());
            tokio::spawn(place.keep(async move {
                if let Some(answer) = stub.answering.datagram(&query, stub.meant).await {
                    // The application may be gone.
                    let _ = socket.send_to(&answer, from).await;
                }
            }));
        }
    }

    async fn serve_connections(self, listener: TcpListener) {
        loop {
            match listener.accept().await {
                Ok((stream, from)) => {
                    let Some(place) = self.answering.limits.connection(from) else {
                        continue;
                    };
                    let stub = self.clone();
                    tokio::spawn(place.keep(async move {
                        if let Err(error) = stub.converse(stream, from).await {
                            tracing::debug!(%error,
                                "can't answer an application's name queries over TCP");
                        }
                    }));
                }
                Err(error) => {
                    tracing::debug!(%error, "can't accept an application's name queries over TCP");
                    sleep(EXHAUSTED_PAUSE).await;
                }
            }
        }
    }

    /// Answers one query after the other. The first message that is not an ordinary query turns the
    /// connection into one to the server.
    async fn converse(&self, mut program: TcpStream, from: SocketAddr) -> io::Result<()> {
        program.set_nodelay(true)?;
        while let Some(query) = read_message(&mut program).await? {
            let is_ordinary = DnsQuestion::decode(&query).is_ok_and(|it| it.is_ordinary());
            match self.meant {
                Meant::For(server) if !is_ordinary => {
                    return connect_to_server(server, program, &query).await;
                }
                // Other hosts get no connection to a server of this one.
                Meant::ForAny if !is_ordinary => return Ok(()),
                _ => {}
            }
            let number = query.first_chunk().copied().map_or(0, u16::from_be_bytes);
            let Some(place) = self.answering.limits.question(from, number) else {
                return Ok(());
            };
            let answering = place.keep(self.answering.answer(&query, self.meant));
            let Some(answer) = answering.await.flatten() else {
                return Ok(());
            };
            timeout(IDLE, write_message(&mut program, &answer)).await??;
        }
        Ok(())
    }
}

async fn connect_to_server(
    server: SocketAddr,
    mut program: TcpStream,
    first: &[u8],
) -> io::Result<()> {
    let options = SocketOptions::default();
    let server = connect_on_link(None, server, &options).await;
    let mut server = server.map_err(io::Error::other)?;
    write_message(&mut server, first).await?;
    timeout(MAX_TRANSFER, copy_bidirectional(&mut program, &mut server)).await??;
    Ok(())
}

/// Reads the next message; `None` at the end, or if the application sends none for long.
async fn read_message(stream: &mut TcpStream) -> io::Result<Option<Vec<u8>>> {
    let reading = async {
        let mut message = vec![0; usize::from(stream.read_u16().await?)];
        stream.read_exact(&mut message).await?;
        io::Result::Ok(message)
    };
    match timeout(IDLE, reading).await {
        Ok(Ok(message)) => Ok(Some(message)),
        Ok(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
        Ok(Err(error)) => Err(error),
        Err(_) => Ok(None),
    }
}

async fn write_message(stream: &mut TcpStream, message: &[u8]) -> io::Result<()> {
    let length = u16::try_from(message.len()).map_err(io::Error::other)?;
    let mut whole = length.to_be_bytes().to_vec();
    whole.extend_from_slice(message);
    stream.write_all(&whole).await
}

/// Bytes of a query in a datagram; longer ones are dropped. Queries have some tens.
const MAX_QUERY: usize = 4096;
/// Time without a query after which a connection ends. Source: RFC 7766 §6.2.3, "a few seconds".
const IDLE: Duration = Duration::from_secs(10);
/// Time for a zone transfer.
const MAX_TRANSFER: Duration = Duration::from_secs(600);
const MAX_TRIES: usize = 16;
const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);
