//! The directory that transfers go to, with the state that all of them share.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::claims::Claims;
use super::error::{ReceiveError, StoreError};
use super::options::{ExistingFile, ReceiveOptions};
use super::store::{Directory, PartOptions};
use super::writer::Pace;

/// A directory to receive into.
#[derive(Debug)]
pub(super) struct Inbox {
    pub(super) directory: Directory,
    pub(super) options: ReceiveOptions,
    pub(super) claims: Arc<Claims>,
    /// One permit for each file that may be received at once.
    files: Arc<Semaphore>,
}

impl Inbox {
    /// Opens `directory`, which must be there.
    pub(super) fn open(directory: &Path, options: ReceiveOptions) -> Result<Self, StoreError> {
        let files = options.max_files.min(Semaphore::MAX_PERMITS);
        Ok(Self {
            directory: Directory::open(directory)?,
            claims: Arc::default(),
            files: Arc::new(Semaphore::new(files)),
            options,
        })
    }

    /// A place among the files that are received at once.
    pub(super) async fn admit(&self) -> Result<OwnedSemaphorePermit, ReceiveError> {
        // A superseded transfer of this very file may be about to give its place back.
        timeout(ADMISSION_TIMEOUT, Arc::clone(&self.files).acquire_owned())
            .await
            .ok()
            .and_then(Result::ok)
            .ok_or(ReceiveError::TooManyFiles {
                limit: self.options.max_files,
            })
    }

    pub(super) fn part_options(&self) -> PartOptions {
        let options = &self.options;
        PartOptions {
            keep_free: options.keep_free.as_u64(),
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

const ADMISSION_TIMEOUT: Duration = Duration::from_secs(1);
