//! The client's end: links, gateway, rules and the director of `hawser up`.

pub(crate) mod agent;
pub(crate) mod by_gateway;
pub(crate) mod by_name;
pub(crate) mod captured;
pub(crate) mod direct;
pub(crate) mod discovering;
pub(crate) mod lan;
pub(crate) mod links;
pub(crate) mod live_rules;
pub(crate) mod packets;
pub(crate) mod password;
pub(crate) mod peering;
pub(crate) mod placed;
pub(crate) mod registration;
pub(crate) mod rules;
pub(crate) mod saved;
pub(crate) mod session;
pub(crate) mod steer;
pub(crate) mod subject;
pub(crate) mod vouching;
