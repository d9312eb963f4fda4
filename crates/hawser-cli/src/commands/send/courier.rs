//! Takes one thing after the other to the receiver, again after the session was lost.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hawser_file::{
    EntryPath, Refusal, SendError, SendOptions, Sent, TreeEntry, send_entry, send_file, send_input,
};
use hawser_front::bonded::{Bonded, Purpose};
use hawser_net::client::{Client, OpenStreamError};
use hawser_net::stream::ResetByPeer;
use tokio::sync::Semaphore;

use crate::commands::board::{FileBar, Place};

/// Sends over one client, so many things at the same time.
pub(super) struct Courier {
    client: Arc<Client>,
    permits: Semaphore,
}

/// What can be sent again.
#[derive(Clone, Copy)]
pub(super) enum Parcel<'a> {
    /// A file that the user named, with its path at the receiver.
    File(&'a Path, Option<&'a EntryPath>),
    /// Something in a directory.
    Entry(&'a TreeEntry),
}

impl Parcel<'_> {
    fn source(&self) -> &Path {
        match self {
            Self::File(source, _) => source,
            Self::Entry(entry) => &entry.source,
        }
    }
}

impl Courier {
    /// Sends over `client`.
    pub(super) fn new(client: Arc<Client>) -> Self {
        let permits = Semaphore::new(AT_ONCE);
        Self { client, permits }
    }

    /// Sends, again after the session was lost, until it is there or will never be.
    pub(super) async fn send(
        &self,
        parcel: Parcel<'_>,
        place: &impl Place,
    ) -> Result<Sent, AttemptError> {
        let (mut failures, mut pause) = (0, FIRST_PAUSE);
        loop {
            let before = place.done();
            let error = match self.attempt(parcel, place).await {
                Ok(sent) => return Ok(sent),
                Err(error) => error,
            };
            if place.done() > before {
                (failures, pause) = (0, FIRST_PAUSE);
            }
            failures += 1;
            if error.is_final() || failures >= MAX_FAILURES {
                return Err(error);
            }
            tracing::warn!(file = %parcel.source().display(), %error, "will try again");
            place.note("trying again");
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }

    /// Sends standard input, once.
    pub(super) async fn send_input(
        &self,
        path: &EntryPath,
        place: &FileBar,
    ) -> Result<Sent, AttemptError> {
        let stream = self.open().await?;
        Ok(send_input(stream, io::stdin(), path, place).await?)
    }

    async fn attempt(&self, parcel: Parcel<'_>, place: &impl Place) -> Result<Sent, AttemptError> {
        // The semaphore is never closed.
        let _permit = self.permits.acquire().await;
        match parcel {
            Parcel::Entry(entry) => Ok(send_entry(self.open().await?, entry, place).await?),
            Parcel::File(path, name) => {
                // Else the receiver would hear of a transfer that never begins.
                let opened = tokio::fs::File::open(path).await;
                opened.map_err(|source| {
                    let path = path.to_path_buf();
                    SendError::Open { path, source }
                })?;
                let options = SendOptions {
                    name: name.cloned(),
                };
                Ok(send_file(self.open().await?, path, &options, place).await?)
            }
        }
    }

    /// Opens a stream that the receiver takes a file from.
    async fn open(&self) -> Result<Bonded, AttemptError> {
        let mut stream = self.client.open(Purpose::File.opening()).await?;
        stream.accepted().await.map_err(|error| {
            let refused = error
                .get_ref()
                .is_some_and(|inner| inner.is::<ResetByPeer>());
            match refused {
                true => AttemptError::NoReceiver,
                false => AttemptError::Lost(error),
            }
        })?;
        Ok(Bonded::new(stream))
    }
}

/// Reason why one attempt failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum AttemptError {
    #[error(transparent)]
    Open(#[from] OpenStreamError),
    #[error("the far end takes no files; is it `hawser receive`?")]
    NoReceiver,
    #[error("the session with the receiver was lost: {0}")]
    Lost(#[source] io::Error),
    #[error(
        "the receiver's hawser is too old for directories, standard input and names with folders"
    )]
    TooOld,
    #[error(transparent)]
    Send(SendError),
}

impl From<SendError> for AttemptError {
    fn from(error: SendError) -> Self {
        match error {
            SendError::Refused {
                refusal: Refusal::Version,
                ..
            } => Self::TooOld,
            error => Self::Send(error),
        }
    }
}

impl AttemptError {
    /// Returns whether another attempt would fail the same way.
    fn is_final(&self) -> bool {
        match self {
            Self::Open(error) => {
                matches!(
                    error,
                    OpenStreamError::NotAdmitted | OpenStreamError::Closed
                )
            }
            Self::NoReceiver | Self::TooOld => true,
            Self::Lost(_) | Self::Send(SendError::Stream(_)) => false,
            Self::Send(SendError::Refused { refusal, .. }) => {
                !matches!(refusal, Refusal::TooManyFiles)
            }
            Self::Send(_) => true,
        }
    }

    /// Returns whether the way to the receiver failed, not the file or the receiver.
    pub(super) fn is_about_the_way(&self) -> bool {
        matches!(
            self,
            Self::Open(_) | Self::Lost(_) | Self::Send(SendError::Stream(_))
        )
    }

    /// Returns whether every other file would fail the same way.
    pub(super) fn concerns_all(&self) -> bool {
        match self {
            Self::NoReceiver | Self::TooOld => true,
            Self::Send(SendError::Refused { refusal, .. }) => {
                matches!(refusal, Refusal::DiskFull | Refusal::Permission)
            }
            _ => self.is_about_the_way(),
        }
    }
}

/// Streams with files at the same time. Enough for small files to fill the time that each of them
/// waits for answers; a receiver takes twice as many.
const AT_ONCE: usize = 8;
/// Failures in a row without a byte in between.
const MAX_FAILURES: u32 = 10;
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const MAX_PAUSE: Duration = Duration::from_secs(30);
