//! Inputs of a registration.

use std::net::IpAddr;

use hawser_link::names::LookupError;
use hawser_sip::message::Message;
use hawser_sip::transaction::Flow;

/// An input of a registration.
pub(super) enum Heard {
    Message(Flow, Box<Message>),
    /// The flow has failed in both directions.
    Failed(Flow),
    /// The directory's name was looked up.
    Lookup(Lookup),
}

/// The result of a lookup.
pub(super) type Lookup = Result<Vec<IpAddr>, LookupError>;
