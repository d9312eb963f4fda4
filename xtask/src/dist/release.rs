//! Version and time of a package.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use crate::process::{run, said};

/// What is packed.
pub(super) struct Release {
    /// As Debian orders them: a build of what is not released yet is older than the release.
    pub(super) version: String,
    /// Seconds since 1970: of the commit.
    pub(super) time: String,
    /// As the compiler calls it, such as `x86_64`.
    pub(super) machine: &'static str,
}

impl Release {
    /// What is in `root`, under a version of its own where one is `given`.
    pub(super) fn of(root: &Path, given: Option<&str>) -> Result<Self> {
        let version = given.unwrap_or(env!("CARGO_PKG_VERSION"));
        let git = |arguments: &[&str]| said(Command::new("git").current_dir(root).args(arguments));
        // A tarball of the sources has no history.
        let Ok(time) = git(&["log", "-1", "--format=%ct"]) else {
            return Ok(Self {
                version: version.to_owned(),
                time: std::env::var("SOURCE_DATE_EPOCH").unwrap_or_else(|_| "0".to_owned()),
                machine: std::env::consts::ARCH,
            });
        };
        let tags = git(&["tag", "--points-at", "HEAD"])?;
        let is_released = tags
            .lines()
            .any(|tag| tag.strip_prefix('v') == Some(version));
        let commit = git(&["log", "-1", "--format=%h", "--abbrev=8"])?;
        Ok(Self {
            version: if is_released || given.is_some() {
                version.to_owned()
            } else {
                format!("{version}~{time}.{commit}")
            },
            time,
            machine: std::env::consts::ARCH,
        })
    }

    /// Gives everything below `folder` the time of the commit.
    pub(super) fn stamp(&self, folder: &Path) -> Result<()> {
        let time = format!("@{}", self.time);
        run(Command::new("find").arg(folder).args([
            "-exec",
            "touch",
            "--no-dereference",
            "--date",
            &time,
            "{}",
            "+",
        ]))
    }
}
