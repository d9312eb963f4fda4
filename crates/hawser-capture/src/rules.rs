//! Rules for connections, in the form that the kernel's program evaluates.
//!
//! Each rule is a bit. For every field of a condition the program looks up the bits of the matching
//! rules. The intersection of these sets are the rules that apply, and the lowest bit wins. So the
//! time does not grow with the rules, and there is no loop for the verifier.

use std::collections::BTreeMap;

use hawser_policy::{Avoid, Condition, LinkChoice, Mode, Pattern, PortRange, Protocol, Rule};
use hawser_sched::connection::Class;

use crate::maps::{MAPPED, Trie, prefix};
use crate::tables::{self, Action, COMM, MAX_LINKS, MAX_RULES, RULE_ORDER, Rules};

/// Contents of the kernel's tables.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Compiled {
    pub(crate) rules: Rules,
    pub(crate) programs: Trie<COMM>,
    pub(crate) addresses: Trie<16>,
    pub(crate) ports: Trie<4>,
    pub(crate) users: BTreeMap<u32, u64>,
    pub(crate) cgroups: BTreeMap<u64, u64>,
    /// Number of rules without room, the last ones.
    pub(crate) left_out: usize,
}

/// Lookups of names in rules.
pub(crate) struct Names<'a> {
    /// Slot of a link in the kernel's table.
    pub(crate) place: &'a dyn Fn(&str) -> Option<usize>,
    /// The kernel's number for a control group.
    pub(crate) cgroup: &'a dyn Fn(&str) -> Option<u64>,
}

/// Returns the rules that the kernel can evaluate, with their bits. The kernel never knows the
/// domain of a connection, and an unknown value matches nothing.
pub(crate) fn askable(rules: &[Rule]) -> impl Iterator<Item = (u64, &Rule)> {
    let rules = rules.iter().filter(|rule| rule.when.domain.is_empty());
    (0..MAX_RULES).map(|place| 1 << place).zip(rules)
}

pub(crate) fn compile(rules: &[Rule], names: &Names<'_>) -> Compiled {
    let mut compiled = Compiled::default();
    let mut programs = Vec::new();
    let mut addresses = vec![(MAPPED.0, MAPPED.1, 0)];
    let mut ports = Vec::new();
    let mut users = Vec::new();
    let mut cgroups = Vec::new();
    for (bit, rule) in askable(rules) {
        let when = &rule.when;
        add_free(&mut compiled.rules, bit, when);
        let found = when.program.iter().filter_map(program_prefix);
        programs.extend(found.map(|(bits, key)| (bits, key, bit)));
        let found = when.address.iter().map(prefix);
        addresses.extend(found.map(|(bits, key)| (bits, key, bit)));
        let found = when.port.iter().flat_map(port_prefixes);
        ports.extend(found.map(|(bits, key)| (bits, key, bit)));
        users.extend(when.user.iter().map(|user| (user.id(), bit)));
        let found = when
            .cgroup
            .iter()
            .filter_map(|path| (names.cgroup)(path.as_str()));
        cgroups.extend(found.map(|number| (number, bit)));
        add_action(&mut compiled.rules, bit, rule, names);
    }
    let free = &compiled.rules;
    compiled.programs = trie(&programs, free.program_free, |_, _| true);
    // A short IPv6 prefix must not match IPv4-mapped addresses.
    let is_ipv4 = |bits, key: &[u8]| bits >= MAPPED.0 && agree(&MAPPED.1, key, MAPPED.0);
    compiled.addresses = trie(&addresses, free.address_free, is_ipv4);
    compiled.ports = trie(&ports, free.port_free, |_, _| true);
    compiled.users = table(&users, free.user_free);
    compiled.cgroups = table(&cgroups, 0);
    let all = rules.iter().filter(|rule| rule.when.domain.is_empty());
    compiled.left_out = all.count().saturating_sub(MAX_RULES);
    compiled
}

/// Tells whether the kernel's table cannot express the pattern: a star not at its end.
pub(crate) fn is_beyond_the_kernel(pattern: &Pattern) -> bool {
    pattern.literal().is_none() && stem(pattern).is_none()
}

/// Sets the bits of fields without a condition, and of fields with few values.
fn add_free(rules: &mut Rules, bit: u64, when: &Condition) {
    let mark = |mask: &mut u64, is: bool| *mask |= if is { bit } else { 0 };
    for (mask, protocol) in rules.protocol.iter_mut().zip(Protocol::ALL) {
        mark(mask, when.protocol.is_none_or(|wanted| wanted == protocol));
    }
    for (mask, dscp) in rules.dscp.iter_mut().zip(0..) {
        let fits = when.dscp.iter().any(|wanted| wanted.value() == dscp);
        mark(mask, when.dscp.is_empty() || fits);
    }
    for (mask, class) in rules.class.iter_mut().zip(Class::ALL) {
        mark(mask, when.class.is_empty() || when.class.contains(&class));
    }
    mark(&mut rules.class_free, when.class.is_empty());
    mark(&mut rules.program_free, when.program.is_empty());
    mark(&mut rules.executable_free, when.executable.is_empty());
    mark(&mut rules.user_free, when.user.is_empty());
    mark(&mut rules.cgroup_free, when.cgroup.is_empty());
    mark(&mut rules.address_free, when.address.is_empty());
    mark(&mut rules.port_free, when.port.is_empty());
}

fn add_action(rules: &mut Rules, bit: u64, rule: &Rule, names: &Names<'_>) {
    let mut action = Action {
        order: [NO_PLACE; RULE_ORDER],
        ..Action::default()
    };
    if let Some(class) = rule.then.class {
        rules.sets_class |= bit;
        action.class = class_number(class);
    }
    if let Some(mode) = rule.then.mode {
        rules.sets_mode |= bit;
        action.mode = mode_number(mode);
    }
    if let Some(avoid) = &rule.then.avoid {
        rules.sets_avoid |= bit;
        action.avoid = avoid.iter().fold(0, |mask, avoid| mask | avoid_bit(*avoid));
    }
    if let Some(links) = &rule.then.links {
        rules.sets_links |= bit;
        let places: Vec<usize> = links
            .names()
            .iter()
            .filter_map(|name| (names.place)(name))
            .collect();
        let mask = places.iter().fold(0, |mask, place| mask | 1_u32 << place);
        action.links = match links {
            LinkChoice::Any => u32::MAX,
            LinkChoice::Only(_) | LinkChoice::Order(_) => mask,
            // Never all bits: the rule names links, even if none of them exists.
            LinkChoice::Except(_) => EVERY_PLACE & !mask,
        };
        if matches!(links, LinkChoice::Order(_)) {
            for (to, place) in action.order.iter_mut().zip(places) {
                *to = u8::try_from(place).unwrap_or(NO_PLACE);
            }
        }
    }
    rules.at[bit.trailing_zeros() as usize] = action;
}

/// Returns the entry of a pattern in the table of names: a whole name or a prefix.
fn program_prefix(pattern: &Pattern) -> Option<(u32, [u8; COMM])> {
    if let Some(name) = pattern.literal() {
        return Some((8 * COMM as u32, tables::comm(name)));
    }
    // A prefix longer than any name matches none.
    let stem = stem(pattern).filter(|stem| stem.len() < COMM)?;
    Some((8 * stem.len() as u32, tables::comm(stem)))
}

/// Returns the text before the star, if that is the last character and the only star.
fn stem(pattern: &Pattern) -> Option<&str> {
    let stem = pattern.as_str().strip_suffix('*')?;
    (!stem.contains('*')).then_some(stem)
}

/// Splits a range of ports into prefixes: the largest that starts at its first port and does not
/// exceed its last, and so on.
fn port_prefixes(range: &PortRange) -> Vec<(u32, [u8; 4])> {
    let mut prefixes = Vec::new();
    let mut next = u32::from(range.first());
    let last = u32::from(range.last());
    while next <= last {
        let fits = |size: u32| next % (1 << size) == 0 && next + (1 << size) - 1 <= last;
        let size = (0..=16).rev().find(|size| fits(*size)).unwrap_or(0);
        let [_, _, high, low] = next.to_be_bytes();
        prefixes.push((16 - size, [high, low, 0, 0]));
        next += 1 << size;
    }
    prefixes
}

/// Builds a trie. The kernel's lookup finds the longest prefix, so each prefix has the bits of all
/// shorter prefixes of the same kind that contain it.
fn trie<const N: usize>(
    entries: &[(u32, [u8; N], u64)],
    free: u64,
    kind: fn(u32, &[u8]) -> bool,
) -> Trie<N> {
    let all = |bits: u32, key: &[u8; N]| {
        let holds = |entry: &&(u32, [u8; N], u64)| {
            let is_alike = kind(entry.0, &entry.1) == kind(bits, key);
            is_alike && entry.0 <= bits && agree(&entry.1, key, entry.0)
        };
        let held = entries.iter().filter(holds);
        held.fold(free, |mask, entry| mask | entry.2)
    };
    let rows = entries.iter();
    rows.map(|(bits, key, _)| ((*bits, *key), all(*bits, key)))
        .collect()
}

/// Tells whether the first `bits` bits are equal.
fn agree(a: &[u8], b: &[u8], bits: u32) -> bool {
    let (whole, rest) = (bits as usize / 8, bits % 8);
    let same = a[..whole] == b[..whole];
    let mask = !(u8::MAX.checked_shr(rest).unwrap_or(0));
    same && (rest == 0 || (a[whole] ^ b[whole]) & mask == 0)
}

fn table<K: Ord + Copy>(entries: &[(K, u64)], free: u64) -> BTreeMap<K, u64> {
    let mut table = BTreeMap::new();
    for (key, bit) in entries {
        *table.entry(*key).or_insert(free) |= bit;
    }
    table
}

const fn class_number(class: Class) -> u32 {
    match class {
        Class::RealTime => 0,
        Class::Interactive => 1,
        Class::Bulk => 2,
        Class::Unknown => 3,
    }
}

const fn mode_number(mode: Mode) -> u32 {
    match mode {
        Mode::Auto => 0,
        Mode::Direct => 1,
        Mode::Bonded => 2,
        Mode::Packet => 3,
    }
}

const fn avoid_bit(avoid: Avoid) -> u32 {
    match avoid {
        Avoid::Metered => 1,
        Avoid::Calls => 2,
    }
}

const NO_PLACE: u8 = 0xff;
const EVERY_PLACE: u32 = (1 << MAX_LINKS) - 1;

#[cfg(test)]
mod tests;
