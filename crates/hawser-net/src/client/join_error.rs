use std::io;

use hawser_link::bind::ConnectError;

/// Reason why a channel could not be added.
#[derive(Debug, thiserror::Error)]
pub(super) enum JoinError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("{0}")]
    NoAddress(String),
    #[error("the gateway has not granted another channel yet")]
    NoGrant,
    #[error("the connection broke during the join: {0}")]
    Broken(#[from] io::Error),
    #[error("the answer to an earlier join over this link is still expected")]
    Overtaken,
    #[error("the gateway does not answer the join")]
    NoAnswer,
    #[error("the gateway's answer to the join is invalid")]
    Strange,
}
