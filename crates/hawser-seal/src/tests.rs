use std::sync::atomic::{AtomicUsize, Ordering};

use rustls::AlertDescription;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;

fn me() -> Identity {
    Identity::from_seed([1; 32])
}

fn gateway() -> Identity {
    Identity::from_seed([2; 32])
}

fn any_key() -> Allow {
    Arc::new(|_| true)
}

fn no_key() -> Allow {
    Arc::new(|_| false)
}

async fn connected() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap());
    let (client, server) = tokio::join!(client, listener.accept());
    (client.unwrap(), server.unwrap().0)
}

async fn both(
    allow: Allow,
    expected: PublicKey,
) -> (Result<Handshake, TlsError>, Result<Handshake, TlsError>) {
    let (client, server) = connected().await;
    let (me, gateway) = (me(), gateway());
    // Awaits the client's verdict at once, since a refusing server waits for the client to close.
    let client = async {
        let mut handshake = client_handshake(client, &me, expected).await?;
        handshake.stream.write_all(b"first flight").await?;
        handshake.accepted().await?;
        Ok(handshake)
    };
    let server = async {
        let mut handshake = server_handshake(server, &[], &gateway, allow).await?;
        handshake.stream.write_all(b"\x01answer").await?;
        Ok(handshake)
    };
    tokio::join!(client, server)
}

/// Moves `count` bytes from one connection to the other, one by one.
async fn trickle(from: &mut TcpStream, to: &mut TcpStream, count: usize) {
    let mut byte = [0];
    for _ in 0..count {
        from.read_exact(&mut byte).await.unwrap();
        to.write_all(&byte).await.unwrap();
    }
}

#[tokio::test]
async fn both_ends_get_the_same_secret_and_each_others_key() {
    let (client, server) = both(any_key(), gateway().public()).await;
    let (client, server) = (client.unwrap(), server.unwrap());
    assert_eq!(client.exporter, server.exporter);
    assert_ne!(*client.exporter, [0; 32]);
    assert_eq!(client.peer, gateway().public());
    assert_eq!(server.peer, me().public());
}

#[tokio::test]
async fn two_handshakes_of_the_same_hosts_give_different_secrets() {
    let (first, _server) = both(any_key(), gateway().public()).await;
    let (second, _server) = both(any_key(), gateway().public()).await;
    assert_ne!(first.unwrap().exporter, second.unwrap().exporter);
}

#[tokio::test]
async fn a_client_that_knows_the_hint_alone_learns_the_key_and_believes_no_other() {
    for (hinted, is_it) in [(gateway().public(), true), (me().public(), false)] {
        let (client, server) = connected().await;
        let (dialer, gateway) = (TlsClient::to_hinted(&me(), hinted.hint()), gateway());
        let dialer = dialer.unwrap();
        let client = dialer.handshake(client);
        let server = server_handshake(server, &[], &gateway, any_key());
        let (client, server) = tokio::join!(client, server);
        if is_it {
            assert_eq!(client.unwrap().peer, gateway.public())
        } else {
            // The client fails before it has shown a key itself.
            let refused = matches!(client, Err(TlsError::UnknownPeer { .. }));
            assert!(refused && server.is_err());
        }
    }
}

#[tokio::test]
async fn bytes_behind_the_handshake_are_left_in_the_stream() {
    let (client, server) = both(any_key(), gateway().public()).await;
    let (mut client, mut server) = (client.unwrap(), server.unwrap());
    let mut got = [0; 12];
    server.stream.read_exact(&mut got).await.unwrap();
    assert_eq!(&got, b"first flight");
    let mut got = [0; 7];
    client.stream.read_exact(&mut got).await.unwrap();
    assert_eq!(&got, b"\x01answer");
}

#[tokio::test]
async fn data_in_the_segment_that_ends_the_handshake_is_left_in_the_stream() {
    let (client, mut near) = connected().await;
    let (mut far, server) = connected().await;
    let (me, gateway) = (me(), gateway());
    let client = async {
        let mut handshake = client_handshake(client, &me, gateway.public())
            .await
            .unwrap();
        handshake.stream.write_all(b"\0\0\0\x04DATA").await.unwrap();
        handshake
    };
    // Forwards each side's bytes, but the client's last flight only once the data follows it.
    let between = async {
        let mut buffer = vec![0; 4096];
        let hello = near.read(&mut buffer).await.unwrap();
        far.write_all(&buffer[..hello]).await.unwrap();
        let mut last_flight = Vec::new();
        while !last_flight.ends_with(b"DATA") {
            tokio::select! {
                read = far.read(&mut buffer) => {
                    near.write_all(&buffer[..read.unwrap()]).await.unwrap();
                }
                read = near.read_buf(&mut last_flight) => assert_ne!(read.unwrap(), 0),
            }
        }
        far.write_all(&last_flight).await.unwrap();
    };
    let server = server_handshake(server, &[], &gateway, any_key());
    let (_client, server, ()) = tokio::join!(client, server, between);
    let mut got = [0; 8];
    server.unwrap().stream.read_exact(&mut got).await.unwrap();
    assert_eq!(&got, b"\0\0\0\x04DATA");
}

#[tokio::test]
async fn a_hello_that_arrives_byte_by_byte_and_was_partly_read_is_understood() {
    let (client, mut near) = connected().await;
    let (mut far, mut server) = connected().await;
    let (me, gateway) = (me(), gateway());
    let server = async {
        let mut ahead = [0; 7];
        server.read_exact(&mut ahead).await.unwrap();
        server_handshake(server, &ahead, &gateway, any_key()).await
    };
    let between = async {
        let mut header = [0; 5];
        near.peek(&mut header).await.unwrap();
        let length = 5 + usize::from(u16::from_be_bytes([header[3], header[4]]));
        trickle(&mut near, &mut far, length).await;
        let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
    };
    let ends = async {
        let client = client_handshake(client, &me, gateway.public());
        tokio::join!(client, server)
    };
    let (client, server) = tokio::select! { ends = ends => ends, () = between => unreachable!() };
    assert_eq!(client.unwrap().exporter, server.unwrap().exporter);
}

#[tokio::test]
async fn a_stranger_sees_a_tls_alert_and_the_server_knows_whom_it_refused() {
    let (client, server) = both(no_key(), gateway().public()).await;
    let client = client.unwrap_err();
    let refused = TlsError::Refused {
        alert: AlertDescription::CertificateUnknown,
    };
    assert_eq!(client.to_string(), refused.to_string());
    let server = server.unwrap_err();
    assert!(
        matches!(server, TlsError::NotAllowed { key } if key == me().public()),
        "{server}"
    );
}

#[tokio::test]
async fn a_server_with_another_key_is_refused_by_the_client() {
    let other = Identity::from_seed([3; 32]).public();
    let (client, server) = both(any_key(), other).await;
    let client = client.unwrap_err();
    assert!(
        matches!(client, TlsError::WrongPeer { expected, got }
            if expected == other && got == gateway().public()),
        "{client}"
    );
    let server = server.unwrap_err();
    assert!(matches!(server, TlsError::Refused { .. }), "{server}");
}

#[tokio::test]
async fn a_borrowed_key_is_refused_before_the_policy_is_asked_about_it() {
    let (client, server) = connected().await;
    let admitted = Identity::from_seed([9; 32]).public();
    let forged = config::forge::client(&me(), admitted, gateway().public());
    let forger = TlsClient {
        config: Arc::new(forged),
    };
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    let allow: Allow = Arc::new(move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
        true
    });
    let gateway = gateway();
    let client = async { forger.handshake(client).await?.accepted().await };
    let (client, server) = tokio::join!(client, server_handshake(server, &[], &gateway, allow));
    assert!(
        matches!(client, Err(TlsError::Refused { .. })),
        "{client:?}"
    );
    assert!(matches!(server, Err(TlsError::Tls(_))), "{server:?}");
    assert_eq!(asked.load(Ordering::Relaxed), 0);
}

async fn refused_hello(change: impl FnOnce(&mut ClientConfig)) -> (TlsError, TlsError) {
    let (client, server) = connected().await;
    let mut config = config::client(&me(), Expected::AmongThese(vec![gateway().public()]))
        .unwrap()
        .as_ref()
        .clone();
    change(&mut config);
    let dialer = TlsClient {
        config: Arc::new(config),
    };
    let gateway = gateway();
    let server = server_handshake(server, &[], &gateway, any_key());
    let (client, server) = tokio::join!(dialer.handshake(client), server);
    (client.unwrap_err(), server.unwrap_err())
}

#[tokio::test]
async fn a_client_of_another_protocol_or_of_none_gets_an_alert() {
    for protocols in [vec![], vec![b"h2".to_vec()]] {
        let (client, server) = refused_hello(|config| config.alpn_protocols = protocols).await;
        assert!(
            matches!(
                client,
                TlsError::NoCommonProtocol | TlsError::Refused { .. }
            ),
            "{client}"
        );
        assert!(matches!(server, TlsError::NoCommonProtocol), "{server}");
    }
}

#[tokio::test]
async fn a_client_without_a_raw_key_gets_an_alert() {
    struct NoKey;
    impl std::fmt::Debug for NoKey {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("NoKey")
        }
    }
    impl rustls::client::ResolvesClientCert for NoKey {
        fn resolve(
            &self,
            _: &[&[u8]],
            _: &[rustls::SignatureScheme],
        ) -> Option<Arc<rustls::sign::CertifiedKey>> {
            None
        }
        fn has_certs(&self) -> bool {
            false
        }
    }
    let (client, server) =
        refused_hello(|config| config.client_auth_cert_resolver = Arc::new(NoKey)).await;
    assert!(matches!(client, TlsError::Refused { .. }), "{client}");
    assert!(matches!(server, TlsError::Tls(_)), "{server}");
}

async fn server_hears(bytes: &[u8]) -> TlsError {
    let (mut client, server) = connected().await;
    client.write_all(bytes).await.unwrap();
    client.shutdown().await.unwrap();
    server_handshake(server, &[], &gateway(), any_key())
        .await
        .unwrap_err()
}

#[tokio::test]
async fn something_else_than_tls_is_told_apart() {
    assert!(matches!(
        server_hears(b"GET / HTTP/1.1").await,
        TlsError::NotTls { first: b'G' }
    ));
    assert!(matches!(server_hears(b"").await, TlsError::Closed));
    assert!(matches!(
        server_hears(b"\x16\x03\x01\x00").await,
        TlsError::Closed
    ));
    assert!(matches!(
        server_hears(b"\x16\x03\x01\xff\xff").await,
        TlsError::TooLong { .. }
    ));
    assert!(matches!(
        server_hears(&[0x16, 3, 1, 0, 2, 9, 9]).await,
        TlsError::Tls(_) | TlsError::Closed
    ));
}

#[tokio::test]
async fn a_hello_without_end_is_cut_off() {
    // One handshake message of 16 MiB less a byte, in records of 16 KiB.
    let mut bytes = Vec::new();
    for start in [&[1, 0xff, 0xff, 0xff][..], &[], &[], &[], &[], &[]] {
        bytes.extend([0x16, 3, 1, 0x40, 0]);
        bytes.extend(start);
        bytes.extend(vec![0; 0x4000 - start.len()]);
    }
    let error = server_hears(&bytes).await;
    assert!(
        matches!(error, TlsError::TooLong { .. } | TlsError::Tls(_)),
        "{error}"
    );
}

#[tokio::test]
async fn a_client_gives_up_on_a_server_that_is_not_tls() {
    let (client, mut server) = connected().await;
    server.write_all(b"SSH-2.0-OpenSSH_9.2\r\n").await.unwrap();
    let error = client_handshake(client, &me(), gateway().public())
        .await
        .unwrap_err();
    assert!(matches!(error, TlsError::NotTls { first: b'S' }), "{error}");
}

/// Returns the result of a probe for these keys at a server that answers like this.
async fn probed<F: Future<Output = ()>>(
    known: Vec<PublicKey>,
    server: impl FnOnce(TcpStream) -> F,
) -> Result<PublicKey, TlsError> {
    let (client, stream) = connected().await;
    let probe = TlsProbe::new(known).unwrap();
    let (found, ()) = tokio::join!(probe.ask(client), server(stream));
    found
}

async fn honest(stream: TcpStream) {
    let ended = server_handshake(stream, &[], &gateway(), any_key()).await;
    // The client has shown no key, so no session begins.
    assert!(matches!(ended, Err(TlsError::Closed)), "{ended:?}");
}

#[tokio::test]
async fn a_probe_finds_a_server_it_knows_and_shows_no_key() {
    let known = vec![me().public(), gateway().public()];
    assert_eq!(probed(known, honest).await.unwrap(), gateway().public());
}

#[tokio::test]
async fn a_probe_is_not_taken_in_by_a_stranger() {
    let strangers = vec![me().public(), Identity::from_seed([3; 32]).public()];
    let found = probed(strangers, |stream| async {
        let _ = server_handshake(stream, &[], &gateway(), any_key()).await;
    });
    let key = gateway().public();
    let found = found.await;
    assert!(matches!(found, Err(TlsError::UnknownPeer { key: got }) if got == key));
}

#[tokio::test]
async fn a_probe_is_not_taken_in_by_one_that_answers_everything() {
    for answer in [
        &b"HTTP/1.1 302 Found\r\n\r\n"[..],
        b"\x16\x03\x03\x00\x02\x02\x00",
        b"",
    ] {
        let known = vec![gateway().public()];
        let found = probed(known, |mut stream| async move {
            let _ = stream.write_all(answer).await;
        });
        assert!(found.await.is_err(), "{answer:?}");
    }
}

#[tokio::test]
async fn a_probe_does_not_believe_a_named_key_that_is_not_proved() {
    let found = probed(vec![me().public(), gateway().public()], |stream| async {
        let forged =
            super::config::forge::server(&Identity::from_seed([9; 32]), gateway().public());
        let mut stream = stream;
        let mut connection = ServerConnection::new(Arc::new(forged)).unwrap();
        let mut wire = Wire::new(&mut stream, &[]);
        let _ = wire.complete(&mut connection, |_| Ok(())).await;
    });
    let found = found.await;
    assert!(matches!(found, Err(TlsError::Tls(_))), "{found:?}");
}
