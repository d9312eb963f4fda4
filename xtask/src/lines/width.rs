//! Lines of sources and of Markdown end at 100 columns.
//!
//! Longer lines are left alone where nothing can break them:
//!
//! - in Rust, where a literal reaches past column 100 (`rustfmt` leaves such lines alone, too);
//! - in C and JavaScript, where a quote (`"`, `'` or a backtick) stands before and behind it;
//! - in Markdown, in tables, in code fences, and in definitions of links;
//! - everywhere, where all that stands behind the indentation and the marks of a comment or of a
//!   list is one word, such as an address.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::source::Source;

/// Returns every line that is too long.
pub(super) fn problems(root: &Path) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for file in files_with(root, &EXTENSIONS)? {
        let shown = file.strip_prefix(root).unwrap_or(&file).display();
        let shown = shown.to_string();
        let text = fs::read_to_string(&file).with_context(|| shown.clone())?;
        let extension = file.extension().and_then(|it| it.to_str());
        let long = long_lines(extension.unwrap_or_default(), &text);
        let places = long.iter().map(|line| format!("{shown}:{line}"));
        problems.extend(places.map(|place| format!("{place}: more than {COLUMNS} columns")));
    }
    Ok(problems)
}

/// Returns the numbers, from 1, of the lines of a file that are too long.
fn long_lines(extension: &str, text: &str) -> Vec<usize> {
    let rust = (extension == "rs").then(|| Source::parse(text));
    let mut is_fenced = false;
    let mut long = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if extension == "md" && line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
        }
        if width(line) <= COLUMNS || is_one_word(line) {
            continue;
        }
        let is_excused = match extension {
            "rs" => {
                // A literal covers the first column that is too many.
                let code = rust.as_ref().and_then(|source| source.lines.get(index));
                code.is_some_and(|code| code.chars().nth(COLUMNS) == Some('"'))
            }
            "md" => {
                // `[name]: address`
                let is_link = line.starts_with('[') && line.contains("]: ");
                is_fenced || is_link || line.trim_start().starts_with('|')
            }
            _ => is_quoted(line),
        };
        if !is_excused {
            long.push(index + 1);
        }
    }
    long
}

/// Columns of a line; a tabulator ends at the next multiple of eight.
fn width(line: &str) -> usize {
    line.chars().fold(0, |at, c| match c {
        '\t' => (at / 8 + 1) * 8,
        _ => at + 1,
    })
}

fn is_quoted(line: &str) -> bool {
    let behind = line
        .char_indices()
        .nth(COLUMNS)
        .map_or(line.len(), |(at, _)| at);
    let (before, behind) = line.split_at(behind);
    ['"', '\'', '`']
        .iter()
        .any(|quote| before.matches(*quote).count() % 2 == 1 && behind.contains(*quote))
}

fn is_one_word(line: &str) -> bool {
    let marks = |c: char| c.is_whitespace() || "/*!-#>".contains(c);
    !line.trim_start_matches(marks).trim_end().contains(' ')
}

/// Returns the project's own files with one of these extensions, sorted.
pub(crate) fn files_with(root: &Path, extensions: &[&str]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    collect(root, extensions, &mut files)?;
    files.sort();
    Ok(files)
}

fn collect(folder: &Path, extensions: &[&str], files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().and_then(|it| it.to_str());
        let name = name.unwrap_or_default();
        if path.is_dir() {
            if !name.starts_with('.') && !SKIPPED_FOLDERS.contains(&name) {
                collect(&path, extensions, files)?;
            }
            continue;
        }
        let extension = path.extension().and_then(|it| it.to_str());
        if extension.is_some_and(|it| extensions.contains(&it)) {
            files.push(path);
        }
    }
    Ok(())
}

const COLUMNS: usize = 100;
/// Folders that hold nothing that people write.
pub(super) const SKIPPED_FOLDERS: [&str; 3] = ["target", "corpus", "artifacts"];
const EXTENSIONS: [&str; 5] = ["rs", "md", "c", "h", "js"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_comments_and_code_are_refused_and_long_literals_are_not() {
        let word = "word ".repeat(21);
        let text = format!(
            "// {word}\nlet x = \"{word}\";\nf({word});\n// {}\n",
            "a".repeat(120)
        );
        assert_eq!(long_lines("rs", &text), [1, 3]);
    }

    #[test]
    fn tables_code_and_links_of_markdown_may_be_long() {
        let word = "word ".repeat(21);
        let text = format!(
            "{word}\n| {word} |\n```\n{word}\n```\n[a]: {word}\n- {}\n{word}",
            "a".repeat(120)
        );
        assert_eq!(long_lines("md", &text), [1, 8]);
    }

    #[test]
    fn tabulators_count_as_columns() {
        assert_eq!(width("\tx"), 9);
        assert_eq!(width("ab\tx"), 9);
    }
}
