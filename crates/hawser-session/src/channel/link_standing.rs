use hawser_sched::PathView;
use hawser_sched::governor::{Harm, Standing};
use hawser_sched::rules::exclusion;
use hawser_types::Permission;

use crate::send_rules::SendRules;

/// Standing of the channel's link by the user's rules and the governor's verdict.
#[derive(Debug)]
pub(crate) struct LinkStanding {
    rules: SendRules,
    /// Harm that the link did to the whole, while the link is demoted for it.
    harm: Option<Harm>,
    /// Result of rules and harm now.
    standing: Standing,
    /// Links with the same number share a bottleneck.
    bottleneck: Option<u8>,
}

impl Default for LinkStanding {
    fn default() -> Self {
        Self {
            rules: SendRules::default(),
            harm: None,
            standing: Standing::Full,
            bottleneck: None,
        }
    }
}

impl LinkStanding {
    /// Replaces the user's rules; they hold from the next review.
    pub(crate) fn set_rules(&mut self, rules: SendRules) {
        self.rules = rules;
    }

    /// Takes the governor's verdict; it holds from the next review.
    pub(crate) fn set_harm(&mut self, verdict: Standing) {
        self.harm = match verdict {
            Standing::Probing(harm) => Some(harm),
            _ => None,
        };
    }

    /// Notes the group of links that share the link's bottleneck.
    pub(crate) fn set_bottleneck(&mut self, bottleneck: Option<u8>) {
        self.bottleneck = bottleneck;
    }

    /// Works out the standing, given the permissions of all links that live.
    pub(crate) fn review(&mut self, living: &[Permission]) {
        self.standing = match exclusion(self.rules.permission(), living) {
            Some(reason) => Standing::Excluded(reason),
            None => self.governed(),
        };
    }

    /// True if a review without any rules would change nothing.
    pub(crate) fn is_governed_only(&self) -> bool {
        self.standing == self.governed()
    }

    /// True if nothing may be placed on the channel.
    pub(crate) const fn is_excluded(&self) -> bool {
        matches!(self.standing, Standing::Excluded(_))
    }

    /// Returns the user's rules.
    pub(crate) fn rules(&self) -> &SendRules {
        &self.rules
    }

    /// Returns the standing, as of the latest review.
    pub(crate) fn standing(&self) -> Standing {
        self.standing
    }

    /// Returns the number of the link's bottleneck.
    pub(crate) fn bottleneck(&self) -> Option<u8> {
        self.bottleneck
    }

    /// Puts it into a view.
    pub(super) fn fill(&self, view: &mut PathView) {
        self.rules.fill(view);
        view.standing = self.standing;
        view.bottleneck = self.bottleneck;
    }

    fn governed(&self) -> Standing {
        self.harm.map_or(Standing::Full, Standing::Probing)
    }
}
