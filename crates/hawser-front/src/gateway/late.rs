//! Clients of Hawser whose greeting arrived too late.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hawser_net::gateway::{Whose, judge};
use hawser_types::ByteCount;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

use crate::transport::{ByteStream, ResetCode};

/// A connection that was given to the service, since the client sent nothing in time.
///
/// If the greeting of a session follows after all, as when it was lost and retransmitted, the
/// connection is aborted: the service must not receive it, and the client reconnects. The first
/// bytes are held until they are recognised, some 2 KB at most, and for a moment.
#[derive(Debug)]
pub(super) struct Late {
    stream: TcpStream,
    /// The first bytes, while it is not clear what they are, and the timer that limits this.
    held: Option<(BytesMut, Pin<Box<Sleep>>)>,
    /// Bytes that were held and are not read yet.
    cleared: Bytes,
}

impl Late {
    pub(super) fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            held: Some((BytesMut::new(), Box::pin(sleep(PATIENCE)))),
            cleared: Bytes::new(),
        }
    }

    /// Recognises the first bytes of the client.
    fn poll_first(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some((held, patience)) = &mut self.held {
            let whose = match self.stream.poll_read_bytes(cx, MOST_AT_ONCE)? {
                Poll::Ready(words) if words.is_empty() => Some(Whose::Service),
                Poll::Ready(words) => {
                    held.extend_from_slice(&words);
                    judge(held)
                }
                // A client may begin with a few bytes and wait for an answer to them.
                Poll::Pending if !held.is_empty() => {
                    ready!(patience.as_mut().poll(cx));
                    Some(Whose::Service)
                }
                Poll::Pending => return Poll::Pending,
            };
            match whose {
                Some(Whose::Gateway) => {
                    return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
                }
                Some(Whose::Service | Whose::Unclaimed) => {
                    self.cleared = std::mem::take(held).freeze();
                    self.held = None;
                }
                None => {}
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl ByteStream for Late {
    fn reset(&mut self, code: ResetCode) {
        self.stream.reset(code);
    }

    fn poll_read_bytes(&mut self, cx: &mut Context<'_>, max: usize) -> Poll<io::Result<Bytes>> {
        ready!(self.poll_first(cx))?;
        if self.cleared.is_empty() {
            self.stream.poll_read_bytes(cx, max)
        } else {
            let length = max.min(self.cleared.len());
            Poll::Ready(Ok(self.cleared.split_to(length)))
        }
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
        let words = ready!(self.poll_read_bytes(cx, buffer.remaining()))?;
        buffer.put_slice(&words);
        Poll::Ready(Ok(()))
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

/// How long bytes are held, counted from when the connection was given to the service: lost
/// segments have been retransmitted by then.
const PATIENCE: Duration = Duration::from_secs(3);
/// Longer than the greeting of a session.
const MOST_AT_ONCE: usize = 2048;

#[cfg(test)]
mod tests {
    use hawser_keys::identity::Identity;
    use hawser_seal::TlsClient;
    use hawser_types::{ChannelId, SessionId};
    use hawser_wire::JoinPrelude;
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
    async fn a_late_join_ends_the_connection_also_if_it_comes_in_parts() {
        let ((mut client, ours), (theirs, mut service)) = (pair().await, pair().await);
        let relaying = tokio::spawn(async move {
            let (options, counters) = (RelayOptions::default(), RelayCounters::default());
            relay(Late::new(ours).into(), theirs.into(), &options, &counters).await
        });
        let prelude = JoinPrelude {
            session: SessionId::new([1; 16]),
            channel: ChannelId::new(3),
        };
        for part in prelude.encode().chunks(5) {
            client.write_all(part).await.unwrap();
            tokio::task::yield_now().await;
        }
        let end = relaying.await.unwrap().end;
        assert!(matches!(end, RelayEnd::ResetByNear(_)), "{end:?}");
        assert!(!matches!(service.read(&mut [0]).await, Ok(1..)));
    }

    #[tokio::test]
    async fn a_few_bytes_that_might_be_the_beginning_of_a_join_reach_the_service() {
        let ((mut client, ours), (theirs, mut service)) = (pair().await, pair().await);
        let relaying = tokio::spawn(async move {
            let (options, counters) = (RelayOptions::default(), RelayCounters::default());
            relay(Late::new(ours).into(), theirs.into(), &options, &counters).await
        });
        client.write_all(b"HW").await.unwrap();
        let mut said = [0; 2];
        service.read_exact(&mut said).await.unwrap();
        assert_eq!(&said, b"HW");
        relaying.abort();
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
