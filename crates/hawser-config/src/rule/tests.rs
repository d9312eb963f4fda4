use std::net::IpAddr;

use hawser_policy::{Action, Condition, Facts, Verdict};
use proptest::prelude::*;

use super::*;

fn parse(text: &str) -> Vec<Rule> {
    parse_rules("rules.toml", text).unwrap()
}

fn error(text: &str) -> String {
    parse_rules("rules.toml", text).unwrap_err().to_string()
}

fn judge(facts: &Facts<'_>) -> Verdict {
    rule_set([], Profile::Speed).judge(facts)
}

fn tcp(port: u16) -> Facts<'static> {
    Facts::to(Protocol::Tcp, None, port)
}

fn udp(port: u16) -> Facts<'static> {
    Facts::to(Protocol::Udp, None, port)
}

#[test]
fn every_key_reaches_its_place() {
    let rules = parse(
        r#"
        [[rule]]
        name = "all of them"
        program = ["curl", "wget*"]
        executable = "/usr/bin/*"
        user = ["root", 1000]
        cgroup = "/user.slice"
        domain = "*.example.org"
        address = ["192.0.2.0/24", "2001:db8::1"]
        port = [443, "8000-8100"]
        protocol = "udp"
        dscp = ["ef", 8]
        of-class = "bulk"
        order = ["eth0", "wwan0"]
        avoid = ["metered", "calls"]
        mode = "direct"
        [[rule]]
        class = "real-time"
        links = "any"
        [[rule]]
        only = "eth0"
        [[rule]]
        never = ["eth0"]
        "#,
    );
    let when = Condition {
        program: vec!["curl".parse().unwrap(), "wget*".parse().unwrap()],
        executable: vec!["/usr/bin/*".parse().unwrap()],
        user: vec![0.into(), 1000.into()],
        cgroup: vec!["/user.slice".parse().unwrap()],
        domain: vec!["*.example.org".parse().unwrap()],
        address: vec![
            "192.0.2.0/24".parse().unwrap(),
            "2001:db8::1/128".parse().unwrap(),
        ],
        port: vec!["443".parse().unwrap(), "8000-8100".parse().unwrap()],
        protocol: Some(Protocol::Udp),
        dscp: vec!["ef".parse().unwrap(), "cs1".parse().unwrap()],
        class: vec![Class::Bulk],
    };
    let then = Action {
        class: None,
        links: Some(LinkChoice::Order(vec!["eth0".into(), "wwan0".into()])),
        avoid: Some(vec![Avoid::Metered, Avoid::Calls]),
        mode: Some(Mode::Direct),
    };
    assert_eq!((&rules[0].when, &rules[0].then), (&when, &then));
    assert_eq!(rules[0].name.as_deref(), Some("all of them"));
    assert_eq!(rules[0].source, Source::User);
    let links: Vec<_> = rules.iter().map(|rule| rule.then.links.clone()).collect();
    assert_eq!(links[1], Some(LinkChoice::Any));
    assert_eq!(links[2], Some(LinkChoice::Only(vec!["eth0".into()])));
    assert_eq!(links[3], Some(LinkChoice::Except(vec!["eth0".into()])));
}

#[test]
fn errors_name_line_key_value_and_what_is_allowed() {
    for (text, expected) in [
        (
            "[[rule]]\nclass = \"fast\"",
            "rules.toml:2: `rule.class` is \"fast\"; allowed: \"real-time\", \"interactive\", \
             \"bulk\", \"unknown\"",
        ),
        (
            "[[rule]]\nclass = \"bulk\"\nprogramm = \"x\"",
            "rules.toml:3: unknown key `rule.programm`; allowed: name, program, executable, user, \
             cgroup, domain, address, port, protocol, dscp, of-class, class, links, only, order, \
             never, avoid, mode",
        ),
        (
            "[[rule]]\nprogram = \"x\"",
            "rules.toml:1: `rule.class` is missing; allowed: a rule says at least one of class, \
             links, only, order, never, avoid, mode",
        ),
        (
            "[[rule]]\nonly = \"a/b\"",
            "rules.toml:2: `rule.only` is \"a/b\"; allowed: the name of an interface such as \
             \"wwan0\"",
        ),
        (
            "[[rule]]\nonly = \"a\"\nnever = \"b\"",
            "rules.toml:3: `rule.never` is \"b\"; allowed: only one of `links`, `only`, `order` \
             and `never`",
        ),
        (
            "[[rule]]\nclass = \"bulk\"\nport = [1, \"9-3\"]",
            "rules.toml:3: `rule.port` is \"9-3\"; allowed: ports from 1 to 65535 and ranges such \
             as \"5000-5100\"",
        ),
        (
            "[[rule]]\nclass = \"bulk\"\nprogram = []",
            "rules.toml:3: `rule.program` is []; allowed: a value, or a list of at least one",
        ),
        (
            "[[rule]]\nclass = \"bulk\"\nof-class = \"bulk\"",
            "rules.toml:2: `rule.class` is \"bulk\"; allowed: nothing in a rule that asks for the \
             class with `of-class`",
        ),
        (
            "[up]\nlisten = \"127.0.0.1:1\"",
            "rules.toml:1: unknown key `up`; allowed: rule",
        ),
        (
            "rule = 3",
            "rules.toml:1: `rule` is 3; allowed: sections that begin with [[rule]]",
        ),
    ] {
        assert_eq!(error(text), expected);
    }
    for wrong in [
        "port = 0",
        "port = 70000",
        "port = -1",
        "dscp = 64",
        "user = \"no-user-of-this-name\"",
        "user = [\"root\", \"\"]",
        "user = 4294967295",
        "address = \"10.1.2.3/8\"",
        "domain = \"*\"",
        "cgroup = \"x\"",
        "protocol = \"sctp\"",
        "name = \"\"",
        "avoid = \"slow\"",
        "mode = \"fast\"",
        "links = \"eth0\"",
        "program = [[\"x\"]]",
    ] {
        let text = format!("[[rule]]\nclass = \"bulk\"\n{wrong}");
        assert!(error(&text).starts_with("rules.toml:3: `rule."), "{text}");
    }
}

#[test]
fn packets_are_not_told_apart_by_names() {
    let rule = |key: &str| format!("[[rule]]\nmode = \"packet\"\n{key}");
    let rules = parse(&rule("address = \"192.0.2.0/24\"\nport = 22"));
    assert_eq!(rules[0].then.mode, Some(Mode::Packet));
    let error = error(&rule("domain = \"example.org\""));
    assert!(error.starts_with("rules.toml:2: `rule.mode`"), "{error}");
    assert!(error.contains("ask for `address`"), "{error}");
    assert_eq!(error.lines().count(), 1);
}

#[test]
fn a_list_of_a_rule_has_so_many_values_only() {
    let rule = |count: usize| {
        let names: Vec<String> = (0..count).map(|n| format!("\"{n}.example\"")).collect();
        let list = names.join(", ");
        format!("[[rule]]\nclass = \"bulk\"\ndomain = [{list}]")
    };
    assert_eq!(parse(&rule(1000))[0].when.domain.len(), 1000);
    let error = error(&rule(1001));
    assert!(
        error.contains("rule.domain") && error.contains("at most 1000 values"),
        "{error}"
    );
}

#[test]
fn the_rules_that_come_along_can_be_read() {
    for (text, own) in [
        (BUILT_IN_TEXT, &BUILT_IN),
        (CALLS_TEXT, &CALLS),
        (SAVER_TEXT, &SAVER),
    ] {
        let rules = parse(text);
        assert!(!rules.is_empty() && rules.len() == own.len());
        assert!(rules.iter().all(|rule| rule.name.is_some()));
    }
    let sources: Vec<_> = rule_set(parse("[[rule]]\nmode = \"direct\""), Profile::Calls)
        .rules()
        .iter()
        .map(|rule| rule.source)
        .collect();
    assert_eq!(
        sources[..3],
        [Source::User, Source::Profile, Source::BuiltIn]
    );
}

#[test]
fn well_known_programs_have_their_class() {
    for (program, class) in [
        ("zoom", Class::RealTime),
        ("teams-for-linux", Class::RealTime),
        ("ssh", Class::RealTime),
        ("mosh-client", Class::RealTime),
        ("firefox", Class::Interactive),
        ("firefox-bin", Class::Interactive),
        ("chrome", Class::Interactive),
        ("thunderbird-bin", Class::Interactive),
        ("apt-get", Class::Bulk),
        ("git-remote-http", Class::Bulk),
        ("transmission-da", Class::Bulk),
        ("dockerd", Class::Bulk),
        ("rsync", Class::Bulk),
        ("curl", Class::Unknown),
        ("python3", Class::Unknown),
    ] {
        let facts = Facts {
            program: Some(program),
            ..tcp(443)
        };
        assert_eq!(judge(&facts).class, class, "{program}");
    }
}

#[test]
fn ports_tell_where_the_program_does_not() {
    for (facts, class) in [
        (tcp(22), Class::RealTime),
        (tcp(3389), Class::RealTime),
        (udp(3478), Class::RealTime),
        (udp(20_000), Class::RealTime),
        (tcp(20_000), Class::Unknown),
        (udp(53), Class::Interactive),
        (tcp(993), Class::Interactive),
        (tcp(873), Class::Bulk),
        (tcp(443), Class::Unknown),
        (udp(443), Class::Unknown),
    ] {
        assert_eq!(judge(&facts).class, class, "{facts:?}");
    }
    let git = Facts {
        program: Some("git"),
        ..tcp(22)
    };
    assert_eq!(judge(&git).class, Class::Bulk);
}

#[test]
fn a_browser_pages_by_tcp_and_calls_by_datagrams() {
    let firefox = |facts| Facts {
        program: Some("firefox"),
        ..facts
    };
    assert_eq!(judge(&firefox(udp(443))).class, Class::Interactive);
    assert_eq!(judge(&firefox(udp(49_500))).class, Class::RealTime);
    let download = Facts {
        domain: Some("releases.ubuntu.com"),
        ..firefox(tcp(443))
    };
    assert_eq!(judge(&download).class, Class::Bulk);
    let marked = Facts {
        dscp: Some(8),
        ..firefox(tcp(443))
    };
    assert_eq!(judge(&marked).class, Class::Bulk);
}

#[test]
fn profiles_keep_downloads_off_some_links() {
    let apt = Facts {
        program: Some("apt"),
        ..tcp(80)
    };
    for (profile, avoid) in [
        (Profile::Speed, vec![]),
        (Profile::Calls, vec![Avoid::Calls]),
        (Profile::Saver, vec![Avoid::Metered]),
    ] {
        let set = rule_set([], profile);
        assert_eq!(set.judge(&apt).avoid, avoid, "{profile}");
        assert_eq!(set.judge(&tcp(22)).avoid, [], "{profile}");
    }
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,60}", port in "[0-9-]{0,12}", glob in "[*a-z/]{0,12}") {
        let _ = parse_rules("r", &text);
        let rule = format!("[[rule]]\nclass = \"bulk\"\nport = \"{port}\"\nprogram = \"{glob}\"\n");
        if let Ok(rules) = parse_rules("r", &rule) {
            let remote: IpAddr = "192.0.2.1".parse().unwrap();
            let facts = Facts {
            program: Some(&text),
            domain: Some(&text),
            remote: Some(remote),
            ..tcp(7)
        };
            rule_set(rules, Profile::Calls).judge(&facts);
        }
    }
}

#[test]
fn every_file_of_the_corpus_is_judged_without_a_panic() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/rules");
    let mut sound = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        let (name, rules) = text.split_once('\0').unwrap_or(("name", &text));
        if let Ok(rules) = parse_rules("corpus", rules) {
            let facts = Facts {
                domain: Some(name),
                program: Some(name),
                ..tcp(443)
            };
            RuleSet::new(rules).judge(&facts);
            sound += 1;
        }
    }
    assert!(sound > 0, "the corpus is gone");
}
