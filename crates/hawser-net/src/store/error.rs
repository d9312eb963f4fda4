use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::state_file::StateFile;
use crate::identity::{FileError, PublicKey};

/// Why the stored state cannot be read or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// No place for the state directory is known.
    #[error("neither XDG_STATE_HOME nor HOME is set to an absolute path; give --state DIR")]
    NoHome,
    /// A file could not be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The system gives no random numbers.
    #[error("the system gives no random numbers to make a secret of")]
    NoRandomness,
    /// A file was changed by something else than this program.
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
    /// No peer of that key is stored.
    #[error("no peer has the key {key}")]
    UnknownPeer {
        /// The key asked for.
        key: PublicKey,
    },
    /// There is an invite with that key already.
    #[error("there is an invite with the key {key} already")]
    InviteExists {
        /// The enrolment key.
        key: PublicKey,
    },
    /// No invite of that key is stored.
    #[error("no invite has the id {key}")]
    UnknownInvite {
        /// The enrolment key.
        key: PublicKey,
    },
    /// A client has used the invite, which is of no more use to anybody else.
    #[error("the invite {key} was used by {client}, which `hawser peers revoke` removes")]
    InviteUsed {
        /// The enrolment key.
        key: PublicKey,
        /// The client that has enrolled with it.
        client: PublicKey,
    },
    /// The bound on stored entries is reached.
    #[error("there are {limit} {what} already, the most that are kept")]
    Full {
        /// The kind of entry of which there are too many.
        what: &'static str,
        /// The number that is kept.
        limit: usize,
    },
    /// A name that cannot be shown in a table.
    #[error(
        "a name has 1 to {} characters and no control characters, got {got:?}",
        MAX_NAME
    )]
    Name {
        /// The start of the name.
        got: String,
    },
}

/// What moving a file away would cost.
fn without(path: &Path) -> &'static str {
    match StateFile::at(path) {
        Some(file) => file.without_it(),
        None => "what it holds is lost",
    }
}

/// Version of the files.
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

/// Characters in a peer's name.
pub(super) const MAX_NAME: usize = 64;
