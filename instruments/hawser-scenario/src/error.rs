use std::fmt::Display;
use std::io;
use std::path::PathBuf;

use crate::TraceError;

/// A scenario file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScenarioError {
    /// The file cannot be read.
    #[error("cannot read {}: {reason}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        reason: io::Error,
    },
    /// The file's content is wrong.
    #[error("{}: {reason}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// Description of the error and its place.
        reason: Box<InvalidScenario>,
    },
}

/// An error in a scenario's text.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidScenario {
    /// Not TOML, an unknown key, or a value without its unit; the message holds line and key.
    #[error("{0}")]
    Syntax(#[from] toml::de::Error),
    /// A value outside its range.
    #[error("{key} is {got}: allowed is {allowed}")]
    Value {
        /// The key, with the link's or event's number.
        key: String,
        /// Value in the file.
        got: String,
        /// Allowed values.
        allowed: &'static str,
    },
    /// A trace that cannot be used.
    #[error("{key}: {reason}")]
    Trace {
        /// The key, with the link's number.
        key: String,
        /// Description of the error.
        reason: TraceError,
    },
}

impl InvalidScenario {
    /// Creates the error for a value outside its range.
    pub(crate) fn out_of_range(key: &str, got: impl Display, allowed: &'static str) -> Self {
        Self::Value {
            key: key.to_owned(),
            got: got.to_string(),
            allowed,
        }
    }
}
