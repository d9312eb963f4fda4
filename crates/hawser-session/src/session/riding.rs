//! State that rides ahead of chunks.

use hawser_types::ChannelId;
use hawser_wire::StateFrame;

use super::{Outgoing, Session};

impl Session {
    /// Puts the state that is due ahead of a record's chunk.
    pub(super) fn put_state(&mut self, id: ChannelId, heartbeat: bool, out: &mut Outgoing) {
        if heartbeat {
            StateFrame::Heartbeat.encode(&mut out.head);
        }
        let channel = self.channels.get_mut(&id);
        if let Some(records) = channel.and_then(|channel| channel.inbound.take_ack()) {
            let channel = id;
            StateFrame::Ack { channel, records }.encode(&mut out.head);
        }
        self.put_credit(id, out);
    }

    /// Puts limits that have moved, and copies of those that went another way: a writer that waits
    /// for its credit should not wait for TCP to mend a loss.
    fn put_credit(&mut self, id: ChannelId, out: &mut Outgoing) {
        let second = match self.credit_due.is_empty() {
            true => None,
            false => self.quickest_beside(id),
        };
        for _ in 0..MAX_CREDITS {
            let Some(channel) = self.channels.get_mut(&id) else {
                return;
            };
            let new = self.credit_due.pop_first();
            let Some(stream) = new.or_else(|| channel.credit_copies.pop_first()) else {
                break;
            };
            let known = self.streams.get(&stream);
            let known = known.map(|known| known.receive.limit());
            let Some(limit) = known.or_else(|| self.ahead.limit_to_tell(stream)) else {
                continue;
            };
            StateFrame::Credit { stream, limit }.encode(&mut out.head);
            let second = second.filter(|_| new.is_some());
            if let Some(channel) = second.and_then(|second| self.channels.get_mut(&second)) {
                channel.credit_copies.insert(stream);
            }
        }
        if let Some(second) = second {
            self.wake(second);
        }
    }
}

/// State rides along in bounded pieces; the rest goes with the next record.
const MAX_CREDITS: usize = 64;
