//! What policies see: the channels that chunks may go to now.

use hawser_sched::PathView;
use hawser_sched::chunk::ChunkPolicy;
use hawser_types::{ByteCount, Instant};
use hawser_wire::ChannelRole;

use super::Session;
use crate::channel::Channel;

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

    /// What is under way on the link besides a channel's own.
    fn beside(&self, channel: &Channel) -> ByteCount {
        let others = self.channels.values().filter(|other| {
            other.spec.link == channel.spec.link && other.spec.id != channel.spec.id
        });
        ByteCount::new(others.map(|other| other.in_flight).sum())
    }

    /// An express channel carries too little to know its link's rate: its neighbour may.
    fn know_link(&self, now: Instant, view: &mut PathView) {
        for other in self.channels.values() {
            if other.spec.link != view.link || other.spec.id == view.channel {
                continue;
            }
            let confidence = other.path.delivery().confidence(now);
            if confidence > view.confidence {
                view.rate = other.path.rate();
                view.confidence = confidence;
            }
        }
    }
}
