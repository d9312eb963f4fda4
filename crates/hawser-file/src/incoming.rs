//! One stream that delivers a file to a [`Receiver`](super::Receiver).

mod bare;
mod input;

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use hawser_types::{ByteCount, RangeSet};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;
use tokio::time::timeout;

use super::byte_range::{ByteRange, byte_ranges, coalesce};
use super::claims::Claim;
use super::compare::hash_whole;
use super::content::{BlockGrid, FileHash};
use super::entry_kind::EntryKind;
use super::error::ReceiveError;
use super::inbox::Inbox;
use super::layout::{Assembly, Layout, Piece};
use super::progress::{Phase, Progress, Update};
use super::store::{Directory, Existing, Part, PartOptions};
use super::transport::UnorderedRead;
use super::wire::{Answer, Fault, Kind, MAX_OFFER_BYTES, MAX_WANTED_RANGES, Offer, Trailer};
use super::writer::{Checked, Writer};

/// A file that is complete under its name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Received {
    /// Kind of the entry.
    pub kind: EntryKind,
    /// Path of the file.
    pub path: PathBuf,
    /// Size of the file.
    pub size: ByteCount,
    /// Bytes of the file that arrived over this stream.
    pub transferred: ByteCount,
    /// True if the same file existed before.
    pub already_there: bool,
    /// BLAKE3 of the whole file.
    pub hash: FileHash,
}

/// One stream that delivers a file.
pub(super) struct Incoming<'a, R, W> {
    inbox: &'a Arc<Inbox>,
    reader: R,
    writer: W,
    progress: &'a dyn Progress,
    /// Stream offset at which the next round begins.
    at: u64,
    superseded: Arc<Notify>,
    idle: Duration,
    transferred: u64,
}

impl<'a, R, W> Incoming<'a, R, W> {
    /// Takes a stream at its beginning.
    pub(super) fn new(
        inbox: &'a Arc<Inbox>,
        reader: R,
        writer: W,
        progress: &'a dyn Progress,
    ) -> Self {
        Self {
            inbox,
            reader,
            writer,
            progress,
            at: 0,
            superseded: Arc::default(),
            idle: inbox.options.idle_timeout,
            transferred: 0,
        }
    }
}

impl<R: UnorderedRead + Send, W: AsyncWrite + Unpin + Send> Incoming<'_, R, W> {
    /// Receives the file, without reporting the result to the sender.
    pub(super) async fn run(&mut self) -> Result<Received, ReceiveError> {
        let shared = Arc::clone(self.inbox);
        let offer_timeout = shared.options.offer_timeout;
        let offer =
            timeout(offer_timeout, self.offer())
                .await
                .unwrap_or(Err(ReceiveError::Silent {
                    after: offer_timeout,
                }))?;
        if offer.size > shared.options.max_file_size {
            return Err(ReceiveError::TooLarge {
                size: offer.size,
                limit: shared.options.max_file_size,
            });
        }
        let total = (offer.kind != Kind::Input).then_some(offer.size);
        self.progress.begin(&offer.path, total);
        self.idle += Duration::from_secs(offer.size.as_u64() / SLOWEST_READ_PER_SECOND);
        let claim = shared.claims.claim(&offer).await?;
        self.superseded = claim.superseded();
        let _place = self.inbox.admit().await?;
        match offer.kind {
            Kind::File => self.file(&offer, claim).await,
            Kind::Input => self.input(&offer, claim).await,
            Kind::Directory | Kind::Link(_) => self.bare(&offer, claim).await,
        }
    }

    /// Receives a file whose size is known.
    async fn file(&mut self, offer: &Offer, claim: Claim) -> Result<Received, ReceiveError> {
        let (inbox, about) = (Arc::clone(self.inbox), offer.clone());
        let directory = blocking(move || inbox.folder(&about.path)).await??;
        if let Some(hash) = self.already_there(offer, &directory).await? {
            directory.clean(offer.path.name());
            return Ok(self.received(offer, true, hash));
        }
        let options = self.inbox.part_options();
        let (part, claim) = open_part(&directory, offer, options, claim).await?;
        let missing = byte_ranges(part.held().gaps(offer.size.as_u64())).collect();
        let mut writer = Writer::start(part, self.inbox.pace(), claim);
        match self.rounds(offer, &mut writer, missing).await {
            Ok(hash) => {
                writer.close().await?;
                Ok(self.received(offer, false, hash))
            }
            Err(error) => {
                if matches!(
                    error,
                    ReceiveError::Mismatch { .. } | ReceiveError::SourceChanged
                ) {
                    writer.discard();
                }
                if let Err(second) = writer.close().await {
                    tracing::warn!(%second, "cannot keep the received part of the file");
                }
                Err(error)
            }
        }
    }

    /// Reads the offer. The sender must not send more before it is asked to.
    async fn offer(&mut self) -> Result<Offer, ReceiveError> {
        let mut message = Assembly::new(MAX_OFFER_BYTES);
        loop {
            let (offset, chunk) = self.next_chunk(None).await?;
            message.put(usize::try_from(offset).unwrap_or(usize::MAX), &chunk)?;
            let Some((offer, length)) = Offer::decode(message.ready())? else {
                continue;
            };
            self.at = length as u64;
            if message.reach() > length {
                return Err(Fault::NotAskedFor { offset: self.at }.into());
            }
            return Ok(offer);
        }
    }

    /// Handles an existing entry of the same name. `Some`: the same file exists.
    async fn already_there(
        &mut self,
        offer: &Offer,
        directory: &Directory,
    ) -> Result<Option<FileHash>, ReceiveError> {
        let (directory, about) = (directory.clone(), offer.clone());
        let file = match blocking(move || directory.existing(&about)).await?? {
            Existing::Nothing => return Ok(None),
            Existing::Directory => {
                let name = offer.path.to_string();
                return Err(ReceiveError::IsADirectory { name });
            }
            Existing::Different => None,
            Existing::Alike(file) => Some(file),
        };
        if let Some(file) = file {
            let grid = BlockGrid::for_size(offer.size.as_u64());
            let hashing = hash_whole(file, grid);
            let theirs = self.round(offer, &[], None).await?;
            let ours = hashing.await;
            match (theirs, ours) {
                (Trailer::Changed, _) => return Err(ReceiveError::SourceChanged),
                (Trailer::Unchanged(theirs), Some(ours)) if theirs == ours => {
                    return Ok(grid.root(&ours));
                }
                _ => {}
            }
        }
        if self.inbox.replaces() {
            return Ok(None);
        }
        Err(ReceiveError::Exists {
            name: offer.path.to_string(),
        })
    }

    /// Requests missing ranges until the file matches its checksum.
    async fn rounds(
        &mut self,
        offer: &Offer,
        writer: &mut Writer,
        missing: Vec<ByteRange>,
    ) -> Result<FileHash, ReceiveError> {
        let mut wanted = coalesce(&missing, MAX_WANTED_RANGES);
        for _ in 0..MAX_ROUNDS {
            let blocks = match self.round(offer, &wanted, Some(writer)).await? {
                Trailer::Changed => return Err(ReceiveError::SourceChanged),
                Trailer::Unchanged(blocks) => blocks,
            };
            let checked = {
                let check = writer.check(blocks);
                let mut check = std::pin::pin!(check);
                loop {
                    match timeout(PROGRESS_INTERVAL, &mut check).await {
                        Ok(checked) => break checked,
                        Err(_) => self.show(Phase::Verifying, writer.verified(), offer),
                    }
                }
            };
            match checked {
                Some(Checked::Stored(hash)) => return Ok(hash),
                Some(Checked::Wrong(ranges)) => {
                    tracing::warn!(
                        name = %offer.path,
                        blocks = ranges.len(),
                        "parts of the file do not match the checksum, requesting them again"
                    );
                    let merged: RangeSet = ranges.into_iter().map(Range::from).collect();
                    let merged: Vec<_> = byte_ranges(merged.iter()).collect();
                    wanted = coalesce(&merged, MAX_WANTED_RANGES);
                }
                None => return Err(writer.failure().await),
            }
        }
        Err(ReceiveError::Mismatch { rounds: MAX_ROUNDS })
    }

    /// Requests ranges and receives them and the trailer completely.
    async fn round(
        &mut self,
        offer: &Offer,
        wanted: &[ByteRange],
        mut writer: Option<&mut Writer>,
    ) -> Result<Trailer, ReceiveError> {
        self.send(&Answer::Want(wanted.to_vec())).await?;
        let trailer_length = Trailer::length(BlockGrid::for_size(offer.size.as_u64()));
        let layout = Layout::new(self.at, wanted, trailer_length);
        let due: u64 = wanted.iter().map(|range| range.length()).sum();
        let before = offer.size.as_u64().saturating_sub(due);
        let mut arrived = RangeSet::new();
        let mut trailer = Assembly::new(trailer_length);
        self.show(Phase::Transferring, before, offer);
        while arrived.total() < due || trailer.ready().len() < trailer_length {
            let (offset, chunk) = self.next_chunk(writer.as_deref_mut()).await?;
            for piece in layout.place(offset, &chunk)? {
                match piece {
                    Piece::Trailer { offset, bytes } => trailer.put(offset, &bytes)?,
                    Piece::File { offset, bytes } => {
                        self.keep(offset, bytes, &mut arrived, writer.as_deref_mut())
                            .await?;
                    }
                }
            }
            if arrived.range_count().max(trailer.fragments()) > MAX_FRAGMENTS {
                return Err(Fault::TooFragmented {
                    limit: MAX_FRAGMENTS,
                }
                .into());
            }
            self.show(Phase::Transferring, before + arrived.total(), offer);
        }
        self.at = layout.end();
        Ok(Trailer::decode(trailer.ready())?)
    }

    /// Queues bytes for writing, unless all of them arrived before.
    async fn keep(
        &mut self,
        offset: u64,
        bytes: Bytes,
        arrived: &mut RangeSet,
        writer: Option<&mut Writer>,
    ) -> Result<(), ReceiveError> {
        let Some(range) = ByteRange::with_length(offset, bytes.len() as u64) else {
            return Ok(());
        };
        let added = arrived.insert(range.into());
        self.transferred += added;
        match writer {
            Some(writer) if added > 0 && !writer.write(offset, bytes).await => {
                Err(writer.failure().await)
            }
            _ => Ok(()),
        }
    }

    /// Receives the next chunk, unless something ends the transfer first.
    async fn next_chunk(
        &mut self,
        writer: Option<&mut Writer>,
    ) -> Result<(u64, Bytes), ReceiveError> {
        let next = self.next_chunk_or_end(writer).await?;
        next.ok_or(ReceiveError::CutShort)
    }

    /// Receives the next chunk; `None` at the end of the stream.
    async fn next_chunk_or_end(
        &mut self,
        writer: Option<&mut Writer>,
    ) -> Result<Option<(u64, Bytes)>, ReceiveError> {
        let failure = async {
            match writer {
                Some(writer) => writer.failure().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            error = failure => Err(error),
            () = self.superseded.notified() => Err(ReceiveError::Superseded),
            chunk = timeout(self.idle, self.reader.read_chunk()) => match chunk {
                Ok(Ok(chunk)) => Ok(chunk),
                Ok(Err(error)) => Err(ReceiveError::Stream(error)),
                Err(_) => Err(ReceiveError::Silent { after: self.idle }),
            },
        }
    }

    /// Reports the result to the sender and lets the sender close the stream first.
    pub(super) async fn tell(&mut self, result: &Result<Received, ReceiveError>) {
        let answer = match result {
            Ok(received) => Answer::Finished {
                already_there: received.already_there,
                hash: received.hash,
            },
            Err(error) => match error.refusal() {
                Some(refusal) => Answer::Refused {
                    refusal,
                    detail: error.to_string(),
                },
                None => return,
            },
        };
        let told = async {
            self.send(&answer).await?;
            self.writer.shutdown().await.map_err(ReceiveError::Stream)?;
            // If this end closed before the sender has read the answer, a reset could discard it.
            while let Ok(Some(_)) = self.reader.read_chunk().await {}
            Ok::<(), ReceiveError>(())
        };
        if let Ok(Err(error)) = timeout(LINGER, told).await {
            tracing::debug!(%error, "cannot report the result to the sender");
        }
    }

    async fn send(&mut self, answer: &Answer) -> Result<(), ReceiveError> {
        let bytes = answer.encode();
        let sent = timeout(self.idle, async {
            self.writer.write_all(&bytes).await?;
            self.writer.flush().await
        });
        match sent.await {
            Ok(result) => result.map_err(ReceiveError::Stream),
            Err(_) => Err(ReceiveError::Silent { after: self.idle }),
        }
    }

    fn show(&self, phase: Phase, done: u64, offer: &Offer) {
        self.progress.update(Update {
            phase,
            done: ByteCount::new(done),
            total: offer.size,
        });
    }

    fn received(&self, offer: &Offer, already_there: bool, hash: FileHash) -> Received {
        self.show(Phase::Finished, offer.size.as_u64(), offer);
        Received {
            kind: EntryKind::of(&offer.kind),
            path: self.inbox.directory.path_of(&offer.path.to_string()),
            size: offer.size,
            transferred: ByteCount::new(self.transferred),
            already_there,
            hash,
        }
    }
}

/// Opens the unfinished file. The claim moves along: it must outlive the work even if the future is
/// dropped.
async fn open_part(
    directory: &Directory,
    offer: &Offer,
    options: PartOptions,
    claim: Claim,
) -> Result<(Part, Claim), ReceiveError> {
    let (directory, offer) = (directory.clone(), offer.clone());
    let opened = blocking(move || (Part::open(&directory, &offer, options), claim));
    let (part, claim) = opened.await?;
    Ok((part?, claim))
}

/// Runs work that may wait for the disk.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ReceiveError> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|_| ReceiveError::Stream(std::io::ErrorKind::Interrupted.into()))
}

/// How often wrong bytes are requested before the transfer fails.
const MAX_ROUNDS: usize = 3;
/// Maximum number of separate pieces in one round: far more than any reordering causes.
const MAX_FRAGMENTS: usize = 1 << 16;
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);
/// How long the sender may take to close its side after the result.
const LINGER: Duration = Duration::from_secs(5);
/// Read speed of a slow disk, for the time that a silent sender gets to hash its file.
const SLOWEST_READ_PER_SECOND: u64 = 20_000_000;
