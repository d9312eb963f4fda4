//! The commands, one file each.

mod arguments;
mod association;
mod connections;
mod dying;
mod failover;
mod fairness;
mod hunt;
mod mptcp;
mod objects;
mod packets;
mod replay;
mod run;
mod transports;

pub(crate) use association::AssociationArguments;
pub(crate) use connections::ConnectionArguments;
pub(crate) use dying::DyingArguments;
pub(crate) use failover::FailoverArguments;
pub(crate) use fairness::FairnessArguments;
pub(crate) use hunt::HuntArguments;
pub(crate) use mptcp::MptcpArguments;
pub(crate) use objects::ObjectArguments;
pub(crate) use packets::PacketArguments;
pub(crate) use replay::ReplayArguments;
pub(crate) use run::RunArguments;
pub(crate) use transports::TransportArguments;
