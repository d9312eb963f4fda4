//! Fallback: bonded if the peer knows Hawser, plain TCP otherwise.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hawser_keys::host_port::HostPort;
use hawser_keys::identity::PublicKey;
use hawser_net::client::OpenStreamError;
use hawser_net::stream::BondStream;
use hawser_seal::TlsProbe;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, ToSocketAddrs, lookup_host};
use tokio::time::timeout;

use crate::connection::Connection;
use crate::endpoint::{Endpoint, PeerAddress};
use crate::error::{ConnectError, FallbackError};

/// A stream that is bonded if the peer knows Hawser.
#[derive(Debug)]
pub enum EitherStream {
    /// A stream over every link, to a peer that has proved its key; with its connection.
    Bonded(BondStream, Connection),
    /// Plain TCP: the peer has proved no key, and the data is readable in the network.
    Tcp(TcpStream),
}

impl Endpoint {
    /// Opens a stream to the peer that listens at `bonded`. If the peer does not know Hawser, opens
    /// plain TCP to `plain`, where the same service accepts TCP connections.
    ///
    /// # What this means for security
    ///
    /// - **With a key**, given as `key` or known from before, there is no fallback: either the
    ///   holder of that key answers and admits this host, or this fails. Known from before are
    ///   the keys of peers that this host was enrolled with at that address, from the state
    ///   directory, and the keys found by this function; without a state directory, those found
    ///   by this endpoint.
    /// - **Without a key** the first contact is a leap of faith, as with SSH. A host on the path
    ///   can then pretend to be the peer, or pretend that the peer does not know Hawser, which
    ///   makes it a plain TCP connection. If the peer speaks Hawser and admits this host (it must
    ///   have [allowed](crate::BondListener::allow) this host's [key](Endpoint::public_key)), the
    ///   peer's key is remembered for `bonded`, and all later connections there are as safe as
    ///   those with a key. A peer that speaks Hawser and does not admit this host is an error:
    ///   there is no fallback to plain TCP for a peer that knows Hawser.
    ///
    /// A peer does not know Hawser if no connection is accepted at `bonded`, or if the answer
    /// there, within 5 s, is not TLS with the protocol `hawser/1` and a key that is proved with it.
    /// Such a peer gets neither this host's key nor any data.
    ///
    /// Check [`EitherStream::is_bonded`] before sending secrets.
    pub async fn connect_or_tcp(
        &self,
        bonded: &str,
        key: Option<PublicKey>,
        plain: impl ToSocketAddrs,
    ) -> Result<EitherStream, FallbackError> {
        let address: HostPort = bonded
            .parse()
            .map_err(|error| FallbackError::Address(format!("{bonded:?}: {error}")))?;
        if let Some(key) = key.map_or_else(|| self.known_key(&address), |key| Ok(Some(key)))? {
            return match self.open_bonded(&address, key).await {
                Ok(stream) => Ok(stream),
                Err(reason) => Err(FallbackError::KeyKnown { key, reason }),
            };
        }
        let probe = TlsProbe::for_anyone().map_err(FallbackError::Tls)?;
        match key_at(&address, &probe).await {
            Ok(key) => {
                let opened = self.open_bonded(&address, key).await;
                let stream = opened.map_err(FallbackError::Bonded)?;
                self.known_keys().remember(&address, key)?;
                Ok(stream)
            }
            Err(reason) => {
                tracing::info!(%address, %reason, "peer does not know hawser, using plain tcp");
                let stream = TcpStream::connect(plain).await;
                Ok(EitherStream::Tcp(stream.map_err(FallbackError::Plain)?))
            }
        }
    }

    fn known_key(&self, address: &HostPort) -> Result<Option<PublicKey>, FallbackError> {
        let enrolled = self.known_peers().map_err(FallbackError::State)?;
        let at_address = |peer: &&PeerAddress| peer.addresses().contains(address);
        match enrolled.iter().find(at_address) {
            Some(peer) => Ok(Some(peer.key())),
            None => Ok(self.known_keys().find(address)?),
        }
    }

    async fn open_bonded(
        &self,
        address: &HostPort,
        key: PublicKey,
    ) -> Result<EitherStream, ConnectError> {
        let peer = PeerAddress::new(key, vec![address.clone()]);
        let connection = self.connect(&peer).await?;
        let stream = connection.open().await.map_err(OpenStreamError::from)?;
        Ok(EitherStream::Bonded(stream, connection))
    }
}

impl EitherStream {
    /// True if the peer has proved its key and every link is used.
    pub fn is_bonded(&self) -> bool {
        matches!(self, Self::Bonded(..))
    }
}

/// Returns the key that a host at `address` proves with `hawser/1`, or why no host there does.
async fn key_at(address: &HostPort, probe: &TlsProbe) -> Result<PublicKey, String> {
    let found = lookup_host(address.to_string()).await;
    let mut last = "the name has no address".to_owned();
    for candidate in found.map_err(|error| error.to_string())? {
        let asking = async {
            let stream = TcpStream::connect(candidate).await;
            let key = probe.ask(stream.map_err(|error| error.to_string())?).await;
            key.map_err(|error| error.to_string())
        };
        match timeout(PROBE_PATIENCE, asking).await {
            Ok(Ok(key)) => return Ok(key),
            Ok(Err(reason)) => last = reason,
            Err(_) => last = format!("no answer within {PROBE_PATIENCE:?}"),
        }
    }
    Err(last)
}

impl AsyncRead for EitherStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Bonded(stream, _) => Pin::new(stream).poll_read(cx, buffer),
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for EitherStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Bonded(stream, _) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Bonded(stream, _) => Pin::new(stream).poll_flush(cx),
            Self::Tcp(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Bonded(stream, _) => Pin::new(stream).poll_shutdown(cx),
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

const PROBE_PATIENCE: Duration = Duration::from_secs(5);
