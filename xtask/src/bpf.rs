//! `cargo xtask bpf`: compiles the committed objects of the kernel's programs from their sources.
//!
//! Users need no compiler for them, because the objects are committed; `--check` tells whether they
//! still match the sources. Compilers produce different objects, so one version is required.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Makes the objects anew.
pub(crate) fn build(root: &Path) -> Result<()> {
    let Some(version) = clang_version() else {
        bail!("no clang here (on Debian: apt-get install clang llvm libbpf-dev)");
    };
    if version != VERSION {
        eprintln!("warning: clang {version}; the committed objects are what clang {VERSION} makes");
    }
    for name in PROGRAMS {
        compile(root, name, &committed(root, name))?;
    }
    Ok(())
}

/// Fails when a committed object is not what its source gives.
pub(crate) fn check(root: &Path) -> Result<()> {
    match clang_version() {
        Some(version) if version == VERSION => {}
        found => {
            let found =
                found.map_or_else(|| "none".to_owned(), |version| format!("clang {version}"));
            eprintln!(
                "SKIPPED: the objects of the kernel's programs: needs clang {VERSION}, here is {found}"
            );
            return Ok(());
        }
    }
    PROGRAMS.iter().try_for_each(|name| check_one(root, name))
}

fn check_one(root: &Path, name: &str) -> Result<()> {
    let fresh = root.join("target").join("bpf-check.o");
    fs::create_dir_all(root.join("target"))?;
    compile(root, name, &fresh)?;
    let same =
        fs::read(&fresh)? == fs::read(committed(root, name)).context("no committed object")?;
    fs::remove_file(&fresh)?;
    if !same {
        bail!("{FOLDER}/{name}.o is not what its source gives; make it anew: cargo xtask bpf");
    }
    eprintln!("{FOLDER}/{name}.o is what its source gives");
    Ok(())
}

fn committed(root: &Path, name: &str) -> PathBuf {
    root.join(FOLDER).join(name).with_extension("o")
}

/// From inside the folder, so that no path of this machine gets into the object; without names of
/// what only a debugger reads.
fn compile(root: &Path, name: &str, object: &Path) -> Result<()> {
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
            .args(["-c", &format!("{name}.c"), "-o"])
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
const PROGRAMS: [&str; 2] = ["capture", "discovery"];
/// Debian 12's.
const VERSION: &str = "14";
