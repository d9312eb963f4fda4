use std::net::IpAddr;

/// Key that all packets of one flow share.
///
/// All fragments of a datagram have the key of a packet without ports, so that none of them waits
/// behind another order than the first one's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowKey {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// Protocol behind the IP headers.
    pub protocol: u8,
    /// Differentiated services code point. Markings of one connection are flows of their own, as
    /// networks may put them into different queues.
    pub dscp: u8,
    /// Source and destination port; the identifier of an ICMP echo, twice; the halves of the
    /// security parameter index of AH and ESP; otherwise zero.
    pub ports: (u16, u16),
}
