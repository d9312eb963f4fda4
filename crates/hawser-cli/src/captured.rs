//! `hawser up --capture`: connections of programs that know nothing of it, placed in the kernel.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use anyhow::Context as _;
use hawser_capture::{Capture, Settings, mount_point};
use hawser_front::connection::{Director, KernelPlaces};
use hawser_policy::RuleSet;
use hawser_sched::connection::ConnectionPolicy;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::session::Links;

/// Whose connections are captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Those of every program of this host.
    System,
    /// Those of the programs in a control group and below it: a folder, or a path from the root of
    /// the hierarchy.
    Group(PathBuf),
}

impl Scope {
    fn folder(&self) -> anyhow::Result<PathBuf> {
        let mount = mount_point()?;
        Ok(match self {
            Self::System => mount,
            Self::Group(path) if path.starts_with(&mount) => path.clone(),
            Self::Group(path) => mount.join(path.strip_prefix("/").unwrap_or(path)),
        })
    }
}

/// Starts capturing, for as long as the task runs.
pub(crate) fn start(
    scope: &Scope,
    policy: ConnectionPolicy,
    director: Director,
    rules: watch::Receiver<Arc<RuleSet>>,
    links: Links,
) -> anyhow::Result<JoinHandle<()>> {
    let settings = Settings {
        policy,
        ..Settings::default()
    };
    let capture = Capture::start(&scope.folder()?, &settings);
    let capture = capture.with_context(|| format!("--capture {scope}"))?;
    let places = KernelPlaces::new(capture, director)?;
    tracing::info!(%scope, "connections are captured");
    Ok(tokio::spawn(places.run(rules, links)))
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System => f.write_str("system"),
            Self::Group(path) => write!(f, "cgroup:{}", path.display()),
        }
    }
}

impl FromStr for Scope {
    type Err = UnknownScope;

    fn from_str(text: &str) -> Result<Self, UnknownScope> {
        match text.split_once(':') {
            None if text == "system" => Ok(Self::System),
            Some(("cgroup", path)) if Path::new(path).is_absolute() => Ok(Self::Group(path.into())),
            _ => Err(UnknownScope),
        }
    }
}

/// A text that says nothing of whose connections are to be captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected `system` or `cgroup:/PATH`")]
pub(crate) struct UnknownScope;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_is_the_system_or_a_group() {
        assert_eq!("system".parse(), Ok(Scope::System));
        let group: Scope = "cgroup:/user.slice".parse().unwrap();
        assert_eq!(group.to_string(), "cgroup:/user.slice");
        for text in [
            "",
            "cgroup",
            "cgroup:",
            "cgroup:user.slice",
            "systems",
            "program:/x",
        ] {
            assert_eq!(text.parse::<Scope>(), Err(UnknownScope), "{text}");
        }
    }
}
