//! The user's rules, the policy for bulk, and the number of channels of each link.

use std::collections::BTreeMap;

use hawser_sched::chunk::ChunkPolicy;
use hawser_sched::rules::LinkRules;
use hawser_types::{Instant, LinkIndex};
use hawser_wire::{ChannelRole, Command, LinkRulesEntry};

use super::Session;
use crate::channel::Route;
use crate::event::Event;
use crate::recorder::Note;
use crate::side::Side;

impl Session {
    /// Takes the user's rules for links in place of those before; links without a rule are used
    /// like any other. They hold at once: data in flight stays where it is, data that waits for a
    /// link which may not be used any more goes elsewhere. For clients, which tell their gateway
    /// the rules for its direction, of at most 64 links.
    pub fn set_rules(&mut self, now: Instant, rules: &BTreeMap<LinkIndex, LinkRules>) {
        self.links.set_rules(rules, &mut self.channels);
        self.events.push(Event::RulesChanged);
        self.tell_rules();
        self.schedule(now);
    }

    /// Tells the gateway the rules for its direction, if it has not heard them.
    pub(super) fn tell_rules(&mut self) {
        if self.side == Side::Client {
            let knows_signals = self.commands.peer_knows_signals();
            if let Some(news) = self.links.take_rule_news(knows_signals) {
                self.command(&Command::LinkRules(news));
            }
        }
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

    /// Places bulk chunks by another policy from now on, those that wait already among them. A
    /// client's gateway is told, for what it sends.
    pub fn set_scheduler(&mut self, now: Instant, policy: ChunkPolicy) {
        if self.scheduling.set_policy(policy) {
            self.recorder.note(now, Note::Policy(policy));
            self.tell_scheduler();
            // The one before may have waited for something that this one does not wait for.
            self.schedule(now);
        }
    }

    /// True if the gateway places what it sends as this client's user wants; `None` for a gateway,
    /// and until the peer has said so.
    pub fn peer_follows_scheduler(&self) -> Option<bool> {
        let follows = self.commands.peer_follows_scheduler();
        follows.filter(|_| self.side == Side::Client)
    }

    /// True if this side places what it sends as the peer's user wants.
    pub(super) fn follows_scheduler(&self) -> bool {
        self.side == Side::Gateway && self.config.follows_scheduler
    }

    /// Tells a gateway that wants to hear it which policy this client's user wants, unless it is
    /// what the gateway supposes.
    pub(super) fn tell_scheduler(&mut self) {
        if self.peer_follows_scheduler() != Some(true) {
            return;
        }
        if self.scheduling.take_news() {
            let policy = number(self.scheduler());
            self.command(&Command::Scheduler { policy });
        }
    }

    /// Takes the policy that the client's user wants for this side's direction.
    pub(super) fn on_scheduler(&mut self, now: Instant, wanted: u32) {
        if !self.follows_scheduler() {
            return;
        }
        let own = self.config.scheduler;
        match wanted {
            NO_WISH => self.set_scheduler(now, own),
            _ => {
                let mut known = ChunkPolicy::ALL.into_iter();
                if let Some(policy) = known.find(|policy| number(*policy) == wanted) {
                    self.set_scheduler(now, policy);
                }
            }
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
        let route = Route::of_client(link);
        let suspects = self.channels.suspects_of(route, ChannelRole::Bulk);
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

/// The number of a policy on the wire. `auto`, which is everyone's default, leaves it to the peer.
const fn number(policy: ChunkPolicy) -> u32 {
    match policy {
        ChunkPolicy::Backlog => 1,
        ChunkPolicy::RoundRobin => 2,
        ChunkPolicy::WeightedRoundRobin => 3,
        ChunkPolicy::LeastRtt => 4,
        ChunkPolicy::LoadIndex => 5,
        ChunkPolicy::Ecf => 6,
        ChunkPolicy::Blest => 7,
        ChunkPolicy::Redundant => 8,
        _ => NO_WISH,
    }
}

/// The peer's own policy holds.
const NO_WISH: u32 = 0;
