//! Why a directory can't be started.

use std::io;
use std::net::SocketAddr;

use thiserror::Error;

use super::table::TableError;

/// Why a directory can't be started.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DirectoryError {
    /// The system does not let it listen there.
    #[error("the directory can't listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's answer.
        source: io::Error,
    },
    /// What was kept can't be read.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The system has no thread, or no randomness.
    #[error("the directory can't be started: {0}")]
    System(#[from] io::Error),
}
