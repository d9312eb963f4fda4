//! Commands with a file of their own.

mod failover;

pub(crate) use failover::FailoverArguments;
