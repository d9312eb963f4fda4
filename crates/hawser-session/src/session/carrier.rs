//! What chunks go over: TCP channels or an association, never both at once, since they would compete for the
//! same links.

use hawser_types::{ChannelId, Instant};
use hawser_wire::{ChannelRole, Transport};

use super::Session;
use crate::channel::Channel;

/// What this side sends over.
#[derive(Debug, Default)]
pub(super) struct Carriers {
    transport: Transport,
    /// The association that the client told of last.
    pub(super) announced: Option<ChannelId>,
}

impl Carriers {
    /// Whether it was another.
    pub(super) fn set_transport(&mut self, transport: Transport) -> bool {
        std::mem::replace(&mut self.transport, transport) != transport
    }

    pub(super) fn transport(&self) -> Transport {
        self.transport
    }

    pub(super) fn is_trying(&self) -> bool {
        false
    }
}

impl Session {
    /// The association that chunks of a kind go over now; `None`: over TCP channels.
    pub(super) fn association_in_use(&self, now: Instant, _role: ChannelRole) -> Option<ChannelId> {
        if self.carriers.transport == Transport::Tcp {
            return None;
        }
        let mut newest = None;
        let mut sound = None;
        let mut tcp_is_sound = false;
        for channel in self.channels.values() {
            let id = channel.spec.id;
            if !channel.spec.is_association() {
                tcp_is_sound |= channel.suspect_since.is_none() && !channel.is_excluded();
                continue;
            }
            newest = newest.max(Some(id));
            if channel.suspect_since.is_none() && !channel.is_late(now) {
                sound = sound.max(Some(id));
            }
        }
        let wanted = self.carriers.transport == Transport::Sctp;
        match (sound, tcp_is_sound) {
            (Some(_), tcp_is_sound) if wanted || !tcp_is_sound => sound,
            (_, true) => None,
            // Nothing is sound: whatever answers first.
            (_, false) => newest.filter(|_| self.channels.len() == 1),
        }
    }
}

impl Session {
    /// The association that datagrams go over: the newest that is sound, unless none is wanted.
    pub(super) fn association_for_datagrams(&self, now: Instant) -> Option<ChannelId> {
        let sound = |c: &&Channel| c.spec.is_association() && c.is_sound(now) && !c.is_late(now);
        let wanted = self.carriers.transport != Transport::Tcp;
        let channels = self.channels.values().rev();
        let newest = channels.filter(|_| wanted).find(sound);
        newest.map(|channel| channel.spec.id)
    }
}

/// Whether a channel may carry chunks while these go over `association`, or else over TCP.
pub(super) fn carries(channel: &Channel, association: Option<ChannelId>) -> bool {
    match association {
        Some(id) => channel.spec.id == id,
        None => !channel.spec.is_association(),
    }
}
