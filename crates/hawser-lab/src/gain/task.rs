//! What the client loads, and by which programs.

use std::ffi::OsString;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};

use hawser_types::ByteCount;
use serde::Serialize;

use super::apt::Apt;
use super::downloads::Downloads;
use super::files::Percent;
use super::page::Page;
use crate::ip;
use crate::netns::NetNs;
use crate::process::Program;
use crate::topology::{Lab, SERVER};
use crate::web;

/// What is loaded.
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

/// A task whose files are on the server.
pub(super) trait Load {
    /// What it has to bring.
    fn bytes(&self) -> ByteCount;

    /// The program and its arguments for this round, with nothing left of what was loaded before.
    fn command(&self, round: u8) -> io::Result<Vec<OsString>>;

    /// An error where something is missing or wrong; else how long it took, if the program knows
    /// better than who started it.
    fn check(&self, printed: &str) -> anyhow::Result<Option<f64>>;
}

/// The server with its files.
pub(super) struct Site<'a> {
    pub(super) lab: &'a Lab,
    /// What the client keeps.
    pub(super) folder: &'a Path,
    /// What the server has.
    pub(super) root: PathBuf,
    pub(super) percent: Percent,
    web: Program,
}

impl<'a> Site<'a> {
    /// Starts nginx on the server host, with four addresses.
    pub(super) fn start(lab: &'a Lab, folder: &'a Path, percent: Percent) -> anyhow::Result<Self> {
        let others = HOSTS.iter().filter(|host| **host != SERVER);
        let lines = others.map(|host| format!("address add {host}/32 dev lo"));
        ip::batch(lab.server(), &lines.collect::<Vec<_>>())?;
        let addresses = HOSTS.map(|host| SocketAddrV4::new(host, 80));
        let at = folder.join("web");
        // Without the types browsers refuse style sheets and images.
        let more = "types { text/html html; text/css css; text/javascript js; image/svg+xml svg; }
  add_header Cache-Control no-store;";
        let web = web::start(lab.server(), &at, &addresses, more)?;
        let root = web::root(&at);
        Ok(Self {
            lab,
            folder,
            root,
            percent,
            web,
        })
    }

    pub(super) fn client(&self) -> &NetNs {
        self.lab.client()
    }

    /// An error when it has ended.
    pub(super) fn check_alive(&mut self) -> io::Result<()> {
        self.web.check_alive()
    }
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

/// Whether it would be found; as root also where only root looks.
fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// The server's addresses, which stand for hosts of their own.
pub(super) const HOSTS: [Ipv4Addr; 4] = [
    SERVER,
    Ipv4Addr::new(10, 99, 0, 2),
    Ipv4Addr::new(10, 99, 0, 3),
    Ipv4Addr::new(10, 99, 0, 4),
];
