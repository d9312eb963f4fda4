//! The directories that a receiver has made itself.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use super::store::Directory;

/// Knows the directories that were made for senders, by what no other directory has.
///
/// Senders set the time of these, and of no others: what was there before belongs to the receiver's
/// user. The first that offers one sets its permission bits, so that no other sender can open a
/// directory that was private. Bounded; directories beyond it keep what they were made with.
#[derive(Debug, Default)]
pub(super) struct MadeDirectories(Mutex<HashMap<Mark, Offered>>);

/// Device, number, and time of birth of a directory.
type Mark = (u64, u64, Option<SystemTime>);

/// Whether a directory that was made here was offered before, or only something in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Offered {
    /// Its sender has not told its permission bits yet.
    First,
    /// It has them.
    Again,
}

impl MadeDirectories {
    /// Remembers a directory.
    pub(super) fn insert(&self, directory: &Directory) {
        let Ok(mark) = directory.mark() else {
            return;
        };
        let mut marks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if marks.len() < MAX_DIRECTORIES {
            marks.insert(mark, Offered::First);
        }
    }

    /// Notes that a directory is offered; `None` if it was not made here.
    pub(super) fn offer(&self, directory: &Directory) -> Option<Offered> {
        let mark = directory.mark().ok()?;
        let mut marks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let offered = marks.get_mut(&mark)?;
        Some(std::mem::replace(offered, Offered::Again))
    }
}

/// Some 4 MB.
const MAX_DIRECTORIES: usize = 1 << 16;
