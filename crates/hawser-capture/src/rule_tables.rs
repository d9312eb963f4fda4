use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;

use aya::Ebpf;
use aya::maps::{Array, HashMap, LpmTrie, MapData};
use hawser_policy::{Rule, RuleSet};

use crate::maps::{replace, replace_trie, take};
use crate::process::is_outermost;
use crate::rules::{self, Names};
use crate::tables::{self, ApplicationKey, ApplicationRow, COMM, Links, Rules};
use crate::{CaptureError, Connection, group};

/// The tables of rules, and their sources.
pub(crate) struct RuleTables {
    rules: Array<MapData, Rules>,
    programs: LpmTrie<MapData, [u8; COMM], u64>,
    addresses: LpmTrie<MapData, [u8; 16], u64>,
    ports: LpmTrie<MapData, [u8; 4], u64>,
    users: HashMap<MapData, u32, u64>,
    cgroups: HashMap<MapData, u64, u64>,
    applications: HashMap<MapData, ApplicationKey, ApplicationRow>,
    set: RuleSet,
    /// True while the tables do not fully match the rules and the slots of links.
    pub(crate) due: bool,
    /// Control groups named in rules, as in the tables.
    groups: BTreeMap<String, Option<u64>>,
    /// Executables of programs, by program name and user.
    executables: BTreeMap<(String, u32), Option<String>>,
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
            due: false,
            groups: BTreeMap::new(),
            executables: BTreeMap::new(),
        })
    }

    /// Replaces the rules; [`Self::apply`] is due then.
    pub(crate) fn set(&mut self, rules: &RuleSet) {
        self.set = rules.clone();
        self.due = true;
    }

    /// Finds the executable of a connection's program, unless it is known or no rule needs it.
    /// Returns whether anything was learnt.
    pub(crate) fn learn(&mut self, connection: &Connection) -> Result<bool, CaptureError> {
        let key = (connection.program.clone(), connection.user);
        let is_known = self.executables.contains_key(&key);
        let needs_learning = |(_, rule): (u64, &Rule)| {
            let mut programs = rule.when.program.iter();
            !rule.when.executable.is_empty() || programs.any(rules::is_beyond_the_kernel)
        };
        if is_known || !rules::askable(self.set.rules()).any(needs_learning) {
            return Ok(false);
        }
        // Memory is bounded, also for programs that keep changing their name.
        if self.executables.len() >= MAX_APPLICATIONS {
            self.executables.clear();
        }
        let path = format!("/proc/{}/exe", connection.process);
        let file = is_outermost().then(|| fs::read_link(path).ok()).flatten();
        let file = file.map(|file| file.to_string_lossy().into_owned());
        self.executables.insert(key, file);
        let applied = self.apply_applications();
        self.due |= applied.is_err();
        applied.map(|()| true)
    }

    /// Detects control groups in rules that have been replaced: a restarted service gets a new
    /// group.
    pub(crate) fn look_for_groups(&mut self) {
        self.due |= named_groups(&self.set) != self.groups;
    }

    /// Writes the rules into the tables, for links in these slots; returns the number of rules
    /// without room.
    pub(crate) fn apply(&mut self, links: &Links) -> Result<usize, CaptureError> {
        let place = |name: &str| {
            let named = tables::comm(name);
            let is_it = |row: &tables::LinkRow| row.index != 0 && row.name == named;
            links.at.iter().position(is_it)
        };
        let groups = named_groups(&self.set);
        let names = Names {
            place: &place,
            cgroup: &|path| *groups.get(path)?,
        };
        let compiled = rules::compile(self.set.rules(), &names);
        replace_trie(&mut self.programs, &compiled.programs)?;
        replace_trie(&mut self.addresses, &compiled.addresses)?;
        replace_trie(&mut self.ports, &compiled.ports)?;
        replace(&mut self.users, compiled.users.into_iter())?;
        replace(&mut self.cgroups, compiled.cgroups.into_iter())?;
        self.rules.set(0, compiled.rules, 0)?;
        self.apply_applications()?;
        (self.groups, self.due) = (groups, false);
        Ok(compiled.left_out)
    }

    fn apply_applications(&mut self) -> Result<(), CaptureError> {
        let rules = &self.set;
        let rows = self.executables.iter().map(|((program, user), file)| {
            let key = ApplicationKey {
                program: tables::comm(program),
                user: *user,
            };
            (key, judge(rules.rules(), program, file.as_deref()))
        });
        replace(&mut self.applications, rows)
    }
}

/// Returns the control groups in rules, each with the kernel's number while it exists.
fn named_groups(rules: &RuleSet) -> BTreeMap<String, Option<u64>> {
    let named = rules::askable(rules.rules()).flat_map(|(_, rule)| &rule.when.cgroup);
    let mut mount = None;
    let mut number = |path: &str| {
        let mount = mount.get_or_insert_with(|| group::mount_point().ok());
        let folder = mount.as_ref()?.join(path.trim_start_matches('/'));
        fs::metadata(folder).ok().map(|data| data.ino())
    };
    named
        .map(|path| (path.as_str().to_owned(), number(path.as_str())))
        .collect()
}

/// Returns the bits of rules that match the program or its executable, where the kernel cannot
/// determine that.
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

/// Maximum number of applications, below the size of the kernel's table.
const MAX_APPLICATIONS: usize = 2048;
