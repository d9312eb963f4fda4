//! Whether two builds of one commit give the same bytes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::options::{Options, PACKAGES, Source};
use crate::process::{cargo, run, said};

/// Packs the commit in two folders, one after the other, compares all packages, and puts them where
/// packages are.
///
/// The folders' paths differ in length, so that none of them goes unseen in a program.
pub(super) fn compare(root: &Path, options: &Options) -> Result<()> {
    let Source::Profile(profile) = &options.source else {
        bail!("only what is built can be built twice");
    };
    let place = root.join("target/twice");
    if place.exists() {
        fs::remove_dir_all(&place)?;
    }
    fs::create_dir_all(&place)?;
    let mut found = Vec::new();
    for name in ["first", "a-second-place"] {
        let folder = place.join(name);
        build(root, profile, options.version.as_deref(), &folder)?;
        let kept = place.join(format!("packages-{name}"));
        fs::rename(folder.join(PACKAGES), &kept)?;
        // A build takes gigabytes.
        fs::remove_dir_all(&folder)?;
        found.push(sums(&kept)?);
    }
    let [first, second] = &found[..] else {
        bail!("there are not two builds");
    };
    let differing = differences(first, second);
    if !differing.is_empty() {
        bail!(
            "two builds of one commit differ in {}: compare what is in {}",
            differing.join(", "),
            place.display()
        );
    }
    for (name, sum) in first {
        println!("{sum}  {name}");
    }
    println!("two builds in different folders gave the same bytes");
    let packages = root.join(PACKAGES);
    if packages.exists() {
        fs::remove_dir_all(&packages)?;
    }
    fs::rename(place.join("packages-first"), &packages)?;
    fs::remove_dir_all(&place)?;
    Ok(())
}

/// Copies the commit to `folder`, without what is not committed, and packs it there.
fn build(root: &Path, profile: &str, version: Option<&str>, folder: &Path) -> Result<()> {
    let git = |from: &Path| {
        let mut git = Command::new("git");
        git.current_dir(from);
        git
    };
    let commit = said(git(root).args(["rev-parse", "HEAD"]))?;
    let clone = ["clone", "--quiet", "--no-hardlinks"];
    run(git(root).args(clone).arg(root).arg(folder))?;
    run(git(folder).args(["checkout", "--quiet", "--detach", &commit]))?;
    let mut command = cargo();
    command
        .current_dir(folder)
        .args(["run", "--quiet", "--package", "xtask", "--manifest-path"])
        .arg(folder.join("Cargo.toml"))
        .args(["--", "dist", "--profile", profile]);
    if let Some(version) = version {
        command.args(["--version", version]);
    }
    // Its own, since paths of the target folder are in what is compiled.
    run(command.env_remove("CARGO_TARGET_DIR"))
}

/// Each file of a folder with the SHA-256 sum of its bytes.
fn sums(folder: &Path) -> Result<BTreeMap<String, String>> {
    let mut sums = BTreeMap::new();
    for file in fs::read_dir(folder)? {
        let path = file?.path();
        let said = said(Command::new("sha256sum").arg(&path))?;
        let sum = said.split(' ').next().context("sha256sum says nothing")?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        sums.insert(name.into_owned(), sum.to_owned());
    }
    if sums.is_empty() {
        bail!("{}: nothing was packed", folder.display());
    }
    Ok(sums)
}

/// Names of files that are not the same in both.
fn differences(first: &BTreeMap<String, String>, second: &BTreeMap<String, String>) -> Vec<String> {
    let names = first.keys().chain(second.keys());
    let mut differing: Vec<String> = names
        .filter(|name| first.get(*name) != second.get(*name))
        .cloned()
        .collect();
    differing.sort();
    differing.dedup();
    differing
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_differs_or_is_missing_is_named() {
        let of = |files: &[(&str, &str)]| {
            let pairs = files
                .iter()
                .map(|(name, sum)| ((*name).to_owned(), (*sum).to_owned()));
            pairs.collect::<BTreeMap<_, _>>()
        };
        let first = of(&[("a.deb", "1"), ("b.deb", "2"), ("c.gz", "3")]);
        let second = of(&[("a.deb", "1"), ("b.deb", "9"), ("d.gz", "3")]);
        assert_eq!(differences(&first, &second), ["b.deb", "c.gz", "d.gz"]);
        assert!(differences(&first, &first).is_empty());
    }
}
