//! The tasks of the client, and their programs.

use serde::Serialize;

use super::apt::Apt;
use super::downloads::Downloads;
use super::page::Page;
use super::site::{Load, Site};

/// A task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Task {
    /// Eight files at once by one curl.
    Curl,
    /// Thirty packages, five at a time, each by a curl of its own.
    Fetch,
    /// The same packages from four mirrors by apt-get, which has one connection to each.
    Apt,
    /// A page with a hundred parts from four hosts by Chromium.
    Page,
}

impl Task {
    /// Every task.
    pub(super) const ALL: [Self; 4] = [Self::Curl, Self::Fetch, Self::Apt, Self::Page];

    /// Its name on the command line and in reports.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Curl => "curl",
            Self::Fetch => "fetch",
            Self::Apt => "apt",
            Self::Page => "page",
        }
    }

    /// Puts its files onto the server.
    pub(super) fn publish(self, site: &Site<'_>) -> anyhow::Result<Box<dyn Load>> {
        Ok(match self {
            Self::Curl => Box::new(Downloads::at_once(site)?),
            Self::Fetch => Box::new(Downloads::one_by_one(site)?),
            Self::Apt => Box::new(Apt::publish(site)?),
            Self::Page => Box::new(Page::publish(site)?),
        })
    }

    /// Programs that it takes, with Debian's packages of them.
    const fn needs(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Curl => &[("curl", "curl")],
            Self::Fetch => &[("curl", "curl"), ("xargs", "findutils")],
            Self::Apt => &[("apt-get", "apt"), ("sha256sum", "coreutils")],
            Self::Page => &[("chromium", "chromium")],
        }
    }
}

/// An error that says what to install for `tasks`.
pub(super) fn check_programs(tasks: &[Task]) -> anyhow::Result<()> {
    let needs = tasks.iter().flat_map(|task| task.needs());
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_installed =
        |program: &str| std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    let mut missing: Vec<_> = std::iter::once(&("nginx", "nginx"))
        .chain(needs)
        .filter(|(program, _)| !is_installed(program))
        .map(|(program, package)| format!("{program} (package {package} on Debian)"))
        .collect();
    missing.dedup();
    anyhow::ensure!(
        missing.is_empty(),
        "not installed here: {}; install that, or leave tasks out with --tasks",
        missing.join(", ")
    );
    Ok(())
}
