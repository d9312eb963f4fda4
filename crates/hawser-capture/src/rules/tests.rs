use hawser_policy::{Action as Says, Facts, RuleSet};
use rand::prelude::*;

use super::*;

/// Evaluates a connection by these tables as the kernel's program does, step by step as in `judge`
/// of `bpf/capture.c`: class, links, avoid, mode.
fn ask(compiled: &Compiled, facts: &Facts<'_>) -> (u32, u32, [u8; RULE_ORDER], u32, u32) {
    let rules = &compiled.rules;
    let found = |bits: Option<u64>, free: u64| bits.unwrap_or(free);
    let program = tables::comm(facts.program.unwrap());
    let [high, low] = facts.port.to_be_bytes();
    let user = facts.user.unwrap();
    let mut fitting = rules.protocol[facts.protocol as usize]
        & rules.dscp[usize::from(facts.dscp.unwrap())]
        & rules.executable_free
        & found(longest(&compiled.programs, program), rules.program_free)
        & found(compiled.users.get(&user).copied(), rules.user_free)
        & found(longest(&compiled.ports, [high, low, 0, 0]), rules.port_free)
        & found(
            longest(&compiled.addresses, tables::mapped(facts.remote.unwrap())),
            rules.address_free,
        )
        & rules.cgroup_free;
    let first = |mask: u64| (mask != 0).then(|| rules.at[mask.trailing_zeros() as usize]);
    let class = first(fitting & rules.class_free & rules.sets_class).map_or(3, |a| a.class);
    fitting &= rules.class[class as usize];
    let links = first(fitting & rules.sets_links);
    (
        class,
        links.map_or(u32::MAX, |action| action.links),
        links.map_or([NO_PLACE; RULE_ORDER], |action| action.order),
        first(fitting & rules.sets_avoid).map_or(0, |action| action.avoid),
        first(fitting & rules.sets_mode).map_or(0, |action| action.mode),
    )
}

fn longest<const N: usize>(trie: &Trie<N>, key: [u8; N]) -> Option<u64> {
    let fits = trie
        .iter()
        .filter(|((bits, prefix), _)| agree(prefix, &key, *bits));
    fits.max_by_key(|((bits, _), _)| *bits)
        .map(|(_, mask)| *mask)
}

const LINKS: [&str; 3] = ["west", "east", "gone"];

fn place(name: &str) -> Option<usize> {
    LINKS[..2].iter().position(|link| *link == name)
}

fn names() -> Names<'static> {
    Names {
        place: &place,
        cgroup: &|_| None,
    }
}

/// Evaluates the connection by the shared rule set.
fn expected(rules: &RuleSet, facts: &Facts<'_>) -> (u32, u32, [u8; RULE_ORDER], u32, u32) {
    let verdict = rules.judge(facts);
    let rule = Rule {
        then: Says {
            class: Some(verdict.class),
            links: Some(verdict.links),
            avoid: Some(verdict.avoid),
            mode: Some(verdict.mode),
        },
        ..Rule::default()
    };
    let mut rules = Rules::default();
    add_action(&mut rules, 1, &rule, &names());
    let Action {
        class,
        mode,
        avoid,
        links,
        order,
    } = rules.at[0];
    (class, links, order, avoid, mode)
}

fn some<T: Clone>(random: &mut StdRng, all: &[T]) -> Vec<T> {
    let count = random.random_range(0..3_usize).saturating_sub(1);
    (0..count)
        .map(|_| all.choose(random).unwrap().clone())
        .collect()
}

fn parsed<T: std::str::FromStr>(texts: &[&str]) -> Vec<T> {
    let parse = |text: &&str| text.parse().ok();
    texts.iter().map(|text| parse(text).unwrap()).collect()
}

fn any_rule(random: &mut StdRng) -> Rule {
    let when = Condition {
        program: some(
            random,
            &parsed(&["curl", "cur*", "c*", "transmission-daemon", "*"]),
        ),
        user: some(random, &[0.into(), 1000.into()]),
        address: some(
            random,
            &parsed(&[
                "0.0.0.0/0",
                "::/0",
                "10.0.0.0/8",
                "10.1.0.0/16",
                "fd00::/8",
                "10.1.2.3/32",
            ]),
        ),
        port: some(
            random,
            &parsed(&["80", "1-1023", "443-8443", "1-65535", "50000-60001"]),
        ),
        protocol: some(random, &Protocol::ALL).first().copied(),
        dscp: some(random, &parsed(&["ef", "cs1"])),
        class: some(random, &Class::ALL),
        ..Condition::default()
    };
    let named = |random: &mut StdRng| some(random, &LINKS.map(str::to_owned));
    let links = match random.random_range(0..6) {
        0 => Some(LinkChoice::Any),
        1 => Some(LinkChoice::Only(named(random))),
        2 => Some(LinkChoice::Order(named(random))),
        3 => Some(LinkChoice::Except(named(random))),
        _ => None,
    };
    let class = some(random, &Class::ALL).first().copied();
    let then = Says {
        class: class.filter(|_| when.class.is_empty()),
        links,
        avoid: random.random_bool(0.3).then(|| some(random, Avoid::ALL)),
        mode: some(random, Mode::ALL).first().copied(),
    };
    Rule {
        when,
        then,
        ..Rule::default()
    }
}

#[test]
fn the_tables_say_what_the_rules_say() {
    let mut random = StdRng::seed_from_u64(7);
    let mut judged = 0;
    for _ in 0..400 {
        let count = random.random_range(1..30);
        let rules = RuleSet::new((0..count).map(|_| any_rule(&mut random)));
        let compiled = compile(rules.rules(), &names());
        for _ in 0..25 {
            let remotes = [
                "10.1.2.3", "10.1.9.9", "10.9.9.9", "8.8.8.8", "fd00::1", "2001::1",
            ];
            let facts = Facts {
                program: ["curl", "curly", "cat", "transmission-da", "bash"]
                    .choose(&mut random)
                    .copied(),
                user: [0, 1000, 1001].choose(&mut random).copied(),
                dscp: [0, 8, 46].choose(&mut random).copied(),
                ..Facts::to(
                    *Protocol::ALL.choose(&mut random).unwrap(),
                    remotes.choose(&mut random).unwrap().parse().ok(),
                    *[80, 443, 1023, 1024, 60_001, 60_002, 1]
                        .choose(&mut random)
                        .unwrap(),
                )
            };
            let answer = ask(&compiled, &facts);
            judged += u32::from(answer != (3, u32::MAX, [NO_PLACE; RULE_ORDER], 0, 0));
            assert_eq!(answer, expected(&rules, &facts), "{facts:?} {rules:?}");
        }
    }
    assert!(
        judged > 5_000,
        "most had a rule that says something: {judged}"
    );
}

#[test]
fn ranges_of_ports_are_cut_into_prefixes() {
    for text in ["1-65535", "443", "1-1023", "5900-5909", "65535"] {
        let range: PortRange = text.parse().unwrap();
        let prefixes = port_prefixes(&range);
        for port in 1..=u16::MAX {
            let [high, low] = port.to_be_bytes();
            let fits = |(bits, key): &&(u32, [u8; 4])| agree(key, &[high, low, 0, 0], *bits);
            let count = prefixes.iter().filter(fits).count();
            assert_eq!(count, usize::from(range.contains(port)), "{text} {port}");
        }
    }
}

#[test]
fn rules_beyond_the_last_place_and_those_for_domains_are_left_out() {
    let rule = |domain: &[&str]| Rule {
        when: Condition {
            domain: parsed(domain),
            ..Condition::default()
        },
        then: Says {
            mode: Some(Mode::Bonded),
            ..Says::default()
        },
        ..Rule::default()
    };
    let mut rules = vec![rule(&["example.org"])];
    rules.extend((0..MAX_RULES + 3).map(|_| rule(&[])));
    let compiled = compile(&rules, &names());
    assert_eq!((compiled.left_out, compiled.rules.sets_mode), (3, u64::MAX));
}
