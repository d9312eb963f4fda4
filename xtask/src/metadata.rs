//! Output of `cargo metadata` about the crates that the workspace is built with.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::Deserialize;

use crate::process::{cargo, said};

/// What `cargo metadata` says, as far as it matters here.
#[derive(Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
    #[serde(default)]
    pub(crate) workspace_members: Vec<String>,
    resolve: Option<Resolve>,
}

/// Whether `Cargo.lock` may be brought up to date.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lock {
    /// Yes: while dependencies are being changed.
    MayFollow,
    /// No: for a release.
    AsItIs,
}

/// A crate.
#[derive(Clone, Deserialize)]
pub(crate) struct Package {
    pub(crate) id: String,
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) version: String,
    pub(crate) license: Option<String>,
    pub(crate) license_file: Option<PathBuf>,
    /// `None` for crates of the workspace.
    pub(crate) source: Option<String>,
    pub(crate) manifest_path: PathBuf,
    #[serde(default)]
    pub(crate) dependencies: Vec<Dependency>,
    #[serde(default)]
    targets: Vec<Target>,
}

/// Something that cargo builds of a crate.
#[derive(Clone, Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

impl Package {
    /// The names of the files in `tests/` that are programs.
    pub(crate) fn tests(&self) -> impl Iterator<Item = &str> {
        let is_test = |it: &&Target| it.kind.iter().any(|kind| kind == "test");
        self.targets
            .iter()
            .filter(is_test)
            .map(|it| it.name.as_str())
    }
}

/// A dependency as a manifest names it.
#[derive(Clone, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// `None` for an ordinary one, else `dev` or `build`.
    pub(crate) kind: Option<String>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Edge>,
}

#[derive(Deserialize)]
struct Edge {
    pkg: String,
    dep_kinds: Vec<EdgeKind>,
}

#[derive(Deserialize)]
struct EdgeKind {
    kind: Option<String>,
}

impl Metadata {
    /// Asks cargo about the workspace at `root`, as it is built for this machine: what other
    /// systems would link is neither fetched nor told.
    pub(crate) fn read(root: &Path, lock: Lock) -> Result<Self> {
        let mut command = cargo();
        command
            .current_dir(root)
            .args(["metadata", "--format-version", "1", "--quiet"])
            .args(["--filter-platform", &host()?]);
        if lock == Lock::AsItIs {
            command.arg("--locked");
        }
        Self::parse(said(&mut command)?.as_bytes())
    }

    pub(crate) fn parse(json: &[u8]) -> Result<Self> {
        serde_json::from_slice(json).context("cannot read what cargo metadata says")
    }

    /// The crates of the workspace.
    pub(crate) fn members(&self) -> impl Iterator<Item = &Package> {
        let is_member = |it: &&Package| self.workspace_members.contains(&it.id);
        self.packages.iter().filter(is_member)
    }

    /// The crates that are linked into each crate, by their ids; not those for its tests and its
    /// build.
    pub(crate) fn linked(&self) -> BTreeMap<&str, Vec<&str>> {
        let nodes = self.resolve.iter().flat_map(|it| &it.nodes);
        let is_linked = |edge: &&Edge| edge.dep_kinds.iter().any(|it| it.kind.is_none());
        nodes
            .map(|node| {
                let edges = node.deps.iter().filter(is_linked);
                (node.id.as_str(), edges.map(|it| it.pkg.as_str()).collect())
            })
            .collect()
    }
}

/// The triple of this machine, as rustc names it.
fn host() -> Result<String> {
    let output = std::process::Command::new("rustc").arg("-vV").output();
    let text = output.context("cannot start rustc")?.stdout;
    let text = String::from_utf8_lossy(&text).into_owned();
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc does not name its host")?.to_owned())
}
