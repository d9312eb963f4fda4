//! `connect_or_tcp`: when it takes plain TCP, and when it must not.

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use hawser::{BondListener, EitherStream, Endpoint, EndpointBuilder, FallbackError, HostPort};
use hawser_skip::ClosedPort;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

async fn in_time<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), work)
        .await
        .expect("it hangs")
}

/// Returns an endpoint with a short timeout, for tests in which connecting fails.
fn hurried() -> EndpointBuilder {
    Endpoint::builder().connect_timeout(Duration::from_secs(2))
}

/// A service that answers `plain` on TCP and `bonded` on streams.
struct Service {
    plain: SocketAddr,
    bonded: String,
    listener: BondListener,
}

impl Service {
    async fn start() -> Self {
        let endpoint = Endpoint::new().unwrap();
        let listener = endpoint.listen("127.0.0.1:0").await.unwrap();
        Self {
            plain: answering(b"plain").await,
            bonded: listener.local_addr().to_string(),
            listener,
        }
    }

    /// Returns what a client receives while the service runs.
    async fn hear(
        &self,
        opening: impl Future<Output = Result<EitherStream, FallbackError>>,
    ) -> Result<String, FallbackError> {
        let serving = async {
            loop {
                let (mut stream, _) = self.listener.accept().await.unwrap();
                stream.write_all(b"bonded").await.unwrap();
                stream.shutdown().await.unwrap();
            }
        };
        let hearing = async {
            let mut stream = opening.await?;
            let mut heard = String::new();
            stream.read_to_string(&mut heard).await.unwrap();
            assert_eq!(stream.is_bonded(), heard == "bonded");
            Ok(heard)
        };
        in_time(async {
            tokio::select! {
                () = serving => unreachable!(),
                heard = hearing => heard,
            }
        })
        .await
    }
}

/// Starts a TCP server that sends `greeting` to every client, and hangs up.
async fn answering(greeting: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                stream.write_all(greeting).await?;
                stream.shutdown().await?;
                stream.read_to_end(&mut Vec::new()).await
            });
        }
    });
    address
}

#[tokio::test]
async fn a_peer_that_lets_this_host_in_is_bonded_and_remembered() {
    let service = Service::start().await;
    let folder = tempfile::tempdir().unwrap();
    let client = || hurried().state_dir(folder.path()).build().unwrap();
    // The first endpoint has the default timeout.
    let first = Endpoint::builder()
        .state_dir(folder.path())
        .build()
        .unwrap();
    service.listener.allow(first.public_key());
    let heard = service.hear(first.connect_or_tcp(&service.bonded, None, service.plain));
    assert_eq!(heard.await.unwrap(), "bonded");
    // Another host has the address now: no fallback, no new key.
    let Service {
        plain,
        bonded,
        listener,
    } = service;
    let address = listener.local_addr();
    listener.close(Duration::from_secs(5)).await;
    let impostor = Endpoint::new().unwrap();
    let listener = in_time(async {
        loop {
            match impostor.listen(address).await {
                Ok(listener) => break listener,
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    })
    .await;
    listener.allow(client().public_key());
    let error = in_time(client().connect_or_tcp(&bonded, None, plain)).await;
    assert!(
        matches!(error, Err(FallbackError::KeyKnown { .. })),
        "{error:?}"
    );
    assert_eq!(listener.counters().sessions, 0);
    // The client notices a moment before the counter changes.
    let counted = async {
        while listener.counters().handshakes_failed == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    in_time(counted).await;
}

#[tokio::test]
async fn without_a_listener_plain_tcp_is_taken() {
    let service = Service::start().await;
    let client = Endpoint::new().unwrap();
    let closed = ClosedPort::new();
    let unused = closed.address().to_string();
    let heard = service.hear(client.connect_or_tcp(&unused, None, service.plain));
    assert_eq!(heard.await.unwrap(), "plain");
}

#[tokio::test]
async fn where_something_else_answers_plain_tcp_is_taken() {
    let service = Service::start().await;
    let client = Endpoint::new().unwrap();
    let alert: &[u8] = b"\x15\x03\x03\x00\x02\x02\x28";
    for greeting in [
        &b"220 mail.example ESMTP\r\n"[..],
        b"",
        alert,
        b"\x16\x03\x03\xff",
    ] {
        let other = answering(greeting).await.to_string();
        let heard = service.hear(client.connect_or_tcp(&other, None, service.plain));
        assert_eq!(heard.await.unwrap(), "plain", "{greeting:?}");
    }
}

#[tokio::test]
async fn a_peer_that_knows_hawser_and_not_this_host_is_an_error() {
    let service = Service::start().await;
    let client = Endpoint::new().unwrap();
    let opening = client.connect_or_tcp(&service.bonded, None, service.plain);
    let error = service.hear(opening).await.unwrap_err();
    assert!(matches!(error, FallbackError::Bonded(_)), "{error}");
    // The connection's handshake failed. The probe's ended before this client's key was due, which
    // is not counted. The client notices a moment before the counter changes.
    let counted = async {
        while service.listener.counters().handshakes_failed != 1 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    in_time(counted).await;
    // The peer's key was not remembered: if the peer admits this host later, it is.
    service.listener.allow(client.public_key());
    let heard = service.hear(client.connect_or_tcp(&service.bonded, None, service.plain));
    assert_eq!(heard.await.unwrap(), "bonded");
}

#[tokio::test]
async fn with_a_key_there_is_no_fallback() {
    let client = hurried().build().unwrap();
    let key = Endpoint::new().unwrap().public_key();
    let closed = ClosedPort::new();
    let (unused, plain) = (closed.address().to_string(), answering(b"plain").await);
    let error = in_time(client.connect_or_tcp(&unused, Some(key), plain)).await;
    assert!(
        matches!(error, Err(FallbackError::KeyKnown { key: named, .. }) if named == key),
        "{error:?}"
    );
}

#[tokio::test]
async fn an_address_without_a_port_is_refused() {
    let client = Endpoint::new().unwrap();
    let error = client.connect_or_tcp("host", None, "127.0.0.1:1").await;
    assert!(matches!(error, Err(FallbackError::Address(_))));
}

#[tokio::test]
async fn a_peer_that_enrolled_this_host_is_known_by_its_address() {
    let service = Service::start().await;
    let folder = tempfile::tempdir().unwrap();
    let client = hurried().state_dir(folder.path()).build().unwrap();
    // Enrolled under an address without a listener now.
    let closed = ClosedPort::new();
    let gone = HostPort::try_from(closed.address()).unwrap();
    let there = HostPort::try_from(service.listener.local_addr()).unwrap();
    let hour = Duration::from_secs(3600);
    let invite = service.listener.invite_to(vec![there, gone.clone()], hour);
    client.connect(&invite.unwrap()).await.unwrap();
    let gone = gone.to_string();
    let opening = client.connect_or_tcp(&gone, None, service.plain);
    let error = in_time(opening).await;
    assert!(
        matches!(error, Err(FallbackError::KeyKnown { .. })),
        "{error:?}"
    );
}
