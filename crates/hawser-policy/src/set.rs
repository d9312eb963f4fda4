use hawser_sched::connection::Class;

use crate::{Action, Avoid, Facts, LinkChoice, Miss, Mode, Rule};

/// Rules in order of precedence.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct RuleSet {
    rules: Vec<Rule>,
}

/// The rules' verdict on a connection. Fields `…_by` are indices of the deciding rules in
/// [`RuleSet::rules`]; `None` where no rule decided.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Verdict {
    /// Class of the connection.
    pub class: Class,
    /// Rule that set the class.
    pub class_by: Option<usize>,
    /// Links that it may use.
    pub links: LinkChoice,
    /// Rule that set the links.
    pub links_by: Option<usize>,
    /// Links that it uses only if there is no other.
    pub avoid: Vec<Avoid>,
    /// Rule that set the links to avoid.
    pub avoid_by: Option<usize>,
    /// Bonding of the connection.
    pub mode: Mode,
    /// Rule that set the bonding.
    pub mode_by: Option<usize>,
}

impl Verdict {
    /// Returns true if the connection may go over a session, which uses every link.
    pub fn may_use_all_links(&self) -> bool {
        let may_be_any = self.links == LinkChoice::Any && self.avoid.is_empty();
        self.mode != Mode::Direct && may_be_any
    }
}

/// Result of one rule for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explained<'a> {
    /// The rule.
    pub rule: &'a Rule,
    /// `Ok` if it applies, or the first field that does not match.
    pub applies: Result<(), Miss>,
}

impl RuleSet {
    /// Creates a set sorted by origin: the session's rules, the user's, the profile's, the built-in
    /// ones, each in the given order.
    pub fn new(rules: impl IntoIterator<Item = Rule>) -> Self {
        let mut rules: Vec<Rule> = rules.into_iter().collect();
        rules.sort_by_key(|rule| rule.source);
        Self { rules }
    }

    /// Returns the rules in order of precedence.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Judges a connection: each field is set by the first rule that applies and sets it.
    ///
    /// The class is determined first, by rules without a condition on the class; then the rest.
    pub fn judge(&self, facts: &Facts<'_>) -> Verdict {
        let mut verdict = Verdict::default();
        let class = |rule: &Rule| rule.then.class;
        if let Some((place, class)) = self.first(facts, None, class) {
            (verdict.class, verdict.class_by) = (class, Some(place));
        }
        let known = Some(verdict.class);
        if let Some((place, links)) = self.first(facts, known, |rule| rule.then.links.clone()) {
            (verdict.links, verdict.links_by) = (links, Some(place));
        }
        if let Some((place, avoid)) = self.first(facts, known, |rule| rule.then.avoid.clone()) {
            (verdict.avoid, verdict.avoid_by) = (avoid, Some(place));
        }
        if let Some((place, mode)) = self.first(facts, known, |rule| rule.then.mode) {
            (verdict.mode, verdict.mode_by) = (mode, Some(place));
        }
        verdict
    }

    /// Tells whether any rule sets more than the class: links, links to avoid, or bonding.
    pub fn chooses_ways(&self) -> bool {
        let ways =
            |then: &Action| then.links.is_some() || then.avoid.is_some() || then.mode.is_some();
        self.rules.iter().any(|rule| ways(&rule.then))
    }

    /// Tells whether any rule restricts connections to links, or keeps them off the gateway, by
    /// their process: such a rule is violated where the process is unknown. A rule for bonding does
    /// not count, since a connection that cannot be bonded goes direct.
    pub fn binds_askers(&self) -> bool {
        self.rules.iter().any(|rule| {
            let is_direct = rule.then.mode == Some(Mode::Direct);
            let binds = rule.then.links.is_some() || is_direct;
            binds && rule.when.asks_who()
        })
    }

    /// Returns the result of each rule for a connection, in the order of [`Self::rules`].
    pub fn explain(&self, facts: &Facts<'_>) -> Vec<Explained<'_>> {
        let class = self.judge(facts).class;
        let explain = |rule| Explained {
            rule,
            applies: Rule::applies(rule, facts, Some(class)),
        };
        self.rules.iter().map(explain).collect()
    }

    fn first<T>(
        &self,
        facts: &Facts<'_>,
        class: Option<Class>,
        says: impl Fn(&Rule) -> Option<T>,
    ) -> Option<(usize, T)> {
        self.rules.iter().enumerate().find_map(|(place, rule)| {
            let said = says(rule)?;
            rule.applies(facts, class).ok()?;
            Some((place, said))
        })
    }
}

impl Rule {
    fn applies(&self, facts: &Facts<'_>, class: Option<Class>) -> Result<(), Miss> {
        self.when.test(facts, class)
    }
}

#[cfg(test)]
mod tests;
