//! `cargo xtask layers`, second part: files of a crate that import each other in a circle.
//!
//! File A imports file B when code of A names an item that B defines: in a `use`, or by a path in
//! the code. A name is followed through re-exports to the file that defines it. These do not count:
//!
//! - `mod b;` in A, and `pub use b::Item` in A as long as A itself does not use `Item`: both only
//!   say where something is found;
//! - the name of a module alone, as in `use crate::b;`, until an item is reached through it;
//! - whatever stands under `#[cfg(test)]`, and comments.
//!
//! A *circle* is a strongly connected component of that graph: a set of at least two files, each
//! of which imports each other one, directly or by others of the set. Calls of methods are not
//! seen, since finding the file of a method needs types.

mod components;
mod resolve;
mod scan;
mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};

use components::components;
use resolve::Import;
use tree::Tree;

/// A set of files that import each other.
struct Circle {
    /// Name of the crate.
    package: String,
    /// The files below the crate's `src` folder, sorted.
    files: Vec<String>,
    /// The imports between them.
    imports: Vec<Import>,
}

/// Returns what is wrong with the circles of all crates under `root`.
pub(crate) fn problems(root: &Path) -> Result<Vec<String>> {
    let circles = find_all(root)?;
    let mut problems = judge_listed(&circles);
    problems.extend(judge_unlisted(&circles));
    Ok(problems)
}

/// Prints every circle with the lines that import.
pub(crate) fn print(root: &Path) -> Result<()> {
    let circles = find_all(root)?;
    for circle in &circles {
        let state = match reason_of(circle) {
            Some(reason) => format!("listed: {reason}"),
            None => "not listed".to_owned(),
        };
        println!("{}: {} files ({state})", circle.package, circle.files.len());
        for import in &circle.imports {
            let Import {
                from,
                line,
                name,
                to,
            } = import;
            println!("  {from}:{line}: {name} -> {to}");
        }
    }
    let files: usize = circles.iter().map(|c| c.files.len()).sum();
    println!("{} circles of {files} files", circles.len());
    Ok(())
}

fn find_all(root: &Path) -> Result<Vec<Circle>> {
    let mut packages = Vec::new();
    let folder = root.join("crates");
    for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
        packages.push(entry?.path());
    }
    packages.push(root.join("xtask"));
    packages.sort();
    let mut circles = Vec::new();
    for package in packages {
        let name = package.file_name().unwrap_or_default().to_string_lossy();
        for start in ["lib.rs", "main.rs"] {
            let source = package.join("src");
            if source.join(start).is_file() {
                let tree = Tree::read(&source, start)?;
                circles.extend(find(&name, &resolve::imports(&tree)));
            }
        }
    }
    Ok(circles)
}

/// Returns the circles among the files of one crate.
fn find(package: &str, imports: &[Import]) -> Vec<Circle> {
    let mut graph: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for import in imports {
        graph.entry(&import.from).or_default().insert(&import.to);
        graph.entry(&import.to).or_default();
    }
    let mut circles = Vec::new();
    for files in components(&graph) {
        let inside = |file: &String| files.contains(&file.as_str());
        let imports = imports
            .iter()
            .filter(|i| inside(&i.from) && inside(&i.to))
            .cloned()
            .collect();
        circles.push(Circle {
            package: package.to_owned(),
            files: files.iter().map(|f| (*f).to_owned()).collect(),
            imports,
        });
    }
    circles
}

fn reason_of(circle: &Circle) -> Option<&'static str> {
    let listed = EXCEPTIONS
        .iter()
        .find(|(package, files, _)| circle.is(package, files));
    listed.map(|(_, _, reason)| *reason)
}

impl Circle {
    fn is(&self, package: &str, files: &[&str]) -> bool {
        self.package == package && self.files == files
    }
}

/// An exception whose circle is gone leaves the list, so that it does not come back.
fn judge_listed(circles: &[Circle]) -> Vec<String> {
    let gone = EXCEPTIONS
        .iter()
        .filter(|(package, files, _)| !circles.iter().any(|c| c.is(package, files)));
    gone.map(|(package, files, _)| {
        format!(
            "{package}: {} are no circle any more: remove them from EXCEPTIONS in \
             xtask/src/circles.rs",
            files.join(", ")
        )
    })
    .collect()
}

/// Circles without a reason are refused beyond the number of files that `UNFINISHED` allows.
fn judge_unlisted(circles: &[Circle]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut found: BTreeMap<&str, Vec<&Circle>> = BTreeMap::new();
    for circle in circles.iter().filter(|c| reason_of(c).is_none()) {
        found.entry(&circle.package).or_default().push(circle);
    }
    for (package, _) in UNFINISHED {
        found.entry(package).or_default();
    }
    for (package, circles) in found {
        let allowed = UNFINISHED.iter().find(|(name, _)| *name == package);
        let allowed = allowed.map_or(0, |(_, files)| *files);
        let files: usize = circles.iter().map(|c| c.files.len()).sum();
        if files > allowed {
            problems.push(format!(
                "{package}: {files} files import each other in circles, {allowed} are allowed \
                 (cargo xtask layers --circles prints the lines):"
            ));
            let listed = circles.iter().map(|c| format!("  {}", c.files.join(", ")));
            problems.extend(listed);
        } else if files < allowed {
            problems.push(format!(
                "{package}: only {files} files are in circles now: write {files} for {allowed} in \
                 UNFINISHED in xtask/src/circles.rs"
            ));
        }
    }
    problems
}

/// Circles that stay: the crate, its files below `src` in order, and the reason. At most five, and
/// the list only shrinks.
const EXCEPTIONS: [(&str, &[&str], &str); 0] = [];

/// Crates that still have circles, each with the number of files in them. The number only falls.
const UNFINISHED: [(&str, usize); 0] = [];

#[cfg(test)]
mod tests;
