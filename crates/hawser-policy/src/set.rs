use hawser_sched::connection::Class;

use crate::{Action, Avoid, Facts, LinkChoice, Miss, Mode, Rule};

/// Rules in the order in which they are asked.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct RuleSet {
    rules: Vec<Rule>,
}

/// What the rules make of a connection. The places are those of the rules, in [`RuleSet::rules`],
/// that said so; `None` where none did.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Verdict {
    /// What kind of connection it is.
    pub class: Class,
    /// The rule for that.
    pub class_by: Option<usize>,
    /// Which links it may take.
    pub links: LinkChoice,
    /// The rule for that.
    pub links_by: Option<usize>,
    /// Which links it takes only if there is no other.
    pub avoid: Vec<Avoid>,
    /// The rule for that.
    pub avoid_by: Option<usize>,
    /// Whether it is bonded.
    pub mode: Mode,
    /// The rule for that.
    pub mode_by: Option<usize>,
}

/// What one rule has to do with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Explained<'a> {
    /// The rule.
    pub rule: &'a Rule,
    /// Whether it applies, or the first field that does not fit.
    pub applies: Result<(), Miss>,
}

impl RuleSet {
    /// `rules` by where they stand: the session's, the user's, the profile's, the built-in ones, each
    /// in the order given.
    pub fn new(rules: impl IntoIterator<Item = Rule>) -> Self {
        let mut rules: Vec<Rule> = rules.into_iter().collect();
        rules.sort_by_key(|rule| rule.source);
        Self { rules }
    }

    /// The rules, the one that is asked first at the front.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// What they make of a connection: of each field, what the first says that applies and says
    /// anything of it.
    ///
    /// The class comes first, from the rules that do not ask for it; then the rest.
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

    /// Whether any rule says more than of what class a connection is: which links it may take, which
    /// to avoid, or whether it is bonded.
    pub fn chooses_ways(&self) -> bool {
        let ways =
            |then: &Action| then.links.is_some() || then.avoid.is_some() || then.mode.is_some();
        self.rules.iter().any(|rule| ways(&rule.then))
    }

    /// Whether any rule keeps connections to links, or off the gateway, by who makes them: such a rule is
    /// broken where that is not known. What is to be bonded goes straight where it can't be, so that this
    /// is no promise.
    pub fn binds_askers(&self) -> bool {
        self.rules.iter().any(|rule| {
            let is_direct = rule.then.mode == Some(Mode::Direct);
            let binds = rule.then.links.is_some() || is_direct;
            binds && rule.when.asks_who()
        })
    }

    /// What each rule has to do with a connection, in the order of [`Self::rules`].
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
