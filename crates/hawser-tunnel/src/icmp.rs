//! Answers to packets that are too large for the tunnel, or may not go where they are sent
//! (RFC 792, 1191, 1812 and 4443).

use std::net::IpAddr;

use crate::checksum::{Sum, put_checksum, updated};
use crate::packet::{ICMP, ICMPV6, IpVersion, PacketView};

/// Returns the ICMP message that tells the source of `packet` to send packets of at most `mtu`
/// bytes: Fragmentation Needed of IPv4, Packet Too Big of IPv6. `from`: an address of this end of
/// the tunnel.
///
/// `None` where no answer may be given: to ICMP errors, to later fragments, to packets from or to
/// addresses that stand for many or for none, to packets of IPv4 that may be fragmented, and where
/// `from` is of the other version.
pub fn too_big(packet: &PacketView<'_>, mtu: u16, from: IpAddr) -> Option<Vec<u8>> {
    let [high, low] = mtu.to_be_bytes();
    let head = match packet.version() {
        IpVersion::V4 => [3, 4, 0, 0, 0, 0, high, low],
        IpVersion::V6 => [2, 0, 0, 0, 0, 0, high, low],
    };
    let may_answer = may_answer(packet) && packet.forbids_fragments();
    may_answer.then(|| message(packet, head, from)).flatten()
}

/// Returns the ICMP message that tells the source of `packet` that a policy keeps it from its
/// destination: Communication Administratively Prohibited of either family. `from`: an address of
/// this end of the tunnel.
///
/// `None` where no answer may be given, as for [`too_big`], and to what went to a multicast
/// address.
pub fn prohibited(packet: &PacketView<'_>, from: IpAddr) -> Option<Vec<u8>> {
    // Sources: RFC 1812 §5.2.7.1, RFC 4443 §3.1.
    let head = match packet.version() {
        IpVersion::V4 => [3, 13, 0, 0, 0, 0, 0, 0],
        IpVersion::V6 => [1, 1, 0, 0, 0, 0, 0, 0],
    };
    let may_answer = may_answer(packet) && !packet.destination().is_multicast();
    may_answer.then(|| message(packet, head, from)).flatten()
}

/// An ICMP message with this head about `packet`, for its source.
fn message(packet: &PacketView<'_>, head: [u8; ICMP_HEADER], from: IpAddr) -> Option<Vec<u8>> {
    match (packet.version(), from, packet.source()) {
        (IpVersion::V4, IpAddr::V4(from), IpAddr::V4(to)) => {
            let quoted = quote(packet, MAX_V4);
            let length = V4_HEADER + ICMP_HEADER + quoted.len();
            let mut message = vec![0x45, 0xc0];
            message.extend_from_slice(&(length as u16).to_be_bytes());
            message.extend_from_slice(&[0, 0, 0, 0, HOPS, ICMP, 0, 0]);
            message.extend_from_slice(&from.octets());
            message.extend_from_slice(&to.octets());
            put_checksum(&mut message, 10, Sum::default(), 0);
            message.extend_from_slice(&head);
            message.extend_from_slice(quoted);
            put_checksum(&mut message, V4_HEADER + 2, Sum::default(), V4_HEADER);
            Some(message)
        }
        (IpVersion::V6, IpAddr::V6(from), IpAddr::V6(to)) => {
            let quoted = quote(packet, MAX_V6);
            let length = (ICMP_HEADER + quoted.len()) as u16;
            let mut message = vec![0x60, 0, 0, 0];
            message.extend_from_slice(&length.to_be_bytes());
            message.extend_from_slice(&[ICMPV6, HOPS]);
            message.extend_from_slice(&from.octets());
            message.extend_from_slice(&to.octets());
            let pseudo = Sum::default()
                .add_bytes(&message[8..])
                .add_word(length)
                .add_word(u16::from(ICMPV6));
            message.extend_from_slice(&head);
            message.extend_from_slice(quoted);
            put_checksum(&mut message, V6_HEADER + 2, pseudo, V6_HEADER);
            Some(message)
        }
        _ => None,
    }
}

/// Whether an ICMP error may be sent about a packet. Source: RFC 1122 §3.2.2, RFC 4443 §2.4.
fn may_answer(packet: &PacketView<'_>) -> bool {
    let is_single = |address: IpAddr| match address {
        IpAddr::V4(address) => !address.is_broadcast() && address.octets()[0] != 0,
        IpAddr::V6(_) => true,
    };
    let stands_for_one = |address: IpAddr| {
        !address.is_multicast() && !address.is_unspecified() && is_single(address)
    };
    let is_error = match (packet.protocol(), packet.transport().first()) {
        (ICMP, Some(kind)) => !matches!(kind, 0 | 8 | 13 | 14),
        (ICMPV6, Some(kind)) => *kind < 128,
        (ICMP | ICMPV6, None) => true,
        _ => false,
    };
    // IPv6 lets a Packet Too Big answer what went to a multicast address.
    let to_one = packet.version() == IpVersion::V6 || stands_for_one(packet.destination());
    packet.is_first_fragment()
        && !is_error
        && stands_for_one(packet.source())
        && !packet.source().is_loopback()
        && to_one
}

/// As much of a packet as an answer of `most` bytes has room for.
fn quote<'a>(packet: &PacketView<'a>, most: usize) -> &'a [u8] {
    let headers = match packet.version() {
        IpVersion::V4 => V4_HEADER,
        IpVersion::V6 => V6_HEADER,
    };
    let bytes = packet.bytes();
    &bytes[..bytes.len().min(most - headers - ICMP_HEADER)]
}

/// Lowers the maximum segment size that a SYN announces to what fits `mtu`, and repairs the
/// checksum. Returns whether something changed. Whatever is no SYN, and announces nothing, stays.
///
/// Without this a connection relies on answers as of [`too_big`], which firewalls swallow.
pub fn clamp_segment_size(packet: &mut [u8], mtu: u16) -> bool {
    let Ok(view) = PacketView::parse(packet) else {
        return false;
    };
    let headers = match view.version() {
        IpVersion::V4 => V4_HEADER,
        IpVersion::V6 => V6_HEADER,
    };
    let most = usize::from(mtu).saturating_sub(headers + TCP_HEADER);
    let most = u16::try_from(most).unwrap_or(u16::MAX).max(MIN_SEGMENT);
    let is_syn = view.tcp_flags().is_some_and(|flags| flags & SYN != 0);
    let (start, end) = (view.header_length(), view.length());
    let Some(place) = segment_size(view.transport()).filter(|_| is_syn) else {
        return false;
    };
    let segment = &mut packet[start..end];
    let old = u16::from_be_bytes([segment[place], segment[place + 1]]);
    if old <= most {
        return false;
    }
    segment[place..place + 2].copy_from_slice(&most.to_be_bytes());
    // At an odd place the value lies across two words of the checksum.
    let (old, new) = match place % 2 {
        0 => (old, most),
        _ => (old.swap_bytes(), most.swap_bytes()),
    };
    let checksum = u16::from_be_bytes([segment[16], segment[17]]);
    let checksum = updated(checksum, old, new);
    segment[16..18].copy_from_slice(&checksum.to_be_bytes());
    true
}

/// Place of the value of the option in a TCP header, if it is there and whole.
fn segment_size(segment: &[u8]) -> Option<usize> {
    let length = usize::from(segment.get(12)? >> 4) * 4;
    let header = segment
        .get(..length)
        .filter(|header| header.len() >= TCP_HEADER)?;
    let mut at = TCP_HEADER;
    loop {
        match (*header.get(at)?, header.get(at + 1)) {
            (0, _) => return None,
            (1, _) => at += 1,
            (2, Some(4)) => return (at + 4 <= length).then_some(at + 2),
            (_, Some(size)) if *size >= 2 => at += usize::from(*size),
            _ => return None,
        }
    }
}

const V4_HEADER: usize = 20;
const V6_HEADER: usize = 40;
const ICMP_HEADER: usize = 8;
const TCP_HEADER: usize = 20;
const SYN: u8 = 0x02;
/// Largest messages that any host can read: RFC 1812 §4.3.2.3, RFC 4443 §2.4.
const MAX_V4: usize = 576;
const MAX_V6: usize = 1280;
const HOPS: u8 = 64;
/// Segment size that every host accepts (RFC 9293 §3.7.1).
const MIN_SEGMENT: u16 = 536;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::packet::TCP;
    use crate::packet::samples::{ip, udp};

    fn here(version: u8) -> IpAddr {
        match version {
            4 => [203, 0, 113, 9].into(),
            _ => [0x2001, 0xdb8, 0, 0, 0, 0, 0, 9].into(),
        }
    }

    /// A SYN with options, and its checksum.
    fn syn(version: u8, options: &[u8]) -> Vec<u8> {
        let mut segment = vec![0, 1, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, SYN, 1, 0, 0, 0, 0, 0];
        segment.extend_from_slice(options);
        segment[12] = ((segment.len() / 4) as u8) << 4;
        let mut packet = ip(version, TCP, segment);
        let (start, pseudo) = pseudo(&packet);
        put_checksum(&mut packet, start + 16, pseudo, start);
        packet
    }

    fn pseudo(packet: &[u8]) -> (usize, Sum) {
        let view = PacketView::parse(packet).unwrap();
        let addresses = match view.version() {
            IpVersion::V4 => &packet[12..20],
            IpVersion::V6 => &packet[8..40],
        };
        let length = view.transport().len() as u16;
        let sum = Sum::default().add_bytes(addresses).add_word(length);
        let sum = sum.add_word(u16::from(view.protocol()));
        (view.header_length(), sum)
    }

    #[test]
    fn both_families_are_told_the_size_with_right_checksums() {
        for (version, kind, header) in [(4, [3, 4], 20), (6, [2, 0], 40)] {
            let packet = udp(version, (1, 2), 1400);
            let view = PacketView::parse(&packet).unwrap();
            let answer = too_big(&view, 1300, here(version)).unwrap();
            let read = PacketView::parse(&answer).unwrap();
            assert_eq!(read.destination(), view.source());
            assert_eq!(read.source(), here(version));
            assert_eq!(read.trailing(), 0);
            assert_eq!(answer[header..header + 2], kind);
            assert_eq!(answer[header + 6..header + 8], 1300u16.to_be_bytes());
            assert_eq!(
                answer[header + 8..],
                packet[..answer.len() - header - 8],
                "it quotes the packet"
            );
            let sum = match version {
                4 => {
                    assert_eq!(Sum::default().add_bytes(&answer[..20]).finish(), 0);
                    Sum::default()
                }
                _ => pseudo(&answer).1,
            };
            assert_eq!(sum.add_bytes(read.transport()).finish(), 0);
            // No error about an error.
            assert_eq!(too_big(&read, 1300, here(version)), None);
            assert_eq!(too_big(&view, 1300, here(10 - version)), None);
        }
    }

    #[test]
    fn both_families_are_told_what_a_policy_forbids_with_right_checksums() {
        for (version, kind, header) in [(4, [3, 13], 20), (6, [1, 1], 40)] {
            let mut packet = udp(version, (1, 2), 100);
            let view = PacketView::parse(&packet).unwrap();
            let answer = prohibited(&view, here(version)).unwrap();
            let read = PacketView::parse(&answer).unwrap();
            assert_eq!(read.destination(), view.source());
            assert_eq!(answer[header..header + 2], kind);
            assert_eq!(answer[header + 4..header + 8], [0; 4]);
            assert_eq!(answer[header + 8..], packet, "it quotes the packet");
            let sum = match version {
                4 => Sum::default(),
                _ => pseudo(&answer).1,
            };
            assert_eq!(sum.add_bytes(read.transport()).finish(), 0);
            // No error about an error, and none to many.
            assert_eq!(prohibited(&read, here(version)), None);
            let (place, many) = if version == 4 { (16, 224) } else { (24, 0xff) };
            packet[place] = many;
            let view = PacketView::parse(&packet).unwrap();
            assert_eq!(prohibited(&view, here(version)), None);
        }
    }

    #[test]
    fn only_hosts_that_asked_alone_are_told() {
        let changes: [fn(&mut Vec<u8>); 5] = [
            |packet| packet[6] = 0,
            |packet| packet[7] = 1,
            |packet| packet[12] = 224,
            |packet| packet[16] = 224,
            |packet| packet[12..16].fill(0),
        ];
        for (place, change) in changes.into_iter().enumerate() {
            let mut packet = udp(4, (1, 2), 1400);
            change(&mut packet);
            let view = PacketView::parse(&packet).unwrap();
            assert_eq!(too_big(&view, 1300, here(4)), None, "{place}");
        }
    }

    #[test]
    fn the_segment_size_of_a_syn_is_lowered_and_never_raised() {
        for (version, most) in [(4, 1360), (6, 1340)] {
            for options in [&[2, 4, 5, 180][..], &[1, 2, 4, 5, 180, 1, 1, 0]] {
                let mut packet = syn(version, options);
                assert!(clamp_segment_size(&mut packet, 1400));
                let (start, sum) = pseudo(&packet);
                assert_eq!(sum.add_bytes(&packet[start..]).finish(), 0, "{options:?}");
                let place = segment_size(&packet[start..]).unwrap() + start;
                assert_eq!(packet[place..place + 2], u16::to_be_bytes(most));
                assert!(!clamp_segment_size(&mut packet, 1400));
                assert!(!clamp_segment_size(&mut packet, 1500));
            }
        }
    }

    #[test]
    fn other_segments_and_broken_options_stay() {
        let mut not_syn = syn(4, &[2, 4, 5, 180]);
        not_syn[33] = 0x10;
        let broken = [
            not_syn,
            syn(4, &[]),
            syn(4, &[3, 0, 0, 0]),
            syn(4, &[2, 3, 5, 180]),
            syn(4, &[0, 2, 4, 9]),
            syn(4, &[1, 1, 2, 4]),
            udp(4, (1, 2), 40),
            vec![0x45],
        ];
        for mut packet in broken {
            let before = packet.clone();
            assert!(!clamp_segment_size(&mut packet, 1280));
            assert_eq!(packet, before);
        }
    }

    proptest! {
        #[test]
        fn no_packet_makes_it_panic(
            options in proptest::collection::vec(any::<u8>(), 0..40),
            flags in any::<u8>(),
            offset in any::<u8>(),
            mtu in any::<u16>(),
        ) {
            let mut segment = vec![0; 20];
            (segment[12], segment[13]) = (offset, flags);
            segment.extend(options);
            for version in [4, 6] {
                let mut packet = ip(version, TCP, segment.clone());
                let before = packet.len();
                clamp_segment_size(&mut packet, mtu);
                let view = PacketView::parse(&packet).unwrap();
                prop_assert_eq!(view.length(), before);
                let _ = too_big(&view, mtu, here(version));
                let _ = prohibited(&view, here(version));
            }
        }
    }
}
