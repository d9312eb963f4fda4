use std::collections::BTreeMap;

use hawser_sched::rules::LinkRules;
use hawser_types::{Link, Permission};

/// The user's rules for all links, by name. A link without rules is an ordinary link.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct AllLinkRules {
    /// Current rules of each link.
    pub by_name: BTreeMap<String, LinkRules>,
    /// Metered links: they have a price or an allowance.
    pub metered: Vec<String>,
    /// Links with a weak signal: while their rates are unknown, lower ones are assumed.
    pub weak: Vec<String>,
}

impl AllLinkRules {
    /// Returns the permission of a link for single connections. These go in both directions, so the
    /// stricter one applies.
    pub(crate) fn permission(&self, link: &Link) -> Permission {
        let rules = self.by_name.get(&link.name).copied().unwrap_or_default();
        if rules.up.rank() >= rules.down.rank() {
            rules.up
        } else {
            rules.down
        }
    }

    /// True if using the link costs nothing.
    pub(crate) fn is_free(&self, link: &Link) -> bool {
        let is_taken = matches!(
            self.permission(link),
            Permission::Preferred | Permission::Allowed
        );
        is_taken && !self.is_metered(link)
    }

    /// Returns the priority of a link, the lowest first; `None` if it is forbidden.
    pub fn place(&self, link: &Link) -> Option<u8> {
        match self.permission(link) {
            Permission::Forbidden(_) => None,
            permission => Some(permission.rank()),
        }
    }

    /// True if the link's signal is weak.
    pub(crate) fn is_weak(&self, link: &Link) -> bool {
        self.weak.contains(&link.name)
    }

    /// Returns the price of a gigabyte on the link.
    pub(crate) fn price(&self, link: &Link) -> f64 {
        self.by_name.get(&link.name).map_or(0.0, |it| it.price)
    }

    /// True if using the link costs money.
    pub(crate) fn is_metered(&self, link: &Link) -> bool {
        self.metered.contains(&link.name)
    }
}
