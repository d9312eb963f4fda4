//! `cargo xtask layers`: dependencies between crates point only upwards in the list of rooms, and
//! crates without I/O stay without it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;

use crate::metadata::{Lock, Metadata, Package};

/// Returns which crates of the workspace depend on what they must not.
pub(crate) fn problems(root: &Path) -> Result<Vec<String>> {
    let graph = Graph(Metadata::read(root, Lock::MayFollow)?);
    let mut problems = graph.order_problems();
    problems.extend(graph.purity_problems());
    for package in graph.members() {
        problems.extend(attribute_problem(root, package));
    }
    Ok(problems)
}

/// The crates and what they depend on.
struct Graph(Metadata);

impl Graph {
    /// The crates of the workspace, this program aside.
    fn members(&self) -> impl Iterator<Item = &Package> {
        self.0.members().filter(|it| it.name != "xtask")
    }

    fn order_problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for package in self.members() {
            let Some(own) = height(&package.name) else {
                problems.push(format!(
                    "{} is not in the list of rooms (xtask/src/layers.rs)",
                    package.name
                ));
                continue;
            };
            for dependency in &package.dependencies {
                if height(&dependency.name).is_some_and(|other| other >= own) {
                    problems.push(format!(
                        "{} may not depend on {}, which stands below it",
                        package.name, dependency.name
                    ));
                }
            }
        }
        problems
    }

    fn purity_problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for package in self.members().filter(|p| is_sans_io(&p.name)) {
            for dependency in &package.dependencies {
                let is_for_tests = dependency.kind.as_deref() == Some("dev");
                let own = (package.name.as_str(), dependency.name.as_str());
                let is_allowed = is_for_tests || ALLOWED.contains(&own);
                if !is_allowed && FORBIDDEN_DIRECTLY.contains(&own.1) {
                    problems.push(format!(
                        "{} does no I/O, so it may not depend on {}",
                        package.name, dependency.name
                    ));
                }
            }
            for (name, way) in self.reached_from(&package.id) {
                if FORBIDDEN_ANYWHERE.contains(&name) {
                    problems.push(format!(
                        "{} does no I/O, so it may not reach {name} (by {way})",
                        package.name
                    ));
                }
            }
        }
        problems
    }

    /// The crates that are linked into `root`, each with the crate that brings it.
    fn reached_from(&self, root: &str) -> BTreeMap<&str, &str> {
        let names: BTreeMap<&str, &str> = self
            .0
            .packages
            .iter()
            .map(|p| (p.id.as_str(), p.name.as_str()))
            .collect();
        let edges = self.0.linked();
        let mut seen = BTreeSet::from([root]);
        let mut open = vec![root];
        let mut reached = BTreeMap::new();
        while let Some(id) = open.pop() {
            for &linked in edges.get(id).into_iter().flatten() {
                let name = names.get(linked).copied().unwrap_or_default();
                reached
                    .entry(name)
                    .or_insert(names.get(id).copied().unwrap_or_default());
                if seen.insert(linked) {
                    open.push(linked);
                }
            }
        }
        reached
    }
}

/// A crate without I/O says in its root file that it has no unsafe code.
fn attribute_problem(root: &Path, package: &Package) -> Option<String> {
    if !is_sans_io(&package.name) {
        return None;
    }
    let folder = package.manifest_path.parent()?;
    let file = folder.join("src/lib.rs");
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    let shown = file.strip_prefix(root).unwrap_or(&file).display();
    (!text.lines().any(|line| line.trim() == FORBID))
        .then(|| format!("{shown} does not say {FORBID}"))
}

/// The place of a crate in the list of rooms, 0 at the top.
fn height(name: &str) -> Option<usize> {
    ROOMS.iter().position(|(room, _)| *room == name)
}

/// Whether a crate does no I/O.
pub(crate) fn is_sans_io(name: &str) -> bool {
    ROOMS.contains(&(name, Io::None))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Io {
    None,
    Some,
}

/// The rooms from the top: a crate depends on crates above it only.
const ROOMS: [(&str, Io); 32] = [
    ("hawser-types", Io::None),
    ("hawser-wire", Io::None),
    ("hawser-path", Io::None),
    ("hawser-sched", Io::None),
    ("hawser-policy", Io::None),
    ("hawser-session", Io::None),
    ("hawser-sctp", Io::None),
    ("hawser-tunnel", Io::None),
    ("hawser-sip", Io::None),
    ("hawser-channels", Io::None),
    ("hawser-director", Io::None),
    ("hawser-control", Io::None),
    ("hawser-text", Io::None),
    ("hawser-scenario", Io::None),
    ("hawser-sim", Io::None),
    ("hawser-skip", Io::Some),
    ("hawser-config", Io::Some),
    ("hawser-usage", Io::Some),
    ("hawser-keys", Io::Some),
    ("hawser-link", Io::Some),
    ("hawser-host", Io::Some),
    ("hawser-seal", Io::Some),
    ("hawser-net", Io::Some),
    ("hawser-capture", Io::Some),
    ("hawser-file", Io::Some),
    ("hawser-front", Io::Some),
    ("hawser", Io::Some),
    ("hawser-monitor", Io::Some),
    ("hawser-daemon", Io::Some),
    ("hawser-hostile", Io::Some),
    ("hawser-lab", Io::Some),
    ("hawser-cli", Io::Some),
];

const FORBID: &str = "#![forbid(unsafe_code)]";

/// What a crate without I/O may not name. Some of it may be linked all the same: the cipher's
/// crate calls libc to learn what the processor can do.
const FORBIDDEN_DIRECTLY: [&str; 18] = [
    "async-std",
    "futures-util",
    "getrandom",
    "libc",
    "mio",
    "nix",
    "num_cpus",
    "parking_lot",
    "rtnetlink",
    "rustix",
    "rustls",
    "smol",
    "socket2",
    "tempfile",
    "tokio",
    "tracing-subscriber",
    "windows-sys",
    "tokio-util",
];

/// What a crate may name all the same: keys for connections of QUIC that the simulator runs. They
/// read and write nothing.
const ALLOWED: [(&str, &str); 1] = [("hawser-sim", "rustls")];

/// What may not even be linked into a crate without I/O.
const FORBIDDEN_ANYWHERE: [&str; 6] = ["async-std", "mio", "rtnetlink", "smol", "socket2", "tokio"];

#[cfg(test)]
mod tests {
    use super::*;

    /// Metadata of a workspace: each crate with its dependencies, `dev:` before those for tests.
    fn graph(crates: &[(&str, &[&str])]) -> Graph {
        let kind_of = |name: &str| match name.strip_prefix("dev:") {
            Some(name) => (name.to_owned(), Some("dev")),
            None => (name.to_owned(), None),
        };
        let mut packages = Vec::new();
        let mut nodes = Vec::new();
        for (name, needs) in crates {
            let needs: Vec<_> = needs.iter().map(|n| kind_of(n)).collect();
            packages.push(serde_json::json!({
                "id": name, "name": name, "manifest_path": "Cargo.toml",
                "dependencies": needs.iter().map(|(name, kind)|
                    serde_json::json!({"name": name, "kind": kind})).collect::<Vec<_>>(),
            }));
            nodes.push(serde_json::json!({
                "id": name,
                "deps": needs.iter().map(|(name, kind)| serde_json::json!({
                    "pkg": name, "dep_kinds": [{"kind": kind}]})).collect::<Vec<_>>(),
            }));
        }
        let members: Vec<_> = crates
            .iter()
            .map(|c| c.0)
            .filter(|n| n.starts_with("hawser"))
            .collect();
        let whole = serde_json::json!({
            "packages": packages, "workspace_members": members, "resolve": {"nodes": nodes},
        });
        Graph(Metadata::parse(whole.to_string().as_bytes()).unwrap())
    }

    #[test]
    fn arrows_point_up_only() {
        let graph = graph(&[
            ("hawser-types", &[]),
            ("hawser-wire", &["hawser-types", "hawser-session"]),
            ("hawser-session", &["hawser-types", "hawser-wire"]),
            ("hawser-attic", &[]),
        ]);
        assert_eq!(
            graph.order_problems(),
            [
                "hawser-wire may not depend on hawser-session, which stands below it",
                "hawser-attic is not in the list of rooms (xtask/src/layers.rs)",
            ]
        );
    }

    #[test]
    fn a_crate_without_io_names_no_sockets_and_links_none() {
        let graph = graph(&[
            ("hawser-wire", &["libc", "helper", "dev:tokio"]),
            ("hawser-net", &["tokio", "libc"]),
            ("helper", &["socket2", "dev:mio"]),
            ("libc", &[]),
            ("socket2", &[]),
            ("mio", &[]),
            ("tokio", &[]),
        ]);
        assert_eq!(
            graph.purity_problems(),
            [
                "hawser-wire does no I/O, so it may not depend on libc",
                "hawser-wire does no I/O, so it may not reach socket2 (by helper)",
            ]
        );
    }

    #[test]
    fn a_circle_ends() {
        let graph = graph(&[("hawser-types", &["a"]), ("a", &["b"]), ("b", &["a"])]);
        assert_eq!(graph.purity_problems(), Vec::<String>::new());
    }
}
