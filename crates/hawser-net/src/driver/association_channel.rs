//! A channel of the session that an association carries.

use std::sync::atomic::{AtomicU64, Ordering};

use hawser_channels::association::AssociationState;
use hawser_types::{ByteCount, Instant};

use crate::association::AssociationHandle;
use crate::clock;

/// The association of a channel, and the driver's state for it.
pub(super) struct AssociationChannel {
    pub(super) association: AssociationHandle,
    began: Instant,
    /// Bytes of messages that the association has not accepted yet.
    waiting: AtomicU64,
}

impl AssociationChannel {
    pub(super) fn new(association: AssociationHandle) -> Self {
        Self {
            association,
            began: clock::now(),
            waiting: AtomicU64::new(0),
        }
    }

    pub(super) fn set_waiting(&self, waiting: ByteCount) {
        self.waiting.store(waiting.as_u64(), Ordering::Relaxed);
    }

    /// Takes the state of the association, to be reported to the session. Must be called without
    /// the lock of the session.
    pub(super) fn take_state(&self, now: Instant) -> AssociationState {
        let waiting = ByteCount::new(self.waiting.load(Ordering::Relaxed));
        self.association.take_state(now, self.began, waiting)
    }
}
