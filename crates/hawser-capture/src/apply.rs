//! From the user's rules to the tables of the kernel's program.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;

use aya::Ebpf;
use aya::maps::{Array, HashMap, LpmTrie, MapData};
use hawser_policy::{Rule, RuleSet};

use crate::maps::{replace, replace_trie, take};
use crate::rules::{self, Names};
use crate::tables::{self, ApplicationKey, ApplicationRow, COMM, Rules};
use crate::{Capture, CaptureError, Connection, group};

/// The tables that rules are in, and what they were made of.
pub(crate) struct RuleTables {
    rules: Array<MapData, Rules>,
    programs: LpmTrie<MapData, [u8; COMM], u64>,
    addresses: LpmTrie<MapData, [u8; 16], u64>,
    ports: LpmTrie<MapData, [u8; 4], u64>,
    users: HashMap<MapData, u32, u64>,
    cgroups: HashMap<MapData, u64, u64>,
    applications: HashMap<MapData, ApplicationKey, ApplicationRow>,
    set: RuleSet,
    /// Files of programs, by the program's name and the user.
    executables: BTreeMap<(String, u32), Option<String>>,
}

/// What rules have come to in the kernel's program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RulesInForce {
    /// Rules that it asks.
    pub asked: usize,
    /// Rules that it can't ask, since they name a domain, which nobody knows there.
    pub by_domain: usize,
    /// Rules that it has no room for: those after the first [`crate::MAX_RULES`].
    pub left_out: usize,
}

impl fmt::Debug for RuleTables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuleTables")
            .field("set", &self.set)
            .finish_non_exhaustive()
    }
}

impl RuleTables {
    pub(crate) fn of(programs: &mut Ebpf) -> Result<Self, CaptureError> {
        Ok(Self {
            rules: Array::try_from(take(programs, "RULES")?)?,
            programs: LpmTrie::try_from(take(programs, "RULE_PROGRAMS")?)?,
            addresses: LpmTrie::try_from(take(programs, "RULE_ADDRESSES")?)?,
            ports: LpmTrie::try_from(take(programs, "RULE_PORTS")?)?,
            users: HashMap::try_from(take(programs, "RULE_USERS")?)?,
            cgroups: HashMap::try_from(take(programs, "RULE_CGROUPS")?)?,
            applications: HashMap::try_from(take(programs, "APPLICATIONS")?)?,
            set: RuleSet::default(),
            executables: BTreeMap::new(),
        })
    }
}

impl Capture {
    /// The rules that connections are judged by, from now on. Those for links and control groups
    /// that are not there match nothing until [`Self::set_links`] or this is called again. While
    /// the tables change, some connections are judged by neither set in full.
    pub fn set_rules(&mut self, rules: &RuleSet) -> Result<RulesInForce, CaptureError> {
        self.rules.set = rules.clone();
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

    /// Finds out what the kernel can't know of a connection's program, its file, so that its next
    /// connection is judged by that, too. Gives whether anything was learnt.
    ///
    /// For each [`crate::Event::Connected`]. Asks `/proc` once for each program and user, and not
    /// at all while no rule needs it.
    pub fn learn(&mut self, connection: &Connection) -> Result<bool, CaptureError> {
        let key = (connection.program.clone(), connection.user);
        let is_known = self.rules.executables.contains_key(&key);
        if is_known || !rules::askable(self.rules.set.rules()).any(needs_learning) {
            return Ok(false);
        }
        // A bounded memory: whoever changes its name all the time is not remembered for ever.
        if self.rules.executables.len() >= MAX_APPLICATIONS {
            self.rules.executables.clear();
        }
        let file = fs::read_link(format!("/proc/{}/exe", connection.process)).ok();
        let file = file.map(|file| file.to_string_lossy().into_owned());
        self.rules.executables.insert(key, file);
        self.apply_applications()?;
        Ok(true)
    }

    /// Writes the rules into the tables; gives how many had no room.
    pub(crate) fn apply_rules(&mut self) -> Result<usize, CaptureError> {
        let table = self.tables.links.get(&0, 0)?;
        let place = |name: &str| {
            let named = tables::comm(name);
            let is_it = |row: &tables::LinkRow| row.index != 0 && row.name == named;
            table.at.iter().position(is_it)
        };
        let mount = group::mount_point().ok();
        let cgroup = |path: &str| {
            let folder = mount.as_ref()?.join(path.trim_start_matches('/'));
            fs::metadata(folder).ok().map(|data| data.ino())
        };
        let names = Names {
            place: &place,
            cgroup: &cgroup,
        };
        let compiled = rules::compile(self.rules.set.rules(), &names);
        let to = &mut self.rules;
        replace_trie(&mut to.programs, &compiled.programs)?;
        replace_trie(&mut to.addresses, &compiled.addresses)?;
        replace_trie(&mut to.ports, &compiled.ports)?;
        replace(&mut to.users, compiled.users.into_iter())?;
        replace(&mut to.cgroups, compiled.cgroups.into_iter())?;
        to.rules.set(0, compiled.rules, 0)?;
        self.apply_applications()?;
        Ok(compiled.left_out)
    }

    fn apply_applications(&mut self) -> Result<(), CaptureError> {
        let rules = &self.rules.set;
        let rows = self
            .rules
            .executables
            .iter()
            .map(|((program, user), file)| {
                let key = ApplicationKey {
                    program: tables::comm(program),
                    user: *user,
                };
                (key, judge(rules.rules(), program, file.as_deref()))
            });
        replace(&mut self.rules.applications, rows)
    }
}

/// The bits of the rules that fit where the kernel can't tell.
fn judge(rules: &[Rule], program: &str, file: Option<&str>) -> ApplicationRow {
    let mut row = ApplicationRow::default();
    for (bit, rule) in rules::askable(rules) {
        let mut beyond = rule
            .when
            .program
            .iter()
            .filter(|p| rules::is_beyond_the_kernel(p));
        if beyond.any(|pattern| pattern.matches_program(program)) {
            row.program |= bit;
        }
        if file.is_some_and(|file| rule.when.executable.iter().any(|p| p.matches(file))) {
            row.executable |= bit;
        }
    }
    row
}

fn needs_learning((_, rule): (u64, &Rule)) -> bool {
    !rule.when.executable.is_empty() || rule.when.program.iter().any(rules::is_beyond_the_kernel)
}

/// Fewer than the kernel's table has room for.
const MAX_APPLICATIONS: usize = 2048;
