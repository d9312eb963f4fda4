//! Two connected endpoints over loopback.

use std::future::Future;
use std::time::Duration;

use hawser::{BondListener, BondStream, Connection, Endpoint};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// Limits a step of a test to 60 s; a longer one hangs.
pub async fn in_time<T>(work: impl Future<Output = T>) -> T {
    let limit = Duration::from_secs(60);
    tokio::time::timeout(limit, work).await.expect("it hangs")
}

/// A listener and the two ends of a connection to it.
pub struct Pair {
    pub listener: BondListener,
    pub client: Connection,
    pub server: Connection,
}

impl Pair {
    pub async fn new() -> Self {
        let listener = Endpoint::new().unwrap().listen("127.0.0.1:0").await;
        let listener = listener.unwrap();
        let endpoint = Endpoint::new().unwrap();
        listener.allow(endpoint.public_key());
        let peer = hawser::PeerAddress::new(listener.public_key(), listener.advertised().to_vec());
        let (client, server) = tokio::join!(endpoint.connect(&peer), listener.accept_connection());
        Self {
            listener,
            client: client.unwrap(),
            server: server.unwrap(),
        }
    }

    /// Opens a stream of the client; returns both its ends.
    pub async fn stream(&self) -> (BondStream, BondStream) {
        let mut near = self.client.open().await.unwrap();
        near.write_all(b"!").await.unwrap();
        let mut far = self.server.accept().await.unwrap();
        assert_eq!(far.read_u8().await.unwrap(), b'!');
        (near, far)
    }
}
