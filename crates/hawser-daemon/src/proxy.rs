//! The client's end: links, gateway, rules and the director of `hawser up`.

pub mod agent;
pub mod by_gateway;
pub(crate) mod by_name;
pub mod captured;
pub mod direct;
pub mod discovering;
pub(crate) mod lan;
pub mod links;
pub mod live_rules;
pub(crate) mod packets;
pub(crate) mod password;
pub mod peering;
pub(crate) mod placed;
pub(crate) mod registration;
pub mod rules;
pub mod saved;
pub mod session;
pub mod vouching;
