use super::version::IpVersion;
use crate::checksum::updated;

/// Explicit congestion notification in the IP header.
///
/// Source: RFC 3168 §5, RFC 9331 for the second codepoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ecn {
    /// The transport does not understand marks: congestion is told by loss.
    NotCapable,
    /// ECT(1).
    Capable1,
    /// ECT(0).
    Capable0,
    /// Congestion was experienced.
    Congested,
}

impl Ecn {
    pub(super) const fn of(traffic_class: u8) -> Self {
        match traffic_class & 0b11 {
            0 => Self::NotCapable,
            1 => Self::Capable1,
            2 => Self::Capable0,
            _ => Self::Congested,
        }
    }

    /// The transport understands marks.
    pub const fn is_capable(self) -> bool {
        !matches!(self, Self::NotCapable)
    }
}

/// Marks a packet as having experienced congestion, and repairs the checksum of IPv4's header.
/// Returns false, and changes nothing, where the transport does not understand marks. `packet` is
/// one that [`PacketView`](super::PacketView) has read; others stay as they are.
pub fn mark_congestion(packet: &mut [u8]) -> bool {
    let version = match packet.first().map(|first| first >> 4) {
        Some(4) if packet.len() >= 20 => IpVersion::V4,
        Some(6) if packet.len() >= 40 => IpVersion::V6,
        _ => return false,
    };
    let (byte, shift) = match version {
        IpVersion::V4 => (1, 0),
        IpVersion::V6 => (1, 4),
    };
    if !Ecn::of(packet[byte] >> shift).is_capable() {
        return false;
    }
    let old = u16::from_be_bytes([packet[0], packet[1]]);
    packet[byte] |= 0b11 << shift;
    if version == IpVersion::V4 {
        let new = u16::from_be_bytes([packet[0], packet[1]]);
        let checksum = updated(u16::from_be_bytes([packet[10], packet[11]]), old, new);
        packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    }
    true
}
