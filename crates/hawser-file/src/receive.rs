//! The receiving end.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hawser_types::ByteCount;
use tokio::io::AsyncWrite;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::claims::Claims;
use super::content::FileHash;
use super::error::{ReceiveError, StoreError};
use super::incoming::Incoming;
use super::options::{ExistingFile, ReceiveOptions};
use super::progress::Progress;
use super::store::{Directory, PartOptions};
use super::transport::UnorderedRead;
use super::writer::Pace;

/// Receives files into one directory, many at a time. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Receiver {
    pub(super) shared: Arc<Shared>,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) directory: Directory,
    pub(super) options: ReceiveOptions,
    pub(super) claims: Arc<Claims>,
    files: Arc<Semaphore>,
}

/// A file that is complete under its name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Received {
    /// Where it is.
    pub path: PathBuf,
    /// Its size.
    pub size: ByteCount,
    /// How much of it came over this stream.
    pub transferred: ByteCount,
    /// Whether the same file was there before.
    pub already_there: bool,
    /// BLAKE3 of it.
    pub hash: FileHash,
}

impl Receiver {
    /// Receives into `directory`, which must be there.
    pub fn new(directory: &Path, options: ReceiveOptions) -> Result<Self, StoreError> {
        Ok(Self {
            shared: Arc::new(Shared {
                directory: Directory::open(directory)?,
                claims: Arc::default(),
                files: Arc::new(Semaphore::new(
                    options.max_files.min(Semaphore::MAX_PERMITS),
                )),
                options,
            }),
        })
    }

    /// Receives the file that one stream brings.
    ///
    /// The outcome is also told to the sender, except where the stream is what failed. What arrived
    /// of an interrupted file is kept, and continued by the next transfer of it. Dropping the future
    /// interrupts the transfer.
    pub async fn receive<R, W>(
        &self,
        reader: R,
        writer: W,
        progress: &dyn Progress,
    ) -> Result<Received, ReceiveError>
    where
        R: UnorderedRead + Send,
        W: AsyncWrite + Unpin + Send,
    {
        let mut incoming = Incoming::new(self, reader, writer, progress);
        let result = incoming.run().await;
        incoming.tell(&result).await;
        result
    }

    /// A place among the files that are received at once.
    pub(super) async fn admit(&self) -> Result<OwnedSemaphorePermit, ReceiveError> {
        // A superseded transfer of this very file may be about to give its place back.
        timeout(
            ADMISSION_TIMEOUT,
            Arc::clone(&self.shared.files).acquire_owned(),
        )
        .await
        .ok()
        .and_then(Result::ok)
        .ok_or(ReceiveError::TooManyFiles {
            limit: self.shared.options.max_files,
        })
    }

    pub(super) fn part_options(&self) -> PartOptions {
        let options = &self.shared.options;
        PartOptions {
            keep_free: options.keep_free.as_u64(),
            preallocate: options.preallocate,
            replace: self.replaces(),
        }
    }

    pub(super) fn pace(&self) -> Pace {
        Pace {
            bytes: self.shared.options.checkpoint_bytes.as_u64(),
            interval: self.shared.options.checkpoint_interval,
        }
    }

    pub(super) fn replaces(&self) -> bool {
        self.shared.options.existing == ExistingFile::Replace
    }
}

const ADMISSION_TIMEOUT: Duration = Duration::from_secs(1);
