use std::time::Duration;

use super::client::ClientLimits;
use crate::connect::ConnectOptions;
use crate::relay::RelayOptions;

/// Settings of a gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GatewayConfig {
    /// Limits of each client.
    pub limits: ClientLimits,
    /// Timeouts for connecting.
    pub connect: ConnectOptions,
    /// How long a relay may be idle.
    pub relay: RelayOptions,
    /// How long a flow of datagrams may be idle.
    pub datagrams: DatagramOptions,
}

/// Settings of flows of datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramOptions {
    /// A flow ends after it has been idle for this long.
    pub idle: Duration,
}

impl Default for DatagramOptions {
    fn default() -> Self {
        Self { idle: DEFAULT_IDLE }
    }
}

/// Source: RFC 4787 §4.3 (REQ-5: not less than two minutes). Longer than clients wait, so that
/// clients end flows.
const DEFAULT_IDLE: Duration = Duration::from_secs(150);
