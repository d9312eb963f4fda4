//! Unread data in streams: how much memory that really takes, and its limit.

use std::sync::Arc;

use hawser_types::ChannelId;

use crate::BASE_CREDIT;
use crate::read_buffers::{Pin, ReadBuffer, ReadBuffers};
use crate::stream::Unread;

/// Memory of what came for all streams and was not read.
#[derive(Debug)]
pub(crate) struct ReceiveMemory {
    unread: Unread,
    buffers: ReadBuffers,
    /// Memory that the streams may take together.
    limit: u64,
}

impl ReceiveMemory {
    /// `share`: what is lent to streams at most.
    pub(super) fn new(share: u64) -> Self {
        Self {
            unread: Unread::default(),
            buffers: ReadBuffers::default(),
            limit: share + allowance(share),
        }
    }

    /// Sets the share of memory. What lies here already may stay.
    pub(super) fn set_share(&mut self, share: u64) {
        let held = self.bytes().min(self.limit);
        self.limit = held.max(share + allowance(share));
    }

    /// Notes what lies in a stream now, and what lay there before.
    pub(super) fn on_change(&mut self, before: Unread, now: Unread) {
        let Unread { charge, own } = &mut self.unread;
        *charge = *charge + now.charge - before.charge;
        *own = *own + now.own - before.own;
    }

    /// Returns the memory that is taken: own memory of payloads, and whole read buffers.
    pub(super) fn bytes(&self) -> u64 {
        self.unread.own + self.buffers.bytes()
    }

    /// True if more is taken than may be.
    pub(super) fn is_exceeded(&self) -> bool {
        let Unread { own, .. } = self.unread;
        own + self.buffers.at_most() > self.limit && self.bytes() > self.limit
    }

    /// Returns a hold on the read buffer of a payload. `None` where a copy is better: too much of
    /// the buffers that are kept is not in use any more.
    pub(super) fn pin(&mut self, channel: ChannelId, buffer: ReadBuffer) -> Option<Arc<Pin>> {
        let allowed = self.unread.charge + self.limit / UNUSED_PART;
        let allowed = allowed.min(self.limit);
        let more = buffer.size.as_u64() + self.unread.own;
        let has_room =
            more + self.buffers.at_most() <= allowed || more + self.buffers.bytes() <= allowed;
        has_room.then(|| self.buffers.pin(channel, buffer))
    }

    /// Forgets a channel that is gone.
    pub(super) fn forget(&mut self, channel: ChannelId) {
        self.buffers.forget(channel);
    }
}

/// Returns what streams may take beyond the share, since each has some credit of its own. Few use
/// all of that: where many do, the newest are reset.
fn allowance(share: u64) -> u64 {
    (share / 4).max(16 * BASE_CREDIT)
}

/// Part of the limit that read buffers may take beyond what is used of them.
const UNUSED_PART: u64 = 8;
