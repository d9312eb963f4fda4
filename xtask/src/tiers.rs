//! Which tests run: `cargo xtask test`, or parts of them with `--partition`, `fast` or `changed`.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::layers;
use crate::metadata::{Lock, Metadata, Package};
use crate::partition::Partition;
use crate::process::{cargo, said};

/// What cargo is to test, and whether tests may make network namespaces.
pub(crate) struct Tier {
    /// Arguments of each call of cargo.
    calls: Vec<Vec<String>>,
    makes_namespaces: bool,
}

/// Everything, or a part of it.
///
/// Asks for the path of this program, which a build may replace: to be called before.
pub(crate) fn all(partition: Option<Partition>) -> Result<Tier> {
    let mut calls = Vec::new();
    if let Some(partition) = partition {
        let mut call = words(&["--workspace", "--tests", "--config"]);
        call.push(partition.configuration()?);
        calls.push(call);
        if partition.has_doc_tests() {
            calls.push(words(&["--workspace", "--doc"]));
        }
    } else {
        calls.push(words(&["--workspace"]));
    }
    Ok(Tier {
        calls,
        makes_namespaces: true,
    })
}

/// Unit tests of all crates, and the other tests of pure crates but for the simulator, whose tables
/// take minutes. Tests that make namespaces with `hawser-skip` are skipped.
///
/// One call of cargo, so that nothing is built twice with other features. It names tests, and so
/// also runs those of the same name in crates that are not pure.
pub(crate) fn fast(root: &Path) -> Result<Tier> {
    let metadata = Metadata::read(root, Lock::MayFollow)?;
    let is_pure = |it: &&Package| layers::is_sans_io(&it.name) && it.name != SIMULATOR;
    let pure = metadata.members().filter(is_pure);
    let tests = pure.flat_map(|it| it.tests());
    let mut arguments = words(&["--workspace", "--lib", "--bins"]);
    for test in tests.collect::<BTreeSet<_>>() {
        arguments.extend(words(&["--test", test]));
    }
    Ok(Tier {
        calls: vec![arguments],
        makes_namespaces: false,
    })
}

/// All tests of the crates with files that differ from `since`, and of the crates that depend on
/// them. `None` if no crate has changed.
pub(crate) fn changed(root: &Path, since: &str) -> Result<Option<Tier>> {
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        said(git.current_dir(root).args(arguments))
    };
    let differing = git(&["diff", "--name-only", "--no-renames", since, "--"])?;
    let untracked = git(&["ls-files", "--others", "--exclude-standard"])?;
    let files: Vec<&str> = differing.lines().chain(untracked.lines()).collect();
    let metadata = Metadata::read(root, Lock::MayFollow)?;
    let concerns_all = |file: &&str| FOR_ALL.iter().any(|it| Path::new(file).starts_with(it));
    if files.iter().any(concerns_all) {
        return all(None).map(Some);
    }
    let crates = affected(root, &metadata, &files);
    if crates.is_empty() {
        return Ok(None);
    }
    let packages = crates.iter().flat_map(|name| words(&["--package", name]));
    Ok(Some(Tier {
        calls: vec![packages.collect()],
        makes_namespaces: true,
    }))
}

/// Returns the crates that have one of `files`, and those that depend on them.
fn affected<'a>(root: &Path, metadata: &'a Metadata, files: &[&str]) -> BTreeSet<&'a str> {
    let has_one = |package: &&Package| {
        let folder = package.manifest_path.parent();
        let folder = folder.and_then(|it| it.strip_prefix(root).ok());
        folder.is_some_and(|folder| files.iter().any(|it| Path::new(it).starts_with(folder)))
    };
    let of_crates = metadata.members().filter(has_one);
    let mut affected: BTreeSet<&str> = of_crates.map(|it| it.name.as_str()).collect();
    loop {
        let depends = |it: &&Package| {
            let mut dependencies = it.dependencies.iter();
            let runs_it = RUN_THE_PROGRAM.contains(&it.name.as_str()) && affected.contains(PROGRAM);
            runs_it || dependencies.any(|it| affected.contains(it.name.as_str()))
        };
        let above: Vec<&str> = metadata
            .members()
            .filter(depends)
            .map(|it| it.name.as_str())
            .filter(|it| !affected.contains(it))
            .collect();
        if above.is_empty() {
            return affected;
        }
        affected.extend(above);
    }
}

/// Returns the cargo commands that run the tests of a tier.
pub(crate) fn commands(tier: &Tier) -> impl Iterator<Item = Command> {
    tier.calls.iter().map(|arguments| {
        let mut command = cargo();
        command.args(["test", "--no-fail-fast"]).args(arguments);
        if !tier.makes_namespaces {
            command.env(NO_NAMESPACES, "1");
        }
        command
    })
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&it| it.to_owned()).collect()
}

const SIMULATOR: &str = "hawser-sim";
/// `hawser-skip` makes no namespace where this is set.
const NO_NAMESPACES: &str = "HAWSER_NO_NAMESPACES";
/// Files and folders that builds or tests of many crates read.
const FOR_ALL: [&str; 8] = [
    ".cargo",
    "Cargo.lock",
    "Cargo.toml",
    "README.md",
    "contrib",
    "docs",
    "fuzz",
    "scenarios",
];
/// Crates whose tests run the program, though they do not depend on it.
const RUN_THE_PROGRAM: [&str; 2] = ["hawser-hostile", "hawser-lab"];
const PROGRAM: &str = "hawser-cli";

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(crates: &[(&str, &[&str])]) -> Metadata {
        let packages = crates.iter().map(|(name, needs)| {
            let needs = needs.iter().map(|it| serde_json::json!({"name": it}));
            serde_json::json!({
                "id": name,
                "name": name,
                "manifest_path": format!("/root/crates/{name}/Cargo.toml"),
                "dependencies": needs.collect::<Vec<_>>(),
            })
        });
        let whole = serde_json::json!({
            "packages": packages.collect::<Vec<_>>(),
            "workspace_members": crates.iter().map(|it| it.0).collect::<Vec<_>>(),
        });
        Metadata::parse(whole.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn a_change_affects_the_crates_that_depend_on_it_and_no_others() {
        let metadata = metadata(&[
            ("types", &[]),
            ("wire", &["types"]),
            ("session", &["wire"]),
            ("policy", &["types"]),
        ]);
        let of = |files: &[&str]| {
            let affected = affected(Path::new("/root"), &metadata, files);
            affected.into_iter().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(of(&["crates/wire/src/lib.rs"]), "session wire");
        assert_eq!(of(&["crates/policy/tests/a.rs", "README.md"]), "policy");
        assert_eq!(
            of(&["crates/types/Cargo.toml"]),
            "policy session types wire"
        );
        assert_eq!(of(&["docs/protocol.md", "crates/wirework/a.rs"]), "");
    }
}
