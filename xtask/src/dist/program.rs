//! The program that is packed.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use super::release::Release;
use crate::process::{cargo, run, said};

/// The program, with its debug symbols beside it.
pub(super) struct Program {
    pub(super) stripped: PathBuf,
    pub(super) symbols: PathBuf,
    /// In hexadecimal digits; debuggers find the symbols by it.
    pub(super) build_id: String,
}

impl Program {
    pub(super) fn build(root: &Path, release: &Release, work: &Path) -> Result<Self> {
        let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
        let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
        let home = home.context("neither CARGO_HOME nor HOME is set")?;
        let places = [(root, "/usr/src/hawser"), (&home, "/usr/src/cargo")];
        let flags = |flag: &str| {
            let each = places.map(|(from, to)| format!("{flag}={}={to}", from.display()));
            each.join(" ")
        };
        run(cargo()
            .args(["build", "--profile", "dist", "--locked", "-p", "hawser-cli"])
            .env("RUSTFLAGS", flags("--remap-path-prefix"))
            .env("CFLAGS", flags("-ffile-prefix-map"))
            .env("SOURCE_DATE_EPOCH", &release.time)
            .env("CARGO_INCREMENTAL", "0")
            .env("CARGO_PROFILE_DIST_STRIP", "none")
            .env("CARGO_PROFILE_DIST_DEBUG", "line-tables-only"))?;
        let built = root.join("target/dist/hawser");
        let [stripped, symbols] = ["hawser", "hawser.debug"].map(|name| work.join(name));
        let objcopy = || Command::new("objcopy");
        run(objcopy().arg("--only-keep-debug").arg(&built).arg(&symbols))?;
        run(objcopy().arg("--strip-all").arg(&built).arg(&stripped))?;
        Ok(Self {
            build_id: build_id(&built)?,
            stripped,
            symbols,
        })
    }
}

/// The identifier that the linker has given to a program.
fn build_id(program: &Path) -> Result<String> {
    let notes = said(Command::new("readelf").arg("--notes").arg(program))?;
    let line = notes
        .lines()
        .find_map(|line| line.trim().strip_prefix("Build ID: "));
    Ok(line.context("the linker has given no build id")?.to_owned())
}
