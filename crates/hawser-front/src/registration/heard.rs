//! What a registration hears.

use std::net::IpAddr;

use hawser_net::names::LookupError;
use hawser_sip::message::Message;
use hawser_sip::transaction::Flow;

/// What has come.
pub(super) enum Heard {
    Message(Flow, Box<Message>),
    /// Nothing comes or goes that way any more.
    Failed(Flow),
    /// The directory's name was looked up.
    Lookup(Lookup),
}

/// What a lookup has found.
pub(super) type Lookup = Result<Vec<IpAddr>, LookupError>;
