//! A proxy on loopback with a dialer that knows a few invented names, and servers to reach.
#![allow(dead_code, reason = "each test binary uses its part")]

pub(crate) mod http;

use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hawser_front::connect::connect_tcp;
use hawser_front::destination::{Destination, Host};
use hawser_front::proxy::{ProxyConfig, ProxyCounters, ProxyServer, ProxyStats};
use hawser_front::transport::{DialError, Dialer};
use hawser_keys::host_port::HostPort;
use hawser_keys::identity::{Identity, PublicKey};
use hawser_link::links::Link;
use hawser_net::client::{Client, ClientConfig};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Connects names to 127.0.0.1, except names that stand for an error.
pub(crate) struct FakeDialer {
    pub(crate) dialed: Mutex<Vec<String>>,
    /// One permit for each dial that may proceed.
    pub(crate) gate: Semaphore,
}

impl FakeDialer {
    /// Creates a dialer that waits after `dials` dials.
    pub(crate) fn new(dials: usize) -> Self {
        Self {
            dialed: Mutex::default(),
            gate: Semaphore::new(dials),
        }
    }
}

impl Dialer for FakeDialer {
    type Stream = TcpStream;

    async fn dial(&self, destination: &Destination) -> Result<TcpStream, DialError> {
        self.dialed.lock().push(destination.to_string());
        self.gate.acquire().await.unwrap().forget();
        let address = match &destination.host {
            Host::Ip(address) => *address,
            Host::Name(name) => match error_named(name.as_str()) {
                Some(error) => return Err(error),
                None => IpAddr::V4(Ipv4Addr::LOCALHOST),
            },
        };
        connect_tcp(SocketAddr::new(address, destination.port))
            .await
            .map_err(|error| DialError::from_io(&error))
    }
}

/// Returns the error that a name stands for: `error-4.test` is the error with the number 4.
fn error_named(name: &str) -> Option<DialError> {
    let code = name.strip_prefix("error-")?.strip_suffix(".test")?;
    DialError::from_code(code.parse().ok()?)
}

pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    pub(crate) dialer: Arc<FakeDialer>,
    counters: Arc<ProxyCounters>,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Proxy {
    pub(crate) async fn start() -> Self {
        Self::with(ProxyConfig::default(), Semaphore::MAX_PERMITS).await
    }

    /// Starts a proxy whose dialer waits after `dials` dials.
    pub(crate) async fn with(config: ProxyConfig, dials: usize) -> Self {
        let dialer = Arc::new(FakeDialer::new(dials));
        let config = ProxyConfig {
            listen: "127.0.0.1:0".parse().unwrap(),
            ..config
        };
        let server = ProxyServer::bind(config, Arc::clone(&dialer))
            .await
            .unwrap();
        let (stop, stopped) = oneshot::channel();
        Self {
            address: server.local_addr(),
            dialer,
            counters: server.counters(),
            stop: Some(stop),
            task: tokio::spawn(server.run(async move {
                let _ = stopped.await;
            })),
        }
    }

    pub(crate) async fn client(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    pub(crate) fn stats(&self) -> ProxyStats {
        self.counters.snapshot()
    }

    pub(crate) fn dialed(&self) -> Vec<String> {
        self.dialer.dialed.lock().clone()
    }

    /// Waits until the counters satisfy `condition`.
    pub(crate) async fn until(&self, condition: impl Fn(&ProxyStats) -> bool) -> ProxyStats {
        let poll = async {
            while !condition(&self.stats()) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            self.stats()
        };
        in_time(poll).await
    }

    pub(crate) async fn stop(mut self) {
        drop(self.stop.take());
        in_time(self.task).await.unwrap();
    }
}

/// Limits a step of a test to 20 s; a longer one hangs.
pub(crate) async fn in_time<T>(future: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(20), future)
        .await
        .expect("a step of the test hangs")
}

/// Serves each connection with `handler`; returns the port.
pub(crate) async fn serve<H, F>(handler: H) -> u16
where
    H: Fn(TcpStream) -> F + Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            tokio::spawn(handler(stream));
        }
    });
    port
}

/// Sends all bytes back and then ends.
pub(crate) async fn echo(mut stream: TcpStream) {
    let (mut read, mut write) = stream.split();
    let _ = tokio::io::copy(&mut read, &mut write).await;
    let _ = write.shutdown().await;
}

/// Reads up to and including the empty line after a header.
pub(crate) async fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match in_time(stream.read_u8()).await {
            Ok(byte) => head.push(byte),
            Err(_) => break,
        }
    }
    String::from_utf8(head).unwrap()
}

pub(crate) async fn read_exactly(stream: &mut TcpStream, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    in_time(stream.read_exact(&mut bytes)).await.unwrap();
    bytes
}

pub(crate) async fn read_all(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    in_time(stream.read_to_end(&mut bytes)).await.unwrap();
    String::from_utf8(bytes).unwrap()
}

/// Returns a client with this key of the gateway at `at`, over loopback.
pub(crate) fn client(at: SocketAddr, gateway: PublicKey, identity: Identity) -> Client {
    let link = Link {
        has_default_route_v4: true,
        ..Link::loopback("127.0.0.1".parse().unwrap())
    };
    let config = ClientConfig {
        name: "test".to_owned(),
        ..ClientConfig::new(identity, gateway, vec![HostPort::try_from(at).unwrap()])
    };
    // Dropping the sender does no harm: the list stays as it is.
    let (_, links) = watch::channel(Arc::new(vec![link]));
    Client::start(config, links)
}
