//! What policies see: the channels that chunks may go to now.

use hawser_sched::PathView;
use hawser_sched::chunk::ChunkPolicy;
use hawser_types::{ByteCount, Instant, Rate};
use hawser_wire::ChannelRole;

use super::Session;
use crate::channel::{Channel, ChannelSpec};

impl Session {
    /// Whether preferred channels are to be seen alone before all are. Auto weighs the user's wish
    /// itself, and redundant wants two links anyway.
    pub(super) fn preferred_go_first(&self, role: ChannelRole) -> bool {
        let policy = self.bulk.policy();
        let by_itself = matches!(policy, ChunkPolicy::Auto | ChunkPolicy::Redundant);
        (role == ChannelRole::Express || !by_itself) && self.views.iter().any(|v| v.preferred)
    }

    /// Refreshes the views of the channels that chunks of this kind may use.
    ///
    /// Each kind has its own channel on every link. Where a link has none for bulk, or no sound
    /// link has one for express, the other kind's serves. A link on which one channel is suspect
    /// is left alone while there are others. Links that may not be used are seen by no policy.
    pub(super) fn view_channels(&mut self, now: Instant, role: ChannelRole) {
        self.views.clear();
        let suspect_link = |channel: &Channel| {
            let mut same_link = self
                .channels
                .values()
                .filter(|other| other.spec.link == channel.spec.link);
            same_link.any(|other| other.suspect_since.is_some())
        };
        let allowed = || {
            self.channels
                .values()
                .filter(|channel| !channel.is_excluded())
        };
        let any_sound = allowed().any(|channel| !suspect_link(channel));
        for channel in allowed() {
            let stands_in = || {
                let mut own = allowed().filter(|other| {
                    other.spec.role == role
                        && (role == ChannelRole::Express || other.spec.link == channel.spec.link)
                        && !suspect_link(other)
                });
                own.next().is_none()
            };
            let usable = !any_sound || !suspect_link(channel);
            if usable && (channel.spec.role == role || stands_in()) {
                let mut view = channel.view(now, self.config.chunk_size);
                view.beside = self.beside(channel);
                if role == ChannelRole::Express {
                    self.know_link(now, &mut view);
                }
                self.views.push(view);
            }
        }
    }

    /// What is under way on the link besides a channel's own, and takes of its rate: each of
    /// several bulk channels was measured while the others were busy too.
    fn beside(&self, channel: &Channel) -> ByteCount {
        let ChannelSpec { id, role, link, .. } = channel.spec;
        let is_peer = |other: &Channel| role == ChannelRole::Bulk && other.spec.role == role;
        let others = self
            .channels
            .values()
            .filter(|other| other.spec.link == link && other.spec.id != id && !is_peer(other));
        ByteCount::new(others.map(|other| other.in_flight).sum())
    }

    /// An express channel carries too little to know its link's rate: its neighbours together may.
    fn know_link(&self, now: Instant, view: &mut PathView) {
        let (mut rate, mut most) = (Rate::ZERO, view.confidence);
        for other in self.channels.values() {
            if other.spec.link == view.link && other.spec.id != view.channel {
                rate = rate + other.path.rate();
                most = most.max(other.path.delivery().confidence(now));
            }
        }
        if most > view.confidence {
            (view.rate, view.confidence) = (rate, most);
        }
    }
}
