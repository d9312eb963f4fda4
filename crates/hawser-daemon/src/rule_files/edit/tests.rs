use std::fs;

use hawser_keys::store::StateDir;
use hawser_policy::{Action, Class, Condition, LinkChoice, Mode, User};

use super::*;
use crate::config_file::ConfigFile;
use crate::setup::is_usage;

fn files(folder: &Path, config: Option<&str>) -> RuleFiles {
    let path = folder.join("hawser.toml");
    if let Some(text) = config {
        fs::write(&path, text).unwrap();
    }
    RuleFiles {
        config: usual(folder),
        own: folder.join("rules.toml"),
    }
}

fn usual(state: &Path) -> ConfigFile {
    let state = StateDir::resolve(Some(state.to_owned())).unwrap();
    ConfigFile::resolve(None, &state, true)
}

fn named(path: &Path) -> ConfigFile {
    let state = StateDir::resolve(Some("state".into())).unwrap();
    ConfigFile::resolve(Some(path.to_owned()), &state, true)
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

fn rule() -> Rule {
    Rule {
        name: Some("backups".to_owned()),
        when: Condition {
            program: vec!["restic".parse().unwrap(), "10".parse().unwrap()],
            user: vec![1000.into(), User::named("root".to_owned(), 0)],
            port: vec!["22".parse().unwrap()],
            ..Condition::default()
        },
        then: Action {
            links: Some(LinkChoice::Except(vec!["wwan0".to_owned()])),
            ..Action::default()
        },
        ..Rule::default()
    }
}

#[test]
fn what_is_added_reads_back_and_the_rest_stays_as_it_was() {
    let before = "# mine\n[up]   # odd  spaces\nlinks = [ \"eth0\" ]\n\n# first\n[[rule]]\nclass = \"bulk\" # because\n";
    let folder = tempfile::tempdir().unwrap();
    let files = files(folder.path(), Some(before));
    let path = add(&files, &rule(), &Spot::Last, 0).unwrap();
    let after = read(&path);
    assert!(after.starts_with(before), "{after}");
    let read = files.read().unwrap();
    assert_eq!(read.configured.len(), 2);
    assert_eq!(read.configured[1], rule());
    assert!(!files.own.exists());
}

#[test]
fn without_a_configuration_rules_are_kept_in_the_state_directory() {
    let folder = tempfile::tempdir().unwrap();
    let files = files(folder.path(), None);
    let second = Rule {
        then: Action {
            mode: Some(Mode::Direct),
            ..Action::default()
        },
        ..Rule::default()
    };
    for rule in [rule(), second.clone()] {
        assert_eq!(add(&files, &rule, &Spot::Last, 0).unwrap(), files.own);
    }
    assert_eq!(files.read().unwrap().own, [rule(), second]);
}

#[test]
fn the_rule_with_the_number_goes_and_its_remark_with_it() {
    let config = "# head\n[connection]\nprofile = \"calls\"\n\n# one\n[[rule]]\nclass = \"bulk\"\n\n# two\n[[rule]]\nmode = \"direct\"\n";
    let folder = tempfile::tempdir().unwrap();
    let mut files = files(folder.path(), Some(config));
    let there = std::mem::replace(&mut files.config, usual(&folder.path().join("elsewhere")));
    add(&files, &rule(), &Spot::Last, 0).unwrap();
    files.config = there;
    let (gone, path) = remove(&files, 1, 0, None).unwrap();
    assert_eq!(gone.then.class, Some(Class::Bulk));
    let after = read(&path);
    assert!(
        !after.contains("# one") && !after.contains("bulk"),
        "{after}"
    );
    assert!(after.starts_with("# head\n[connection]\n") && after.contains("# two"));
    // One rule is left in the configuration; the second is in the state directory.
    assert_eq!(
        remove(&files, 2, 0, None).unwrap(),
        (rule(), files.own.clone())
    );
    let problem = remove(&files, 2, 0, None).unwrap_err();
    assert!(is_usage(&problem), "{problem}");
    assert!(
        problem
            .to_string()
            .contains("no rule 2 of your own; you have 1")
    );
}

#[test]
fn only_the_rule_that_was_meant_goes() {
    let folder = tempfile::tempdir().unwrap();
    let files = files(folder.path(), None);
    for name in ["c", "b", "a"] {
        add(&files, &mode(Mode::Auto, name), &Spot::First, 0).unwrap();
    }
    let names = || -> Vec<_> {
        let own = files.read().unwrap().own.into_iter();
        own.map(|rule| rule.name.unwrap()).collect()
    };
    let second = text(&mode(Mode::Auto, "b"));
    // Another program has removed the first meanwhile: the second is the first now.
    remove(&files, 1, 0, None).unwrap();
    let error = remove(&files, 2, 0, Some(&second)).unwrap_err();
    assert!(error.is::<RulesChanged>(), "{error}");
    assert_eq!(names(), ["b", "c"]);
    remove(&files, 1, 0, Some(second.trim_end())).unwrap();
    assert_eq!(names(), ["c"]);
}

#[test]
fn what_is_written_after_a_rule_was_looked_up_makes_it_another() {
    let folder = tempfile::tempdir().unwrap();
    let files = files(folder.path(), None);
    for name in ["b", "a"] {
        add(&files, &mode(Mode::Auto, name), &Spot::First, 0).unwrap();
    }
    let found = find(&files, &files.read().unwrap(), "b", 0).unwrap();
    remove(&files, 1, 0, None).unwrap();
    let written: DocumentMut = read(&files.own).parse().unwrap();
    let error = found.check(&written, &text(&found.rule)).unwrap_err();
    assert!(error.is::<RulesChanged>(), "{error}");
}

#[test]
fn a_file_that_is_broken_is_not_touched() {
    let folder = tempfile::tempdir().unwrap();
    for broken in [
        "[[rule]]\nclass = \"fast\"\n",
        "rule = []\n[[x",
        "rule = []\n",
    ] {
        let files = files(folder.path(), Some(broken));
        let problem = add(&files, &rule(), &Spot::Last, 0).unwrap_err();
        assert!(is_usage(&problem), "{problem}");
        assert!(problem.to_string().contains("hawser.toml"), "{problem}");
        assert_eq!(read(files.config.path()), broken);
    }
}

#[test]
fn a_file_keeps_its_mode_and_a_link_stays_one() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let real = folder.path().join("real.toml");
    fs::write(&real, "").unwrap();
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
    let link = folder.path().join("link.toml");
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let files = RuleFiles {
        config: named(&link),
        own: folder.path().join("rules.toml"),
    };
    add(&files, &rule(), &Spot::Last, 0).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(
        fs::metadata(&real).unwrap().permissions().mode() & 0o777,
        0o640
    );
    assert!(read(&real).contains("restic"));
}

fn mode(mode: Mode, name: &str) -> Rule {
    Rule {
        name: Some(name.to_owned()),
        then: Action {
            mode: Some(mode),
            ..Action::default()
        },
        ..Rule::default()
    }
}

#[test]
fn a_rule_can_be_put_before_others_and_what_stands_there_stays_as_it_was() {
    let config = "# head\n[connection]\nprofile = \"calls\"\n\n# one\n[[rule]]\nclass = \"bulk\" # why\n\n\
                  # two\n[[rule]]\nname = \"two\"\nmode = \"direct\"\n\n[up]\nlinks = [\"eth0\"]\n";
    let folder = tempfile::tempdir().unwrap();
    let files = files(folder.path(), Some(config));
    add(&files, &mode(Mode::Auto, "first"), &Spot::First, 0).unwrap();
    let by_name = Spot::Before("two".to_owned());
    add(&files, &mode(Mode::Bonded, "middle"), &by_name, 0).unwrap();
    let by_number = Spot::Before("2".to_owned());
    add(&files, &mode(Mode::Direct, "second"), &by_number, 0).unwrap();
    let expected = "# head\n[connection]\nprofile = \"calls\"\n\n\
         [[rule]]\nname = \"first\"\nmode = \"auto\"\n\n\
         [[rule]]\nname = \"second\"\nmode = \"direct\"\n\n\
         # one\n[[rule]]\nclass = \"bulk\" # why\n\n\
         [[rule]]\nname = \"middle\"\nmode = \"bonded\"\n\n\
         # two\n[[rule]]\nname = \"two\"\nmode = \"direct\"\n\n[up]\nlinks = [\"eth0\"]\n";
    assert_eq!(read(files.config.path()), expected);
}

#[test]
fn the_head_of_the_programs_own_file_stays_at_its_head() {
    let folder = tempfile::tempdir().unwrap();
    let files = files(folder.path(), None);
    for name in ["a", "b", "c"] {
        add(&files, &mode(Mode::Auto, name), &Spot::First, 0).unwrap();
    }
    let own = read(&files.own);
    assert!(
        own.starts_with(&format!("{RULES_HEAD}[[rule]]\nname = \"c\"")),
        "{own}"
    );
    let names: Vec<_> = files
        .read()
        .unwrap()
        .own
        .into_iter()
        .map(|it| it.name.unwrap())
        .collect();
    assert_eq!(names, ["c", "b", "a"]);
}

#[test]
fn remarks_at_the_end_of_a_file_stay_ahead_of_its_first_rule() {
    let folder = tempfile::tempdir().unwrap();
    for (before, expected) in [
        (
            "# mine\n",
            "# mine\n\n[[rule]]\nname = \"x\"\nmode = \"auto\"\n",
        ),
        (
            "[up]\nlinks = [\"a\"]\n\n# mine\n",
            "[up]\nlinks = [\"a\"]\n\n# mine\n\n[[rule]]\nname = \"x\"\nmode = \"auto\"\n",
        ),
    ] {
        let files = files(folder.path(), Some(before));
        add(&files, &mode(Mode::Auto, "x"), &Spot::Last, 0).unwrap();
        assert_eq!(read(files.config.path()), expected);
        remove(&files, 1, 0, None).unwrap();
        assert_eq!(read(files.config.path()), before);
    }
}

#[test]
fn a_rule_that_goes_leaves_what_does_not_belong_to_it() {
    let folder = tempfile::tempdir().unwrap();
    let rule = |class: &str| format!("[[rule]]\nclass = \"{class}\"\n");
    let (bulk, quick) = (rule("bulk"), rule("interactive"));
    let up = "[up]\nlinks = [\"a\"]\n";
    for (before, expected) in [
        (
            format!("# mine\n\n# one\n{bulk}\n# two\n{quick}"),
            format!("# mine\n\n# two\n{quick}"),
        ),
        (format!("# mine\n\n{bulk}{up}"), format!("# mine\n\n{up}")),
        (
            format!("{RULES_HEAD}{bulk}{quick}"),
            format!("{RULES_HEAD}\n{quick}"),
        ),
        (format!("{RULES_HEAD}{bulk}"), RULES_HEAD.to_owned()),
    ] {
        let files = files(folder.path(), Some(&before));
        remove(&files, 1, 0, None).unwrap();
        assert_eq!(read(files.config.path()), expected);
    }
}

#[test]
fn a_rule_goes_into_the_file_of_the_one_that_it_is_to_come_before() {
    let folder = tempfile::tempdir().unwrap();
    let mut files = files(folder.path(), Some("[[rule]]\nclass = \"bulk\"\n"));
    let there = std::mem::replace(&mut files.config, usual(&folder.path().join("elsewhere")));
    add(&files, &mode(Mode::Auto, "own"), &Spot::Last, 0).unwrap();
    files.config = there;
    let before = |rule: &str| Spot::Before(rule.to_owned());
    let path = add(&files, &mode(Mode::Direct, "new"), &before("own"), 0).unwrap();
    assert_eq!(path, files.own);
    let names = files
        .read()
        .unwrap()
        .own
        .into_iter()
        .map(|it| it.name.unwrap());
    assert_eq!(names.collect::<Vec<_>>(), ["new", "own"]);
    for (rule, problem) in [
        ("other", "there is no rule other of your own; you have 3"),
        ("0", "there is no rule 0"),
        ("4", "there is no rule 4"),
    ] {
        let error = add(&files, &mode(Mode::Auto, "x"), &before(rule), 0).unwrap_err();
        assert!(
            is_usage(&error) && error.to_string().contains(problem),
            "{error}"
        );
    }
    add(&files, &mode(Mode::Auto, "new"), &Spot::Last, 0).unwrap();
    let error = add(&files, &mode(Mode::Auto, "x"), &before("new"), 0).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("more than one rule is called new"),
        "{error}"
    );
}

#[test]
fn many_that_add_at_once_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let files = files(folder.path(), None);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| add(&files, &rule(), &Spot::Last, 0).unwrap());
        }
    });
    assert_eq!(files.read().unwrap().own.len(), 8);
}
