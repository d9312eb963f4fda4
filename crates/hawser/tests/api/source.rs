//! The workspace's sources as syntax trees, without items for tests.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use syn::{Attribute, File, Item};

/// A crate of the workspace.
pub(crate) struct Source {
    /// Its name, such as `hawser-net`.
    pub(crate) name: String,
    /// Every item of every file, including those of modules within a file.
    pub(crate) items: Vec<Item>,
}

impl Source {
    /// Reads the library and the crates of the workspace below it.
    pub(crate) fn of_library() -> Vec<Self> {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut names = vec!["hawser".to_owned()];
        let mut done = 0;
        while let Some(name) = names.get(done) {
            let further = dependencies(&crates.join(name));
            names.extend(further);
            let mut seen = BTreeSet::new();
            names.retain(|name| seen.insert(name.clone()));
            done += 1;
        }
        names
            .iter()
            .map(|name| Self::read(&crates.join(name)))
            .collect()
    }

    fn read(folder: &Path) -> Self {
        let mut items = Vec::new();
        for path in rust_files(&folder.join("src")) {
            let text = std::fs::read_to_string(&path).unwrap();
            let file: File = syn::parse_file(&text)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            if !is_for_tests(&file.attrs) {
                collect(file.items, &mut items);
            }
        }
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        Self { name, items }
    }
}

/// Tells whether an item exists for tests only.
pub(crate) fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let condition = attribute.path().is_ident("cfg");
        condition && crate::listing::text_of(&attribute.meta).contains("test")
    })
}

/// Flattens modules.
fn collect(from: Vec<Item>, into: &mut Vec<Item>) {
    for item in from {
        match item {
            Item::Mod(module) if is_for_tests(&module.attrs) => {}
            Item::Mod(module) => collect(module.content.map_or_else(Vec::new, |it| it.1), into),
            other => into.push(other),
        }
    }
}

/// The crates of the workspace that a crate's library depends on.
fn dependencies(folder: &Path) -> Vec<String> {
    let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    let section = manifest
        .split("\n[")
        .find(|it| it.starts_with("dependencies]"));
    let names = section.into_iter().flat_map(str::lines);
    let names = names.filter_map(|line| line.split(['.', ' ', '=']).next());
    names
        .filter(|name| name.starts_with("hawser-"))
        .map(str::to_owned)
        .collect()
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let is_tests = path.file_stem().is_some_and(|stem| stem == "tests");
        if is_tests {
            continue;
        }
        if path.is_dir() {
            found.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}
