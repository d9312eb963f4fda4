//! Manual pages and completions, read by the programs that use them.

use std::process::Command;

use super::program::{Ended, Place};

#[test]
fn every_command_has_a_page_that_man_takes() {
    let place = Place::new();
    let folder = place.path("man");
    let written = place.run("s", &["man", "--out", folder.to_str().unwrap()]);
    assert_eq!(written.code, 0, "{written:?}");
    let mut pages: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|it| it.unwrap().path())
        .collect();
    pages.sort();
    let names: Vec<_> = pages
        .iter()
        .map(|it| it.file_name().unwrap().to_str().unwrap())
        .collect();
    for name in [
        "hawser.1",
        "hawser-up.1",
        "hawser-rule-add.1",
        "hawser-peers-revoke.1",
        "hawser-man.1",
    ] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    for page in &pages {
        let mut man = Command::new("man");
        man.args(["--warnings=all", "--local-file", "-Tutf8"])
            .arg(page);
        let Ok(output) = man.env("LC_ALL", "C.UTF-8").env("MANWIDTH", "80").output() else {
            let test = "end_to_end::every_command_has_a_page_that_man_takes";
            return hawser_skip::skip(test, "man is not installed");
        };
        let read = Ended::of(output);
        assert_eq!(
            (read.code, read.err.as_str()),
            (0, ""),
            "{}",
            page.display()
        );
        assert!(read.out.lines().count() > 10, "{}", read.out);
    }
    let first = place.run("s", &["man"]);
    assert_eq!(
        first.out,
        std::fs::read_to_string(folder.join("hawser.1")).unwrap()
    );
}

#[test]
fn bash_completes_commands_and_flags() {
    let place = Place::new();
    let script = place.run("s", &["completions", "bash"]);
    assert_eq!(script.code, 0, "{script:?}");
    let file = place.path("hawser.bash");
    std::fs::write(&file, script.out).unwrap();
    let complete = |words: &str, at: usize| {
        let ask = format!(
            "source {}; COMP_WORDS=({words}); COMP_CWORD={at}; \
             _hawser hawser \"${{COMP_WORDS[{at}]}}\" \"${{COMP_WORDS[{before}]}}\"; \
             echo \"${{COMPREPLY[@]}}\"",
            file.display(),
            before = at - 1,
        );
        let bash = Command::new("bash").args(["--norc", "-c", &ask]).output();
        let answered = bash.ok().map(Ended::of)?;
        assert_eq!((answered.code, answered.err.as_str()), (0, ""));
        Some(answered.out.trim().to_owned())
    };
    let Some(commands) = complete("hawser stat", 1) else {
        let test = "end_to_end::bash_completes_commands_and_flags";
        return hawser_skip::skip(test, "bash is not installed");
    };
    assert_eq!(commands, "status");
    assert_eq!(complete("hawser rule te", 2).unwrap(), "test");
    assert_eq!(complete("hawser up --invite", 2).unwrap(), "");
    assert_eq!(
        complete("hawser serve --invite", 2).unwrap(),
        "--invite-file"
    );
    assert_eq!(complete("hawser completions fi", 2).unwrap(), "fish");
}

#[test]
fn other_shells_have_their_scripts() {
    let place = Place::new();
    for (shell, sign) in [
        ("zsh", "#compdef hawser"),
        ("fish", "complete -c hawser"),
        ("elvish", "edit:completion"),
    ] {
        let script = place.run("s", &["completions", shell]);
        assert!(script.code == 0 && script.out.contains(sign), "{script:?}");
    }
    place
        .run("s", &["completions", "csh"])
        .expect(2, "possible values");
}
