//! Commands with a file of their own.

mod association;
mod connections;
mod failover;
mod fairness;
mod hunt;
mod replay;

pub(crate) use association::AssociationArguments;
pub(crate) use connections::ConnectionArguments;
pub(crate) use failover::FailoverArguments;
pub(crate) use fairness::FairnessArguments;
pub(crate) use hunt::HuntArguments;
pub(crate) use replay::ReplayArguments;
