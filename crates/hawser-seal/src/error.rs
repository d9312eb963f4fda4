use std::io;

use hawser_keys::identity::PublicKey;

/// Why a handshake failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The connection broke.
    #[error("the connection broke during the handshake: {0}")]
    Io(#[from] io::Error),
    /// The other end closed the connection during the handshake, without an alert.
    #[error("the other end closed the connection during the handshake")]
    Closed,
    /// The other end does not speak TLS.
    #[error(
        "something else than a gateway answers there, such as a web server: no TLS, its first byte is \
         {first:#04x}"
    )]
    NotTls {
        /// The first byte received in place of a record.
        first: u8,
    },
    /// The other end sent more than any handshake needs.
    #[error("the handshake takes more than {limit} bytes")]
    TooLong {
        /// Most bytes that are read.
        limit: usize,
    },
    /// The server has an unexpected key: its address has changed hands, or this is an attack.
    #[error("expected the holder of key {expected}, got {got}")]
    WrongPeer {
        /// The key that the client expected.
        expected: PublicKey,
        /// The key of the host that answered.
        got: PublicKey,
    },
    /// The server's key is not among the keys looked for.
    #[error("the server with key {key} is not known here")]
    UnknownPeer {
        /// The server's key.
        key: PublicKey,
    },
    /// The client proved a key that the server does not admit.
    #[error("the client with key {key} is not known here")]
    NotAllowed {
        /// The client's key.
        key: PublicKey,
    },
    /// The other end refused with a TLS alert, such as `CertificateUnknown` for an unknown key.
    #[error("the other end refused the handshake: {alert:?}")]
    Refused {
        /// The alert.
        alert: rustls::AlertDescription,
    },
    /// The other end speaks TLS, but not Hawser of this version.
    #[error(
        "something else than a gateway answers there, such as a web server: it speaks TLS, and not \
         hawser/1"
    )]
    NoCommonProtocol,
    /// The other end identified itself by something other than a raw Ed25519 key.
    #[error("the other end did not give a raw ed25519 public key")]
    NotARawKey,
    /// The other end broke the rules of TLS, or failed to prove its key.
    #[error("the tls handshake failed: {0}")]
    Tls(rustls::Error),
}
