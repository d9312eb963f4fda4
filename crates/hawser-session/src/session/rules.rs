//! The user's rules, the policy for bulk, and the number of channels of each link.

use std::collections::BTreeMap;

use hawser_sched::chunk::ChunkPolicy;
use hawser_sched::rules::LinkRules;
use hawser_types::{Instant, LinkIndex};
use hawser_wire::{ChannelRole, Command, LinkRulesEntry};

use super::Session;
use crate::event::Event;
use crate::recorder::Note;
use crate::side::Side;

impl Session {
    /// Takes the user's rules for links in place of those before; links without a rule are used
    /// like any other. They hold at once: data in flight stays where it is, data that waits for a
    /// link which may not be used any more goes elsewhere. For clients, which tell their gateway
    /// the rules for its direction, of at most 64 links.
    pub fn set_rules(&mut self, now: Instant, rules: &BTreeMap<LinkIndex, LinkRules>) {
        let told = self.links.set_rules(rules, &mut self.channels);
        self.events.push(Event::RulesChanged);
        if let Some(told) = told.filter(|_| self.side == Side::Client) {
            self.command(&Command::LinkRules(told));
        }
        self.schedule(now);
    }

    /// Returns the user's rules for what this side sends, for choosers of paths; links that are not
    /// named are used like any other.
    pub fn link_rules(&self) -> impl Iterator<Item = (LinkIndex, LinkRules)> + '_ {
        self.links.rules()
    }

    /// Takes the rules that the client tells for this side's direction.
    pub(super) fn on_link_rules(&mut self, now: Instant, list: &[LinkRulesEntry]) {
        self.links.set_told_rules(list, &mut self.channels);
        self.events.push(Event::RulesChanged);
        self.schedule(now);
    }

    /// Places bulk chunks by another policy from now on, those that wait already among them.
    pub fn set_scheduler(&mut self, now: Instant, policy: ChunkPolicy) {
        if self.scheduling.set_policy(policy) {
            self.recorder.note(now, Note::Policy(policy));
            // The one before may have waited for something that this one does not wait for.
            self.schedule(now);
        }
    }

    /// Returns the policy that places bulk chunks.
    pub fn scheduler(&self) -> ChunkPolicy {
        self.scheduling.policy()
    }

    /// Returns how many bulk channels a link should have, for clients. [`Event::Spread`] tells of
    /// changes.
    ///
    /// A suspect counts for none: another connection is tried beside it, and whichever speaks first
    /// stays.
    pub fn wanted_channels(&self, link: LinkIndex) -> usize {
        let suspects = self.channels.suspects_of(link, ChannelRole::Bulk);
        self.links.wanted_channels(link) + suspects.count()
    }

    /// Looks at what every link carries, and whether it should have another number of channels.
    pub(super) fn count_channels(&mut self, now: Instant) {
        let waits = self.bulk_waits();
        let events = &mut self.events;
        self.links
            .count_channels(now, &self.channels, waits, |link| {
                events.push(Event::Spread(link));
            });
    }

    /// True if bulk waits for a channel.
    pub(super) fn bulk_waits(&self) -> bool {
        let role = ChannelRole::Bulk;
        self.streams.any_waiting(role) || self.unacknowledged.has_again(role)
    }
}
