//! The directories that a receiver has made itself.

use std::collections::HashMap;
use std::time::SystemTime;

use parking_lot::Mutex;

use super::store::Directory;

/// The directories that were made for senders, identified by their marks.
///
/// Senders set the time of these only: older directories belong to the receiver's user. The first
/// sender that offers one sets its permission bits, so that no other can open a private directory.
/// The number is bounded; further directories keep their initial time and bits.
#[derive(Debug, Default)]
pub(super) struct MadeDirectories(Mutex<HashMap<Mark, Offered>>);

/// Device, inode number, and creation time of a directory.
type Mark = (u64, u64, Option<SystemTime>);

/// Whether a directory that was made here was offered itself before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Offered {
    /// The directory has not got its permission bits yet.
    First,
    /// The directory has its permission bits.
    Again,
}

impl MadeDirectories {
    /// Remembers a directory.
    pub(super) fn insert(&self, directory: &Directory) {
        let Ok(mark) = directory.mark() else {
            return;
        };
        let mut marks = self.0.lock();
        if marks.len() < MAX_DIRECTORIES {
            marks.insert(mark, Offered::First);
        }
    }

    /// Notes that a directory is offered; `None` if it was not made here.
    pub(super) fn offer(&self, directory: &Directory) -> Option<Offered> {
        let mark = directory.mark().ok()?;
        let mut marks = self.0.lock();
        let offered = marks.get_mut(&mark)?;
        Some(std::mem::replace(offered, Offered::Again))
    }
}

/// They take some 4 MB.
const MAX_DIRECTORIES: usize = 1 << 16;
