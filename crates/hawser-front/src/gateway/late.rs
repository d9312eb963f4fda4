//! Clients of Hawser whose first words came too late.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hawser_net::tls::is_our_hello;
use hawser_types::ByteCount;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::transport::{ByteStream, ResetCode};

/// A connection that is the service's, since the client said nothing in time.
///
/// Should its first words be the greeting of a session after all, as where they were lost and sent
/// again, it breaks: no service is to be sent those, and the client makes another connection.
#[derive(Debug)]
pub(super) struct Late {
    stream: TcpStream,
    has_spoken: bool,
}

impl Late {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            has_spoken: false,
        }
    }

    /// Judges what the client says first.
    fn check(&mut self, words: &[u8]) -> io::Result<()> {
        let is_first = !std::mem::replace(&mut self.has_spoken, true);
        match is_first && is_our_hello(words) {
            true => Err(io::ErrorKind::ConnectionAborted.into()),
            false => Ok(()),
        }
    }
}

impl ByteStream for Late {
    fn reset(&mut self, code: ResetCode) {
        self.stream.reset(code);
    }

    fn poll_read_bytes(&mut self, cx: &mut Context<'_>, max: usize) -> Poll<io::Result<Bytes>> {
        let words = ready!(self.stream.poll_read_bytes(cx, max))?;
        self.check(&words)?;
        Poll::Ready(Ok(words))
    }

    fn poll_write_bytes(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &mut Bytes,
    ) -> Poll<io::Result<usize>> {
        self.stream.poll_write_bytes(cx, bytes)
    }

    fn write_room(&self) -> Option<usize> {
        self.stream.write_room()
    }

    fn undelivered(&self) -> ByteCount {
        self.stream.undelivered()
    }

    fn aborted(&self) -> Option<ResetCode> {
        self.stream.aborted()
    }
}

impl AsyncRead for Late {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buffer))?;
        let words = buffer.filled().get(before..).unwrap_or_default();
        Poll::Ready(self.check(words))
    }
}

impl AsyncWrite for Late {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use hawser_net::identity::Identity;
    use hawser_net::tls::TlsClient;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::relay::{RelayCounters, RelayEnd, RelayOptions, relay};

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (near, far) = tokio::join!(TcpStream::connect(address), listener.accept());
        (near.unwrap(), far.unwrap().0)
    }

    #[tokio::test]
    async fn a_late_greeting_ends_the_connection_and_no_byte_of_it_reaches_the_service() {
        let ((client, ours), (theirs, mut service)) = (pair().await, pair().await);
        let me = Identity::from_seed([1; 32]);
        let tls = TlsClient::new(&me, Identity::from_seed([2; 32]).public()).unwrap();
        let greeting = tokio::spawn(async move { tls.handshake(client).await.is_ok() });
        let (options, counters) = (RelayOptions::default(), RelayCounters::default());
        let report = relay(Late::new(ours).into(), theirs.into(), &options, &counters).await;
        assert!(matches!(report.end, RelayEnd::ResetByNear(_)), "{report:?}");
        assert!(!greeting.await.unwrap());
        assert!(!matches!(service.read(&mut [0]).await, Ok(1..)));
    }

    #[tokio::test]
    async fn all_else_is_carried_also_what_is_said_later() {
        let ((mut client, ours), (theirs, mut service)) = (pair().await, pair().await);
        let relaying = tokio::spawn(async move {
            let (options, counters) = (RelayOptions::default(), RelayCounters::default());
            relay(Late::new(ours).into(), theirs.into(), &options, &counters).await
        });
        service.write_all(b"220 ready").await.unwrap();
        client.read_exact(&mut [0; 9]).await.unwrap();
        client.write_all(b"EHLO").await.unwrap();
        let mut said = Vec::new();
        client.shutdown().await.unwrap();
        service.read_to_end(&mut said).await.unwrap();
        assert_eq!(said, b"EHLO");
        drop(service);
        assert_eq!(relaying.await.unwrap().end, RelayEnd::Closed);
    }
}
