//! `hawser rule`, and a daemon whose rules change.

use rustix::process::Signal;

use super::program::{Place, read, until};

#[test]
fn a_rule_is_added_tested_listed_and_removed() {
    let place = Place::new();
    let run = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        place.run("s", &words)
    };
    let before = run("rule test --program restic --to 192.0.2.1:443");
    assert!(before.out.contains("class   bulk"), "{before:?}");
    assert!(
        before.out.contains("built-in copies and backups"),
        "{before:?}"
    );
    let added = run("rule add --program restic,borg* --never nolink0 --class interactive");
    assert_eq!(added.code, 0, "{added:?}");
    let after = run("rule test --program restic --to backup.example.org:443");
    assert!(after.out.contains("class   interactive"), "{after:?}");
    assert!(after.out.contains("links   never nolink0"), "{after:?}");
    assert!(after.out.contains("1 user"), "{after:?}");
    let all = run("rule test --all --to 192.0.2.1:443");
    assert!(all.out.contains("program is not known"), "{all:?}");

    let list = run("rule list");
    let expected = "1 user: program restic or borg*: class interactive, never nolink0";
    assert!(list.out.contains(expected), "{list:?}");
    let unknown = "no link is called nolink0 now";
    assert!(list.out.contains(unknown), "{list:?}");
    let json = run("rule list --json --builtin");
    let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(json["rules"][0]["then"]["never"][0], "nolink0");
    assert_eq!(json["rules"][1]["source"], "built-in");
    let json = run("rule test --json --program borg --to 192.0.2.1:443");
    let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(json["verdict"]["class"]["value"], "interactive");
    assert_eq!(json["verdict"]["class"]["rule"], 1);

    assert_eq!(run("rule remove 1").code, 0);
    assert!(run("rule list").out.contains("no rule of your own"));
}

#[test]
fn without_an_answer_of_the_daemon_the_rule_of_a_number_is_unknown() {
    let place = Place::new();
    let daemon = place.up("client", &[]);
    let rule = ["rule", "add", "--program", "restic", "--class", "bulk"];
    assert_eq!(place.run("client", &rule).code, 0);
    let file = place.path("client/rules.toml");
    let before = read(&file);
    daemon.signal(Signal::STOP);
    // Each of its threads stops when the signal reaches it.
    let tasks = format!("/proc/{}/task", daemon.process());
    let stands = |task: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        stat.rsplit(") ")
            .next()
            .is_some_and(|it| it.starts_with('T'))
    };
    let all_stand = || {
        std::fs::read_dir(&tasks)
            .unwrap()
            .all(|it| stands(it.unwrap()))
    };
    until("the daemon stands still", all_stand, || daemon.log());
    place
        .run("client", &["rule", "remove", "1"])
        .expect(1, "the daemon does not answer");
    daemon.signal(Signal::CONT);
    assert_eq!(read(&file), before);
    daemon.end();
}

#[test]
fn the_rules_are_those_of_the_daemon_that_runs() {
    let place = Place::new();
    let config = place.path("c.toml");
    let rule = |class: &str| format!("[[rule]]\nprogram = \"{class}\"\nclass = \"{class}\"\n");
    std::fs::write(&config, rule("bulk")).unwrap();
    let config_name = config.to_str().unwrap();
    let daemon = place.up("client", &["--config", config_name]);
    let run = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        place.run("client", &words)
    };
    // The configuration is not named again.
    let list = run("rule list").out;
    assert!(list.contains("1 user: program bulk: class bulk"), "{list}");
    let tested = run("rule test --program bulk --to 192.0.2.1:9").out;
    assert!(tested.contains("class   bulk"), "{tested}");
    // What is to be changed has to be named.
    let add = "rule add --program x --first --class interactive";
    for change in [add, "rule remove 1"] {
        run(change).expect(2, &format!("use `hawser --config {config_name} rule`"));
    }
    // What a daemon was told is in no file.
    assert_eq!(run("rule add --now --program y --class bulk").code, 0);
    assert_eq!(run("rule remove 1").code, 0);
    let named = |line: &str| run(&format!("--config {config_name} {line}"));
    assert_eq!(named(add).code, 0);
    let list = run("rule list").out;
    assert!(list.contains("1 user: program x: ") && list.contains("2 user: program bulk: "));
    let removed = named("rule remove 1").out;
    assert!(removed.starts_with(&format!("removed from {config_name}")));
    assert_eq!(read(&config).trim_start(), rule("bulk"));
    daemon.end();
}

#[test]
fn what_is_saved_begins_the_usual_configuration_and_holds_after_a_restart() {
    let place = Place::new();
    let file = place.path("client/hawser.toml");
    let daemon = place.up("client", &[]);
    assert!(!file.exists());
    let saved = place.run("client", &["policy", "set", "--profile", "calls", "--save"]);
    assert_eq!(saved.code, 0, "{saved:?}");
    assert!(saved.out.contains(file.to_str().unwrap()), "{saved:?}");
    daemon.end();
    assert_eq!(read(&file), "[connection]\nprofile = \"calls\"\n");

    let daemon = place.up("client", &[]);
    let policy = place.run("client", &["policy", "--json"]).out;
    let policy: serde_json::Value = serde_json::from_str(&policy).unwrap();
    assert_eq!(policy["profile"], "calls", "{policy}");
    daemon.end();
}

#[test]
fn a_user_in_a_rule_has_a_name() {
    let place = Place::new();
    let run = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        place.run("s", &words)
    };
    assert_eq!(run("rule add --user root --class real-time").code, 0);
    assert!(run("rule list").out.contains("user root: class real-time"));
    let by_root = run("rule test --user 0 --to 192.0.2.1:9");
    assert!(by_root.out.contains("class   real-time"), "{by_root:?}");
    assert_eq!(run("rule remove 1").code, 0);
}

#[test]
fn a_rule_that_is_put_before_others_wins() {
    let place = Place::new();
    let run = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        place.run("s", &words)
    };
    let add = |more: &str| assert_eq!(run(&format!("rule add --program restic {more}")).code, 0);
    let links = || {
        let tested = run("rule test --json --program restic --to 192.0.2.1:443");
        let tested: serde_json::Value = serde_json::from_str(&tested.out).unwrap();
        tested["verdict"]["links"].clone()
    };
    add("--never nolink0");
    add("--only nolink1");
    assert_eq!(
        (&links()["value"], &links()["rule"]),
        (&"never nolink0".into(), &1.into())
    );
    add("--only nolink2 --first --name mine");
    assert_eq!(
        (&links()["value"], &links()["rule"]),
        (&"only nolink2".into(), &1.into())
    );
    add("--only nolink3 --before mine");
    assert_eq!(
        (&links()["value"], &links()["rule"]),
        (&"only nolink3".into(), &1.into())
    );
    let tested = run("rule test --program restic --to 192.0.2.1:443");
    assert!(
        tested
            .out
            .contains("links   only nolink3               1 user"),
        "{tested:?}"
    );
    let nowhere = run("rule add --program x --class bulk --before unknown");
    nowhere.expect(2, "there is no rule unknown of your own; you have 4");
}

#[test]
fn what_makes_no_sense_ends_with_2_and_one_line() {
    let place = Place::new();
    let config = place.path("c.toml");
    std::fs::write(&config, "[[rule]]\nclass = \"fast\"\n").unwrap();
    let config = config.to_str().unwrap();
    let cases: [(&[&str], &str); 10] = [
        (&["rule", "add", "--class", "fast"], "unknown class `fast`"),
        (
            &["rule", "add", "--never", "a/b"],
            "expected the name of an interface",
        ),
        (
            &["rule", "add", "--port", "9-3", "--class", "bulk"],
            "range such as 5000-5100",
        ),
        (&["rule", "add", "--program", "x"], "required"),
        (
            &["rule", "add", "--user", "no-such-user", "--class", "bulk"],
            "there is no user `no-such-user`",
        ),
        (
            &["rule", "test", "--user", "no-such-user", "--to", "a:1"],
            "there is no user `no-such-user`",
        ),
        (
            &["rule", "add", "--only", "a", "--never", "b"],
            "cannot be used with",
        ),
        (
            &["rule", "remove", "7"],
            "there is no rule 7 of your own; you have 0",
        ),
        (
            &["--config", config, "rule", "list"],
            "c.toml:2: `rule.class` is \"fast\"",
        ),
        (
            &["--config", config, "up"],
            "c.toml:2: `rule.class` is \"fast\"",
        ),
    ];
    for (arguments, problem) in cases {
        let ended = place.run("s", arguments);
        ended.expect(2, problem);
        assert_eq!(ended.out, "", "{arguments:?}");
    }
}

#[test]
fn a_daemon_takes_changed_rules_and_leaves_broken_ones() {
    let place = Place::new();
    let daemon = place.up("s", &[]);
    assert_eq!(place.run("s", &["rule", "add", "--class", "bulk"]).code, 0);
    let said = |what: &'static str| {
        until(what, || daemon.log().contains(what), || daemon.log());
    };
    said("reloaded the rules for connections user_rules=1");
    std::fs::write(place.path("s").join("rules.toml"), "[[rule]]\nclass = 1\n").unwrap();
    said("the rules for connections are unchanged");
    said("rules.toml:2: `rule.class` is 1");
    daemon.end();
}
