use crate::packet::PacketFault;

/// Fault of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OffloadFault {
    /// The frame ends inside its header.
    #[error("the frame is cut short")]
    Truncated,
    /// The type of segmentation is unknown.
    #[error("segmentation type {0} is not known")]
    Segmentation(u8),
    /// The packet's IP headers are wrong.
    #[error(transparent)]
    Packet(#[from] PacketFault),
    /// The packet is not what the header says, as a UDP packet that is to be cut as TCP.
    #[error("the packet does not suit its frame's header")]
    Mismatch,
    /// Segments of no bytes, or more of them than is allowed.
    #[error("segments of {0} bytes are not possible")]
    SegmentSize(u16),
}
