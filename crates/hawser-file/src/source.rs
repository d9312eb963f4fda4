//! The sender's side of the disk: a file that is read once, in order, and hashed on the way.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc as blocking;

use hawser_types::ByteCount;
use rustix::fs::{Advice, OFlags, fadvise};
use tokio::sync::mpsc;

use super::byte_range::ByteRange;
use super::content::{BlockGrid, BlockHash, BlockHasher, HASH_BUFFER_BYTES, guard, read_through};
use super::entry_path::EntryPath;
use super::error::SendError;
use super::wire::{FileTime, Kind, MAX_FILE_BYTES, Offer};

/// A file to be sent, in the state in which it was offered.
#[derive(Debug)]
pub(super) struct Source {
    path: PathBuf,
    file: File,
    offer: Offer,
    grid: BlockGrid,
    hashes: Vec<Option<BlockHash>>,
    scratch: Vec<u8>,
}

/// Whether a symbolic link stands for its target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FollowLinks {
    /// Yes: the user named the link.
    Yes,
    /// No: the link was found in a directory.
    No,
}

/// Reports of the reading thread, in order.
#[derive(Debug)]
pub(super) enum Reading {
    /// The next wanted bytes. The buffer is returned for further reading.
    Wanted(Vec<u8>),
    /// All wanted bytes were read; this many bytes of the file are hashed.
    Hashed(u64),
}

/// The sending task's ends of the two queues of buffers: full ones out, used ones back.
pub(super) struct ReadAhead {
    pub(super) full: mpsc::Receiver<Reading>,
    pub(super) used: blocking::Sender<Vec<u8>>,
}

/// The reading thread's ends of these queues.
pub(super) struct Outlet {
    full: mpsc::Sender<Reading>,
    used: blocking::Receiver<Vec<u8>>,
}

impl Source {
    /// Opens a file and reads both its ends for the guard. Waits for the disk.
    ///
    /// `place` is its path at the receiver; `None`: the file's name.
    pub(super) fn open(
        path: &Path,
        place: Option<&EntryPath>,
        follow: FollowLinks,
    ) -> Result<Self, SendError> {
        let read = |source| SendError::Read {
            path: path.to_owned(),
            source,
        };
        let (file, metadata) = open_file(path, follow)?;
        let size = metadata.len();
        if size > MAX_FILE_BYTES {
            return Err(SendError::TooLarge {
                path: path.to_owned(),
                size: ByteCount::new(size),
            });
        }
        let place = match place {
            Some(place) => place.clone(),
            None => EntryPath::name_of(path).map_err(|reason| SendError::Name {
                path: path.to_owned(),
                reason,
            })?,
        };
        // Only a hint that lets the kernel read further ahead.
        let _ = fadvise(&file, 0, None, Advice::Sequential);
        let offer = Offer {
            path: place,
            kind: Kind::File,
            size: ByteCount::new(size),
            modified: modified(&metadata),
            mode: metadata.mode() & 0o7777,
            guard: match guard(&file, size) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Err(SendError::SourceChanged {
                        path: path.to_owned(),
                    });
                }
                other => other.map_err(read)?,
            },
        };
        let grid = BlockGrid::for_size(size);
        Ok(Self {
            path: path.to_owned(),
            file,
            offer,
            grid,
            hashes: vec![None; grid.count()],
            scratch: vec![0; HASH_BUFFER_BYTES],
        })
    }

    /// Returns the offer for the receiver.
    pub(super) fn offer(&self) -> &Offer {
        &self.offer
    }

    /// Returns the division of the file into blocks.
    pub(super) fn grid(&self) -> BlockGrid {
        self.grid
    }

    /// The hashes of all blocks, once a round has been read.
    pub(super) fn hashes(&self) -> Option<Vec<BlockHash>> {
        self.hashes.iter().copied().collect()
    }

    /// True if size and time are unchanged since the offer.
    pub(super) fn is_unchanged(&self) -> bool {
        self.file.metadata().is_ok_and(|now| {
            now.len() == self.offer.size.as_u64() && modified(&now) == self.offer.modified
        })
    }

    /// Reads a round: passes on the wanted ranges in order, then hashes the blocks without a hash.
    ///
    /// Ends early, without error, if the reader of the bytes is gone.
    pub(super) fn read_round(
        &mut self,
        wanted: &[ByteRange],
        outlet: &Outlet,
    ) -> Result<(), SendError> {
        let grid = self.grid;
        let mut touched: Vec<usize> = wanted.iter().flat_map(|&r| grid.touched(r)).collect();
        touched.dedup();
        for index in touched {
            if !self.read_block(index, wanted, outlet)? {
                return Ok(());
            }
        }
        let mut hashed = 0;
        for index in 0..grid.count() {
            if self.hashes.get(index).is_some_and(Option::is_none)
                && !self.read_block(index, &[], outlet)?
            {
                return Ok(());
            }
            hashed += grid.range(index).map_or(0, ByteRange::length);
            if outlet.full.blocking_send(Reading::Hashed(hashed)).is_err() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Reads one block, hashes it, and passes on its wanted parts. `false`: the reader is gone.
    fn read_block(
        &mut self,
        index: usize,
        wanted: &[ByteRange],
        outlet: &Outlet,
    ) -> Result<bool, SendError> {
        if !self.is_unchanged() {
            return Err(self.changed());
        }
        let mut hasher = self.grid.hasher(index);
        if let Some(block) = self.grid.range(index) {
            let first = wanted.partition_point(|range| range.end() <= block.start());
            let mut at = block.start();
            for range in wanted.iter().skip(first) {
                let Some(part) = range.intersection(block) else {
                    break;
                };
                self.pass_over(ByteRange::new(at, part.start()), &mut hasher)?;
                if !self.hand_out(part, &mut hasher, outlet)? {
                    return Ok(false);
                }
                at = part.end();
            }
            self.pass_over(ByteRange::new(at, block.end()), &mut hasher)?;
        }
        if let Some(slot) = self.hashes.get_mut(index) {
            *slot = Some(hasher.finish());
        }
        Ok(true)
    }

    /// Hashes bytes that the receiver has already.
    fn pass_over(
        &mut self,
        range: Option<ByteRange>,
        hasher: &mut BlockHasher,
    ) -> Result<(), SendError> {
        let Some(range) = range else { return Ok(()) };
        let mut scratch = std::mem::take(&mut self.scratch);
        let result = read_through(&self.file, range, &mut scratch, |bytes| {
            hasher.update(bytes);
        });
        self.scratch = scratch;
        result.map_err(|error| self.failed(error))
    }

    /// Hashes bytes and passes them on, in the recycled buffers. `false`: the reader is gone.
    fn hand_out(
        &self,
        range: ByteRange,
        hasher: &mut BlockHasher,
        outlet: &Outlet,
    ) -> Result<bool, SendError> {
        let mut at = range.start();
        while at < range.end() {
            let Ok(mut buffer) = outlet.used.recv() else {
                return Ok(false);
            };
            buffer.resize((range.end() - at).min(HASH_BUFFER_BYTES as u64) as usize, 0);
            self.file
                .read_exact_at(&mut buffer, at)
                .map_err(|error| self.failed(error))?;
            hasher.update(&buffer);
            at += buffer.len() as u64;
            if outlet.full.blocking_send(Reading::Wanted(buffer)).is_err() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the error of a failed read. A file that ends before its size has been truncated.
    fn failed(&self, source: io::Error) -> SendError {
        if source.kind() == io::ErrorKind::UnexpectedEof {
            return self.changed();
        }
        SendError::Read {
            path: self.path.clone(),
            source,
        }
    }

    /// Returns the error of a changed file.
    pub(super) fn changed(&self) -> SendError {
        SendError::SourceChanged {
            path: self.path.clone(),
        }
    }
}

/// Makes the queues, with all buffers empty.
pub(super) fn read_ahead() -> (ReadAhead, Outlet) {
    let (full_in, full) = mpsc::channel(READ_AHEAD_BUFFERS);
    let (used, used_out) = blocking::channel();
    for _ in 0..READ_AHEAD_BUFFERS {
        // Cannot fail: the other end still exists here.
        let _ = used.send(Vec::new());
    }
    let outlet = Outlet {
        full: full_in,
        used: used_out,
    };
    (ReadAhead { full, used }, outlet)
}

/// Opens a regular file.
fn open_file(path: &Path, follow: FollowLinks) -> Result<(File, Metadata), SendError> {
    let failed = |source| SendError::Open {
        path: path.to_owned(),
        source,
    };
    let flags = match follow {
        FollowLinks::Yes => OFlags::NONBLOCK,
        FollowLinks::No => OFlags::NONBLOCK | OFlags::NOFOLLOW,
    };
    let file = File::options()
        .read(true)
        // Opening a pipe without a writer would block.
        .custom_flags(flags.bits() as i32)
        .open(path)
        .map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if metadata.is_file() {
        Ok((file, metadata))
    } else {
        Err(SendError::NotAFile {
            path: path.to_owned(),
        })
    }
}

/// Returns the last modification time of a file.
pub(super) fn modified(metadata: &Metadata) -> FileTime {
    FileTime {
        seconds: metadata.mtime(),
        // Below 10⁹ on every correct file system.
        nanoseconds: u32::try_from(metadata.mtime_nsec()).map_or(0, |nanos| nanos % 1_000_000_000),
    }
}

/// Buffers that may be read ahead of the stream: 4 MiB.
const READ_AHEAD_BUFFERS: usize = 16;
