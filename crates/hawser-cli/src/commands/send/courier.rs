//! Sends items to the receiver, and retries after the session was lost.

use std::fmt::Display;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hawser_file::{
    EntryKind, EntryPath, Refusal, SendError, SendOptions, Sent, TreeEntry, send_entry, send_file,
    send_input,
};
use hawser_front::bonded::{Bonded, Purpose};
use hawser_net::client::{Client, OpenStreamError};
use hawser_net::stream::ResetByPeer;
use hawser_types::ByteCount;
use tokio::sync::Semaphore;

use crate::commands::board::{FileBar, Place};

/// Sends over one client, [`AT_ONCE`] items at a time.
pub(super) struct Courier {
    client: Arc<Client>,
    permits: Semaphore,
}

/// An item whose transfer can be retried.
#[derive(Clone, Copy)]
pub(super) enum Parcel<'a> {
    /// A file that the user named, with its path at the receiver.
    File(&'a Path, Option<&'a EntryPath>),
    /// An entry of a directory.
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
    /// Creates a courier that sends over `client`.
    pub(super) fn new(client: Arc<Client>) -> Self {
        let permits = Semaphore::new(AT_ONCE);
        Self { client, permits }
    }

    /// Sends an item; retries after the session was lost, until the transfer succeeds or fails for
    /// good.
    pub(super) async fn send(
        &self,
        parcel: Parcel<'_>,
        place: &impl Place,
    ) -> Result<Sent, AttemptError> {
        let shown = parcel.source().display();
        let attempt = async || self.attempt(parcel, place).await;
        retry(&shown, place, attempt, AttemptError::is_final).await
    }

    /// Sends standard input; retries only until the receiver accepts it, as it is read only once.
    pub(super) async fn send_input(
        &self,
        path: &EntryPath,
        place: &FileBar,
    ) -> Result<Sent, AttemptError> {
        let is_wanted = AtomicBool::new(false);
        let open = || {
            is_wanted.store(true, Ordering::Relaxed);
            io::stdin()
        };
        let attempt = async || Ok(send_input(self.open().await?, open, path, place).await?);
        // The receiver may not have noticed yet that an earlier sender of that name has ended.
        let is_final = |error: &AttemptError| {
            is_wanted.load(Ordering::Relaxed) || (error.is_final() && !error.is_busy())
        };
        retry(path, place, attempt, is_final).await
    }

    async fn attempt(&self, parcel: Parcel<'_>, place: &impl Place) -> Result<Sent, AttemptError> {
        // The semaphore is never closed.
        let _permit = self.permits.acquire().await;
        match parcel {
            Parcel::Entry(entry) => Ok(send_entry(self.open().await?, entry, place).await?),
            Parcel::File(path, name) => {
                // Checked first, so that the receiver is not told of a transfer that never begins.
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

    /// Opens a stream for a file to the receiver.
    async fn open(&self) -> Result<Bonded, AttemptError> {
        let mut stream = self.client.open(Purpose::File.opening()).await?;
        stream.accepted().await.map_err(|error| {
            let refused = error
                .get_ref()
                .is_some_and(|inner| inner.is::<ResetByPeer>());
            if refused {
                AttemptError::NoReceiver
            } else {
                AttemptError::Lost(error)
            }
        })?;
        Ok(Bonded::new(stream))
    }
}

/// Makes attempts until one succeeds, fails for good, or too many have failed in a row.
async fn retry(
    shown: &impl Display,
    place: &impl Place,
    attempt: impl AsyncFn() -> Result<Sent, AttemptError>,
    is_final: impl Fn(&AttemptError) -> bool,
) -> Result<Sent, AttemptError> {
    let (mut failures, mut pause) = (0, FIRST_PAUSE);
    loop {
        let before = place.done();
        let error = match attempt().await {
            Ok(sent) => return Ok(sent),
            Err(error) => error,
        };
        if place.done() > before {
            (failures, pause) = (0, FIRST_PAUSE);
        }
        failures += 1;
        if is_final(&error) || failures >= MAX_FAILURES {
            return Err(error);
        }
        tracing::warn!(item = %shown, %error, "retrying a transfer");
        place.note("trying again");
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(MAX_PAUSE);
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

    fn is_busy(&self) -> bool {
        matches!(self, Self::Send(SendError::Refused { refusal, .. }) if *refusal == Refusal::Busy)
    }

    /// Returns whether the connection to the receiver failed, not the file or the receiver.
    pub(super) fn is_about_the_way(&self) -> bool {
        matches!(
            self,
            Self::Open(_) | Self::Lost(_) | Self::Send(SendError::Stream(_))
        )
    }

    /// Returns whether the rest of the tree below `top` would fail the same way as `entry`.
    pub(super) fn concerns_all(&self, entry: &TreeEntry, top: &EntryPath) -> bool {
        match self {
            Self::NoReceiver | Self::TooOld => true,
            Self::Send(SendError::Refused { refusal, .. }) => match refusal {
                // One folder may deny access while others allow it.
                Refusal::Permission => entry.path == *top,
                // A smaller file may fit even if a large one does not.
                Refusal::DiskFull => entry.kind != EntryKind::File || entry.size <= SMALL_FILE_SIZE,
                _ => false,
            },
            _ => self.is_about_the_way(),
        }
    }

    /// Returns the failure as a message with the name of the file: `name` stands in front, unless
    /// the failure names the file itself.
    pub(super) fn line(&self, name: &str) -> String {
        let is_named = match self {
            Self::Send(error) => match error {
                SendError::Open { .. }
                | SendError::NotAFile { .. }
                | SendError::Name { .. }
                | SendError::Link { .. }
                | SendError::TooLarge { .. }
                | SendError::Read { .. }
                | SendError::SourceChanged { .. } => true,
                SendError::Refused { refusal, detail } => {
                    *refusal == Refusal::Exists && detail.starts_with(&format!("{name} "))
                }
                _ => false,
            },
            _ => false,
        };
        if is_named {
            self.to_string()
        } else {
            format!("{name}: {self}")
        }
    }
}

/// Concurrent streams with files. Enough that small files fill the time in which each of them
/// waits for answers; a receiver accepts twice as many.
const AT_ONCE: usize = 8;
/// Limit of consecutive failures without a transferred byte in between.
const MAX_FAILURES: u32 = 10;
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// A disk without room for a file of this size is full for the rest of a tree.
const SMALL_FILE_SIZE: ByteCount = ByteCount::from_mib(1);

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(refusal: Refusal, detail: &str) -> AttemptError {
        let detail = detail.to_owned();
        AttemptError::Send(SendError::Refused { refusal, detail })
    }

    fn entry(path: &str, kind: EntryKind, size: ByteCount) -> TreeEntry {
        TreeEntry {
            source: path.into(),
            path: EntryPath::new(path).unwrap(),
            top_depth: 0,
            kind,
            size,
        }
    }

    #[test]
    fn only_what_hits_everything_ends_a_tree() {
        use EntryKind::{Directory, File, Link};

        let (permission, full) = (Refusal::Permission, Refusal::DiskFull);
        let (none, large) = (ByteCount::ZERO, ByteCount::from_mib(2));
        for (refusal, path, kind, size, ends) in [
            (permission, "top", Directory, none, true),
            (permission, "top/sub", Directory, none, false),
            (permission, "top/sub/file", File, none, false),
            (full, "top/sub", Directory, none, true),
            (full, "top/link", Link, none, true),
            (full, "top/file", File, SMALL_FILE_SIZE, true),
            (full, "top/file", File, large, false),
            (Refusal::Exists, "top/file", File, none, false),
        ] {
            let top = EntryPath::new("top").unwrap();
            let concerns_all = refused(refusal, "").concerns_all(&entry(path, kind, size), &top);
            assert_eq!(concerns_all, ends, "{refusal:?} {path} {size}");
        }
    }

    #[test]
    fn every_failure_tells_what_failed_once() {
        let said = "the receiver refused the file: a exists already";
        assert_eq!(refused(Refusal::Exists, "a exists already").line("a"), said);
        let later = "a later transfer of the same file took over";
        let line = refused(Refusal::Superseded, later).line("a");
        assert_eq!(line, format!("a: the receiver refused the file: {later}"));
        let source = io::Error::other("torn");
        let path = "out/a".into();
        let unreadable = AttemptError::Send(SendError::Read { path, source });
        assert_eq!(unreadable.line("out/a"), "cannot read out/a: torn");
    }
}
