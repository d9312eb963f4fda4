//! Which links may be used for what, by the user's rules and by what the governor found, and which
//! policy chooses among them.
//!
//! A rule holds for one direction. The client has both, keeps its own and tells the gateway the
//! other. Policies see no channel of a link that is excluded; the channel stands, and
//! acknowledgements of what comes in on it still go out on it.

use std::collections::BTreeMap;

use hawser_sched::chunk::ChunkPolicy;
use hawser_sched::governor::{Exclusion, Standing};
use hawser_sched::rules::{Permission, Terms, exclusion};
use hawser_types::{Instant, LinkIndex};
use hawser_wire::{Command, LinkTerms, LinkUse, MAX_LINK_TERMS};
use smallvec::SmallVec;

use super::{Session, Side};
use crate::Event;
use crate::recorder::Note;

/// The user's rules, for what this side sends.
#[derive(Debug, Default)]
pub(super) struct Rules {
    by_link: BTreeMap<LinkIndex, SendTerms>,
    /// What the gateway was told, of what it sends.
    told: Vec<LinkTerms>,
}

/// What the user says of one link in one direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SendTerms {
    pub(crate) permission: Permission,
    pub(crate) weight: f64,
    pub(crate) price: f64,
    pub(crate) price_weight: f64,
}

impl Rules {
    pub(super) fn by_link(&self) -> impl Iterator<Item = (LinkIndex, SendTerms)> + '_ {
        self.by_link.iter().map(|(link, terms)| (*link, *terms))
    }
}

impl Session {
    /// The user's rules for the links, in place of those before; links without one are used like
    /// any other. They hold at once: what is on its way stays there, what waits for a link that
    /// is not to be used any more goes elsewhere. For clients, which tell their gateway what holds
    /// for its direction, of at most 64 links.
    pub fn set_rules(&mut self, now: Instant, rules: &BTreeMap<LinkIndex, Terms>) {
        let up = rules.iter().map(|(link, terms)| (*link, up(terms)));
        self.rules.by_link = up.collect();
        let down = rules.iter().map(|(link, terms)| down(*link, terms));
        let down: Vec<_> = down.take(MAX_LINK_TERMS).collect();
        self.events.push_back(Event::RulesChanged);
        if self.side == Side::Client && self.rules.told != down {
            self.queue_command(&Command::LinkTerms(down.clone()));
            self.rules.told = down;
        }
        self.apply_terms();
        self.schedule(now);
    }

    /// Places bulk chunks by another policy from now on, those that wait already among them.
    pub fn set_scheduler(&mut self, now: Instant, policy: ChunkPolicy) {
        if self.bulk.policy() != policy {
            self.bulk = policy.scheduler();
            self.recorder.note(now, Note::Policy(policy));
            // The one before may have waited for what this one does not wait for.
            self.schedule(now);
        }
    }

    /// What places bulk chunks.
    pub fn scheduler(&self) -> ChunkPolicy {
        self.bulk.policy()
    }

    /// The client says what its user allows for this side's direction.
    pub(super) fn on_link_terms(&mut self, now: Instant, list: &[LinkTerms]) {
        let terms = list
            .iter()
            .map(|terms| (LinkIndex::new(terms.link), SendTerms::from(terms)));
        self.rules.by_link = terms.collect();
        self.events.push_back(Event::RulesChanged);
        self.apply_terms();
        self.schedule(now);
    }

    /// Each channel gets what is said of its link.
    pub(super) fn apply_terms(&mut self) {
        for channel in self.channels.values_mut() {
            let terms = self.rules.by_link.get(&channel.spec.link);
            channel.terms = terms.copied().unwrap_or_default();
        }
    }

    /// Finds out which links may be used now, given which of them live.
    pub(super) fn review_links(&mut self, now: Instant) {
        let mut channels = self.channels.values();
        if self.rules.by_link.is_empty() && channels.all(|c| c.standing == c.governed()) {
            return;
        }
        let living = self.living_permissions();
        let mut released = SmallVec::<[_; 4]>::new();
        for channel in self.channels.values_mut() {
            let was_excluded = channel.is_excluded();
            channel.standing = match exclusion(channel.terms.permission, &living) {
                Some(reason) => Standing::Excluded(reason),
                None => channel.governed(),
            };
            self.recorder
                .on_standing(now, channel.spec.link, channel.standing);
            if channel.is_excluded() && !was_excluded {
                let outbox = channel.outbox.drain(..);
                released.extend(outbox.map(|assigned| (channel.spec.id, assigned)));
            }
        }
        for (id, assigned) in released {
            self.give_back(id, assigned);
        }
    }

    /// What is said of the links that live: those with channels none of which is suspect.
    fn living_permissions(&self) -> SmallVec<[Permission; 8]> {
        let is_sound = |link: LinkIndex| {
            let mut same = self.channels.values().filter(|c| c.spec.link == link);
            same.all(|channel| channel.suspect_since.is_none())
        };
        let channels = self.channels.values();
        // An association knows for itself which of its links live.
        let living = channels.filter(|c| !c.spec.is_association() && is_sound(c.spec.link));
        living.map(|channel| channel.terms.permission).collect()
    }
}

impl Default for SendTerms {
    fn default() -> Self {
        up(&Terms::default())
    }
}

impl From<&LinkTerms> for SendTerms {
    fn from(terms: &LinkTerms) -> Self {
        Self {
            permission: match terms.usage {
                LinkUse::Normal => Permission::Allowed,
                LinkUse::Prefer => Permission::Preferred,
                LinkUse::Backup => Permission::Reserve(Exclusion::Reserve),
                LinkUse::Spare => Permission::Reserve(Exclusion::Allowance),
                LinkUse::Never => Permission::Forbidden(Exclusion::Never),
                LinkUse::Spent => Permission::Forbidden(Exclusion::Allowance),
            },
            weight: f64::from(terms.weight) / 1e3,
            price: terms.price as f64 / 1e6,
            price_weight: f64::from(terms.price_weight) / 1e3,
        }
    }
}

fn up(terms: &Terms) -> SendTerms {
    SendTerms {
        permission: terms.up,
        weight: terms.weight,
        price: terms.price,
        price_weight: terms.price_weight,
    }
}

/// For the gateway. What is outside the protocol's range becomes the nearest value within it.
fn down(link: LinkIndex, terms: &Terms) -> LinkTerms {
    let parts = |value: f64, parts: f64, most: u64| ((value * parts).round() as u64).min(most);
    LinkTerms {
        link: link.value(),
        usage: match terms.down {
            Permission::Allowed => LinkUse::Normal,
            Permission::Preferred => LinkUse::Prefer,
            Permission::Reserve(Exclusion::Allowance) => LinkUse::Spare,
            Permission::Reserve(_) => LinkUse::Backup,
            Permission::Forbidden(Exclusion::Allowance) => LinkUse::Spent,
            Permission::Forbidden(_) => LinkUse::Never,
        },
        weight: parts(terms.weight, 1e3, LinkTerms::MAX_WEIGHT.into()).max(1) as u32,
        price: parts(terms.price, 1e6, LinkTerms::MAX_PRICE),
        price_weight: parts(terms.price_weight, 1e3, LinkTerms::MAX_PRICE_WEIGHT.into()) as u32,
    }
}
