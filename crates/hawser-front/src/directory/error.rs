//! Why a directory can't be started.

use std::io;
use std::net::SocketAddr;

use thiserror::Error;

use super::table::TableError;

/// Why a directory can't be started.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DirectoryError {
    /// The system does not let the directory listen at an address.
    #[error("the directory can't listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's answer.
        source: io::Error,
    },
    /// The saved bindings can't be read.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The system provides no thread or no randomness.
    #[error("the directory can't be started: {0}")]
    System(#[from] io::Error),
}
