//! What policies see: the channels that chunks may go to now.

use hawser_sched::PathView;
use hawser_sched::chunk::ChunkPolicy;
use hawser_types::{ByteCount, ChannelId, Instant, LinkIndex, Rate};
use hawser_wire::ChannelRole;

use super::Session;
use super::transport::carries;
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
    /// is left alone while there are others. While a link's express channel pauses, its bulk channel serves
    /// beside it. Links that may not be used are seen by no policy.
    pub(super) fn view_channels(&mut self, now: Instant, role: ChannelRole) {
        let association = self.association_in_use(now, role);
        self.gather_links(role, association);
        self.views.clear();
        let facts = |link| self.view_links.iter().find(|facts| facts.link == link);
        let any_sound = self
            .view_links
            .iter()
            .any(|link| link.allowed && !link.suspect);
        let any_own = self.view_links.iter().any(|link| link.own && !link.suspect);
        let usable = |c: &&Channel| !c.is_excluded() && carries(c, association);
        for channel in self.channels.values().filter(usable) {
            let Some(link) = facts(channel.spec.link) else {
                continue;
            };
            let has_own = match role {
                ChannelRole::Bulk => link.own && !link.suspect,
                ChannelRole::Express => any_own,
            };
            let usable = !any_sound || !link.suspect;
            if usable && (channel.spec.role == role || !has_own || link.pauses) {
                let mut view = channel.view(now, self.chunk_size(now, channel));
                view.beside = link.beside(channel);
                if role == ChannelRole::Express {
                    self.know_link(now, &mut view);
                }
                self.views.push(view);
            }
        }
    }

    /// Gathers what the channels of each link come to, in one walk over all of them.
    fn gather_links(&mut self, role: ChannelRole, association: Option<ChannelId>) {
        self.view_links.clear();
        let carrying = |channel: &&Channel| carries(channel, association);
        for channel in self.channels.values().filter(carrying) {
            let link = channel.spec.link;
            let known = self.view_links.iter().position(|facts| facts.link == link);
            let place = known.unwrap_or_else(|| {
                self.view_links.push(LinkFacts {
                    link,
                    ..LinkFacts::default()
                });
                self.view_links.len() - 1
            });
            self.view_links[place].add(channel, role);
        }
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

/// What the channels of one link come to.
#[derive(Debug, Default)]
pub(super) struct LinkFacts {
    link: LinkIndex,
    suspect: bool,
    /// One of its channels may be used.
    allowed: bool,
    /// One of these is of the kind that is asked for.
    own: bool,
    /// Express chunks are asked for, and the channel for them pauses.
    pauses: bool,
    /// Bytes under way on all its channels.
    in_flight: u64,
    /// And on its bulk channels.
    bulk_in_flight: u64,
}

impl LinkFacts {
    fn add(&mut self, channel: &Channel, role: ChannelRole) {
        self.suspect |= channel.suspect_since.is_some();
        self.pauses |=
            role == ChannelRole::Express && channel.spec.role == role && channel.pauses();
        if !channel.is_excluded() {
            self.allowed = true;
            self.own |= channel.spec.role == role;
        }
        self.in_flight += channel.in_flight;
        if channel.spec.role == ChannelRole::Bulk {
            self.bulk_in_flight += channel.in_flight;
        }
    }

    /// What is under way on the link besides a channel's own, and takes of its rate: each of
    /// several bulk channels was measured while the others were busy too.
    fn beside(&self, channel: &Channel) -> ByteCount {
        let own = match channel.spec.role {
            ChannelRole::Bulk => self.bulk_in_flight,
            ChannelRole::Express => channel.in_flight,
        };
        ByteCount::new(self.in_flight - own)
    }
}
