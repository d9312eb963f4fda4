//! The user's rules in the tables of the kernel's program.

use hawser_policy::RuleSet;
use hawser_types::LinkIndex;

use crate::{Capture, CaptureError, Connection, rules, tables};

/// Result of setting rules in the kernel's program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RulesInForce {
    /// Number of rules in force.
    pub asked: usize,
    /// Number of rules left out because they name a domain, which the kernel does not know.
    pub by_domain: usize,
    /// Number of rules without room: those after the first [`crate::MAX_RULES`].
    pub left_out: usize,
}

impl Capture {
    /// Sets the rules for connections. Rules for missing links and control groups match nothing
    /// until the next [`Self::set_links`]. During the change, a connection may see parts of both
    /// sets. If the change fails, [`Self::set_links`] tries again.
    pub fn set_rules(&mut self, rules: &RuleSet) -> Result<RulesInForce, CaptureError> {
        self.rules.set(rules);
        let left_out = self.apply_rules()?;
        let by_domain = rules
            .rules()
            .iter()
            .filter(|rule| !rule.when.domain.is_empty());
        Ok(RulesInForce {
            asked: rules::askable(rules.rules()).count(),
            by_domain: by_domain.count(),
            left_out,
        })
    }

    /// Finds the executable of a connection's program, which the kernel does not know, so that
    /// rules on executables apply to the program's next connection. Returns whether anything was
    /// learnt.
    ///
    /// Call it for each [`crate::Event::Connected`]. It reads `/proc` once for each program and
    /// user, and never while no rule needs it.
    pub fn learn(&mut self, connection: &Connection) -> Result<bool, CaptureError> {
        self.rules.learn(connection)
    }

    /// Returns the existing links that rules left to a connection; `None` where no rule named
    /// links. Call it for each event before [`Self::set_links`] reuses their slots.
    pub fn left_by_rules(&self, connection: &Connection) -> Option<Vec<LinkIndex>> {
        let places = connection.places?;
        let table = self.tables.links.get(&0, 0).unwrap_or_default();
        let of_place = |(place, row): (usize, &tables::LinkRow)| {
            let is_left = row.index != 0 && places >> place & 1 != 0;
            is_left.then(|| LinkIndex::new(row.index))
        };
        Some(table.at.iter().enumerate().filter_map(of_place).collect())
    }

    /// Writes the rules into the tables; returns the number of rules without room.
    pub(crate) fn apply_rules(&mut self) -> Result<usize, CaptureError> {
        let links = self.tables.links.get(&0, 0)?;
        self.rules.apply(&links)
    }
}
