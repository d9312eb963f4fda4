//! TLS 1.3 with raw public keys (RFC 7250), used only to agree on keys.
//!
//! Both sides prove the Ed25519 key that is their identity; there are no certificates, names or
//! resumption. After the handshake both take the exporter and leave TLS: the same TCP connection
//! then carries other bytes, and the first of them may arrive in the very segment that ends the
//! handshake. So no code here reads past the handshake: TLS records are read off the socket one at
//! a time, by the length in their header.
//!
//! In TLS 1.3 the client is done before the server has checked the client's key. The server
//! therefore reports a refusal by an alert in place of its first answer: [`Handshake::accepted`]
//! tells the two apart.
//!
//! The way through: [`TlsClient`] and [`TlsServer`] (this file) → `config.rs` (rustls for raw keys,
//! and which keys are accepted) → `wire.rs` (one TLS record at a time) → [`Handshake`], whose
//! exporter `seal.rs` of `hawser-session` derives the keys of records from. `protocol.rs` has what
//! both sides share. Who calls: `client/first.rs` and `gateway/admit.rs` of `hawser-net`.
//!
//! To change which keys a side accepts, begin at `config.rs`; the tests are in `tests.rs`. The
//! handshake is specified in `docs/protocol.md`, section 1.1.

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

use config::Expected;
pub use error::TlsError;
use hawser_keys::identity::{Identity, PublicKey};
pub use protocol::{ALPN, Allow, MAX_HANDSHAKE, is_tls_record};
use wire::Wire;

/// A connection whose two ends have proved their keys and share a secret.
#[derive(Debug)]
pub struct Handshake {
    /// The connection, at the first byte behind the handshake. TLS is no longer used on it, except
    /// for the server's refusal, which begins with a byte for which [`is_tls_record`] holds: see
    /// [`Handshake::accepted`].
    pub stream: TcpStream,
    /// 32 secret bytes that only the two ends have, from the exporter [`EXPORTER_LABEL`].
    pub exporter: Zeroizing<[u8; 32]>,
    /// The key that the other end has proved to hold.
    pub peer: PublicKey,
    /// The AEAD of the suite that both ends agreed on.
    pub aead: Aead,
    /// The client's TLS state, which can still read the server's refusal.
    unconfirmed: Option<Box<ClientConnection>>,
}

impl Handshake {
    /// Waits for the server's first byte, and fails if it begins a TLS alert: the server has
    /// refused this client's key after the client's side of the handshake was over.
    ///
    /// Takes only such an alert off the stream. The future can be dropped and called again until an
    /// alert has begun to arrive. Returns at once on the server's side.
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

/// The client's side of TLS, prepared once for many connections to one server.
#[derive(Clone, Debug)]
pub struct TlsClient {
    config: Arc<ClientConfig>,
}

impl TlsClient {
    /// Makes a client that proves the identity `me` and accepts only the holder of `peer`.
    pub fn new(me: &Identity, peer: PublicKey) -> Result<Self, TlsError> {
        Ok(Self {
            config: config::client(me, Expected::AmongThese(vec![peer]))?,
        })
    }

    /// Makes a client that proves the identity `me` and accepts only a server whose key has this
    /// hint; the handshake shows the whole key.
    pub fn to_hinted(me: &Identity, hint: KeyHint) -> Result<Self, TlsError> {
        Ok(Self {
            config: config::client(me, Expected::Hinted(hint))?,
        })
    }

    /// Performs the handshake on a connection on which no bytes have been sent yet.
    ///
    /// Does not wait for the server's verdict on `me`: see [`Handshake::accepted`]. Dropping the
    /// future closes the connection.
    pub async fn handshake(&self, mut stream: TcpStream) -> Result<Handshake, TlsError> {
        let mut connection =
            ClientConnection::new(Arc::clone(&self.config), config::unused_server_name())?;
        let mut wire = Wire::new(&mut stream, &[]);
        // Checked before the flight that would show this client's key to a foreign server.
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

/// Finds out the identity of a server, without showing this host's own.
#[derive(Clone, Debug)]
pub struct TlsProbe {
    config: Arc<ClientConfig>,
}

impl TlsProbe {
    /// Makes a probe that looks for the holders of these keys.
    pub fn new(known: Vec<PublicKey>) -> Result<Self, TlsError> {
        Ok(Self {
            config: config::prober(Expected::AmongThese(known))?,
        })
    }

    /// Makes a probe that accepts any server that proves a key, to learn that key.
    pub fn for_anyone() -> Result<Self, TlsError> {
        Ok(Self {
            config: config::prober(Expected::Anyone)?,
        })
    }

    /// Performs the part of the handshake that proves the server's key, and returns that key; fails
    /// if the key is not among those looked for. The connection ends there: this side's key is
    /// never shown, and to the server the probe looks like a client that lost a race.
    ///
    /// Has no timeout of its own; dropping the future closes the connection.
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

/// The server's side of TLS, prepared once for all connections.
#[derive(Clone, Debug)]
pub struct TlsServer {
    config: Arc<ServerConfig>,
}

impl TlsServer {
    /// Makes a server that proves the identity `me` and admits clients that `allow` accepts.
    ///
    /// `allow` is called only after the client has proved its key, so that no host can probe which
    /// keys are known here.
    pub fn new(me: &Identity, allow: Allow) -> Result<Self, TlsError> {
        Ok(Self {
            config: config::server(me, allow)?,
        })
    }

    /// Performs the handshake on a connection from which `already_read` has been read.
    ///
    /// A refused client gets a TLS alert. The future has no timeout of its own; the caller may wrap
    /// it in one, since dropping it closes the connection.
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

    /// Reads the client's first message and refuses a client of another protocol.
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
        // rustls accepts a client that names no protocol at all.
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

/// Returns whether a TLS record is the first message of a client of this protocol. Accepts any
/// bytes.
pub fn is_our_hello(record: &[u8]) -> bool {
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

/// Calls [`TlsClient::new`] and [`TlsClient::handshake`] for a single connection.
pub async fn client_handshake(
    stream: TcpStream,
    me: &Identity,
    peer: PublicKey,
) -> Result<Handshake, TlsError> {
    TlsClient::new(me, peer)?.handshake(stream).await
}

/// Calls [`TlsServer::new`] and [`TlsServer::handshake`] for a single connection.
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

/// Exports the secret that is used after TLS, the last step of both sides.
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

/// The exporter label of the shared secret; no context.
pub const EXPORTER_LABEL: &[u8] = b"EXPORTER-hawser-1";
/// A fatal `no_application_protocol` alert, sent in plaintext.
const NO_APPLICATION_PROTOCOL: [u8; 7] = [0x15, 3, 3, 0, 2, 2, 120];
