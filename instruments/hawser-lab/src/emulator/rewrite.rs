//! A modem's address translation: one private address, swapped for one of the link's subnet.

use std::net::Ipv4Addr;

use super::packet;

/// Swaps the client's address behind a modem for the one that the server sees.
///
/// The checksums are corrected by the difference (RFC 1624), so the payload is never read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Translation {
    /// The address that the client has.
    pub inside: Ipv4Addr,
    /// The address that the server sees.
    pub outside: Ipv4Addr,
}

impl Translation {
    /// Rewrites the source of an Ethernet frame on its way out.
    pub fn outwards(&self, frame: &mut [u8]) {
        swap(frame, SOURCE, self.inside, self.outside);
    }

    /// Rewrites the destination of an Ethernet frame on its way in.
    pub fn inwards(&self, frame: &mut [u8]) {
        swap(frame, DESTINATION, self.outside, self.inside);
    }
}

fn swap(frame: &mut [u8], field: usize, from: Ipv4Addr, to: Ipv4Addr) {
    let Some(packet) = packet::ipv4(frame) else {
        return;
    };
    if packet.get(field..field + 4) != Some(&from.octets()) {
        return;
    }
    let transport = match packet::transport(packet) {
        Some((packet::TCP, at)) => Some(at + 16),
        Some((packet::UDP, at)) => Some(at + 6),
        _ => None,
    };
    for checksum in [Some(10), transport].into_iter().flatten() {
        adjust(packet, checksum, &from.octets(), &to.octets());
    }
    if let Some(address) = packet.get_mut(field..field + 4) {
        address.copy_from_slice(&to.octets());
    }
}

/// Corrects the checksum at `at` for bytes that were replaced, an even number of them at an even
/// place (RFC 1624).
pub(super) fn adjust(packet: &mut [u8], at: usize, from: &[u8], to: &[u8]) {
    let Some(bytes) = packet.get_mut(at..at + 2) else {
        return;
    };
    let words = |bytes: &[u8]| -> u32 {
        let words = bytes.chunks_exact(2);
        words
            .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])))
            .sum()
    };
    let kept = u32::from(!u16::from_be_bytes([bytes[0], bytes[1]]));
    let removed: Vec<u8> = from.iter().map(|byte| !byte).collect();
    let mut sum = kept + words(&removed) + words(to);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    let checksum = !u16::try_from(sum).unwrap_or(0);
    bytes.copy_from_slice(&checksum.to_be_bytes());
}

/// Offsets of the addresses in the IPv4 header.
const SOURCE: usize = 12;
const DESTINATION: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(bytes: &[u8]) -> u16 {
        let mut sum: u32 = bytes
            .chunks(2)
            .map(|c| u32::from(c[0]) << 8 | u32::from(*c.get(1).unwrap_or(&0)))
            .sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    /// The sum that a receiver forms over a TCP segment and its pseudo-header: 0xffff when good.
    fn tcp_sum(packet: &[u8]) -> u16 {
        let mut bytes = packet[12..20].to_vec();
        bytes.extend([0, 6]);
        bytes.extend(((packet.len() - 20) as u16).to_be_bytes());
        bytes.extend(&packet[20..]);
        sum(&bytes)
    }

    fn frame(translation: &Translation) -> Vec<u8> {
        let mut frame = vec![0; 12];
        frame.extend([8, 0]);
        let mut packet = vec![0x45, 0, 0, 44, 1, 2, 0x40, 0, 64, 6, 0, 0];
        packet.extend(translation.inside.octets());
        packet.extend([10, 99, 0, 1]);
        packet.extend([
            1, 2, 3, 4, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 9, 9, 0, 0, 0, 0,
        ]);
        packet.extend(*b"data");
        let header = !sum(&packet[..20]);
        packet[10..12].copy_from_slice(&header.to_be_bytes());
        let tcp = !tcp_sum(&packet);
        packet[36..38].copy_from_slice(&tcp.to_be_bytes());
        frame.extend(packet);
        frame
    }

    #[test]
    fn both_ways_keep_the_checksums_right() {
        let translation = Translation {
            inside: Ipv4Addr::new(192, 168, 8, 100),
            outside: Ipv4Addr::new(10, 77, 2, 2),
        };
        let original = frame(&translation);
        let mut seen = original.clone();
        translation.outwards(&mut seen);
        assert_eq!(seen[26..30], translation.outside.octets());
        assert_eq!(sum(&seen[14..34]), 0xffff);
        assert_eq!(tcp_sum(&seen[14..]), 0xffff);
        // The way back, with the address as destination.
        let (source, destination) = (seen[26..30].to_vec(), seen[30..34].to_vec());
        seen[26..30].copy_from_slice(&destination);
        seen[30..34].copy_from_slice(&source);
        translation.inwards(&mut seen);
        assert_eq!(seen[30..34], translation.inside.octets());
        assert_eq!(sum(&seen[14..34]), 0xffff);
        assert_eq!(tcp_sum(&seen[14..]), 0xffff);
    }

    proptest::proptest! {
        #[test]
        fn no_frame_makes_it_panic(mut frame in proptest::collection::vec(0_u8..=255, 0..80)) {
            let (inside, outside) = (Ipv4Addr::UNSPECIFIED, Ipv4Addr::LOCALHOST);
            let translation = Translation { inside, outside };
            translation.outwards(&mut frame);
            translation.inwards(&mut frame);
        }
    }
}
