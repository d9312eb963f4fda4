//! `cargo xtask words`: comments, log lines and documents name their subjects.
//!
//! Refuses the words in [`REFUSED`], in Rust sources and in Markdown. A word in backticks is
//! excused, and so is a string literal that is only that word: `nobody` is also a user account.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::lines::width::files_with;

/// Fails when a file under `root` has a refused word.
pub(crate) fn check(root: &Path) -> Result<()> {
    let files = files_with(root, &["rs", "md"])?;
    let mut count = 0;
    for file in &files {
        let shown = file.strip_prefix(root).unwrap_or(file).display();
        let text = fs::read_to_string(file).with_context(|| shown.to_string())?;
        for (line, refused) in problems(&text) {
            eprintln!("{shown}:{line}: name the subject instead of writing \"{refused}\"");
            count += 1;
        }
    }
    if count > 0 {
        bail!("{count} refused words");
    }
    eprintln!("{} files name their subjects", files.len());
    Ok(())
}

/// Returns the lines, from 1, that have a refused word, each with that word.
fn problems(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut is_list = false;
    for (index, line) in text.lines().enumerate() {
        is_list |= line.contains(LIST_BEGINS);
        if !is_list {
            found.extend(refused_in(line).map(|refused| (index + 1, refused)));
        }
        is_list &= !line.contains(LIST_ENDS);
    }
    found
}

fn refused_in(line: &str) -> Option<String> {
    let words = words_of(line);
    let is_at = |at: usize, phrase: &str| {
        let phrase = phrase.split(' ');
        let matching = phrase.zip(words[at..].iter().map(Some).chain(std::iter::repeat(None)));
        matching
            .into_iter()
            .all(|(wanted, got)| got.is_some_and(|got| got == wanted))
    };
    let refused = (0..words.len()).find_map(|at| {
        let phrase = REFUSED.iter().find(|phrase| is_at(at, phrase))?;
        Some((*phrase).to_owned())
    });
    let is_vague = |at: usize| is_at(at, "is none") && words[..at].iter().any(|it| it == "what");
    refused.or_else(|| {
        let vague = (0..words.len()).any(is_vague);
        vague.then(|| VAGUE.to_owned())
    })
}

/// The words of a line in lower case, without those in backticks and literals of one word.
fn words_of(line: &str) -> Vec<String> {
    let outside = line.split('`').step_by(2).collect::<Vec<_>>().join(" | ");
    let is_literal = |part: &&str| !part.contains(' ');
    let parts = outside.split('"').enumerate();
    let kept = parts.filter(|(index, part)| index % 2 == 0 || !is_literal(part));
    let kept: Vec<&str> = kept.map(|(_, part)| part).collect();
    let words = kept.join(" ").to_lowercase();
    let words = words.split(|c: char| !c.is_alphanumeric());
    words
        .filter(|it| !it.is_empty())
        .map(str::to_owned)
        .collect()
}

const LIST_BEGINS: &str = "words: the list begins";
const LIST_ENDS: &str = "words: the list ends";

// words: the list begins
const VAGUE: &str = "what … is none";
const REFUSED: [&str; 7] = [
    "somebody",
    "nobody",
    "anybody",
    "whoever",
    "of whom",
    "that is none",
    "what there is of",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_word_is_found_in_comments_names_and_phrases() {
        let text = "/// Of nobody.\nfn for_somebody() {}\n// One of whom, that is it.\n\
                    // What the peer sent is none.\nlet fine = 1;\n";
        let found = problems(text);
        let lines: Vec<usize> = found.iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [1, 2, 3, 4], "{found:?}");
    }

    #[test]
    fn an_account_and_a_value_are_excused() {
        let text = "run_as(\"nobody\");\n// As the user `nobody`, which is none of ours.\n\
                    /// `None`: that is all.\n";
        assert_eq!(problems(text), []);
        let text = "log(\"nobody is there\");\n";
        assert_eq!(problems(text).len(), 1);
    }
}
// words: the list ends
