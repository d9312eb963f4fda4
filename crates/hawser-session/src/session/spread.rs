//! How many bulk channels each link is to have: the client's to decide, which makes the connections.

use hawser_path::{ChannelCount, LinkFacts};
use hawser_types::{ByteCount, ChannelId, Instant, LinkIndex};
use hawser_wire::{ChannelRole, Command};

use super::{Session, Side, slot};
use crate::Event;
use crate::channel::Channel;

impl Session {
    /// How many bulk channels a link is to have, for clients. [`Event::Spread`] tells of changes.
    ///
    /// A suspect counts for none: another connection is tried beside it, and whichever speaks first stays.
    pub fn wanted_channels(&self, link: LinkIndex) -> usize {
        let count = self.counts.get(&link).map(ChannelCount::wanted);
        let count =
            count.unwrap_or_else(|| ChannelCount::new(self.config.channels_per_link).wanted());
        count + self.suspects_like(link, ChannelRole::Bulk).count()
    }

    /// The suspects of one kind on a link.
    fn suspects_like(&self, link: LinkIndex, role: ChannelRole) -> impl Iterator<Item = &Channel> {
        self.channels.values().filter(move |channel| {
            channel.spec.link == link
                && channel.spec.role == role
                && channel.suspect_since.is_some()
        })
    }

    /// A fresh connection over a link stands: what is still silent of its kind is given up. The client
    /// alone decides, so that never both ends give up another one.
    pub(super) fn replace_suspects(&mut self, now: Instant, link: LinkIndex, role: ChannelRole) {
        if self.side == Side::Gateway {
            return;
        }
        let ids: smallvec::SmallVec<[ChannelId; 8]> = self
            .suspects_like(link, role)
            .map(|channel| channel.spec.id)
            .collect();
        for id in ids {
            self.remove_channel(now, id);
            self.queue_command(&Command::ChannelClosed { channel: id });
            self.events.push_back(Event::Dead(id));
        }
    }

    /// A link has a channel: how many it should have is found out from now on.
    pub(super) fn count_on(&mut self, link: LinkIndex) {
        if self.side == Side::Client {
            let fresh = || ChannelCount::new(self.config.channels_per_link);
            self.counts.entry(link).or_insert_with(fresh);
        }
    }

    /// Looks at what every link carries.
    pub(super) fn count_channels(&mut self, now: Instant) {
        let mut counts = std::mem::take(&mut self.counts);
        counts.retain(|link, count| {
            let Some(facts) = self.link_facts(now, *link) else {
                return false;
            };
            if count.on_facts(now, &facts) {
                tracing::debug!(%link, wanted = count.wanted(), "another number of bulk channels");
                self.events.push_back(Event::Spread(*link));
            }
            true
        });
        self.counts = counts;
    }

    /// `None` for a link without channels.
    fn link_facts(&self, now: Instant, link: LinkIndex) -> Option<LinkFacts> {
        let account = self.accounts.get(&link)?;
        let bulk = slot(ChannelRole::Bulk);
        let waits = !self.waiting[bulk].is_empty() || !self.again[bulk].is_empty();
        let mut facts = LinkFacts {
            busy: waits,
            ..LinkFacts::default()
        };
        let (mut shortest, mut under_way) = (None, 0);
        for channel in self.channels.values().filter(|c| c.spec.link == link) {
            let rtt = channel.path.min_rtt().unwrap_or_default();
            shortest = Some(shortest.map_or(rtt, |shortest| rtt.min(shortest)));
            under_way += channel.written - channel.kernel_acknowledged();
            facts.busy |= channel.inbound.is_flowing(now);
            facts.queue = facts.queue.max(queue(channel));
        }
        facts.rtt = shortest?;
        let carried = account.sent + account.received;
        facts.carried = ByteCount::new(carried.saturating_sub(under_way));
        Some(facts)
    }
}

/// The fuller of both ways'.
fn queue(channel: &Channel) -> std::time::Duration {
    let incoming = channel.path.one_way().queue().unwrap_or_default();
    channel.path.delay().standing_queue().max(incoming)
}
