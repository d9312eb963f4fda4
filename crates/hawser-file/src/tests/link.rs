//! A stream in memory that shuffles, repeats, damages and cuts, reproducibly for a seed.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, DuplexStream, ReadBuf, duplex};

use crate::UnorderedRead;

/// Treatment of the bytes from the sender to the receiver.
pub(super) struct LinkOptions {
    pub(super) seed: u64,
    /// The longest chunk.
    pub(super) chunk: usize,
    /// How many chunks wait to be shuffled.
    pub(super) window: usize,
    /// Percentage of repeated chunks.
    pub(super) repeated: u32,
    /// The stream breaks after this many bytes from the sender; all of them arrive.
    pub(super) cut: Option<u64>,
    /// After this many bytes the link stalls silently.
    pub(super) stall: Option<u64>,
    /// The byte at this offset arrives changed.
    pub(super) damage: Option<u64>,
    /// Called when the receiver has processed all bytes before this offset, and waits for more.
    pub(super) starved: Option<(u64, Box<dyn FnOnce() + Send>)>,
    /// Called when the sender has passed this offset.
    pub(super) hook: Option<(u64, Box<dyn FnOnce() + Send>)>,
}

impl Default for LinkOptions {
    fn default() -> Self {
        Self {
            seed: 1,
            chunk: 64 << 10,
            window: 12,
            repeated: 5,
            cut: None,
            stall: None,
            damage: None,
            starved: None,
            hook: None,
        }
    }
}

/// Both ends of a stream.
pub(super) struct Link {
    pub(super) sender: SenderEnd,
    pub(super) reader: Shuffled,
    pub(super) writer: DuplexStream,
}

impl Link {
    pub(super) fn new(options: LinkOptions) -> Self {
        let (up_in, up_out) = duplex(BUFFER_BYTES);
        let (down_in, down_out) = duplex(BUFFER_BYTES);
        let broken = Arc::new(AtomicBool::new(options.cut == Some(0)));
        Self {
            sender: SenderEnd {
                up: Some(up_in).filter(|_| options.cut != Some(0)),
                down: down_out,
                passed: 0,
                cut: options.cut,
                stall: options.stall,
                hook: options.hook,
                broken: Arc::clone(&broken),
            },
            reader: Shuffled {
                up: up_out,
                rng: StdRng::seed_from_u64(options.seed),
                offset: 0,
                chunk: options.chunk,
                window: options.window,
                repeated: options.repeated,
                damage: options.damage,
                starved: options.starved,
                pending: Vec::new(),
                handed_out: VecDeque::new(),
                is_over: false,
                broken,
            },
            writer: down_in,
        }
    }
}

pub(super) struct SenderEnd {
    /// `None` once the link is cut.
    up: Option<DuplexStream>,
    down: DuplexStream,
    passed: u64,
    cut: Option<u64>,
    stall: Option<u64>,
    hook: Option<(u64, Box<dyn FnOnce() + Send>)>,
    broken: Arc<AtomicBool>,
}

impl AsyncWrite for SenderEnd {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let end = |limit: Option<u64>| limit.map_or(u64::MAX, |limit| limit - self.passed);
        let room = end(self.cut).min(end(self.stall)).min(bytes.len() as u64) as usize;
        let Some(up) = &mut self.up else {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        };
        if room == 0 && !bytes.is_empty() {
            return Poll::Pending;
        }
        let written = ready!(Pin::new(up).poll_write(cx, &bytes[..room]))?;
        self.passed += written as u64;
        if self.cut == Some(self.passed) {
            self.broken.store(true, Ordering::SeqCst);
            self.up = None;
        }
        let passed = self.passed;
        if let Some((_, hook)) = self.hook.take_if(|(offset, _)| *offset <= passed) {
            hook();
        }
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.up {
            Some(up) => Pin::new(up).poll_flush(cx),
            None => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.up {
            Some(up) => Pin::new(up).poll_shutdown(cx),
            None => Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
        }
    }
}

impl AsyncRead for SenderEnd {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.broken.load(Ordering::SeqCst) {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        Pin::new(&mut self.down).poll_read(cx, buffer)
    }
}

pub(super) struct Shuffled {
    up: DuplexStream,
    rng: StdRng,
    offset: u64,
    chunk: usize,
    window: usize,
    repeated: u32,
    damage: Option<u64>,
    starved: Option<(u64, Box<dyn FnOnce() + Send>)>,
    pending: Vec<(u64, Bytes)>,
    handed_out: VecDeque<(u64, Bytes)>,
    is_over: bool,
    broken: Arc<AtomicBool>,
}

impl Shuffled {
    /// Fills the window; waits only where it is empty.
    async fn fill(&mut self) -> io::Result<()> {
        let mut patience = 4;
        while self.pending.len() < self.window && !self.is_over {
            let mut bytes = BytesMut::zeroed(self.rng.random_range(1..=self.chunk));
            let read = if self.pending.is_empty() {
                let offset = self.offset;
                if let Some((_, hook)) = self.starved.take_if(|(at, _)| *at <= offset) {
                    hook();
                }
                Some(self.up.read(&mut bytes).await)
            } else {
                let mut read = pin!(self.up.read(&mut bytes));
                poll_fn(|cx| {
                    Poll::Ready(match read.as_mut().poll(cx) {
                        Poll::Ready(result) => Some(result),
                        Poll::Pending => None,
                    })
                })
                .await
            };
            match read {
                Some(read) => {
                    bytes.truncate(read?);
                    self.take(bytes);
                }
                None if patience == 0 => break,
                None => {
                    patience -= 1;
                    tokio::task::yield_now().await;
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, mut bytes: BytesMut) {
        if bytes.is_empty() {
            self.is_over = true;
            return;
        }
        let at = self.damage.and_then(|at| at.checked_sub(self.offset));
        if let Some(byte) = at.and_then(|at| bytes.get_mut(at as usize)) {
            *byte ^= 0x10;
        }
        let length = bytes.len() as u64;
        self.pending.push((self.offset, bytes.freeze()));
        self.offset += length;
    }
}

impl UnorderedRead for Shuffled {
    async fn read_chunk(&mut self) -> io::Result<Option<(u64, Bytes)>> {
        self.fill().await?;
        if self.pending.is_empty() {
            return if self.broken.load(Ordering::SeqCst) {
                Err(io::ErrorKind::ConnectionReset.into())
            } else {
                Ok(None)
            };
        }
        if !self.handed_out.is_empty() && self.rng.random_range(0..100) < self.repeated {
            let index = self.rng.random_range(0..self.handed_out.len());
            return Ok(self.handed_out.get(index).cloned());
        }
        let index = self.rng.random_range(0..self.pending.len());
        let chunk = self.pending.swap_remove(index);
        self.handed_out.push_back(chunk.clone());
        self.handed_out.truncate(REMEMBERED);
        Ok(Some(chunk))
    }
}

const BUFFER_BYTES: usize = 256 << 10;
/// How many chunks may be repeated.
const REMEMBERED: usize = 64;

/// An ordered stream, such as one TCP connection, seen as an unordered one.
#[derive(Debug)]
pub(super) struct Ordered<R> {
    inner: R,
    offset: u64,
    buffer: BytesMut,
}

impl<R> Ordered<R> {
    /// Reads from `inner`, whose next byte is the stream's first.
    pub(super) fn new(inner: R) -> Self {
        Self {
            inner,
            offset: 0,
            buffer: BytesMut::new(),
        }
    }
}

impl<R: AsyncRead + Unpin + Send> UnorderedRead for Ordered<R> {
    async fn read_chunk(&mut self) -> io::Result<Option<(u64, Bytes)>> {
        self.buffer.reserve(CHUNK_BYTES);
        if self.inner.read_buf(&mut self.buffer).await? == 0 {
            return Ok(None);
        }
        let offset = self.offset;
        let chunk = self.buffer.split().freeze();
        self.offset += chunk.len() as u64;
        Ok(Some((offset, chunk)))
    }
}

const CHUNK_BYTES: usize = 64 << 10;
