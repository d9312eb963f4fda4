//! Links between the documents.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::process::said;

/// Links of Markdown files that lead to no file, or to no heading of one. Those to the web are not
/// followed.
pub(super) fn faults(root: &Path) -> Result<Vec<String>> {
    let listed = said(Command::new("git").current_dir(root).args([
        "ls-files",
        "-co",
        "--exclude-standard",
        "*.md",
    ]))?;
    let mut texts = BTreeMap::new();
    for name in listed.lines() {
        // One that was deleted and not committed is told with the tree.
        let Ok(text) = fs::read_to_string(root.join(name)) else {
            continue;
        };
        texts.insert(PathBuf::from(name), text);
    }
    let headings: BTreeMap<_, _> = texts
        .iter()
        .map(|(name, text)| (name, anchors(text)))
        .collect();
    let mut faults = Vec::new();
    for (name, text) in &texts {
        for link in links(text) {
            let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let to = match path {
                "" => name.clone(),
                path => plain(&name.parent().context("a file is in a folder")?.join(path)),
            };
            let is_there = root.join(&to).exists();
            // Anchors of other files, such as lines of code, are the reader's.
            let has_heading =
                anchor.is_empty() || headings.get(&to).is_none_or(|of| of.contains(anchor));
            if !is_there || !has_heading {
                faults.push(format!("{}: {link} leads nowhere", name.display()));
            }
        }
    }
    Ok(faults)
}

/// What links within the project lead to, in the order of the text.
fn links(text: &str) -> Vec<String> {
    let mut links = Vec::new();
    for line in prose(text) {
        // Without what stands between backticks.
        let line: String = line.split('`').step_by(2).collect();
        let mut rest = &line[..];
        while let Some((_, after)) = rest.split_once("](") {
            let end = after.find([')', ' ']).unwrap_or(after.len());
            links.push(after[..end].to_owned());
            rest = &after[end..];
        }
        // `[name]: target`
        if let Some((_, target)) = line.strip_prefix('[').and_then(|it| it.split_once("]: ")) {
            links.extend(target.split_whitespace().next().map(str::to_owned));
        }
    }
    links.retain(|link| !link.contains("://") && !link.starts_with("mailto:"));
    links
}

/// The names by which headings of a text can be reached, as GitHub makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for line in prose(text) {
        let heading = line.trim_start_matches('#');
        if heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let kept = heading.trim().to_lowercase();
        let kept = kept
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let before = seen.entry(anchor.clone()).or_default();
        anchors.insert(match *before {
            0 => anchor,
            many => format!("{anchor}-{many}"),
        });
        *before += 1;
    }
    anchors
}

/// The lines that are not of blocks of code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// A path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_read_from_prose_alone() {
        let text = "See [a](a.md#one) and [b](../b.md), `[c](c.md)`, [d](https://d.example).\n\
                    ```sh\n[e](e.md)\n```\n[f]: f.md\n![g](g.png \"title\")\n";
        assert_eq!(links(text), ["a.md#one", "../b.md", "f.md", "g.png"]);
    }

    #[test]
    fn headings_have_the_names_that_links_use() {
        let text = "# What `hawser up` does: all\n\n```\n# no heading\n```\n## Limits\n## Limits\n";
        let expected = ["limits", "limits-1", "what-hawser-up-does-all"];
        assert_eq!(anchors(text).into_iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn paths_go_up() {
        assert_eq!(
            plain(Path::new("docs/design/../a.md")),
            Path::new("docs/a.md")
        );
    }
}
