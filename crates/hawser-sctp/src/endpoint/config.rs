use crate::{AssociationConfig, Local};

/// Configuration of an endpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct EndpointConfig {
    /// Configuration of associations that peers begin. Its checksum and framing hold for the whole
    /// endpoint.
    pub association: AssociationConfig,
    /// Peers may begin associations, at [`AssociationConfig::port`].
    pub accepts: bool,
    /// Addresses that packets can leave from and that this host can be reached at.
    pub locals: Vec<Local>,
    /// Maximum number of associations at a time.
    pub max_associations: usize,
    /// Maximum number of associations begun from one IPv4 address or IPv6 /64.
    pub max_associations_per_host: usize,
}

impl EndpointConfig {
    /// Creates a configuration where peers may begin associations.
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
