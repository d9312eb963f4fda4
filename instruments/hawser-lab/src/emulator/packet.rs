//! Places of the fields of a frame.

/// The IPv4 packet of an Ethernet frame.
pub(super) fn ipv4(frame: &mut [u8]) -> Option<&mut [u8]> {
    match frame.get(12..ETHERNET_HEADER) {
        Some([0x08, 0x00]) => frame.get_mut(ETHERNET_HEADER..),
        _ => None,
    }
}

/// The transport protocol of an IPv4 packet, and where its header begins; nothing for the later
/// fragments of a packet, which have none.
pub(super) fn transport(packet: &[u8]) -> Option<(u8, usize)> {
    let header = usize::from(packet.first()? & 0xf) * 4;
    let fragment = packet.get(6..8)?;
    let is_first = u16::from_be_bytes([fragment[0], fragment[1]]) & 0x1fff == 0;
    is_first.then_some((*packet.get(9)?, header))
}

/// The TCP segment of an IPv4 packet that is whole or a first fragment.
pub(super) fn segment(packet: &mut [u8]) -> Option<&mut [u8]> {
    match transport(packet)? {
        (TCP, at) => packet.get_mut(at..),
        _ => None,
    }
}

pub(super) const ETHERNET_HEADER: usize = 14;
pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
