//! `cargo xtask lines`: files and functions stay short, or say why they do not; lines end at 100
//! columns; modules are `x.rs` and `x/`.

mod width;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::source::{Comment, Source};

/// Fails when a file or a function under `root` is too long.
pub(crate) fn check(root: &Path) -> Result<()> {
    let mut files = Vec::new();
    for folder in FOLDERS {
        collect(&root.join(folder), &mut files)?;
    }
    files.sort();
    let mut problems = Vec::new();
    for file in &files {
        let shown = file
            .strip_prefix(root)
            .unwrap_or(file)
            .display()
            .to_string();
        let text = fs::read_to_string(file).with_context(|| shown.clone())?;
        problems.extend(judge_name(&shown));
        problems.extend(judge(&shown, &text));
    }
    problems.extend(width::problems(root)?);
    for problem in &problems {
        eprintln!("{problem}");
    }
    if !problems.is_empty() {
        bail!("{} problems", problems.len());
    }
    eprintln!("{} files are short enough or say why not", files.len());
    Ok(())
}

/// Returns a problem for a module in a `mod.rs`, except the one that Cargo's tests need.
fn judge_name(name: &str) -> Option<String> {
    let is_module = name.ends_with("/mod.rs") && !name.ends_with("/tests/common/mod.rs");
    is_module.then(|| format!("{name}: modules are `x.rs` and `x/`, not `x/mod.rs`"))
}

/// What is wrong with the length of one file and of its functions.
fn judge(name: &str, text: &str) -> Vec<String> {
    let source = Source::parse(text);
    let tests = source.test_items();
    let is_counted = |line: usize| source.is_code(line) && !tests.iter().any(|t| t.contains(&line));
    let mut problems = Vec::new();

    let total = (0..source.lines.len()).filter(|l| is_counted(*l)).count();
    let reason = source.comments.iter().any(|c| is_file_reason(&source, c));
    problems.extend(FILE.judge(name, total, reason));

    for function in source.functions() {
        let total = function.lines.clone().filter(|l| is_counted(*l)).count();
        let head = head_of(&source, *function.lines.start());
        let with_head = head..=*function.lines.end();
        let reason = source
            .comments
            .iter()
            .any(|c| with_head.contains(&c.line) && is_reason(c));
        let place = format!(
            "{name}:{}: fn {}",
            function.lines.start() + 1,
            function.name
        );
        problems.extend(FUNCTION.judge(&place, total, reason));
    }
    problems
}

/// A bound that a reason lifts, and one that nothing does.
struct Bound {
    soft: usize,
    hard: usize,
}

impl Bound {
    fn judge(&self, place: &str, total: usize, reason: bool) -> Option<String> {
        let Self { soft, hard } = *self;
        if total > hard {
            return Some(format!(
                "{place}: {total} code lines, at most {hard} are allowed"
            ));
        }
        (total > soft && !reason).then(|| {
            format!(
                "{place}: {total} code lines, above {soft} it needs a comment `// long: reason`"
            )
        })
    }
}

fn is_reason(comment: &Comment) -> bool {
    let reason = comment.text.strip_prefix("// long:");
    reason.is_some_and(|text| !text.trim().is_empty())
}

/// A reason counts for the file when nothing but inner attributes stands before it.
fn is_file_reason(source: &Source, comment: &Comment) -> bool {
    let before = &source.lines[..comment.line.min(source.lines.len())];
    let only_head = before
        .iter()
        .map(|line| line.trim())
        .all(|line| line.is_empty() || line.starts_with("#!["));
    comment.column == 0 && is_reason(comment) && only_head
}

/// The first of the comment and attribute lines right above line `line`.
fn head_of(source: &Source, line: usize) -> usize {
    let belongs = |l: usize| {
        let is_attribute = source.lines[l].trim_start().starts_with("#[");
        let is_comment = !source.is_code(l) && source.comments.iter().any(|c| c.line == l);
        is_attribute || is_comment
    };
    (0..line)
        .rev()
        .take_while(|l| belongs(*l))
        .last()
        .unwrap_or(line)
}

/// Adds the Rust files under `folder`, except modules that are wholly tests.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Ok(());
    };
    for entry in entries {
        let path = entry?.path();
        let name = path
            .file_name()
            .and_then(|n| n.to_str())
            .unwrap_or_default();
        if path.is_dir() {
            if !width::SKIPPED_FOLDERS.contains(&name) {
                collect(&path, files)?;
            }
        } else if name.ends_with(".rs") && !is_test_module(&path) {
            files.push(path);
        }
    }
    Ok(())
}

/// `src/…/tests.rs` and what lies in `src/…/tests/`: the body of a `#[cfg(test)] mod tests;`.
fn is_test_module(path: &Path) -> bool {
    let inside = path.iter().skip_while(|part| *part != "src").skip(1);
    inside
        .into_iter()
        .any(|part| part == "tests" || part == "tests.rs")
}

const FILE: Bound = Bound {
    soft: 400,
    hard: 800,
};
const FUNCTION: Bound = Bound {
    soft: 60,
    hard: 100,
};

/// Where the project's Rust source lies.
const FOLDERS: [&str; 3] = ["crates", "xtask", "fuzz"];

#[cfg(test)]
mod tests {
    use super::*;

    fn function(lines: usize) -> String {
        format!("fn f() {{\n{}}}\n", "    a();\n".repeat(lines - 2))
    }

    #[test]
    fn a_long_function_needs_a_reason_and_a_very_long_one_has_none() {
        assert!(judge("a.rs", &function(60)).is_empty());
        let long = function(61);
        assert_eq!(
            judge("a.rs", &long),
            ["a.rs:1: fn f: 61 code lines, above 60 it needs a comment `// long: reason`"]
        );
        assert!(judge("a.rs", &format!("// long: one match\n#[inline]\n{long}")).is_empty());
        assert_eq!(judge("a.rs", &format!("// long:\n{long}")).len(), 1);
        let huge = format!("// long: one match\n{}", function(101));
        assert_eq!(
            judge("a.rs", &huge),
            ["a.rs:2: fn f: 101 code lines, at most 100 are allowed"]
        );
    }

    #[test]
    fn a_long_file_needs_its_reason_at_the_top() {
        let text = "use a;\n".repeat(401);
        assert_eq!(judge("a.rs", &text).len(), 1);
        assert!(
            judge(
                "a.rs",
                &format!("//! Doc.\n#![x]\n// long: a table\n{text}")
            )
            .is_empty()
        );
        assert_eq!(judge("a.rs", &format!("{text}// long: a table\n")).len(), 1);
    }

    #[test]
    fn blanks_comments_and_tests_do_not_count() {
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", function(90));
        let text = format!("{}{}{tests}", "use a;\n\n// b\n".repeat(399), "use b;\n");
        assert_eq!(judge("a.rs", &text), Vec::<String>::new());
    }

    #[test]
    fn modules_are_no_folders_with_a_file_of_their_own() {
        assert!(judge_name("crates/a/src/b/mod.rs").is_some());
        assert!(judge_name("crates/a/src/b.rs").is_none());
        assert!(judge_name("crates/a/tests/common/mod.rs").is_none());
    }

    #[test]
    fn only_modules_of_tests_inside_src_are_left_out() {
        assert!(is_test_module(Path::new("crates/a/src/b/tests.rs")));
        assert!(is_test_module(Path::new("crates/a/src/b/tests/pair.rs")));
        assert!(!is_test_module(Path::new("crates/a/tests/end.rs")));
        assert!(!is_test_module(Path::new("xtask/src/tests_run.rs")));
    }
}
