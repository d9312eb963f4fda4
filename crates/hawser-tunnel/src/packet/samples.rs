//! Packets for tests.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::checksum::Sum;

/// A UDP packet between documentation addresses, with `payload` bytes behind its header.
pub(crate) fn udp(version: u8, ports: (u16, u16), payload: usize) -> Vec<u8> {
    let mut transport = Vec::with_capacity(8 + payload);
    transport.extend_from_slice(&ports.0.to_be_bytes());
    transport.extend_from_slice(&ports.1.to_be_bytes());
    transport.extend_from_slice(&((8 + payload) as u16).to_be_bytes());
    transport.extend_from_slice(&[0, 0]);
    transport.resize(8 + payload, 0x5a);
    ip(version, 17, transport)
}

/// A packet with this protocol and what is behind the IP header. Only IPv4's own checksum is there.
pub(crate) fn ip(version: u8, protocol: u8, transport: Vec<u8>) -> Vec<u8> {
    let mut packet = match version {
        4 => {
            let total = (20 + transport.len()) as u16;
            let mut header = vec![0x45, 0, 0, 0, 0, 1, 0x40, 0, 64, protocol, 0, 0];
            header[2..4].copy_from_slice(&total.to_be_bytes());
            header.extend_from_slice(&Ipv4Addr::new(192, 0, 2, 1).octets());
            header.extend_from_slice(&Ipv4Addr::new(198, 51, 100, 2).octets());
            let sum = Sum::default().add_bytes(&header).finish();
            header[10..12].copy_from_slice(&sum.to_be_bytes());
            header
        }
        _ => {
            let mut header = vec![0x60, 0, 0, 0, 0, 0, protocol, 64];
            header[4..6].copy_from_slice(&(transport.len() as u16).to_be_bytes());
            header.extend_from_slice(&Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).octets());
            header.extend_from_slice(&Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2).octets());
            header
        }
    };
    packet.extend(transport);
    packet
}

/// The addresses of these packets.
pub(crate) fn addresses(version: u8) -> (IpAddr, IpAddr) {
    match version {
        4 => (
            Ipv4Addr::new(192, 0, 2, 1).into(),
            Ipv4Addr::new(198, 51, 100, 2).into(),
        ),
        _ => (
            Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into(),
            Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2).into(),
        ),
    }
}
