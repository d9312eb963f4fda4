//! `cargo xtask layers`, second part: files of a crate that import each other in a circle.
//!
//! File A imports file B if code of A names an item that B defines: in a `use`, or by a path in the
//! code. A name is followed through re-exports to the file that defines it; a function and a module
//! of one name are told apart by what stands behind the name. A path through a module that passes
//! the item on, as `b::f` with `pub use c::f` in B, imports B too, unless B is around A. These do
//! not count:
//!
//! - `mod b;` in A, and `pub use b::Item` in A as long as A itself does not use `Item`: both only
//!   say where something is found;
//! - the name of a module alone, as in `use crate::b;`, until an item is reached through it;
//! - everything under `#[cfg(test)]`, and comments.
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

/// Returns what is wrong with the files of all crates under `root`: every circle.
pub(crate) fn problems(root: &Path) -> Result<Vec<String>> {
    let circles = find_all(root)?;
    Ok(circles.iter().map(problem).collect())
}

fn problem(circle: &Circle) -> String {
    let Circle { package, files, .. } = circle;
    format!(
        "{package}: these files import each other (cargo xtask layers --circles prints the lines): \
         {}",
        files.join(", ")
    )
}

/// Prints every circle with the lines that import.
pub(crate) fn print(root: &Path) -> Result<()> {
    let circles = find_all(root)?;
    for circle in &circles {
        println!("{}: {} files", circle.package, circle.files.len());
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
    for folder in ["crates", "instruments"].map(|name| root.join(name)) {
        for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            packages.push(entry?.path());
        }
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

#[cfg(test)]
mod tests;
