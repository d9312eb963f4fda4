use super::*;
use crate::{Action, Condition, Field, Protocol, Source};

fn facts(program: &'static str, port: u16) -> Facts<'static> {
    Facts {
        program: Some(program),
        ..Facts::to(Protocol::Tcp, None, port)
    }
}

fn rule(source: Source, when: Condition, then: Action) -> Rule {
    Rule {
        name: None,
        source,
        when,
        then,
    }
}

fn of_program(name: &str) -> Condition {
    Condition {
        program: vec![name.parse().unwrap()],
        ..Condition::default()
    }
}

fn class(class: Class) -> Action {
    Action {
        class: Some(class),
        ..Action::default()
    }
}

fn mode(mode: Mode) -> Action {
    Action {
        mode: Some(mode),
        ..Action::default()
    }
}

fn never(link: &str) -> Action {
    Action {
        links: Some(LinkChoice::Except(vec![link.to_owned()])),
        ..Action::default()
    }
}

#[test]
fn rules_that_keep_programs_to_links_or_off_the_gateway_have_to_know_them() {
    let binds = |when, then| RuleSet::new([rule(Source::User, when, then)]).binds_askers();
    let to_port = || Condition {
        port: vec!["443".parse().unwrap()],
        ..Condition::default()
    };
    assert!(binds(of_program("curl"), never("lte")));
    assert!(binds(of_program("curl"), mode(Mode::Direct)));
    assert!(!binds(of_program("curl"), mode(Mode::Bonded)));
    assert!(!binds(of_program("curl"), class(Class::Bulk)));
    assert!(!binds(to_port(), never("lte")));
    // The class may depend on the program.
    let bulk = Condition {
        class: vec![Class::Bulk],
        ..Condition::default()
    };
    assert!(binds(bulk, never("lte")));
}

#[test]
fn without_rules_everything_is_open() {
    let verdict = RuleSet::default().judge(&facts("curl", 443));
    assert_eq!(verdict, Verdict::default());
    assert_eq!(verdict.class, Class::Unknown);
    assert!(verdict.links.allows("eth0"));
}

#[test]
fn the_users_rules_come_before_all_others() {
    let any = Condition::default;
    let set = RuleSet::new([
        rule(Source::BuiltIn, any(), class(Class::Bulk)),
        rule(Source::Profile, any(), class(Class::Interactive)),
        rule(Source::User, any(), class(Class::RealTime)),
    ]);
    let verdict = set.judge(&facts("curl", 443));
    assert_eq!(
        (verdict.class, verdict.class_by),
        (Class::RealTime, Some(0))
    );
}

#[test]
fn each_field_is_set_by_the_first_that_says_something_of_it() {
    let set = RuleSet::new([
        rule(Source::User, of_program("curl"), never("wwan0")),
        rule(Source::User, of_program("c*"), class(Class::Bulk)),
        rule(Source::User, of_program("curl"), class(Class::RealTime)),
        rule(Source::User, Condition::default(), mode(Mode::Direct)),
    ]);
    let verdict = set.judge(&facts("curl", 443));
    assert_eq!((verdict.class, verdict.class_by), (Class::Bulk, Some(1)));
    assert_eq!((verdict.mode, verdict.mode_by), (Mode::Direct, Some(3)));
    assert_eq!(verdict.links_by, Some(0));
    assert!(!verdict.links.allows("wwan0") && verdict.links.allows("eth0"));
}

#[test]
fn a_rule_may_ask_for_the_class_that_a_later_one_gives() {
    let of_bulk = Condition {
        class: vec![Class::Bulk],
        ..Condition::default()
    };
    let set = RuleSet::new([
        rule(Source::User, of_bulk, never("wwan0")),
        rule(Source::BuiltIn, of_program("apt"), class(Class::Bulk)),
    ]);
    assert_eq!(set.judge(&facts("apt", 80)).links_by, Some(0));
    assert_eq!(set.judge(&facts("ssh", 22)).links_by, None);
}

#[test]
fn a_rule_that_asks_for_the_class_does_not_set_it() {
    let of_unknown = Condition {
        class: vec![Class::Unknown],
        ..Condition::default()
    };
    let set = RuleSet::new([rule(Source::User, of_unknown, class(Class::Bulk))]);
    assert_eq!(set.judge(&facts("x", 1)).class, Class::Unknown);
}

#[test]
fn every_field_has_to_fit() {
    let when = Condition {
        program: vec!["curl".parse().unwrap()],
        executable: vec!["/usr/bin/*".parse().unwrap()],
        user: vec![1000.into()],
        cgroup: vec!["/user.slice".parse().unwrap()],
        domain: vec!["*.example.org".parse().unwrap()],
        address: vec!["192.0.2.0/24".parse().unwrap()],
        port: vec!["400-500".parse().unwrap(), "80".parse().unwrap()],
        protocol: Some(Protocol::Tcp),
        dscp: vec!["ef".parse().unwrap()],
        class: vec![Class::Bulk],
    };
    let fitting = Facts {
        protocol: Protocol::Tcp,
        remote: Some("::ffff:192.0.2.7".parse().unwrap()),
        port: 443,
        domain: Some("www.example.org"),
        program: Some("curl"),
        executable: Some("/usr/bin/curl"),
        user: Some(1000),
        cgroup: Some("/user.slice/x"),
        dscp: Some(46),
    };
    let class = Some(Class::Bulk);
    assert_eq!(when.test(&fitting, class), Ok(()));
    let misses = [
        (
            Field::Protocol,
            Facts {
                protocol: Protocol::Udp,
                ..fitting
            },
        ),
        (
            Field::Port,
            Facts {
                port: 8080,
                ..fitting
            },
        ),
        (
            Field::Program,
            Facts {
                program: Some("wget"),
                ..fitting
            },
        ),
        (
            Field::Executable,
            Facts {
                executable: Some("/tmp/curl"),
                ..fitting
            },
        ),
        (
            Field::User,
            Facts {
                user: Some(0),
                ..fitting
            },
        ),
        (
            Field::Cgroup,
            Facts {
                cgroup: Some("/system.slice"),
                ..fitting
            },
        ),
        (
            Field::Domain,
            Facts {
                domain: Some("example.com"),
                ..fitting
            },
        ),
        (
            Field::Address,
            Facts {
                remote: Some("198.51.100.1".parse().unwrap()),
                ..fitting
            },
        ),
        (
            Field::Dscp,
            Facts {
                dscp: Some(0),
                ..fitting
            },
        ),
    ];
    for (field, facts) in misses {
        assert_eq!(when.test(&facts, class), Err(Miss { field, known: true }));
    }
    let unknown = Facts {
        domain: None,
        ..fitting
    };
    let miss = Miss {
        field: Field::Domain,
        known: false,
    };
    assert_eq!(when.test(&unknown, class), Err(miss));
    let miss = Miss {
        field: Field::Class,
        known: true,
    };
    assert_eq!(when.test(&fitting, Some(Class::RealTime)), Err(miss));
}

#[test]
fn each_rule_is_explained() {
    let set = RuleSet::new([
        rule(Source::User, of_program("wget"), class(Class::Bulk)),
        rule(Source::User, of_program("curl"), class(Class::Bulk)),
    ]);
    let facts = facts("curl", 443);
    let explained: Vec<_> = set.explain(&facts).iter().map(|one| one.applies).collect();
    let miss = Miss {
        field: Field::Program,
        known: true,
    };
    assert_eq!(explained, [Err(miss), Ok(())]);
}

#[test]
fn links_are_allowed_by_name() {
    let names = || vec!["eth0".to_owned()];
    for (choice, eth0, wlan0) in [
        (LinkChoice::Any, true, true),
        (LinkChoice::Only(names()), true, false),
        (LinkChoice::Order(names()), true, false),
        (LinkChoice::Except(names()), false, true),
    ] {
        assert_eq!(
            (choice.allows("eth0"), choice.allows("wlan0")),
            (eth0, wlan0)
        );
    }
}
