//! The program that is packed.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};

use super::release::Release;
use crate::process::{cargo, run, said};

/// The program, with its debug symbols beside it.
pub(super) struct Program {
    pub(super) stripped: PathBuf,
    /// `None` of a program that was not built for packages.
    pub(super) symbols: Option<Symbols>,
}

/// Debug symbols of a program.
pub(super) struct Symbols {
    pub(super) file: PathBuf,
    /// In hexadecimal digits; debuggers find the symbols by it.
    pub(super) build_id: String,
}

impl Program {
    /// Builds it with a profile of cargo's, and puts it into `work`.
    pub(super) fn build(
        root: &Path,
        profile: &str,
        release: &Release,
        work: &Path,
    ) -> Result<Self> {
        let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
        let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
        let home = home.context("neither CARGO_HOME nor HOME is set")?;
        let places = [(root, "/usr/src/hawser"), (&home, "/usr/src/cargo")];
        let flags = |flag: &str| {
            let each = places.map(|(from, to)| format!("{flag}={}={to}", from.display()));
            each.join(" ")
        };
        let setting = format!("CARGO_PROFILE_{}", profile.to_uppercase().replace('-', "_"));
        let mut rust_flags = flags("--remap-path-prefix");
        // Functions with equal code are kept once, where the linker can do that.
        if links_with(FOLD, work) {
            rust_flags.push(' ');
            rust_flags.push_str(FOLD);
        }
        // Below the workspace's folder, whose path is replaced.
        let target = root.join("target");
        run(cargo()
            .args(["build", "--locked", "-p", "hawser-cli", "--profile"])
            .arg(profile)
            .arg("--target-dir")
            .arg(&target)
            .env("RUSTFLAGS", rust_flags)
            .env("CFLAGS", flags("-ffile-prefix-map"))
            .env("SOURCE_DATE_EPOCH", &release.time)
            .env("CARGO_INCREMENTAL", "0")
            .env(format!("{setting}_STRIP"), "none")
            .env(format!("{setting}_DEBUG"), "line-tables-only"))?;
        let folder = match profile {
            "dev" => "debug",
            other => other,
        };
        let built = target.join(folder).join("hawser");
        let file = work.join("hawser.debug");
        run(objcopy("--only-keep-debug").arg(&built).arg(&file))?;
        let build_id = build_id(&built)?;
        Ok(Self {
            symbols: Some(Symbols { file, build_id }),
            ..Self::given(&built, work)?
        })
    }

    /// Takes one that was built already.
    pub(super) fn given(file: &Path, work: &Path) -> Result<Self> {
        let stripped = work.join("hawser");
        run(objcopy("--strip-all").arg(file).arg(&stripped))?;
        Ok(Self {
            stripped,
            symbols: None,
        })
    }
}

/// Whether a program can be linked with this flag; it is put into `work`.
fn links_with(flag: &str, work: &Path) -> bool {
    let mut compiler = Command::new("rustc");
    compiler.args(["--crate-type", "bin", flag, "-", "-o"]);
    compiler.arg(work.join("linked"));
    let compiler = compiler.stdin(Stdio::piped()).stderr(Stdio::null()).spawn();
    let Ok(mut compiler) = compiler else {
        return false;
    };
    if let Some(mut program) = compiler.stdin.take() {
        // A compiler that has ended already says so by its status.
        _ = program.write_all(b"fn main() {}");
    }
    compiler.wait().is_ok_and(|status| status.success())
}

/// LLD keeps one copy of functions with equal code whose addresses are never compared.
const FOLD: &str = "-Clink-arg=-Wl,--icf=safe";

fn objcopy(what: &str) -> Command {
    let mut command = Command::new("objcopy");
    command.arg(what);
    command
}

/// The identifier that the linker has given to a program.
fn build_id(program: &Path) -> Result<String> {
    let notes = said(Command::new("readelf").arg("--notes").arg(program))?;
    let line = notes
        .lines()
        .find_map(|line| line.trim().strip_prefix("Build ID: "));
    Ok(line.context("the linker has given no build id")?.to_owned())
}
