//! The sending end.

mod bare;
mod input;

use std::io;
use std::path::Path;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use hawser_types::ByteCount;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf, split};
use tokio::time::timeout;

use super::byte_range::ByteRange;
use super::content::FileHash;
use super::entry_kind::EntryKind;
use super::entry_path::EntryPath;
use super::error::SendError;
use super::progress::{Phase, Progress, Update};
use super::source::{FollowLinks, Reading, Source, read_ahead};
use super::tree::TreeEntry;
use super::wire::{Answer, Fault, Offer, Trailer};

/// Options for sending a file.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SendOptions {
    /// Path of the file at the receiver; `None`: the last component of its path here.
    pub name: Option<EntryPath>,
}

/// A file that the receiver has stored completely under its name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sent {
    /// Its size.
    pub size: ByteCount,
    /// Bytes of the file that were sent over this stream.
    pub transferred: ByteCount,
    /// True if the receiver had the same file before.
    pub already_there: bool,
    /// BLAKE3 of it.
    pub hash: FileHash,
}

/// Sends one file over a stream of its own; continues an interrupted transfer of the file.
///
/// Returns when the receiver has confirmed the checksum of the whole file. Dropping the future
/// interrupts the transfer; the receiver keeps the part that it received.
pub async fn send_file<S>(
    stream: S,
    path: &Path,
    options: &SendOptions,
    progress: &dyn Progress,
) -> Result<Sent, SendError>
where
    S: AsyncRead + AsyncWrite + Send,
{
    send_source(
        stream,
        path,
        options.name.as_ref(),
        FollowLinks::Yes,
        progress,
    )
    .await
}

/// Sends one entry of a tree.
///
/// Continues an interrupted transfer of a file; see [`send_file`].
pub async fn send_entry<S>(
    stream: S,
    entry: &TreeEntry,
    progress: &dyn Progress,
) -> Result<Sent, SendError>
where
    S: AsyncRead + AsyncWrite + Send,
{
    match entry.kind {
        EntryKind::File => {
            let (path, place) = (&entry.source, Some(&entry.path));
            send_source(stream, path, place, FollowLinks::No, progress).await
        }
        EntryKind::Directory | EntryKind::Link => {
            let entry = entry.clone();
            let offer = blocking(move || entry.bare_offer()).await??;
            Outgoing::new(stream, offer.size, progress)
                .bare(&offer)
                .await
        }
    }
}

/// Sends the output of a program, to its end, as a file.
///
/// Calls `open` once the receiver requests the input, and reads it in a thread of its own. Returns
/// when the receiver has confirmed the checksum. An interrupted transfer cannot be resumed, since
/// the input cannot be read again; an attempt that failed before `open` was called can be repeated.
pub async fn send_input<S, R>(
    stream: S,
    open: impl FnOnce() -> R,
    path: &EntryPath,
    progress: &dyn Progress,
) -> Result<Sent, SendError>
where
    S: AsyncRead + AsyncWrite + Send,
    R: io::Read + Send + 'static,
{
    Outgoing::new(stream, ByteCount::ZERO, progress)
        .input(path, open)
        .await
}

async fn send_source<S>(
    stream: S,
    path: &Path,
    place: Option<&EntryPath>,
    follow: FollowLinks,
    progress: &dyn Progress,
) -> Result<Sent, SendError>
where
    S: AsyncRead + AsyncWrite + Send,
{
    let (path, place) = (path.to_owned(), place.cloned());
    let source = blocking(move || Source::open(&path, place.as_ref(), follow)).await??;
    let size = source.offer().size;
    progress.begin(&source.offer().path, Some(size));
    Outgoing::new(stream, size, progress).run(source).await
}

/// One stream that sends a file.
struct Outgoing<'a, S> {
    writer: WriteHalf<S>,
    answers: Answers<S>,
    progress: &'a dyn Progress,
    size: ByteCount,
    transferred: u64,
}

impl<'a, S: AsyncRead + AsyncWrite + Send> Outgoing<'a, S> {
    fn new(stream: S, size: ByteCount, progress: &'a dyn Progress) -> Self {
        let (reader, writer) = split(stream);
        Self {
            writer,
            answers: Answers {
                reader,
                buffer: BytesMut::new(),
                size,
            },
            progress,
            size,
            transferred: 0,
        }
    }

    async fn run(&mut self, mut source: Source) -> Result<Sent, SendError> {
        self.offer(source.offer()).await?;
        let mut rounds = 0;
        loop {
            match self.answers.next().await? {
                Answer::Want(_) if rounds == MAX_ROUNDS => {
                    return Err(Fault::TooManyRounds { limit: MAX_ROUNDS }.into());
                }
                Answer::Want(wanted) => {
                    rounds += 1;
                    source = self.round(source, wanted).await?;
                }
                Answer::Finished {
                    already_there,
                    hash,
                } => {
                    let ours = source.hashes();
                    let ours = ours.and_then(|blocks| source.grid().root(&blocks));
                    return self.finished(already_there, hash, ours).await;
                }
                Answer::Refused { refusal, detail } => {
                    return Err(SendError::Refused { refusal, detail });
                }
            }
        }
    }

    /// Sends the offer.
    async fn offer(&mut self, offer: &Offer) -> Result<(), SendError> {
        self.show(Phase::Waiting, 0);
        self.write(&offer.encode()).await?;
        self.flush().await
    }

    /// Ends the transfer with the receiver's result, if that has the sender's own hash.
    async fn finished(
        &mut self,
        already_there: bool,
        hash: FileHash,
        ours: Option<FileHash>,
    ) -> Result<Sent, SendError> {
        if ours != Some(hash) {
            return Err(Fault::Verdict.into());
        }
        // The file is safe; how the stream ends does not matter any more.
        let _ = timeout(LINGER, self.writer.shutdown()).await;
        self.show(Phase::Finished, self.size.as_u64());
        Ok(Sent {
            size: self.size,
            transferred: ByteCount::new(self.transferred),
            already_there,
            hash,
        })
    }

    /// Sends the wanted ranges and the hashes of all blocks.
    async fn round(
        &mut self,
        mut source: Source,
        wanted: Vec<ByteRange>,
    ) -> Result<Source, SendError> {
        let due: u64 = wanted.iter().map(|range| range.length()).sum();
        let before = self.size.as_u64().saturating_sub(due);
        let mut sent = 0;
        self.show(Phase::Transferring, before);
        let (mut ahead, outlet) = read_ahead();
        let reading = tokio::task::spawn_blocking(move || {
            let result = source.read_round(&wanted, &outlet);
            (source, result)
        });
        loop {
            let next = tokio::select! {
                biased;
                early = self.answers.next() => return Err(out_of_turn(early)),
                next = ahead.full.recv() => next,
            };
            match next {
                Some(Reading::Wanted(buffer)) => {
                    self.write(&buffer).await?;
                    sent += buffer.len() as u64;
                    self.transferred += buffer.len() as u64;
                    self.show(Phase::Transferring, before + sent);
                    // If the thread has failed, it is gone; its result follows.
                    let _ = ahead.used.send(buffer);
                }
                Some(Reading::Hashed(bytes)) => self.show(Phase::Verifying, bytes),
                None => break,
            }
        }
        let (source, result) = reading.await.map_err(|_| interrupted())?;
        let trailer = match (result, source.hashes()) {
            (Ok(()), Some(hashes)) if source.is_unchanged() => Trailer::Unchanged(hashes),
            (Err(SendError::SourceChanged { .. }) | Ok(()), _) if sent == due => Trailer::Changed,
            (result, _) => {
                // Promised bytes are missing: the only possible message is to end the stream.
                let _ = timeout(LINGER, self.writer.shutdown()).await;
                return Err(result.err().unwrap_or_else(interrupted));
            }
        };
        self.write(&trailer.encode(source.grid())).await?;
        self.flush().await?;
        if trailer == Trailer::Changed {
            // The receiver discards its part; its answer only confirms that.
            let _ = timeout(LINGER, self.answers.next()).await;
            return Err(source.changed());
        }
        Ok(source)
    }

    /// Writes, unless an early answer arrives: that can only be a refusal.
    async fn write(&mut self, bytes: &[u8]) -> Result<(), SendError> {
        let result = tokio::select! {
            biased;
            early = self.answers.next() => return Err(out_of_turn(early)),
            result = self.writer.write_all(bytes) => result,
        };
        match result {
            Ok(()) => Ok(()),
            Err(error) => Err(self.reason(error).await),
        }
    }

    async fn flush(&mut self) -> Result<(), SendError> {
        match self.writer.flush().await {
            Ok(()) => Ok(()),
            Err(error) => Err(self.reason(error).await),
        }
    }

    /// Returns why writing failed: the receiver may have sent a refusal before it closed.
    async fn reason(&mut self, error: io::Error) -> SendError {
        match timeout(LINGER, self.answers.next()).await {
            Ok(Ok(Answer::Refused { refusal, detail })) => SendError::Refused { refusal, detail },
            _ => SendError::Stream(error),
        }
    }

    fn show(&self, phase: Phase, done: u64) {
        self.progress.update(Update {
            phase,
            done: ByteCount::new(done),
            total: self.size,
        });
    }
}

/// The receiver's answers, one after the other.
struct Answers<S> {
    reader: ReadHalf<S>,
    buffer: BytesMut,
    size: ByteCount,
}

impl<S: AsyncRead> Answers<S> {
    /// Returns the next answer. Cancel-safe: a partial answer stays in the buffer.
    async fn next(&mut self) -> Result<Answer, SendError> {
        loop {
            if let Some((answer, length)) = Answer::decode(&self.buffer, self.size)? {
                self.buffer.advance(length);
                return Ok(answer);
            }
            let read = self.reader.read_buf(&mut self.buffer).await;
            if read.map_err(SendError::Stream)? == 0 {
                return Err(SendError::Stream(io::ErrorKind::UnexpectedEof.into()));
            }
        }
    }
}

/// Returns the error for an answer that arrived while bytes were still to be sent.
fn out_of_turn(answer: Result<Answer, SendError>) -> SendError {
    match answer {
        Ok(Answer::Refused { refusal, detail }) => SendError::Refused { refusal, detail },
        Ok(_) => Fault::Unexpected.into(),
        Err(error) => error,
    }
}

/// Runs work that may wait for the disk.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, SendError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|_| interrupted())
}

/// Returns the error for a runtime that shuts down.
fn interrupted() -> SendError {
    SendError::Stream(io::ErrorKind::Interrupted.into())
}

/// How many rounds a receiver may request.
const MAX_ROUNDS: usize = 8;
/// How long to wait for an answer that explains an end.
const LINGER: Duration = Duration::from_secs(2);
