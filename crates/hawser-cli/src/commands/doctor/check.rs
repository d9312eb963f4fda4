//! The result of one check of `hawser doctor`.

use serde::Serialize;

/// Outcome of one check.
#[derive(Debug, Serialize)]
pub(super) struct Check {
    /// The thing checked.
    pub(super) name: String,
    pub(super) status: Status,
    /// Result of the check.
    pub(super) finding: String,
    /// Advice to the user.
    pub(super) remedy: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Status {
    /// All is well.
    Ok,
    /// The thing works, but not as well as it could.
    Warn,
    /// The thing does not work.
    Fail,
}

impl Check {
    pub(super) fn ok(name: impl Into<String>, finding: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            status: Status::Ok,
            finding: finding.into(),
            remedy: None,
        }
    }

    pub(super) fn warn(
        name: impl Into<String>,
        finding: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            status: Status::Warn,
            remedy: Some(remedy.into()),
            ..Self::ok(name, finding)
        }
    }

    pub(super) fn fail(
        name: impl Into<String>,
        finding: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            status: Status::Fail,
            ..Self::warn(name, finding, remedy)
        }
    }
}
