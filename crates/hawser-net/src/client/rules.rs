//! Applies the user's rules, which name links, to sessions, which number links.

use std::collections::BTreeMap;

use hawser_sched::rules::LinkRules;

use super::Client;
use super::shared::ClientState;
use crate::driver::Driver;
use hawser_link::links::Link;

impl Client {
    /// Sets the user's rules for links, by name, in place of earlier ones. They apply to the
    /// running session and to later ones. A link that may not be used in either direction loses its
    /// connections, and gets no new ones.
    pub fn set_rules(&self, rules: BTreeMap<String, LinkRules>) {
        self.shared.rules.send_if_modified(|old| {
            let differs = *old != rules;
            *old = rules;
            differs
        });
    }
}

impl ClientState {
    /// True if the rules forbid all use of the link, connections included.
    pub(super) fn is_forbidden(&self, link: &Link) -> bool {
        let rules = self.rules.borrow();
        rules.get(&link.name).is_some_and(LinkRules::forbid_all)
    }

    /// Tells a session the rules for the present links.
    pub(super) fn tell_rules(&self, driver: &Driver) {
        let rules = self.rules.borrow().clone();
        let links = self.links.borrow().clone();
        let known = links.iter().filter_map(|link| {
            let rules = rules.get(&link.name)?;
            Some((link.index, *rules))
        });
        let known = known.collect();
        driver.with(|session, now| session.set_rules(now, &known));
    }
}
