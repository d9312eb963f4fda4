//! Announcements of single sockets, and the answers.

use std::fmt;
use std::os::fd::AsFd;
use std::sync::Arc;

use aya::Ebpf;
use aya::maps::{HashMap, MapData};
use parking_lot::Mutex;

use super::learnt::Learnt;
use super::options::Announcement;
use crate::maps::take;
use crate::tables::LearntRow;
use crate::{CaptureError, sys};

/// Announces on single sockets, and returns the answers. Clones share their state; they do nothing
/// once their [`Discovery`](crate::Discovery) is dropped.
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

    /// Sets what the next SYN of a socket announces, whatever its destination. Call it before the
    /// socket connects. The option may still be left out, as on links where it is avoided.
    pub fn announce_on(
        &self,
        socket: impl AsFd,
        says: Option<Announcement>,
    ) -> Result<(), CaptureError> {
        let cookie = cookie(socket)?;
        let number = says.map_or(0, Announcement::number);
        Ok(self.0.lock().sockets.insert(cookie, number, 0)?)
    }

    /// Returns the outcome for a connected socket that was to announce. `None`, without waiting, if
    /// its SYN had no option, if the outcome is unknown, and the second time.
    pub fn learnt_on(&self, socket: impl AsFd) -> Option<Learnt> {
        let cookie = cookie(socket).ok()?;
        let mut tables = self.0.lock();
        let row = tables.answers.get(&cookie, 0).ok()?;
        // The oldest entries are evicted automatically.
        let _ = tables.answers.remove(&cookie);
        Learnt::new(&row)
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
