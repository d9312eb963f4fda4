use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::state_file::StateFile;
use crate::identity::{FileError, PublicKey};

/// Why the stored state cannot be read or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The location of the state directory cannot be determined.
    #[error("neither XDG_STATE_HOME nor HOME is set to an absolute path; give --state DIR")]
    NoHome,
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The system provides no random numbers.
    #[error("the system gives no random numbers to make a secret of")]
    NoRandomness,
    /// A file was changed by another program.
    #[error("{} is damaged: {reason}; put back a copy, or move it away: then {}", path.display(),
        without(path))]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// The parser's message, with line and column.
        reason: String,
    },
    /// A file was written by a later release.
    #[error("{} was written by a later version: its format is {got}, known is {VERSION}; update \
        hawser", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        got: u64,
    },
    /// No peer with that key is stored.
    #[error("no peer has the key {key}")]
    UnknownPeer {
        /// The key asked for.
        key: PublicKey,
    },
    /// An invite with that key already exists.
    #[error("there is an invite with the key {key} already")]
    InviteExists {
        /// The enrolment key.
        key: PublicKey,
    },
    /// No invite with that key is stored.
    #[error("no invite has the id {key}")]
    UnknownInvite {
        /// The enrolment key.
        key: PublicKey,
    },
    /// A client has used the invite, so no other client can use it.
    #[error("the invite {key} was used by {client}, which `hawser peers revoke` removes")]
    InviteUsed {
        /// The enrolment key.
        key: PublicKey,
        /// The client that has enrolled with it.
        client: PublicKey,
    },
    /// The limit of stored entries is reached.
    #[error("there are {limit} {what} already, which is the limit")]
    Full {
        /// Kind of the entries.
        what: &'static str,
        /// Limit for entries of this kind.
        limit: usize,
    },
    /// The name cannot be shown in a table.
    #[error(
        "a name has 1 to {} characters and no control characters, got {got:?}",
        MAX_NAME
    )]
    Name {
        /// The start of the name.
        got: String,
    },
}

/// Returns the consequence of moving a file away.
fn without(path: &Path) -> &'static str {
    match StateFile::at(path) {
        Some(file) => file.without_it(),
        None => "its content is lost",
    }
}

/// Version of the file format.
pub(super) const VERSION: u64 = 1;

/// The version that a file was written with.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Version(u64);

impl Default for Version {
    fn default() -> Self {
        Self(VERSION)
    }
}

/// Most characters of a peer's name.
pub(super) const MAX_NAME: usize = 64;
