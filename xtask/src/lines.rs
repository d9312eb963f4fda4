//! `cargo xtask lines`: files and functions stay short, or say why they do not; lines end at 100
//! columns; modules are `x.rs` and `x/`.

pub(crate) mod width;

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

/// What is wrong with the length of one file and of its functions, and with reasons for it.
fn judge(name: &str, text: &str) -> Vec<String> {
    let source = Source::parse(text);
    let tests = source.test_items();
    let is_test = |line: usize| tests.iter().any(|t| t.contains(&line));
    let is_counted = |line: usize| source.is_code(line) && !is_test(line);
    let mut problems = Vec::new();
    let mut unused: Vec<&Comment> = source.comments.iter().filter(|c| is_reason(c)).collect();

    let total = (0..source.lines.len()).filter(|l| is_counted(*l)).count();
    let has_reason = FILE.take_reason(total, &mut unused, |c| is_file_reason(&source, c));
    problems.extend(FILE.judge(name, total, has_reason));

    for function in source.functions() {
        let total = function.lines.clone().filter(|l| is_counted(*l)).count();
        let head = head_of(&source, *function.lines.start());
        let with_head = head..=*function.lines.end();
        let is_its = |c: &Comment| with_head.contains(&c.line);
        let has_reason = FUNCTION.take_reason(total, &mut unused, is_its);
        let line = function.lines.start() + 1;
        let place = format!("{name}:{line}: fn {}", function.name);
        problems.extend(FUNCTION.judge(&place, total, has_reason));
    }
    let unused = unused.into_iter().filter(|c| !is_test(c.line));
    problems.extend(unused.map(|c| format!("{name}:{}: nothing here is long", c.line + 1)));
    problems
}

/// A bound that a reason lifts, and one that nothing does.
struct Bound {
    soft: usize,
    hard: usize,
}

impl Bound {
    fn judge(&self, place: &str, total: usize, has_reason: bool) -> Option<String> {
        let Self { soft, hard } = *self;
        if total > hard {
            return Some(format!(
                "{place}: {total} code lines, at most {hard} are allowed"
            ));
        }
        (total > soft && !has_reason).then(|| {
            format!(
                "{place}: {total} code lines, above {soft} it needs a comment `// long: reason`"
            )
        })
    }

    /// Takes from `unused` the reasons of something that has `total` lines, where it needs one.
    fn take_reason(
        &self,
        total: usize,
        unused: &mut Vec<&Comment>,
        is_its: impl Fn(&Comment) -> bool,
    ) -> bool {
        let before = unused.len();
        if total > self.soft {
            unused.retain(|comment| !is_its(comment));
        }
        unused.len() < before
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
    soft: 600,
    hard: 1_000,
};
const FUNCTION: Bound = Bound {
    soft: 80,
    hard: 120,
};

/// Where the project's Rust source lies.
const FOLDERS: [&str; 4] = ["crates", "instruments", "xtask", "fuzz"];

#[cfg(test)]
mod tests {
    use super::*;

    fn function(lines: usize) -> String {
        format!("fn f() {{\n{}}}\n", "    a();\n".repeat(lines - 2))
    }

    #[test]
    fn a_long_function_needs_a_reason_and_a_very_long_one_has_none() {
        assert!(judge("a.rs", &function(80)).is_empty());
        let long = function(81);
        assert_eq!(
            judge("a.rs", &long),
            ["a.rs:1: fn f: 81 code lines, above 80 it needs a comment `// long: reason`"]
        );
        assert!(judge("a.rs", &format!("// long: one match\n#[inline]\n{long}")).is_empty());
        assert_eq!(judge("a.rs", &format!("// long:\n{long}")).len(), 1);
        let huge = format!("// long: one match\n{}", function(121));
        assert_eq!(
            judge("a.rs", &huge),
            ["a.rs:2: fn f: 121 code lines, at most 120 are allowed"]
        );
    }

    #[test]
    fn a_long_file_needs_its_reason_at_the_top() {
        let text = "use a;\n".repeat(601);
        assert_eq!(judge("a.rs", &text).len(), 1);
        assert!(
            judge(
                "a.rs",
                &format!("//! Doc.\n#![x]\n// long: a table\n{text}")
            )
            .is_empty()
        );
        assert_eq!(judge("a.rs", &format!("{text}// long: a table\n")).len(), 2);
    }

    #[test]
    fn blanks_comments_and_tests_do_not_count() {
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", function(110));
        let text = format!("{}{}{tests}", "use a;\n\n// b\n".repeat(599), "use b;\n");
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
