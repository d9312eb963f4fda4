//! Output of a program at the sender: its length is unknown until it ends.
//!
//! Data is written to its place on arrival, including the checksum at its end. The checksum is cut
//! off once the end of the stream shows where it is. No data can be requested again, so there is no
//! journal, and an interrupted input is removed.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use hawser_types::{ByteCount, RangeSet};
use tokio::io::AsyncWrite;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::{Incoming, MAX_FRAGMENTS, Received, blocking, open_part};
use crate::claims::Claim;
use crate::compare::hash_whole;
use crate::content::{BlockGrid, FileHash};
use crate::error::ReceiveError;
use crate::progress::{Phase, Update};
use crate::store::{Existing, Part, Remains};
use crate::transport::UnorderedRead;
use crate::wire::{Answer, Fault, Offer, Trailer};

impl<R: UnorderedRead + Send, W: AsyncWrite + Unpin + Send> Incoming<'_, R, W> {
    /// Receives an input to its end.
    pub(super) async fn input(
        &mut self,
        offer: &Offer,
        claim: Claim,
    ) -> Result<Received, ReceiveError> {
        let (inbox, about) = (Arc::clone(self.inbox), offer.clone());
        let found = blocking(move || {
            let directory = inbox.folder(&about.path)?;
            let existing = directory.existing(&about)?;
            Ok::<_, ReceiveError>((directory, existing))
        });
        let (directory, existing) = found.await??;
        let name = || offer.path.to_string();
        match existing {
            Existing::Nothing => {}
            Existing::Directory => return Err(ReceiveError::IsADirectory { name: name() }),
            _ if self.inbox.replaces() => {}
            _ => return Err(ReceiveError::Occupied { name: name() }),
        }
        let options = self.inbox.part_options();
        let (part, claim) = open_part(&directory, offer, options, claim).await?;
        let (gone, is_gone) = oneshot::channel();
        let remains = part.remains();
        let unfinished = Unfinished {
            part,
            taken: 0,
            leftover: Some(Leftover {
                remains,
                is_complete: false,
                _claim: claim,
                _gone: gone,
            }),
        };
        self.idle = IDLE_TIMEOUT;
        let (size, hash) = match self.fill(unfinished).await {
            Ok(filled) => filled,
            Err(error) => {
                // The sender gets the error after the leftovers are removed.
                let _ = is_gone.await;
                return Err(error);
            }
        };
        let whole = Offer {
            size: ByteCount::new(size),
            ..offer.clone()
        };
        Ok(self.received(&whole, false, hash))
    }

    /// Requests the data, stores it, and gives it its name; returns its size.
    async fn fill(&mut self, unfinished: Unfinished) -> Result<(u64, FileHash), ReceiveError> {
        self.send(&Answer::Want(Vec::new())).await?;
        let (unfinished, length) = self.store(unfinished).await?;
        let size = length.checked_sub(trailer_bytes() as u64);
        let size = size.ok_or(ReceiveError::CutShort)?;
        Ok((size, finish(unfinished, size).await?))
    }

    /// Stores data up to the end of the stream; returns its length.
    async fn store(
        &mut self,
        mut unfinished: Unfinished,
    ) -> Result<(Unfinished, u64), ReceiveError> {
        let limit = self.inbox.options.max_file_size;
        let most = limit.as_u64().saturating_add(trailer_bytes() as u64);
        let mut arrived = RangeSet::new();
        while let Some((offset, mut chunk)) = self.next_chunk_or_end(None).await? {
            // Bytes that overlap the offer were read before.
            let before = self.at.saturating_sub(offset).min(chunk.len() as u64);
            chunk.advance(before as usize);
            if chunk.is_empty() {
                continue;
            }
            let at = (offset + before).saturating_sub(self.at);
            let end = at.saturating_add(chunk.len() as u64);
            if end > most {
                return Err(ReceiveError::TooLarge {
                    size: ByteCount::new(end),
                    limit,
                });
            }
            let added = arrived.insert(at..end);
            if arrived.range_count() > MAX_FRAGMENTS {
                return Err(Fault::TooFragmented {
                    limit: MAX_FRAGMENTS,
                }
                .into());
            }
            self.transferred += added;
            let written = blocking(move || unfinished.write(at, &chunk));
            unfinished = written.await??;
            self.progress.update(Update {
                phase: Phase::Transferring,
                done: ByteCount::new(arrived.total()),
                total: ByteCount::new(arrived.total()),
            });
        }
        let length = arrived.total();
        if length == 0 || arrived.covers(&(0..length)) {
            Ok((unfinished, length))
        } else {
            Err(ReceiveError::CutShort)
        }
    }
}

/// Compares the data with its checksum, and gives the file its name.
async fn finish(unfinished: Unfinished, size: u64) -> Result<FileHash, ReceiveError> {
    let grid = BlockGrid::for_size(size);
    let cut = blocking(move || {
        let (unfinished, expected) = unfinished.end_at(size)?;
        let file = unfinished.part.file().try_clone();
        let file = file.map_err(|error| unfinished.part.failed("read", error))?;
        Ok::<_, ReceiveError>((unfinished, expected, file))
    });
    let (unfinished, expected, file) = cut.await??;
    let actual = hash_whole(file, grid).await;
    let hash = actual.and_then(|blocks| grid.root(&blocks));
    match hash {
        Some(hash) if hash == expected => {
            blocking(move || unfinished.commit()).await??;
            Ok(hash)
        }
        _ => Err(ReceiveError::Mismatch { rounds: 1 }),
    }
}

/// An input on disk, which is removed unless it gets complete.
struct Unfinished {
    part: Part,
    /// Disk space is allocated up to this offset.
    taken: u64,
    /// `Some` until this value is dropped.
    leftover: Option<Leftover>,
}

impl Unfinished {
    /// Writes bytes. Allocates the space up to their end first, holes included: a peer that sends a
    /// piece far ahead uses as much of the disk as if it had sent all bytes before it.
    fn write(mut self, at: u64, bytes: &Bytes) -> Result<Self, ReceiveError> {
        let end = at.saturating_add(bytes.len() as u64);
        if end > self.taken {
            let end = end
                .div_ceil(ROOM_STEP_BYTES)
                .saturating_mul(ROOM_STEP_BYTES);
            self.part.take_room(self.taken, end)?;
            self.taken = end;
        }
        self.part.write(at, bytes)?;
        Ok(self)
    }

    /// Removes the checksum from the end.
    fn end_at(mut self, size: u64) -> Result<(Self, FileHash), ReceiveError> {
        let mut trailer = vec![0; trailer_bytes()];
        std::os::unix::fs::FileExt::read_exact_at(self.part.file(), &mut trailer, size)
            .map_err(|error| self.part.failed("read", error))?;
        self.part.cut(size)?;
        match Trailer::decode(&trailer)? {
            Trailer::Unchanged(hashes) => match hashes[..] {
                [hash] => Ok((self, FileHash::from_bytes(hash))),
                _ => Err(Fault::Trailer.into()),
            },
            Trailer::Changed => Err(ReceiveError::SourceChanged),
        }
    }

    fn commit(mut self) -> Result<(), ReceiveError> {
        self.part.commit()?;
        if let Some(leftover) = &mut self.leftover {
            leftover.is_complete = true;
        }
        Ok(())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // Removing a large file takes time, and this may be a thread of the runtime. A runtime that
        // ends drops the task, which removes the leftover, too.
        if let Some(leftover) = self.leftover.take_if(|it| !it.is_complete)
            && let Ok(runtime) = Handle::try_current()
        {
            runtime.spawn_blocking(move || drop(leftover));
        }
    }
}

/// Files of an unfinished input. Dropping this removes them, unless it is complete.
struct Leftover {
    remains: Remains,
    is_complete: bool,
    /// No other transfer may begin under that name before the files are removed.
    _claim: Claim,
    /// Dropped last, to signal the removal.
    _gone: oneshot::Sender<()>,
}

impl Drop for Leftover {
    fn drop(&mut self) {
        if !self.is_complete
            && let Err(error) = self.remains.remove()
        {
            tracing::debug!(%error, "cannot remove an unfinished input");
        }
    }
}

/// Length of the checksum at the end, the same as for a file of one block.
fn trailer_bytes() -> usize {
    Trailer::length(BlockGrid::for_size(0))
}

/// How long the sender may be silent: programs may compute for long before they write more. A lost
/// session ends the stream much earlier.
const IDLE_TIMEOUT: Duration = Duration::from_secs(3600);
/// Disk space that is allocated at once.
const ROOM_STEP_BYTES: u64 = 16 << 20;
