//! Commands with a file of their own.

mod failover;
mod hunt;

pub(crate) use failover::FailoverArguments;
pub(crate) use hunt::HuntArguments;
