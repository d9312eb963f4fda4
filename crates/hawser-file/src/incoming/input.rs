//! What a program writes at the sender: nobody knows how much it is until it ends.
//!
//! The data goes to its place as it comes, the checksum at its end included, which is cut off once
//! the end of the stream tells where that is. Nothing can be asked for again, so there is no
//! journal, and nothing is kept of an input that was cut.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use hawser_types::{ByteCount, RangeSet};
use tokio::io::AsyncWrite;

use super::{Incoming, MAX_FRAGMENTS, Received, blocking, open_part};
use crate::claims::Claim;
use crate::compare::hash_whole;
use crate::content::{BlockGrid, FileHash};
use crate::error::ReceiveError;
use crate::progress::{Phase, Update};
use crate::store::{Existing, Part};
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
        if !matches!(existing, Existing::Nothing) && !self.inbox.replaces() {
            return Err(ReceiveError::Occupied {
                name: offer.path.to_string(),
            });
        }
        let options = self.inbox.part_options();
        let (part, claim) = open_part(&directory, offer, options, claim).await?;
        let unfinished = Unfinished {
            part,
            _claim: claim,
            is_complete: false,
        };
        self.idle = IDLE_TIMEOUT;
        self.send(&Answer::Want(Vec::new())).await?;
        let (unfinished, length) = self.store(unfinished).await?;
        let size = length.checked_sub(trailer_bytes() as u64);
        let size = size.ok_or(ReceiveError::CutShort)?;
        let hash = finish(unfinished, size).await?;
        let whole = Offer {
            size: ByteCount::new(size),
            ..offer.clone()
        };
        Ok(self.received(&whole, false, hash))
    }

    /// Stores what comes up to the end of the stream; returns how much that is.
    async fn store(
        &mut self,
        mut unfinished: Unfinished,
    ) -> Result<(Unfinished, u64), ReceiveError> {
        let limit = self.inbox.options.max_file_size;
        let most = limit.as_u64().saturating_add(trailer_bytes() as u64);
        let mut arrived = RangeSet::new();
        let mut room_checked_at = None;
        while let Some((offset, mut chunk)) = self.next_chunk_or_end(None).await? {
            // What overlaps the offer came before.
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
            let step = arrived.total() / ROOM_STEP_BYTES;
            let check_room = room_checked_at.replace(step) != Some(step);
            let written = blocking(move || unfinished.write(at, &chunk, check_room));
            unfinished = written.await??;
            self.progress.update(Update {
                phase: Phase::Transferring,
                done: ByteCount::new(arrived.total()),
                total: ByteCount::new(arrived.total()),
            });
        }
        let length = arrived.total();
        match length == 0 || arrived.covers(&(0..length)) {
            true => Ok((unfinished, length)),
            false => Err(ReceiveError::CutShort),
        }
    }
}

/// Compares the data with its checksum, and gives it its name.
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

/// An input on disk, which is removed unless it becomes complete.
struct Unfinished {
    part: Part,
    _claim: Claim,
    is_complete: bool,
}

impl Unfinished {
    fn write(mut self, at: u64, bytes: &Bytes, check_room: bool) -> Result<Self, ReceiveError> {
        if check_room {
            self.part.check_room(ROOM_STEP_BYTES)?;
        }
        self.part.write(at, bytes)?;
        Ok(self)
    }

    /// Takes the checksum off the end.
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
        self.is_complete = true;
        Ok(())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.is_complete
            && let Err(error) = self.part.discard()
        {
            tracing::debug!(%error, "an unfinished input stays behind");
        }
    }
}

/// Length of the checksum at the end: that of a file of one block.
fn trailer_bytes() -> usize {
    Trailer::length(BlockGrid::for_size(0))
}

/// How long nothing may come: programs may compute for long before they write more. A session that
/// was lost ends the stream much earlier.
const IDLE_TIMEOUT: Duration = Duration::from_secs(3600);
/// How much may come between two looks at the disk's free space.
const ROOM_STEP_BYTES: u64 = 16 << 20;
