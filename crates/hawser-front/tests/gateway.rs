//! The gateway with streams that clients have opened.

mod common;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use common::{echo, in_time, read_all, serve};
use hawser_front::connect::{Connect, connect_tcp};
use hawser_front::destination::{Destination, HostName};
use hawser_front::gateway::{
    ClientId, ClientLimits, DestinationPolicy, Gateway, GatewayConfig, IncomingStream, LimitReason,
    Refusal,
};
use hawser_front::relay::RelayEnd;
use hawser_front::resolve::Resolve;
use hawser_front::transport::{ByteStream, DialError, ResetCode};
use hawser_skip::ClosedPort;
use hawser_types::{Budget, ByteCount};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// A TCP connection in the place of a bonded stream.
struct FakeStream {
    metadata: Vec<u8>,
    stream: TcpStream,
    answers: mpsc::UnboundedSender<Result<(), DialError>>,
}

impl AsyncRead for FakeStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for FakeStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl ByteStream for FakeStream {
    fn reset(&mut self, code: ResetCode) {
        self.stream.reset(code);
    }
}

impl IncomingStream for FakeStream {
    fn open_metadata(&self) -> &[u8] {
        &self.metadata
    }

    fn accept(&mut self) {
        self.answers.send(Ok(())).unwrap();
    }

    fn refuse(self, error: DialError) {
        self.answers.send(Err(error)).unwrap();
    }
}

struct FakeResolver;

impl Resolve for FakeResolver {
    async fn resolve(&self, name: &HostName) -> Result<Vec<IpAddr>, DialError> {
        let addresses: &[&str] = match name.as_str() {
            "inside.test" => &["127.0.0.1", "::ffff:10.0.0.1", "fd00::1"],
            "mixed.test" => &["10.0.0.1", "127.0.0.1"],
            "empty.test" => &[],
            _ => return Err(DialError::NameNotFound),
        };
        Ok(addresses.iter().map(|text| text.parse().unwrap()).collect())
    }
}

struct Bench {
    gateway: Arc<Gateway<Straight, FakeResolver>>,
}

struct Straight;

impl Connect for Straight {
    type Stream = TcpStream;

    async fn connect(&self, address: SocketAddr) -> io::Result<TcpStream> {
        connect_tcp(address).await
    }
}

/// Returns an account that is large enough for every stream of a test.
fn account() -> Budget {
    Budget::new(ByteCount::from_mib(16))
}

const ALICE: ClientId = ClientId::new([1; 32]);

impl Bench {
    fn new(allowed: &[&str], limits: ClientLimits) -> Self {
        let allowed = allowed.iter().map(|text| text.parse().unwrap()).collect();
        let policy = DestinationPolicy::new(allowed, |_| false);
        let config = GatewayConfig {
            limits,
            ..GatewayConfig::default()
        };
        let gateway = Gateway::with_resolver(Straight, FakeResolver, policy, config);
        Self {
            gateway: Arc::new(gateway),
        }
    }

    /// Opens a stream with `metadata`. Returns the client's end and the answer that the client
    /// gets.
    async fn open(&self, metadata: Vec<u8>) -> (TcpStream, Result<(), DialError>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (client, incoming) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (answers, mut answers_here) = mpsc::unbounded_channel();
        let stream = FakeStream {
            metadata,
            stream: incoming.unwrap().0,
            answers,
        };
        let gateway = Arc::clone(&self.gateway);
        tokio::spawn(async move {
            if let Ok(report) = gateway.handle(ALICE, &account(), stream).await {
                assert_ne!(report.end, RelayEnd::Idle);
            }
        });
        let answer = in_time(answers_here.recv()).await.unwrap();
        (client.unwrap(), answer)
    }

    async fn open_to(&self, destination: &str) -> (TcpStream, Result<(), DialError>) {
        let destination: Destination = destination.parse().unwrap();
        self.open(destination.to_bytes()).await
    }
}

#[tokio::test]
async fn an_allowed_destination_is_accepted_and_relayed() {
    let bench = Bench::new(&["127.0.0.0/8"], ClientLimits::default());
    let port = serve(echo).await;
    let hosts = [
        "127.0.0.1",
        "[::ffff:127.0.0.1]",
        "inside.test",
        "mixed.test",
    ];
    for host in hosts {
        let (mut client, answer) = bench.open_to(&format!("{host}:{port}")).await;
        assert_eq!(answer, Ok(()), "{host}");
        client.write_all(b"ping").await.unwrap();
        client.shutdown().await.unwrap();
        assert_eq!(read_all(&mut client).await, "ping");
    }
    let stats = bench.gateway.stats();
    assert_eq!((stats.opened, stats.connected), (4, 4));
    assert_eq!(stats.refused_addresses[&Refusal::Private], 3);
    assert_eq!(
        (stats.bytes_up.as_u64(), stats.bytes_down.as_u64()),
        (16, 16)
    );
}

#[tokio::test]
async fn a_gateway_with_a_closure_can_be_served_from_a_task() {
    let policy = DestinationPolicy::new(Vec::new(), |_| false);
    let connect = |address| async move { connect_tcp(address).await };
    let gateway = Arc::new(Gateway::new(connect, policy, GatewayConfig::default()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (answers, mut answers_here) = mpsc::unbounded_channel();
    let stream = FakeStream {
        metadata: Destination::from(address).to_bytes(),
        stream: TcpStream::connect(address).await.unwrap(),
        answers,
    };
    let served = tokio::spawn(async move { gateway.handle(ALICE, &account(), stream).await });
    let refused = Some(Err(DialError::RefusedByPolicy));
    assert_eq!(in_time(answers_here.recv()).await, refused);
    assert!(served.await.unwrap().is_err());
}

#[tokio::test]
async fn the_inside_is_refused_however_it_is_named() {
    let bench = Bench::new(&[], ClientLimits::default());
    let port = serve(echo).await;
    let hosts = [
        "127.0.0.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "inside.test",
        "0.0.0.0",
    ];
    for host in hosts {
        let (_, answer) = bench.open_to(&format!("{host}:{port}")).await;
        assert_eq!(answer, Err(DialError::RefusedByPolicy), "{host}");
    }
    let stats = bench.gateway.stats();
    assert_eq!(stats.refused[&DialError::RefusedByPolicy], 5);
    assert_eq!(stats.refused_addresses[&Refusal::Loopback], 4);
    assert_eq!(stats.connected, 0);
}

#[tokio::test]
async fn failures_are_told_by_their_cause() {
    let bench = Bench::new(&["127.0.0.0/8"], ClientLimits::default());
    let closed = ClosedPort::new();
    let cause = |answer: Result<(), DialError>| answer.unwrap_err();
    let (_, answer) = bench.open_to(&closed.address().to_string()).await;
    assert_eq!(cause(answer), DialError::ConnectionRefused);
    let (_, answer) = bench.open_to("nowhere.test:80").await;
    assert_eq!(cause(answer), DialError::NameNotFound);
    let (_, answer) = bench.open_to("empty.test:80").await;
    assert_eq!(cause(answer), DialError::NameNotFound);
    let (_, answer) = bench.open(b"\x09garbage".to_vec()).await;
    assert_eq!(cause(answer), DialError::MalformedDestination);
    let (_, answer) = bench.open(Vec::new()).await;
    assert_eq!(cause(answer), DialError::MalformedDestination);
}

#[tokio::test]
async fn a_client_over_its_limit_is_refused_and_counted() {
    let limits = ClientLimits {
        streams: 2,
        ..ClientLimits::default()
    };
    let bench = Bench::new(&["127.0.0.0/8"], limits);
    let port = serve(echo).await;
    let destination = format!("127.0.0.1:{port}");
    let (first, answer) = bench.open_to(&destination).await;
    assert_eq!(answer, Ok(()));
    let (_second, answer) = bench.open_to(&destination).await;
    assert_eq!(answer, Ok(()));
    let (_, answer) = bench.open_to(&destination).await;
    assert_eq!(answer, Err(DialError::LimitReached));
    assert_eq!(bench.gateway.stats().limited[&LimitReason::Streams], 1);
    drop(first);
    let freed = async {
        while bench.gateway.stats().current > 1 {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    };
    in_time(freed).await;
    let (_, answer) = bench.open_to(&destination).await;
    assert_eq!(answer, Ok(()));
}

#[tokio::test]
async fn a_reset_by_the_client_reaches_the_destination() {
    let bench = Bench::new(&["127.0.0.0/8"], ClientLimits::default());
    let (ended, mut ended_here) = mpsc::channel(1);
    let port = serve(move |mut stream| {
        let ended = ended.clone();
        async move {
            let result = tokio::io::AsyncReadExt::read(&mut stream, &mut [0]).await;
            ended
                .send(result.map_err(|error| error.kind()))
                .await
                .unwrap();
        }
    })
    .await;
    let (mut client, _) = bench.open_to(&format!("127.0.0.1:{port}")).await;
    client.reset(ResetCode::Aborted);
    drop(client);
    let seen = in_time(ended_here.recv()).await.unwrap();
    assert_eq!(seen, Err(io::ErrorKind::ConnectionReset));
}
