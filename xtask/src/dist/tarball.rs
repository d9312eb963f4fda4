//! The tarball, for distributions without a package.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::release::Release;
use super::tree::Tree;
use crate::process::run;

/// Packs the tree with its installer; returns the file.
pub(super) fn pack(
    root: &Path,
    tree: &Tree,
    release: &Release,
    packages: &Path,
) -> Result<PathBuf> {
    let name = format!("hawser-{}-linux-{}", release.version, release.machine);
    let folder = packages.join("work").join(&name);
    fs::create_dir_all(&folder)?;
    run(Command::new("cp")
        .arg("-a")
        .arg(&tree.folder)
        .arg(folder.join("tree")))?;
    fs::copy(
        root.join("contrib/tarball/install.sh"),
        folder.join("install.sh"),
    )?;
    for license in ["LICENSE-APACHE", "LICENSE-MIT"] {
        fs::copy(root.join(license), folder.join(license))?;
    }
    release.stamp(&folder)?;
    let [plain, packed] = ["tar", "tar.gz"].map(|end| packages.join(format!("{name}.{end}")));
    run(Command::new("tar")
        .args([
            "--sort=name",
            "--owner=0",
            "--group=0",
            "--numeric-owner",
            "--format=gnu",
        ])
        .args(["--mode=u+w,go-w", "--create", "--file"])
        .arg(&plain)
        .arg("--directory")
        .arg(packages.join("work"))
        .arg(&name))?;
    run(Command::new("gzip").arg("-9n").arg(&plain))?;
    Ok(packed)
}
