use std::collections::HashMap;

use hawser_skip::ClosedPort;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::*;
use crate::testing::DirectDialer;
use crate::transport::DialError;

/// Destinations by the port that a connection comes from.
type Table = Arc<Mutex<HashMap<u16, SocketAddr>>>;

struct Running {
    table: Table,
    v4: u16,
    v6: Option<u16>,
    counters: Arc<ProxyCounters>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

async fn start(dialer: impl Dialer) -> Running {
    let table = Table::default();
    let lookup = {
        let table = Arc::clone(&table);
        move |peer: SocketAddr| table.lock().remove(&peer.port())
    };
    let server = RedirectServer::bind(Arc::new(dialer), lookup)
        .await
        .unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    Running {
        table,
        v4: server.v4(),
        v6: server.v6(),
        counters: server.counters(),
        stop,
        task: tokio::spawn(server.run(async move {
            let _ = stopped.await;
        })),
    }
}

impl Running {
    /// Connects to the redirect port as if to `destination`.
    async fn connect(&self, destination: SocketAddr) -> TcpStream {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let port = socket.local_addr().unwrap().port();
        self.table.lock().insert(port, destination);
        let to = SocketAddr::from((Ipv4Addr::LOCALHOST, self.v4));
        socket.connect(to).await.unwrap()
    }
}

async fn is_reset(mut stream: TcpStream) -> bool {
    let ended = stream.read(&mut [0]).await;
    ended.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionReset)
}

/// Sends back what it gets.
async fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut read, mut write) = stream.split();
                let _ = tokio::io::copy(&mut read, &mut write).await;
            });
        }
    });
    address
}

#[tokio::test]
async fn what_was_meant_for_elsewhere_gets_there() {
    let running = start(DirectDialer).await;
    let mut stream = running.connect(echo().await).await;
    stream.write_all(b"hello").await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    assert_eq!(answer, b"hello");
}

#[tokio::test]
async fn a_destination_that_refuses_is_a_reset_and_is_counted() {
    let running = start(DirectDialer).await;
    let closed = ClosedPort::new();
    assert!(is_reset(running.connect(closed.address()).await).await);
    let errors = running.counters.snapshot().dial_errors;
    assert_eq!(errors.get(&DialError::ConnectionRefused), Some(&1));
}

#[tokio::test]
async fn a_stranger_is_reset_on_both_ports() {
    let running = start(DirectDialer).await;
    let v4 = SocketAddr::from((Ipv4Addr::LOCALHOST, running.v4));
    assert!(is_reset(TcpStream::connect(v4).await.unwrap()).await);
    if let Some(port) = running.v6 {
        let v6 = SocketAddr::from((Ipv6Addr::LOCALHOST, port));
        assert!(is_reset(TcpStream::connect(v6).await.unwrap()).await);
    }
    assert_eq!(running.counters.snapshot().dial_errors.len(), 0);
}

/// Sends early data along with the dial.
struct Ahead;

impl Dialer for Ahead {
    type Stream = TcpStream;

    async fn dial(&self, _: &Destination) -> Result<TcpStream, DialError> {
        unreachable!("a program made it")
    }

    async fn dial_for(&self, to: &Destination, origin: &Origin) -> Result<TcpStream, DialError> {
        let mut stream = DirectDialer.dial(to).await?;
        let early = origin.early.as_ref().unwrap();
        early.release();
        let said = early.next().await;
        assert!(said.len() <= 16 * 1024, "{}", said.len());
        stream.write_all(&said).await.unwrap();
        Ok(stream)
    }
}

#[tokio::test]
async fn what_was_taken_along_is_not_said_twice_and_counts() {
    let running = start(Ahead).await;
    let mut stream = running.connect(echo().await).await;
    stream.write_all(b"hello").await.unwrap();
    let mut answer = [0; 5];
    stream.read_exact(&mut answer).await.unwrap();
    stream.write_all(b" again").await.unwrap();
    stream.shutdown().await.unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).await.unwrap();
    assert_eq!((&answer, &rest[..]), (b"hello", &b" again"[..]));
    assert_eq!(running.counters.snapshot().bytes_up.as_u64(), 11);
}

#[tokio::test]
async fn more_than_may_leave_early_waits_for_the_connection() {
    let running = start(Ahead).await;
    let mut stream = running.connect(echo().await).await;
    let (mut read, mut write) = stream.split();
    let sent: Vec<u8> = (0..200_000_u32).map(|at| (at % 251) as u8).collect();
    let writing = async {
        write.write_all(&sent).await.unwrap();
        write.shutdown().await.unwrap();
    };
    let mut came = Vec::new();
    let (read, ()) = tokio::join!(read.read_to_end(&mut came), writing);
    read.unwrap();
    assert!(came == sent);
}

/// Never connects; signals when it is asked, and when the dial is dropped.
struct Never(Mutex<Option<oneshot::Sender<oneshot::Sender<()>>>>);

impl Dialer for Never {
    type Stream = TcpStream;

    async fn dial(&self, _: &Destination) -> Result<TcpStream, DialError> {
        let (held, given_up) = oneshot::channel();
        let asked = self.0.lock().take().unwrap();
        asked.send(held).unwrap();
        let _ = given_up.await;
        Err(DialError::Aborted)
    }
}

#[tokio::test]
async fn a_program_that_gives_up_ends_the_dial() {
    let (asked, held) = oneshot::channel();
    let running = start(Never(Mutex::new(Some(asked)))).await;
    let client = running.connect("192.0.2.1:80".parse().unwrap()).await;
    let mut held = held.await.unwrap();
    client.set_zero_linger().unwrap();
    drop(client);
    // Resolves when the dial is dropped.
    held.closed().await;
}

#[tokio::test]
async fn the_end_of_the_server_resets_what_was_not_yet_connected() {
    let (asked, held) = oneshot::channel();
    let running = start(Never(Mutex::new(Some(asked)))).await;
    let client = running.connect("192.0.2.1:80".parse().unwrap()).await;
    let _held = held.await.unwrap();
    running.stop.send(()).unwrap();
    assert!(is_reset(client).await);
    running.task.await.unwrap();
}
