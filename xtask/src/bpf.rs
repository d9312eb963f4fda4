//! `cargo xtask bpf`: makes the committed object of the kernel's programs from their source.
//!
//! Users need no compiler for it, since the object is committed; `--check` says whether it still is
//! what the source gives. Compilers differ in what they make of it, so one version counts.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Makes the object anew.
pub(crate) fn build(root: &Path) -> Result<()> {
    let Some(version) = clang_version() else {
        bail!("no clang here (on Debian: apt-get install clang llvm libbpf-dev)");
    };
    if version != VERSION {
        eprintln!("warning: clang {version}; the committed object is what clang {VERSION} makes");
    }
    compile(root, &root.join(FOLDER).join(OBJECT))
}

/// Fails when the committed object is not what the source gives.
pub(crate) fn check(root: &Path) -> Result<()> {
    match clang_version() {
        Some(version) if version == VERSION => {}
        found => {
            let found =
                found.map_or_else(|| "none".to_owned(), |version| format!("clang {version}"));
            eprintln!(
                "SKIPPED: the object of the kernel's programs: needs clang {VERSION}, here is {found}"
            );
            return Ok(());
        }
    }
    let fresh = root.join("target").join("bpf-check.o");
    fs::create_dir_all(root.join("target"))?;
    compile(root, &fresh)?;
    let committed = root.join(FOLDER).join(OBJECT);
    let same = fs::read(&fresh)? == fs::read(&committed).context("no committed object")?;
    fs::remove_file(&fresh)?;
    if !same {
        bail!("{FOLDER}/{OBJECT} is not what its source gives; make it anew: cargo xtask bpf");
    }
    eprintln!("{FOLDER}/{OBJECT} is what its source gives");
    Ok(())
}

/// From inside the folder, so that no path of this machine gets into the object; without names of
/// what only a debugger reads.
fn compile(root: &Path, object: &Path) -> Result<()> {
    let folder = root.join(FOLDER);
    crate::process::run(
        Command::new("clang")
            .current_dir(&folder)
            .args(["-target", "bpf", "-mcpu=v3", "-O2", "-fno-jump-tables"])
            .args(["-Wall", "-Wextra", "-Werror", "-fno-ident"])
            .arg(format!(
                "-I/usr/include/{}-linux-gnu",
                std::env::consts::ARCH
            ))
            .args(["-c", SOURCE, "-o"])
            .arg(object),
    )?;
    crate::process::run(Command::new("llvm-strip").args(["-g", "-x"]).arg(object))
}

/// The first number of its version.
fn clang_version() -> Option<String> {
    let output = Command::new("clang").arg("-dumpversion").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.trim().split('.').next().map(str::to_owned)
}

const FOLDER: &str = "crates/hawser-capture/bpf";
const SOURCE: &str = "capture.c";
const OBJECT: &str = "capture.o";
/// Debian 12's.
const VERSION: &str = "14";
