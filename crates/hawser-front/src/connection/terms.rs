use std::collections::BTreeMap;

use hawser_net::links::Link;
use hawser_sched::rules::{Permission, Terms};

/// What the user allows on each link, by its name; what is not named is like any other.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct LinkTerms {
    /// When it is used.
    pub terms: BTreeMap<String, Terms>,
    /// Those whose use costs: they have a price or an allowance.
    pub metered: Vec<String>,
}

impl LinkTerms {
    /// What is allowed on a link to connections of their own: they go both ways, so the stricter of
    /// the two.
    pub(super) fn permission(&self, link: &Link) -> Permission {
        let terms = self.terms.get(&link.name).copied().unwrap_or_default();
        match rank(terms.up) >= rank(terms.down) {
            true => terms.up,
            false => terms.down,
        }
    }

    /// Whether using the link costs nothing.
    pub(super) fn is_free(&self, link: &Link) -> bool {
        let is_taken = matches!(
            self.permission(link),
            Permission::Preferred | Permission::Allowed
        );
        is_taken && !self.is_metered(link)
    }

    /// How readily a link is taken, the most readily first; `None` where it is forbidden.
    pub fn place(&self, link: &Link) -> Option<u8> {
        match self.permission(link) {
            Permission::Forbidden(_) => None,
            permission => Some(rank(permission)),
        }
    }

    pub(super) fn is_metered(&self, link: &Link) -> bool {
        self.metered.contains(&link.name)
    }
}

/// Lower is taken first.
pub(super) const fn rank(permission: Permission) -> u8 {
    match permission {
        Permission::Preferred => 0,
        Permission::Allowed => 1,
        Permission::Reserve(_) => 2,
        Permission::Forbidden(_) => 3,
    }
}
