//! A Debian without any trace of Hawser: the starting point of tests of the package.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::process::{run, said};

/// Makes it in the target folder, unless it is there with today's packages in it.
///
/// It is of the same release as this machine, so that programs that were built here run there.
pub(crate) fn provide(root: &Path) -> Result<()> {
    let folder = folder(root);
    let release =
        said(Command::new("sh").args(["-c", ". /etc/os-release; echo $VERSION_CODENAME"]))?;
    let made_of = format!("{release} {PACKAGES}\n");
    let note = folder.with_extension("made-of");
    if is_there(root) && fs::read_to_string(&note).is_ok_and(|it| it == made_of) {
        return Ok(());
    }
    eprintln!("making a fresh Debian in {}", folder.display());
    let new = folder.with_extension("new");
    for old in [&new, &folder] {
        if old.exists() {
            fs::remove_dir_all(old).with_context(|| old.display().to_string())?;
        }
    }
    fs::create_dir_all(new.parent().context("the target folder is in a folder")?)?;
    run(Command::new("mmdebstrap")
        .args(["--quiet", "--variant=minbase", "--include", PACKAGES])
        // Tests start their own.
        .arg("--customize-hook=chroot \"$1\" systemctl disable nginx.service")
        .arg(&release)
        .arg(&new))?;
    fs::write(&note, made_of)?;
    Ok(fs::rename(&new, &folder)?)
}

/// Whether there is one, whatever its packages are.
pub(crate) fn is_there(root: &Path) -> bool {
    folder(root).join("etc/debian_version").is_file()
}

fn folder(root: &Path) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    root.join(target).join("fresh-debian")
}

/// What a machine has that runs services, has links and downloads.
const PACKAGES: &str = "ca-certificates,curl,iproute2,nftables,nginx-light,systemd";
