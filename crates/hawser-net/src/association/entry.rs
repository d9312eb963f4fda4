use std::sync::Arc;

use hawser_sctp::{Association, Closed};
use hawser_types::{ByteCount, Instant};
use tokio::sync::Notify;

/// An association, and what its users know of it.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) association: Association,
    pub(super) is_established: bool,
    /// The peer has begun anew: what was in flight is lost.
    pub(super) was_restarted: bool,
    pub(super) closed: Option<Closed>,
    /// The time under which it stands among the timers.
    pub(super) timer: Option<Instant>,
    /// A message was refused for want of room, and there has been none since.
    pub(super) is_full: bool,
    /// A writer waits until less than this waits in the association's queue.
    pub(super) room_below: Option<ByteCount>,
    /// Something changed for those who wait on the association.
    pub(super) changed: Arc<Notify>,
}

impl Entry {
    pub(super) fn new(association: Association) -> Self {
        Self {
            association,
            is_established: false,
            was_restarted: false,
            closed: None,
            timer: None,
            is_full: false,
            room_below: None,
            changed: Arc::new(Notify::new()),
        }
    }

    /// True if what was sent and is not acknowledged will never arrive.
    pub(super) fn is_over(&self) -> bool {
        self.closed.is_some() || self.was_restarted
    }

    /// The writer that waits for room has it. Returns true once.
    pub(super) fn take_room(&mut self) -> bool {
        if self.is_full {
            // What is in flight fills the buffer. The acknowledgement that makes room wakes the
            // writer.
            return false;
        }
        let queued = self.association.queued();
        self.room_below.take_if(|below| queued < *below).is_some()
    }
}
