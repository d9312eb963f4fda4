use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::link::read_link_name;

/// Whose traffic is captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CaptureScope {
    /// All programs of this host.
    System,
    /// The programs in a control group and below it: a folder, or a path from the root of the
    /// hierarchy.
    Group(PathBuf),
    /// The hosts behind an interface.
    Lan(String),
}

impl fmt::Display for CaptureScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System => f.write_str("system"),
            Self::Group(path) => write!(f, "cgroup:{}", path.display()),
            Self::Lan(interface) => write!(f, "lan:{interface}"),
        }
    }
}

impl FromStr for CaptureScope {
    type Err = UnknownCaptureScope;

    fn from_str(text: &str) -> Result<Self, UnknownCaptureScope> {
        match text.split_once(':') {
            None if text == "system" => Ok(Self::System),
            Some(("cgroup", path)) if Path::new(path).is_absolute() => Ok(Self::Group(path.into())),
            Some(("lan", interface)) => match read_link_name(interface) {
                Some(interface) => Ok(Self::Lan(interface)),
                None => Err(UnknownCaptureScope),
            },
            _ => Err(UnknownCaptureScope),
        }
    }
}

/// A text that is no [`CaptureScope`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected `system`, `cgroup:/PATH` or `lan:INTERFACE`")]
pub struct UnknownCaptureScope;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_is_the_system_a_group_or_a_network() {
        for text in ["system", "cgroup:/user.slice", "lan:eth1", "lan:br-lan.7"] {
            let scope: CaptureScope = text.parse().unwrap();
            assert_eq!(scope.to_string(), text);
        }
        for text in [
            "",
            "cgroup",
            "cgroup:",
            "cgroup:user.slice",
            "systems",
            "program:/x",
            "lan",
            "lan:",
            "lan:a b",
            "lan:an-interface-too-long",
        ] {
            assert_eq!(
                text.parse::<CaptureScope>(),
                Err(UnknownCaptureScope),
                "{text}"
            );
        }
    }
}
