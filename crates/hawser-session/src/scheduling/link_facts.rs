use hawser_types::{ByteCount, ChannelId};
use hawser_wire::ChannelRole;

use crate::channel::{Channel, Route};
use crate::channels::Channels;
use crate::transports::carries;

/// Sums over the channels of each link, for the views of policies. Channels that the gateway began
/// count as links of their own, as they go other ways.
#[derive(Debug, Default)]
pub(super) struct LinksFacts {
    list: Vec<LinkFacts>,
}

/// Sums over the channels of one link.
#[derive(Debug, Default)]
pub(super) struct LinkFacts {
    route: Route,
    suspect: bool,
    /// One of its channels may be used.
    allowed: bool,
    /// One of these is of the kind that is asked for.
    own: bool,
    /// Express chunks are asked for, and the channel for them pauses.
    pauses: bool,
    /// Bytes in flight on all its channels.
    in_flight: u64,
    /// Bytes in flight on its bulk channels.
    bulk_in_flight: u64,
}

impl LinksFacts {
    /// Gathers the facts of every link, in one walk over all channels that may have chunks of a
    /// kind.
    pub(super) fn gather(
        &mut self,
        channels: &Channels,
        role: ChannelRole,
        association: Option<ChannelId>,
    ) {
        self.list.clear();
        for channel in channels.iter().filter(|c| carries(c, association)) {
            let route = channel.route();
            let known = self.list.iter().position(|facts| facts.route == route);
            let place = known.unwrap_or_else(|| {
                self.list.push(LinkFacts {
                    route,
                    ..LinkFacts::default()
                });
                self.list.len() - 1
            });
            self.list[place].add(channel, role);
        }
    }

    /// Returns the facts of a link, by the way there.
    pub(super) fn of(&self, route: Route) -> Option<&LinkFacts> {
        self.list.iter().find(|facts| facts.route == route)
    }

    /// True if a link may be used that is not suspect.
    pub(super) fn any_sound(&self) -> bool {
        self.list.iter().any(|link| link.allowed && !link.suspect)
    }

    /// True if a link that is not suspect has a channel of the kind that is asked for.
    pub(super) fn any_own(&self) -> bool {
        self.list.iter().any(|link| link.own && !link.suspect)
    }
}

impl LinkFacts {
    /// True if one of the link's channels is suspect.
    pub(super) fn is_suspect(&self) -> bool {
        self.suspect
    }

    /// True if the link has a channel of the kind that is asked for, and is not suspect.
    pub(super) fn has_own(&self) -> bool {
        self.own && !self.suspect
    }

    /// True if express chunks are asked for, and the channel for them pauses.
    pub(super) fn pauses(&self) -> bool {
        self.pauses
    }

    /// Returns the bytes in flight on the link beside a channel's own that take of its rate: each
    /// of several bulk channels was measured while the others were busy too.
    pub(super) fn beside(&self, channel: &Channel) -> ByteCount {
        let own = match channel.role() {
            ChannelRole::Bulk => self.bulk_in_flight,
            ChannelRole::Express => channel.outbound().in_flight(),
        };
        ByteCount::new(self.in_flight - own)
    }

    fn add(&mut self, channel: &Channel, role: ChannelRole) {
        let is_own = channel.role() == role;
        self.suspect |= channel.is_suspect();
        self.pauses |= role == ChannelRole::Express && is_own && channel.pauses();
        if !channel.is_excluded() {
            self.allowed = true;
            self.own |= is_own;
        }
        self.in_flight += channel.outbound().in_flight();
        if channel.role() == ChannelRole::Bulk {
            self.bulk_in_flight += channel.outbound().in_flight();
        }
    }
}
