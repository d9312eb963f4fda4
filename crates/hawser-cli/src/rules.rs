//! The user's rules for links: what the configuration says of them, and what was changed since.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hawser_config::Config;
use hawser_control::LinkUse;
use hawser_net::links::Link;
use hawser_net::unix_time::UnixTime;
use hawser_sched::rules::{Date, Permission, Rule, Terms, Usage, Use, exclusion};

/// The rules in force, by the names of links.
#[derive(Debug)]
pub(crate) struct LinkRules {
    rules: Mutex<BTreeMap<String, Rule>>,
}

impl LinkRules {
    /// As the configuration has them.
    pub(crate) fn of(config: &Config) -> Self {
        let rules = config.links.iter();
        let rules = rules.map(|link| (link.name.clone(), link.rule)).collect();
        Self {
            rules: Mutex::new(rules),
        }
    }

    /// Uses the link called `name` otherwise from now on; what is `None` stays as it is.
    pub(crate) fn set_use(&self, name: &str, up: Option<LinkUse>, down: Option<LinkUse>) {
        let mut rules = self.lock();
        let rule = rules.entry(name.to_owned()).or_default();
        rule.up = up.map_or(rule.up, to_rule);
        rule.down = down.map_or(rule.down, to_rule);
    }

    /// What the rules come to today.
    pub(crate) fn terms(&self) -> BTreeMap<String, Terms> {
        let today = today();
        let terms = |rule: &Rule| {
            let reset_day = rule.allowance.map_or(1, |allowance| allowance.reset_day);
            rule.terms(&Usage::begin(today, reset_day), today)
        };
        let rules = self.lock();
        let all = rules.iter().map(|(name, rule)| (name.clone(), terms(rule)));
        all.collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Rule>> {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Those of `links` that a connection of its own may take: it goes both ways.
pub(crate) fn permitted(links: Vec<Link>, terms: &BTreeMap<String, Terms>) -> Vec<Link> {
    let permission = |link: &Link| {
        let terms = terms.get(&link.name).copied().unwrap_or_default();
        stricter(terms.up, terms.down)
    };
    let living: Vec<Permission> = links.iter().map(permission).collect();
    let is_used = |link: &Link| exclusion(permission(link), &living).is_none();
    let is_preferred = |link: &&Link| permission(link) == Permission::Preferred;
    let used: Vec<Link> = links.into_iter().filter(is_used).collect();
    match used.iter().any(|link| is_preferred(&link)) {
        true => used.iter().filter(is_preferred).cloned().collect(),
        false => used,
    }
}

fn stricter(a: Permission, b: Permission) -> Permission {
    let rank = |permission: Permission| match permission {
        Permission::Preferred => 0,
        Permission::Allowed => 1,
        Permission::Reserve(_) => 2,
        Permission::Forbidden(_) => 3,
    };
    if rank(a) >= rank(b) { a } else { b }
}

fn to_rule(usage: LinkUse) -> Use {
    match usage {
        LinkUse::Prefer => Use::Prefer,
        LinkUse::Backup => Use::Backup,
        LinkUse::Never => Use::Never,
        _ => Use::Normal,
    }
}

fn today() -> Date {
    Date::after_1970(UnixTime::now().as_secs() / 86_400)
}

#[cfg(test)]
mod tests {
    use hawser_net::links::LinkKind;

    use super::*;

    fn link(name: &str) -> Link {
        Link {
            index: 1,
            name: name.to_owned(),
            kind: LinkKind::Hardware,
            addresses: Vec::new(),
            enabled: true,
            up: true,
            has_default_route_v4: true,
            has_default_route_v6: false,
            loopback: false,
        }
    }

    #[test]
    fn single_connections_keep_to_the_rules_too() {
        let config =
            "[[link]]\nname = \"b\"\nup = \"backup\"\n[[link]]\nname = \"c\"\nuse = \"never\"";
        let rules = LinkRules::of(&Config::parse("test", config).unwrap());
        let used = |names: &[&str]| {
            let links = names.iter().map(|name| link(name)).collect();
            let used = permitted(links, &rules.terms());
            used.into_iter().map(|link| link.name).collect::<Vec<_>>()
        };
        assert_eq!(used(&["a", "b", "c"]), ["a"]);
        assert_eq!(used(&["b", "c"]), ["b"]);
        assert!(used(&["c"]).is_empty());
        rules.set_use("c", None, Some(LinkUse::Prefer));
        assert!(used(&["c"]).is_empty());
        rules.set_use("c", Some(LinkUse::Prefer), None);
        assert_eq!(used(&["a", "b", "c"]), ["c"]);
    }
}
