use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use hawser_sched::rules::LinkRules;
use hawser_session::{SessionConfig, TransportChoice};
use hawser_types::Host;

use super::join_port::JoinPort;
use super::relay::Relay;
use hawser_keys::host_port::HostPort;
use hawser_keys::identity::{Identity, PublicKey};
use hawser_keys::invite::Invite;

/// The configuration of a client.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// This client's key.
    pub identity: Identity,
    /// The gateway's key: no other key is accepted.
    pub gateway: PublicKey,
    /// The gateway's addresses.
    pub addresses: Vec<HostPort>,
    /// Where the gateway was reached before, the latest address first: tried ahead of the others.
    pub reached: Vec<SocketAddr>,
    /// Enrol with this invite; `None` for a client that is enrolled.
    pub invite: Option<Invite>,
    /// A name for this client, which the gateway shows to people.
    pub name: String,
    /// The links to use, by name; empty: every usable link.
    pub links: Vec<String>,
    /// The user's initial rules for links, by name; links without rules are used normally.
    /// [`Client::set_rules`](super::Client::set_rules) changes them.
    pub rules: BTreeMap<String, LinkRules>,
    /// The session's behaviour. Its scheduler is the initial one:
    /// [`Client::set_scheduler`](super::Client::set_scheduler) changes it.
    pub session: SessionConfig,
    /// Congestion control of the channels; `None`: where bbr is permitted, the session chooses for
    /// each channel, else the system's default applies.
    pub congestion: Option<String>,
    /// Opens separate channels for data that must not wait behind bulk.
    pub express: bool,
    /// The initial transport of chunks, both ways:
    /// [`Client::set_transport`](super::Client::set_transport) changes it.
    pub transport: TransportChoice,
    /// Carries every TCP connection to the gateway; `None`: the machine's links do. With a relay,
    /// an association still goes over the links; `addresses` are then those of the gateway's UDP
    /// port.
    pub relay: Option<Arc<dyn Relay>>,
    /// Takes connections that the gateway begins; `None`: there are no such connections.
    pub join_port: Option<Arc<JoinPort>>,
}

impl ClientConfig {
    /// The configuration of an enrolled client that uses every link, with defaults for the rest.
    pub fn new(identity: Identity, gateway: PublicKey, addresses: Vec<HostPort>) -> Self {
        Self {
            identity,
            gateway,
            addresses,
            reached: Vec::new(),
            invite: None,
            name: String::new(),
            links: Vec::new(),
            rules: BTreeMap::new(),
            session: SessionConfig::default(),
            congestion: None,
            express: true,
            transport: TransportChoice::default(),
            relay: None,
            join_port: None,
        }
    }

    /// True if all addresses of the gateway lead to the loopback interface; false with a relay.
    pub(super) fn is_local(&self) -> bool {
        if self.relay.is_some() {
            return false;
        }
        let mut hosts = self.addresses.iter().map(HostPort::host);
        hosts.all(|host| match host {
            Host::Ip(ip) => ip.is_loopback(),
            Host::Name(name) => name.as_str() == "localhost",
        })
    }
}
