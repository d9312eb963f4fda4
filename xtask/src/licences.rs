//! The licences of the crates that are in the program.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::Deserialize;

use crate::metadata::{Lock, Metadata, Package};

mod expression;

/// The crates of others that the program is built with, by name and version.
pub(crate) struct ThirdParties {
    crates: Vec<Package>,
}

impl ThirdParties {
    /// Reads them from `cargo metadata`: what `hawser-cli` links on this machine's target, directly
    /// or through other crates.
    pub(crate) fn find(root: &Path) -> Result<Self> {
        let metadata = Metadata::read(root, Lock::AsItIs)?;
        let crates = linked(&metadata)?;
        Ok(Self { crates })
    }

    /// The text for packages: each crate with its licence, then each text once, with its crates.
    pub(crate) fn text(&self) -> Result<String> {
        let mut text = HEAD.to_owned();
        let mut texts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for package in &self.crates {
            text.push_str(&format!("{}: {}\n", package.id(), package.licence()));
            for file in package.licence_files()? {
                let said = fs::read(&file).with_context(|| file.display().to_string())?;
                let said = String::from_utf8_lossy(&said).trim().to_owned();
                texts.entry(said).or_default().insert(package.id());
            }
        }
        // Ordered by the first crate with the text; the text itself gives no useful order.
        let mut texts: Vec<_> = texts.into_iter().collect();
        texts.sort_by(|(one, of_one), (other, of_other)| (of_one, one).cmp(&(of_other, other)));
        for (said, of) in texts {
            let of: Vec<_> = of.into_iter().collect();
            let line = "-".repeat(72);
            text.push_str(&format!("\n{line}\n{}:\n\n{said}\n", of.join(", ")));
        }
        Ok(text)
    }

    /// What keeps the crates out of a release: licences that are not `allowed`, and texts that are
    /// missing.
    pub(crate) fn faults(&self, allowed: &BTreeSet<String>) -> Result<Vec<String>> {
        let mut faults = Vec::new();
        for package in &self.crates {
            let id = package.id();
            let licence = package.licence();
            match expression::is_met(&licence, allowed) {
                Ok(true) => {}
                Ok(false) => faults.push(format!("{id}: {licence} is not allowed in deny.toml")),
                Err(error) => faults.push(format!("{id}: licence {licence}: {error}")),
            }
            if package.licence_files()?.is_empty() && !WITHOUT_TEXT.contains(&&*package.name) {
                faults.push(format!("{id}: no text of its licence comes with it"));
            }
        }
        Ok(faults)
    }

    pub(crate) fn count(&self) -> usize {
        self.crates.len()
    }
}

/// The licences that `deny.toml` allows.
pub(crate) fn allowed(root: &Path) -> Result<BTreeSet<String>> {
    #[derive(Deserialize)]
    struct Deny {
        licenses: Licences,
    }
    #[derive(Deserialize)]
    struct Licences {
        allow: BTreeSet<String>,
    }
    let text = fs::read_to_string(root.join("deny.toml")).context("deny.toml")?;
    let deny: Deny = toml::from_str(&text).context("deny.toml")?;
    Ok(deny.licenses.allow)
}

/// Everything that the program depends on and that is not of the workspace, in order.
fn linked(metadata: &Metadata) -> Result<Vec<Package>> {
    let missing = "cargo metadata: a crate is missing";
    let packages: BTreeMap<_, _> = metadata.packages.iter().map(|it| (&*it.id, it)).collect();
    let edges = metadata.linked();
    let program = metadata.packages.iter().find(|it| it.name == "hawser-cli");
    let program = program.context("there is no crate hawser-cli")?;
    let mut seen = BTreeSet::from([&*program.id]);
    let mut next = VecDeque::from([&*program.id]);
    while let Some(id) = next.pop_front() {
        for &dependency in edges.get(id).context(missing)? {
            if seen.insert(dependency) {
                next.push_back(dependency);
            }
        }
    }
    let mut linked = Vec::new();
    for id in seen {
        let package = packages.get(id).context(missing)?;
        if package.source.is_some() {
            linked.push(Package::clone(package));
        }
    }
    linked.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    Ok(linked)
}

impl Package {
    fn id(&self) -> String {
        format!("{} {}", self.name, self.version)
    }

    fn licence(&self) -> String {
        self.license
            .clone()
            .unwrap_or_else(|| "not named".to_owned())
    }

    /// The files beside its manifest that state its licence.
    fn licence_files(&self) -> Result<Vec<PathBuf>> {
        let folder = self
            .manifest_path
            .parent()
            .context("a manifest is in a folder")?;
        let mut files: BTreeSet<PathBuf> = BTreeSet::new();
        files.extend(self.license_file.iter().map(|file| folder.join(file)));
        for file in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
            let file = file?;
            let name = file.file_name().to_string_lossy().to_uppercase();
            let is_one = [
                "LICENSE",
                "LICENCE",
                "COPYING",
                "COPYRIGHT",
                "NOTICE",
                "UNLICENSE",
            ]
            .iter()
            .any(|begin| name.starts_with(begin));
            if is_one && file.path().is_file() {
                files.insert(file.path());
            }
        }
        Ok(files.into_iter().collect())
    }
}

const HEAD: &str = "\
The program hawser contains these libraries, each under its own licence. Where a licence has \"OR\"
in it, each of the licences named may be chosen. Their texts follow.

";
/// Crates whose archives hold no text. Both allow Apache-2.0, whose text others bring.
const WITHOUT_TEXT: [&str; 2] = ["aya-obj", "core-error"];

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn what_the_program_needs_to_run_is_linked() {
        let package = |name: &str, source: Option<&str>| {
            json!({
                "id": name, "name": name, "version": "1.0.0", "license": "MIT",
                "license_file": null, "source": source, "manifest_path": "/x/Cargo.toml",
            })
        };
        let node = |id: &str, deps: &[(&str, Option<&str>)]| {
            let deps: Vec<Value> = deps
                .iter()
                .map(|(to, kind)| json!({"pkg": to, "dep_kinds": [{"kind": kind}]}))
                .collect();
            json!({"id": id, "deps": deps})
        };
        let registry = Some("registry");
        let metadata = json!({
            "packages": [
                package("hawser-cli", None),
                package("hawser-net", None),
                package("tokio", registry),
                package("bytes", registry),
                package("cc", registry),
                package("proptest", registry),
                package("other", registry),
            ],
            "resolve": {"nodes": [
                node("hawser-cli", &[("hawser-net", None), ("proptest", Some("dev"))]),
                node("hawser-net", &[("tokio", None), ("cc", Some("build"))]),
                node("tokio", &[("bytes", None)]),
                node("bytes", &[("tokio", None)]),
                node("other", &[]),
            ]},
        });
        let metadata: Metadata = serde_json::from_value(metadata).unwrap();
        let linked = linked(&metadata).unwrap();
        let names: Vec<_> = linked.iter().map(|it| &*it.name).collect();
        assert_eq!(names, ["bytes", "tokio"]);
    }
}
