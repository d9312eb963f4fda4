//! TLS 1.3 with raw public keys (RFC 7250), used to make keys and for nothing else.
//!
//! Both sides prove the Ed25519 key that is their identity; there are no certificates, names or
//! resumption. When the handshake is over both take the exporter and leave TLS: from then on the
//! same TCP connection carries other bytes, and the first of them may arrive in the very segment
//! that ends the handshake. So nothing here ever reads past the handshake: TLS records are taken
//! off the socket one at a time, by the length in their header.
//!
//! In TLS 1.3 the client is done before the server has looked at the client's key. A client that
//! the server refuses therefore learns it from an alert that takes the place of the first answer:
//! [`Handshake::accepted`] tells the two apart.

mod config;
mod error;
mod protocol;
#[cfg(test)]
mod tests;
mod wire;

use std::sync::Arc;

use hawser_session::seal::Aead;
use hawser_wire::KeyHint;
use rustls::server::{Accepted, Acceptor};
use rustls::{
    CipherSuite, ClientConfig, ClientConnection, ConnectionCommon, ServerConfig, ServerConnection,
    SideData,
};
use tokio::net::TcpStream;
use zeroize::Zeroizing;

use crate::identity::{Identity, PublicKey};
use config::Expected;
pub use error::TlsError;
pub use protocol::{ALPN, Allow, MAX_HANDSHAKE, is_tls_record};
use wire::Wire;

/// A connection whose two ends know each other and share a secret.
#[derive(Debug)]
pub struct Handshake {
    /// The connection, at the first byte behind the handshake. TLS no longer has a part in it, but
    /// for the server's refusal, which begins with a byte for which [`is_tls_record`] holds: see
    /// [`Handshake::accepted`].
    pub stream: TcpStream,
    /// 32 bytes that only the two ends have, from the exporter [`EXPORTER_LABEL`].
    pub exporter: Zeroizing<[u8; 32]>,
    /// The key that the other end has proved to hold.
    pub peer: PublicKey,
    /// The AEAD of the suite that both ends agreed on.
    pub aead: Aead,
    /// On the client's side: what can still read the server's refusal.
    unconfirmed: Option<Box<ClientConnection>>,
}

impl Handshake {
    /// Waits for the server's first byte, and fails if it begins a TLS alert: the server has
    /// refused this client's key after the client's side of the handshake was over.
    ///
    /// Nothing but such an alert is taken off the stream. It can be dropped and called again until
    /// an alert has begun to arrive. On the server's side there is nothing to wait for.
    pub async fn accepted(&mut self) -> Result<(), TlsError> {
        let Some(connection) = self.unconfirmed.as_mut() else {
            return Ok(());
        };
        let mut first = [0];
        if self.stream.peek(&mut first).await? == 0 {
            return Err(TlsError::Closed);
        }
        if !is_tls_record(first[0]) {
            self.unconfirmed = None;
            return Ok(());
        }
        let record = Wire::new(&mut self.stream, &[]).read_record().await?;
        match wire::feed(connection, &record) {
            Err(e) => Err(e),
            Ok(()) => Err(TlsError::Closed),
        }
    }
}

/// The client's side: what can be prepared once for many connections to one server.
#[derive(Clone, Debug)]
pub struct TlsClient {
    config: Arc<ClientConfig>,
}

impl TlsClient {
    /// A client that proves to be `me` and talks to the holder of `peer` only.
    pub fn new(me: &Identity, peer: PublicKey) -> Result<Self, TlsError> {
        Ok(Self {
            config: config::client(me, Expected::AmongThese(vec![peer]))?,
        })
    }

    /// A client that proves to be `me` and talks to a server whose key has this hint only: which
    /// key that is shows the handshake.
    pub fn to_hinted(me: &Identity, hint: KeyHint) -> Result<Self, TlsError> {
        Ok(Self {
            config: config::client(me, Expected::Hinted(hint))?,
        })
    }

    /// Makes the handshake on a connection on which nothing has been sent yet.
    ///
    /// Ends without waiting for the server's verdict on `me`: see [`Handshake::accepted`]. Dropping
    /// the future closes the connection.
    pub async fn handshake(&self, mut stream: TcpStream) -> Result<Handshake, TlsError> {
        let mut connection =
            ClientConnection::new(Arc::clone(&self.config), config::unused_server_name())?;
        let mut wire = Wire::new(&mut stream, &[]);
        // Before the flight that would show a server of another protocol who is calling.
        let is_ours = |connection: &ConnectionCommon<_>| match connection.alpn_protocol() {
            Some(ALPN) => Ok(()),
            _ => Err(TlsError::NoCommonProtocol),
        };
        wire.complete(&mut connection, is_ours).await?;
        let exporter = exporter(&connection)?;
        let peer = config::proven_key(connection.peer_certificates())?;
        Ok(Handshake {
            stream,
            exporter,
            peer,
            aead: aead(&connection),
            unconfirmed: Some(Box::new(connection)),
        })
    }
}

/// Finds out who listens somewhere, without saying who asks.
#[derive(Clone, Debug)]
pub struct TlsProbe {
    config: Arc<ClientConfig>,
}

impl TlsProbe {
    /// A probe that looks for the holders of these keys.
    pub fn new(known: Vec<PublicKey>) -> Result<Self, TlsError> {
        Ok(Self {
            config: config::prober(Expected::AmongThese(known))?,
        })
    }

    /// A probe that takes any server that proves a key, to learn that key.
    pub fn for_anyone() -> Result<Self, TlsError> {
        Ok(Self {
            config: config::prober(Expected::Anyone)?,
        })
    }

    /// Makes as much of the handshake as proves the server's key, and gives that; fails where it is
    /// none of those looked for. The connection ends there: this side's key is never shown, and the
    /// server takes it for a client that lost a race.
    ///
    /// Has no timeout itself; dropping the future closes the connection.
    pub async fn ask(&self, mut stream: TcpStream) -> Result<PublicKey, TlsError> {
        let mut connection =
            ClientConnection::new(Arc::clone(&self.config), config::unused_server_name())?;
        Wire::new(&mut stream, &[]).hear(&mut connection).await?;
        match connection.alpn_protocol() {
            Some(ALPN) => config::proven_key(connection.peer_certificates()),
            _ => Err(TlsError::NoCommonProtocol),
        }
    }
}

/// The server's side: what can be prepared once for all connections.
#[derive(Clone, Debug)]
pub struct TlsServer {
    config: Arc<ServerConfig>,
}

impl TlsServer {
    /// A server that proves to be `me` and admits whom `allow` says.
    ///
    /// `allow` is asked only after the client has proved to hold the key, so that no host can find
    /// out whose keys are known here.
    pub fn new(me: &Identity, allow: Allow) -> Result<Self, TlsError> {
        Ok(Self {
            config: config::server(me, allow)?,
        })
    }

    /// Makes the handshake on a connection of which `already_read` has been taken.
    ///
    /// A client that is refused gets a TLS alert. Dropping the future closes the connection, so it
    /// can be wrapped in a timeout; it has none itself.
    pub async fn handshake(
        &self,
        mut stream: TcpStream,
        already_read: &[u8],
    ) -> Result<Handshake, TlsError> {
        let mut wire = Wire::new(&mut stream, already_read);
        let mut connection = self.accept(&mut wire).await?;
        wire.complete(&mut connection, |_| Ok(())).await?;
        wire.expect_all_taken()?;
        let exporter = exporter(&connection)?;
        let peer = config::proven_key(connection.peer_certificates())?;
        Ok(Handshake {
            stream,
            exporter,
            peer,
            aead: aead(&connection),
            unconfirmed: None,
        })
    }

    /// Reads the client's first message and refuses one that does not speak this protocol.
    async fn accept(&self, wire: &mut Wire<'_>) -> Result<ServerConnection, TlsError> {
        let mut acceptor = Acceptor::default();
        let accepted = loop {
            let record = wire.read_record().await?;
            let mut unread = record.as_slice();
            while !unread.is_empty() {
                acceptor.read_tls(&mut unread)?;
            }
            match acceptor.accept() {
                Ok(Some(accepted)) => break accepted,
                Ok(None) => {}
                Err((error, alert)) => return Err(refuse_hello(wire, error, alert).await),
            }
        };
        // rustls lets a client pass that names no protocol at all.
        if !offers_ours(&accepted) {
            wire.refuse(&NO_APPLICATION_PROTOCOL).await;
            return Err(TlsError::NoCommonProtocol);
        }
        match accepted.into_connection(Arc::clone(&self.config)) {
            Ok(connection) => Ok(connection),
            Err((error, alert)) => Err(refuse_hello(wire, error, alert).await),
        }
    }
}

/// Tells whether a TLS record is the first message of a client that speaks this protocol. Any bytes
/// may be given.
pub(crate) fn is_our_hello(record: &[u8]) -> bool {
    let mut acceptor = Acceptor::default();
    let mut unread = record;
    while !unread.is_empty() {
        if acceptor.read_tls(&mut unread).is_err() {
            return false;
        }
    }
    let Ok(Some(accepted)) = acceptor.accept() else {
        return false;
    };
    offers_ours(&accepted)
}

fn offers_ours(accepted: &Accepted) -> bool {
    let hello = accepted.client_hello();
    let offered = hello.alpn();
    offered.is_some_and(|mut offered| offered.any(|protocol| protocol == ALPN))
}

/// [`TlsClient::new`] and [`TlsClient::handshake`] for a single connection.
pub async fn client_handshake(
    stream: TcpStream,
    me: &Identity,
    peer: PublicKey,
) -> Result<Handshake, TlsError> {
    TlsClient::new(me, peer)?.handshake(stream).await
}

/// [`TlsServer::new`] and [`TlsServer::handshake`] for a single connection.
pub async fn server_handshake(
    stream: TcpStream,
    already_read: &[u8],
    me: &Identity,
    allow: Allow,
) -> Result<Handshake, TlsError> {
    TlsServer::new(me, allow)?
        .handshake(stream, already_read)
        .await
}

impl From<rustls::Error> for TlsError {
    fn from(error: rustls::Error) -> Self {
        match error {
            rustls::Error::AlertReceived(alert) => Self::Refused { alert },
            rustls::Error::NoApplicationProtocol => Self::NoCommonProtocol,
            other => config::own_verdict(&other).unwrap_or(Self::Tls(other)),
        }
    }
}

/// Both sides' last step: the secret that outlives TLS.
fn exporter<S: SideData>(
    connection: &ConnectionCommon<S>,
) -> Result<Zeroizing<[u8; 32]>, TlsError> {
    let empty = Zeroizing::new([0; 32]);
    Ok(connection.export_keying_material(empty, EXPORTER_LABEL, None)?)
}

fn aead<S: SideData>(connection: &ConnectionCommon<S>) -> Aead {
    match connection
        .negotiated_cipher_suite()
        .map(|suite| suite.suite())
    {
        Some(CipherSuite::TLS13_AES_128_GCM_SHA256) => Aead::Aes128Gcm,
        Some(CipherSuite::TLS13_AES_256_GCM_SHA384) => Aead::Aes256Gcm,
        _ => Aead::ChaCha20Poly1305,
    }
}

async fn refuse_hello(
    wire: &mut Wire<'_>,
    error: rustls::Error,
    mut alert: rustls::server::AcceptedAlert,
) -> TlsError {
    let mut bytes = Vec::new();
    // Writing to memory cannot fail.
    let _ = alert.write_all(&mut bytes);
    wire.refuse(&bytes).await;
    error.into()
}

/// The label under which both ends take their shared secret from the handshake; no context.
pub const EXPORTER_LABEL: &[u8] = b"EXPORTER-hawser-1";
/// A fatal `no_application_protocol` alert, which goes in the clear.
const NO_APPLICATION_PROTOCOL: [u8; 7] = [0x15, 3, 3, 0, 2, 2, 120];
