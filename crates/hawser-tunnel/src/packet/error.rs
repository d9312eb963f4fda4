/// Fault of the IP headers of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PacketFault {
    /// The input is empty.
    #[error("the packet is empty")]
    Empty,
    /// Neither IPv4 nor IPv6.
    #[error("IP version {0} is neither 4 nor 6")]
    Version(u8),
    /// The input ends before the packet does, or inside its headers.
    #[error("the packet is cut short")]
    Truncated,
    /// The header's length is less than its minimum, or more than the packet's.
    #[error("a header of {0} bytes is not possible")]
    HeaderLength(usize),
    /// More extension headers follow each other than are followed.
    #[error("more than {0} extension headers")]
    ExtensionHeaders(usize),
}
