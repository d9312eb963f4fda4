use hawser_types::ByteCount;

/// Limits of what strangers and clients may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcceptLimits {
    /// Sessions in all.
    pub sessions: usize,
    /// Sessions of one client.
    pub sessions_per_client: usize,
    /// Sessions that began from one IPv4 address or one IPv6 /64. Meant for a port whose clients'
    /// keys cost nothing; elsewhere each client has its limit.
    pub sessions_per_source: usize,
    /// Sessions that began from one IPv4 /24 or one IPv6 /48.
    pub sessions_per_network: usize,
    /// Connections that have not proved who they are, in all; half of them from one IPv4 /24, one
    /// IPv6 /48, or by other gateways. When all places are taken, a newcomer displaces an idle
    /// connection, or one of a source that has more than its share, or waits. Joins of live
    /// sessions have as many places besides.
    pub half_open: usize,
    /// Connections that have not proved who they are, from one IPv4 address, one IPv6 /64, or one
    /// caller that comes by a gateway.
    pub half_open_per_source: usize,
    /// Memory for the data of all sessions together: half for data to be handed on, half for
    /// unacknowledged data. A session has at most a quarter of it, less if there are many sessions.
    pub memory: ByteCount,
}

impl Default for AcceptLimits {
    fn default() -> Self {
        Self {
            sessions: 1024,
            sessions_per_client: 16,
            sessions_per_source: usize::MAX,
            sessions_per_network: usize::MAX,
            half_open: 512,
            half_open_per_source: 32,
            memory: ByteCount::from_mib(1024),
        }
    }
}
