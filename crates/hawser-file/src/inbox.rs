//! The target directory of transfers, with the state that they share.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::claims::Claims;
use super::entry_path::EntryPath;
use super::error::{ReceiveError, StoreError};
use super::made::{MadeDirectories, Offered};
use super::name::FileName;
use super::options::{ExistingFile, ReceiveOptions};
use super::store::{Directory, Entry, PartOptions};
use super::wire::Offer;
use super::writer::Pace;

/// A directory to receive into.
#[derive(Debug)]
pub(super) struct Inbox {
    pub(super) directory: Directory,
    pub(super) options: ReceiveOptions,
    pub(super) claims: Arc<Claims>,
    made: MadeDirectories,
    /// One permit for each file that may be received at once.
    files: Arc<Semaphore>,
}

impl Inbox {
    /// Opens `directory`, which must exist.
    pub(super) fn open(directory: &Path, options: ReceiveOptions) -> Result<Self, StoreError> {
        let files = options.max_files.min(Semaphore::MAX_PERMITS);
        Ok(Self {
            directory: Directory::open(directory, options.keep_free.as_u64())?,
            claims: Arc::default(),
            made: MadeDirectories::default(),
            files: Arc::new(Semaphore::new(files)),
            options,
        })
    }

    /// Waits for a place among the files that are received at the same time.
    pub(super) async fn admit(&self) -> Result<OwnedSemaphorePermit, ReceiveError> {
        // A superseded transfer of this very file may be about to free its place.
        timeout(ADMISSION_TIMEOUT, Arc::clone(&self.files).acquire_owned())
            .await
            .ok()
            .and_then(Result::ok)
            .ok_or(ReceiveError::TooManyFiles {
                limit: self.options.max_files,
            })
    }

    /// Returns the directory of a path, and makes missing folders. Waits for the disk.
    pub(super) fn folder(&self, path: &EntryPath) -> Result<Directory, ReceiveError> {
        let mut directory = self.directory.again()?;
        for folder in path.folders() {
            // Only the user may read the folder until its sender sends its permission bits.
            directory = self.enter(&directory, folder)?.directory;
        }
        Ok(directory)
    }

    /// Makes an offered directory, unless it exists. Returns whether it existed before. Waits for
    /// the disk.
    pub(super) fn make_directory(&self, offer: &Offer) -> Result<bool, ReceiveError> {
        let around = self.folder(&offer.path)?;
        let entry = self.enter(&around, offer.path.name())?;
        let offered = self.made.offer(&entry.directory);
        if entry.is_new || offered == Some(Offered::First) {
            entry.directory.set_mode(offer.mode)?;
        }
        if entry.is_new || offered.is_some() {
            entry.directory.set_time(offer.modified);
        }
        Ok(!entry.is_new)
    }

    fn enter(&self, around: &Directory, name: &FileName) -> Result<Entry, ReceiveError> {
        let entry = around.enter(name, NEW_FOLDER_MODE)?;
        if entry.is_new {
            self.made.insert(&entry.directory);
        }
        Ok(entry)
    }

    pub(super) fn part_options(&self) -> PartOptions {
        let options = &self.options;
        PartOptions {
            preallocate: options.preallocate,
            replace: self.replaces(),
        }
    }

    pub(super) fn pace(&self) -> Pace {
        Pace {
            bytes: self.options.checkpoint_bytes.as_u64(),
            interval: self.options.checkpoint_interval,
        }
    }

    pub(super) fn replaces(&self) -> bool {
        self.options.existing == ExistingFile::Replace
    }
}

/// Permission bits of a directory while it is being filled.
const NEW_FOLDER_MODE: u32 = 0o700;
const ADMISSION_TIMEOUT: Duration = Duration::from_secs(1);
