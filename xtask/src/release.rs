//! `cargo xtask release`: whether the commit can be released as the version that it names.

mod links;
mod manual;
mod words;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use crate::process::{run, said};
use crate::{dist, licences, toolchains};

/// Runs all checks, also after one has found faults, and prints each fault in a line. With
/// `has_packages`, the packages are built twice, which takes long.
pub(crate) fn check(root: &Path, has_packages: bool) -> Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    let mut report = Report::default();
    report.add("tree", tree(root, version));
    report.add("version", words::version(root, version));
    report.add("changelog", words::changelog(root, version));
    report.add("links in documents", links::faults(root));
    report.add("licences", third_parties(root));
    report.add("dependencies", toolchains::deny().map(|()| Vec::new()));
    if has_packages {
        report.add("packages", packages(root, version));
    } else {
        println!("packages: not checked, since --without-packages was said");
    }
    if report.faults > 0 {
        bail!("{version} can't be released; faults: {}", report.faults);
    }
    if !has_packages {
        println!("\nno fault was found in the rest of {version}");
        return Ok(());
    }
    println!(
        "\n{version} can be released. Left to do by hand:\n  \
         git tag -s v{version} -m 'Hawser {version}' && git push origin v{version}\n  \
         upload what is in {}, with its sums and the release notes",
        dist::PACKAGES
    );
    Ok(())
}

#[derive(Default)]
struct Report {
    faults: usize,
}

impl Report {
    /// Prints what a check has found. One that could not be made is a fault as well.
    fn add(&mut self, what: &str, found: Result<Vec<String>>) {
        let faults = found.unwrap_or_else(|error| vec![format!("{error:#}")]);
        match faults.len() {
            0 => println!("{what}: well"),
            1 => println!("{what}: a fault"),
            many => println!("{what}: {many} faults"),
        }
        for fault in &faults {
            println!("  {}", fault.lines().collect::<Vec<_>>().join("; "));
        }
        self.faults += faults.len();
    }
}

/// Whether all is committed, and the version's tag is free or this commit's.
fn tree(root: &Path, version: &str) -> Result<Vec<String>> {
    let git = |arguments: &[&str]| said(Command::new("git").current_dir(root).args(arguments));
    let changed = git(&["status", "--porcelain"])?;
    let changed = changed.lines().map(|line| format!("not committed: {line}"));
    let mut faults: Vec<String> = changed.collect();
    let tag = format!("v{version}");
    if !git(&["tag", "--list", &tag])?.is_empty() {
        let of = git(&["rev-list", "-n", "1", &tag])?;
        let head = git(&["rev-parse", "HEAD"])?;
        if of != head {
            faults.push(format!("the tag {tag} is another commit's: {of}"));
        }
    }
    Ok(faults)
}

fn third_parties(root: &Path) -> Result<Vec<String>> {
    let found = licences::ThirdParties::find(root)?;
    let faults = found.faults(&licences::allowed(root)?)?;
    println!("{} crates of others are in the program", found.count());
    Ok(faults)
}

/// Builds the packages twice, and has Debian's checker and this one look at them.
fn packages(root: &Path, version: &str) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    dist::dist(root, &["--twice", "--version", version])?;
    let folder = root.join(dist::PACKAGES);
    let mut debian: Vec<PathBuf> = Vec::new();
    for file in std::fs::read_dir(&folder)? {
        let file = file?.path();
        if file.extension().is_some_and(|it| it == "deb") {
            debian.push(file);
        }
    }
    debian.sort();
    let mut lintian = Command::new("lintian");
    lintian.args(["--fail-on", "error,warning"]).args(&debian);
    if let Err(error) = run(&mut lintian) {
        faults.push(format!("lintian: {error:#}"));
    }
    for package in &debian {
        faults.extend(manual::faults(package, version)?);
    }
    Ok(faults)
}
