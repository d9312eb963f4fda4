//! Inner packets: IPv4 with a number instead of payload.

use bytes::Bytes;

/// Length of the shortest one.
pub(super) const LEAST: usize = 20 + 20 + 8;

/// A packet of a flow, which the port names.
pub(super) fn packet(protocol: u8, port: u16, number: u64, size: usize) -> Bytes {
    let size = size.max(LEAST);
    let mut bytes = vec![0u8; size];
    bytes[0] = 0x45;
    bytes[2..4].copy_from_slice(&(size as u16).to_be_bytes());
    bytes[6] = 0x40;
    bytes[8] = 64;
    bytes[9] = protocol;
    bytes[12..16].copy_from_slice(&[192, 0, 2, 1]);
    bytes[16..20].copy_from_slice(&[198, 51, 100, 1]);
    bytes[20..22].copy_from_slice(&port.to_be_bytes());
    bytes[22..24].copy_from_slice(&[0, 80]);
    bytes[LEAST - 8..LEAST].copy_from_slice(&number.to_be_bytes());
    bytes.into()
}

/// Port and number of a packet that was made here.
pub(super) fn read(packet: &[u8]) -> Option<(u16, u64)> {
    let port = u16::from_be_bytes(*packet.get(20..)?.first_chunk()?);
    let number = u64::from_be_bytes(*packet.get(LEAST - 8..)?.first_chunk()?);
    Some((port, number))
}
