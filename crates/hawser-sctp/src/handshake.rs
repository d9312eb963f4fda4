//! The parts of the handshake that the endpoint and an association's setup share: offers, cookies
//! and the values that both ends agree on (RFC 9260 §5.1).

mod answer;
mod cookie;
mod identifiers;
mod negotiated;
mod offer;
mod scope;

pub(crate) use answer::{Answer, own_addresses};
pub(crate) use cookie::{Cookie, CookieKey};
pub(crate) use identifiers::Identifiers;
pub(crate) use negotiated::Negotiated;
pub(crate) use offer::{InitFault, MAX_PEER_ADDRESSES, Offer, PeerOffer, stops_and_reports};
pub(crate) use scope::{is_host, may_list};
