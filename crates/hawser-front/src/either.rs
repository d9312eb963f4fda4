//! Connections over one link or over a session, whichever answers first.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hawser_types::ByteCount;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, timeout};
use tracing::Span;

use crate::transport::{ByteStream, DialError, ResetCode};

/// A connection over one link, or over a session with a peer or a gateway.
#[derive(Debug)]
pub enum EitherStream<D, B> {
    /// Over one link.
    Direct(D),
    /// Over a session.
    Bonded(B),
}

/// Why a connection did not use the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// The far end refused the connection, or could not be reached.
    Failed(DialError),
    /// A link answered first; the session had this long to answer.
    Overtaken(Duration),
}

/// Dials over a session by `bonded`. If that fails, or has no answer within `patience`, also dials
/// over a link by `direct`; the first answer wins. Calls `on_loss` if the session is not used.
pub(crate) async fn dial_either<D, B>(
    bonded: impl Future<Output = Result<B, DialError>>,
    patience: Duration,
    direct: impl Future<Output = Result<D, DialError>>,
    on_loss: impl Fn(Loss),
) -> Result<EitherStream<D, B>, DialError> {
    let begun = Instant::now();
    let mut bonded = pin!(bonded);
    match timeout(patience, &mut bonded).await {
        Ok(Ok(stream)) => return Ok(EitherStream::Bonded(stream)),
        Ok(Err(error)) => {
            on_loss(Loss::Failed(error));
            return direct.await.map(EitherStream::Direct);
        }
        Err(_) => {}
    }
    let mut direct = pin!(direct);
    tokio::select! {
        dialed = &mut bonded => match dialed {
            Ok(stream) => Ok(EitherStream::Bonded(stream)),
            Err(error) => {
                on_loss(Loss::Failed(error));
                direct.await.map(EitherStream::Direct)
            }
        },
        dialed = &mut direct => match dialed {
            Ok(stream) => {
                on_loss(Loss::Overtaken(begun.elapsed()));
                Ok(EitherStream::Direct(stream))
            }
            Err(error) => bonded.await.map(EitherStream::Bonded).map_err(|lost| {
                on_loss(Loss::Failed(lost));
                error
            }),
        },
    }
}

/// Does the same with either variant.
macro_rules! either {
    ($this:expr, $stream:ident => $act:expr) => {
        match $this {
            EitherStream::Direct($stream) => $act,
            EitherStream::Bonded($stream) => $act,
        }
    };
}

impl<D: ByteStream, B: ByteStream> ByteStream for EitherStream<D, B> {
    fn poll_read_bytes(&mut self, cx: &mut Context<'_>, max: usize) -> Poll<io::Result<Bytes>> {
        either!(self, stream => stream.poll_read_bytes(cx, max))
    }

    fn poll_write_bytes(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &mut Bytes,
    ) -> Poll<io::Result<usize>> {
        either!(self, stream => stream.poll_write_bytes(cx, bytes))
    }

    fn reset(&mut self, code: ResetCode) {
        either!(self, stream => stream.reset(code));
    }

    fn write_room(&self) -> Option<usize> {
        either!(self, stream => stream.write_room())
    }

    fn span(&self) -> Span {
        either!(self, stream => stream.span())
    }

    fn undelivered(&self) -> ByteCount {
        either!(self, stream => stream.undelivered())
    }

    fn aborted(&self) -> Option<ResetCode> {
        either!(self, stream => stream.aborted())
    }
}

impl<D: AsyncRead + Unpin, B: AsyncRead + Unpin> AsyncRead for EitherStream<D, B> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        either!(self.get_mut(), stream => Pin::new(stream).poll_read(cx, buffer))
    }
}

impl<D: AsyncWrite + Unpin, B: AsyncWrite + Unpin> AsyncWrite for EitherStream<D, B> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        either!(self.get_mut(), stream => Pin::new(stream).poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        either!(self.get_mut(), stream => Pin::new(stream).poll_write_vectored(cx, bytes))
    }

    fn is_write_vectored(&self) -> bool {
        either!(self, stream => stream.is_write_vectored())
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self.get_mut(), stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self.get_mut(), stream => Pin::new(stream).poll_shutdown(cx))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::{pending, ready};

    use tokio::time::sleep;

    use super::*;

    const PATIENCE: Duration = Duration::from_millis(250);

    async fn never() -> Result<(), DialError> {
        panic!("no link is asked for")
    }

    async fn after(milliseconds: u64, dialed: Result<(), DialError>) -> Result<(), DialError> {
        sleep(Duration::from_millis(milliseconds)).await;
        dialed
    }

    /// Returns whether the connection went over the session, and the losses that were reported.
    async fn dial(
        bonded: impl Future<Output = Result<(), DialError>>,
        direct: impl Future<Output = Result<(), DialError>>,
    ) -> (Result<bool, DialError>, Option<Loss>) {
        let loss = Cell::new(None);
        let on_loss = |lost| assert_eq!(loss.replace(Some(lost)), None, "once");
        let dialed = dial_either(bonded, PATIENCE, direct, on_loss).await;
        let is_bonded = |it| matches!(it, EitherStream::Bonded(()));
        (dialed.map(is_bonded), loss.get())
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_has_a_head_start_and_goes_on_beside_the_link() {
        assert_eq!(dial(after(249, Ok(())), never()).await, (Ok(true), None));
        let slow = dial(after(300, Ok(())), pending()).await;
        assert_eq!(slow, (Ok(true), None));
        let (late, loss) = dial(after(400, Ok(())), after(100, Ok(()))).await;
        assert_eq!(late, Ok(false));
        assert!(
            matches!(loss, Some(Loss::Overtaken(waited)) if waited >= PATIENCE),
            "{loss:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_session_refuses_goes_over_a_link_and_the_links_failure_counts() {
        let refused = DialError::RefusedByPolicy;
        let lost = Some(Loss::Failed(refused));
        for delay in [0, 300] {
            let dialed = dial(after(delay, Err(refused)), after(100, Ok(()))).await;
            assert_eq!(dialed, (Ok(false), lost), "{delay}");
        }
        let unreachable = DialError::HostUnreachable;
        let both = dial(after(400, Err(refused)), ready(Err(unreachable))).await;
        assert_eq!(both, (Err(unreachable), lost));
        let bonded = dial(after(400, Ok(())), ready(Err(unreachable))).await;
        assert_eq!(bonded, (Ok(true), None));
    }
}
