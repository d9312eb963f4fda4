//! What single sockets say, and what they are answered.

use std::fmt;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aya::Ebpf;
use aya::maps::{HashMap, MapData};

use super::learnt::Learnt;
use super::options::Announcement;
use crate::maps::take;
use crate::tables::LearntRow;
use crate::{CaptureError, sys};

/// What single sockets say, and what they are answered. Its clones are one; they do nothing once
/// the [`Discovery`](crate::Discovery) that it is of is gone.
#[derive(Clone)]
pub struct Asking(Arc<Mutex<Tables>>);

struct Tables {
    sockets: HashMap<MapData, u64, u32>,
    answers: HashMap<MapData, u64, LearntRow>,
}

impl Asking {
    pub(super) fn of(programs: &mut Ebpf) -> Result<Self, CaptureError> {
        Ok(Self(Arc::new(Mutex::new(Tables {
            sockets: HashMap::try_from(take(programs, "SOCKETS")?)?,
            answers: HashMap::try_from(take(programs, "ANSWERS")?)?,
        }))))
    }

    /// Sets what the next SYN of a socket says, whatever its destination; to be called before it
    /// connects. The option may still be left out, as on links where it is avoided.
    pub fn announce_on(
        &self,
        socket: impl AsFd,
        says: Option<Announcement>,
    ) -> Result<(), CaptureError> {
        let cookie = cookie(socket)?;
        let number = says.map_or(0, Announcement::number);
        Ok(self.lock().sockets.insert(cookie, number, 0)?)
    }

    /// Returns what came of the option of a connected socket that was to have one. `None`, without
    /// waiting, where it had none, or it is not known, and the second time.
    pub fn learnt_on(&self, socket: impl AsFd) -> Option<Learnt> {
        let cookie = cookie(socket).ok()?;
        let mut tables = self.lock();
        let row = tables.answers.get(&cookie, 0).ok()?;
        // The oldest make room by themselves.
        let _ = tables.answers.remove(&cookie);
        Learnt::new(&row)
    }

    fn lock(&self) -> MutexGuard<'_, Tables> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Asking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asking").finish_non_exhaustive()
    }
}

fn cookie(socket: impl AsFd) -> Result<u64, CaptureError> {
    sys::socket_cookie(socket).map_err(CaptureError::system("a socket's cookie"))
}
