use crate::{AssociationConfig, Local};

/// How an endpoint behaves.
#[derive(Clone, Debug, PartialEq)]
pub struct EndpointConfig {
    /// How associations behave that peers begin. Its checksum and framing hold for all of the endpoint.
    pub association: AssociationConfig,
    /// Peers may begin associations, at [`AssociationConfig::port`].
    pub accepts: bool,
    /// Where packets can leave, and where this host can be reached.
    pub locals: Vec<Local>,
    /// The most associations at a time.
    pub max_associations: usize,
    /// The most that the hosts of one IPv4 address, or of one /64 of IPv6, may begin.
    pub max_associations_per_host: usize,
}

impl EndpointConfig {
    /// Peers may begin associations that behave so.
    pub fn new(association: AssociationConfig, locals: &[Local]) -> Self {
        Self {
            association,
            accepts: true,
            locals: locals.to_vec(),
            max_associations: DEFAULT_MAX_ASSOCIATIONS,
            max_associations_per_host: DEFAULT_MAX_ASSOCIATIONS_PER_HOST,
        }
    }
}

const DEFAULT_MAX_ASSOCIATIONS: usize = 4096;
const DEFAULT_MAX_ASSOCIATIONS_PER_HOST: usize = 64;
