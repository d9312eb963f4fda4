//! The user's rules: which links may be used to send.
//!
//! A rule holds for one direction. The client has both, keeps its own and tells the gateway the
//! other.

use std::collections::BTreeMap;

use hawser_sched::rules::LinkRules;
use hawser_types::{LimitedBy, LinkIndex, Permission};
use hawser_wire::{LinkRulesEntry, MAX_LINK_RULES};
use smallvec::SmallVec;

use crate::channels::Channels;
use crate::send_rules::{SendRules, for_gateway};

/// The user's rules for links, in the direction in which this side sends.
#[derive(Debug, Default)]
pub(super) struct Rules {
    by_link: BTreeMap<LinkIndex, SendRules>,
    /// The rules for the gateway's direction.
    for_gateway: Vec<LinkRulesEntry>,
    /// The same as last told to the gateway.
    told: Vec<LinkRulesEntry>,
}

impl Rules {
    /// Takes the user's rules in place of those before.
    pub(super) fn set(&mut self, rules: &BTreeMap<LinkIndex, LinkRules>) {
        let up = rules
            .iter()
            .map(|(link, rules)| (*link, SendRules::from(rules)));
        self.by_link = up.collect();
        let down = rules.iter().map(|(link, rules)| for_gateway(*link, rules));
        self.for_gateway = down.take(MAX_LINK_RULES).collect();
    }

    /// Returns what the gateway has to be told, if it has not heard that. One that does not know
    /// of signals hears of a reserve.
    pub(super) fn take_news(&mut self, knows_signals: bool) -> Option<Vec<LinkRulesEntry>> {
        let mut news = self.for_gateway.clone();
        for entry in news.iter_mut().filter(|_| !knows_signals) {
            if entry.permission == Permission::Reserve(LimitedBy::Signal) {
                entry.permission = Permission::Reserve(LimitedBy::Choice);
            }
        }
        if self.told == news {
            return None;
        }
        self.told.clone_from(&news);
        Some(news)
    }

    /// Takes what the client tells of its user's rules, in place of what it told before.
    pub(super) fn set_told(&mut self, list: &[LinkRulesEntry]) {
        let rules = list
            .iter()
            .map(|entry| (LinkIndex::new(entry.link), SendRules::from(entry)));
        self.by_link = rules.collect();
    }

    /// Returns the rules of all links that have one.
    pub(super) fn iter(&self) -> impl Iterator<Item = (LinkIndex, &SendRules)> {
        self.by_link.iter().map(|(link, rules)| (*link, rules))
    }

    /// True if no link has a rule.
    pub(super) fn is_empty(&self) -> bool {
        self.by_link.is_empty()
    }

    /// Gives each channel the rules of its link.
    pub(super) fn apply(&self, channels: &mut Channels) {
        for channel in channels.iter_mut() {
            let rules = self.by_link.get(&channel.link());
            let rules = rules.copied().unwrap_or_default();
            channel.standing_mut().set_rules(rules);
        }
    }
}

/// Returns the permissions of the links that live: one way there has channels of which none is
/// suspect.
pub(super) fn living_permissions(channels: &Channels) -> SmallVec<[Permission; 8]> {
    let is_sound = |route| {
        channels
            .of_route(route)
            .all(|channel| !channel.is_suspect())
    };
    // An association knows for itself which of its links live.
    let living = channels.iter();
    let living = living.filter(|c| !c.is_association() && is_sound(c.route()));
    living
        .map(|channel| channel.standing().rules().permission())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_that_knows_no_signals_is_told_of_a_reserve() {
        let link = LinkIndex::new(7);
        let mut rules = Rules::default();
        rules.set(&BTreeMap::from([(
            link,
            LinkRules::default().while_fading(),
        )]));
        let mut told = |knows_signals| {
            let news = rules.take_news(knows_signals)?;
            Some(news[0].permission)
        };
        assert_eq!(told(false), Some(Permission::Reserve(LimitedBy::Choice)));
        assert_eq!(told(false), None, "it has heard that");
        // Its hello has come.
        assert_eq!(told(true), Some(Permission::Reserve(LimitedBy::Signal)));
        assert_eq!(told(true), None);
    }
}
