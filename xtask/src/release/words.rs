//! Mentions of the version in the sources.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

/// Whether the lock files have this version of the crates, and it has release notes.
pub(super) fn version(root: &Path, version: &str) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for file in ["Cargo.lock", "fuzz/Cargo.lock"] {
        let lock = fs::read_to_string(root.join(file)).context(file)?;
        let otherwise = locked_otherwise(&lock, version).into_iter();
        faults.extend(otherwise.map(|it| format!("{file} has {it}, not {version}")));
    }
    let notes = notes(version);
    if !root.join(&notes).is_file() {
        faults.push(format!("{notes}: there are no release notes"));
    }
    Ok(faults)
}

/// Crates of the project that a lock file has in another version, with that.
fn locked_otherwise(lock: &str, version: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut name = "";
    for line in lock.lines() {
        let value = |key: &str| line.strip_prefix(key)?.strip_suffix('"');
        if let Some(of) = value("name = \"") {
            name = of;
        }
        if let Some(locked) = value("version = \"")
            && (name == "hawser" || name.starts_with("hawser-"))
            && name != "hawser-fuzz"
            && locked != version
        {
            found.push(format!("{name} {locked}"));
        }
    }
    found
}

/// Whether the first section is the version's, with a date.
pub(super) fn changelog(root: &Path, version: &str) -> Result<Vec<String>> {
    let text = fs::read_to_string(root.join("CHANGELOG.md")).context("CHANGELOG.md")?;
    Ok(section_faults(&text, version))
}

fn section_faults(changelog: &str, version: &str) -> Vec<String> {
    let mut sections = changelog.split("\n## ").skip(1).peekable();
    // An empty one for what comes next may stand above.
    let is_empty = |section: &&str| section.trim_end() == "Unreleased";
    while sections.next_if(|it| is_empty(it)).is_some() {}
    let Some(section) = sections.next() else {
        return vec!["CHANGELOG.md has no section".to_owned()];
    };
    let (heading, body) = section.split_once('\n').unwrap_or((section, ""));
    let mut faults = Vec::new();
    let date = heading
        .strip_prefix(version)
        .and_then(|rest| rest.strip_prefix(" ("))
        .and_then(|rest| rest.trim_end().strip_suffix(')'));
    if !date.is_some_and(is_date) {
        faults.push(format!(
            "CHANGELOG.md begins with `## {heading}`, not with `## {version} (YYYY-MM-DD)`"
        ));
    }
    if body.trim().is_empty() {
        faults.push(format!("CHANGELOG.md says nothing of {version}"));
    }
    faults
}

/// `YYYY-MM-DD`.
fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let number = |part: &str| {
        if part.bytes().all(|it| it.is_ascii_digit()) {
            part.parse::<u32>().ok()
        } else {
            None
        }
    };
    match parts[..] {
        [year, month, day] => {
            (year.len(), month.len(), day.len()) == (4, 2, 2)
                && number(year).is_some()
                && number(month).is_some_and(|it| (1..=12).contains(&it))
                && number(day).is_some_and(|it| (1..=31).contains(&it))
        }
        _ => false,
    }
}

/// Release notes of a version: one file for all of its minor version.
fn notes(version: &str) -> String {
    let mut parts = version.split('.');
    let [major, minor] = [parts.next(), parts.next()].map(Option::unwrap_or_default);
    format!("docs/releases/{major}.{minor}.md")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_section_has_to_be_the_versions_with_a_date() {
        let of = |text: &str| section_faults(&format!("# Changelog\n\n{text}"), "0.2.0").len();
        assert_eq!(of("## 0.2.0 (2026-11-27)\n\n- New.\n"), 0);
        assert_eq!(of("## Unreleased\n\n## 0.2.0 (2026-11-27)\n\n- New.\n"), 0);
        assert_eq!(
            of("## Unreleased\n\n- More.\n\n## 0.2.0 (2026-11-27)\n\n- New.\n"),
            1
        );
        assert_eq!(of("## 0.2.0\n\n- New.\n"), 1);
        assert_eq!(of("## 0.2.0 (2026-13-27)\n\n- New.\n"), 1);
        assert_eq!(
            of("## 0.2.0 (2026-11-27)\n\n## 0.1.0 (2026-11-01)\n\n- Old.\n"),
            1
        );
        assert_eq!(of("## 0.1.0 (2026-11-01)\n\n- Old.\n"), 1);
        assert_eq!(of(""), 1);
    }

    #[test]
    fn a_lock_file_of_another_version_is_seen() {
        let lock = "[[package]]\nname = \"hawser-net\"\nversion = \"0.1.0\"\n\n[[package]]\n\
                    name = \"tokio\"\nversion = \"1.0.0\"\n";
        assert_eq!(locked_otherwise(lock, "0.1.0"), [""; 0]);
        assert_eq!(locked_otherwise(lock, "0.2.0"), ["hawser-net 0.1.0"]);
    }
}
