use hawser_sched::PathView;
use hawser_sched::rules::LinkRules;
use hawser_types::{LinkIndex, Permission};
use hawser_wire::LinkRulesEntry;

/// The user's rules for one link, in the direction in which this side sends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SendRules {
    permission: Permission,
    weight: f64,
    price: f64,
    price_weight: f64,
}

impl SendRules {
    /// Returns what the rules allow.
    pub(crate) fn permission(&self) -> Permission {
        self.permission
    }

    /// True if the link is to be used ahead of others.
    pub(crate) fn is_preferred(&self) -> bool {
        self.permission == Permission::Preferred
    }

    /// Puts weights and prices into a view.
    pub(crate) fn fill(&self, view: &mut PathView) {
        view.weight = self.weight;
        view.price = self.price;
        view.price_weight = self.price_weight;
        view.preferred = self.is_preferred();
    }

    /// Returns the rules for a chooser of paths, which knows this direction only.
    pub(crate) fn as_link_rules(&self) -> LinkRules {
        LinkRules {
            up: self.permission,
            down: Permission::Allowed,
            weight: self.weight,
            price: self.price,
            price_weight: self.price_weight,
        }
    }
}

impl Default for SendRules {
    fn default() -> Self {
        Self::from(&LinkRules::default())
    }
}

impl From<&LinkRules> for SendRules {
    /// Takes what holds for the client's direction.
    fn from(rules: &LinkRules) -> Self {
        Self {
            permission: rules.up,
            weight: rules.weight,
            price: rules.price,
            price_weight: rules.price_weight,
        }
    }
}

impl From<&LinkRulesEntry> for SendRules {
    fn from(entry: &LinkRulesEntry) -> Self {
        Self {
            permission: entry.permission,
            weight: f64::from(entry.weight) / 1e3,
            price: entry.price as f64 / 1e6,
            price_weight: f64::from(entry.price_weight) / 1e3,
        }
    }
}

/// Returns what the gateway is to be told of a link. A value outside the protocol's range becomes
/// the nearest one within it.
pub(crate) fn for_gateway(link: LinkIndex, rules: &LinkRules) -> LinkRulesEntry {
    let parts = |value: f64, parts: f64, most: u64| ((value * parts).round() as u64).min(most);
    LinkRulesEntry {
        link: link.value(),
        permission: rules.down,
        weight: parts(rules.weight, 1e3, LinkRulesEntry::MAX_WEIGHT.into()).max(1) as u32,
        price: parts(rules.price, 1e6, LinkRulesEntry::MAX_PRICE),
        price_weight: parts(
            rules.price_weight,
            1e3,
            LinkRulesEntry::MAX_PRICE_WEIGHT.into(),
        ) as u32,
    }
}
