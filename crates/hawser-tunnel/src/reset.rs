//! Refusals of TCP connections (RFC 9293).

use std::net::IpAddr;

use crate::checksum::{Sum, put_checksum};
use crate::packet::{PacketView, TCP};

/// Returns the segment by which the destination of `packet` refuses it: a reset, which ends the
/// connection that it belongs to, or was to begin.
///
/// `None` for what is no TCP segment, or not whole, and for resets.
///
/// Source: RFC 9293 §3.10.7.1.
pub fn reset(packet: &PacketView<'_>) -> Option<Vec<u8>> {
    let segment = packet.transport();
    let flags = packet.tcp_flags().filter(|flags| flags & RST == 0)?;
    let (own, to) = packet.ports()?;
    let data = usize::from(segment.get(12)? >> 4) * 4;
    let length = segment.len().checked_sub(data)? as u32;
    let word = |at: usize| Some(u32::from_be_bytes(*segment.get(at..)?.first_chunk()?));
    let (sequence, acknowledgement, flags) = match flags & ACK {
        0 => {
            // Both count as one byte each.
            let ends = u32::from(flags & SYN != 0) + u32::from(flags & FIN != 0);
            let next = word(4)?.wrapping_add(length).wrapping_add(ends);
            (0, next, RST | ACK)
        }
        _ => (word(8)?, 0, RST),
    };
    let mut answer = match (packet.destination(), packet.source()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let mut header = vec![0x45, 0, 0, V4_HEADER + TCP_HEADER, 0, 0, 0x40, 0];
            header.extend_from_slice(&[HOPS, TCP, 0, 0]);
            header.extend_from_slice(&from.octets());
            header.extend_from_slice(&to.octets());
            put_checksum(&mut header, 10, Sum::default(), 0);
            header
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let mut header = vec![0x60, 0, 0, 0, 0, TCP_HEADER, TCP, HOPS];
            header.extend_from_slice(&from.octets());
            header.extend_from_slice(&to.octets());
            header
        }
        // A packet has addresses of one family.
        _ => return None,
    };
    let start = answer.len();
    let addresses = if start == usize::from(V4_HEADER) {
        12
    } else {
        8
    };
    let pseudo = Sum::default()
        .add_bytes(&answer[addresses..])
        .add_word(TCP_HEADER.into())
        .add_word(TCP.into());
    answer.extend_from_slice(&to.to_be_bytes());
    answer.extend_from_slice(&own.to_be_bytes());
    answer.extend_from_slice(&sequence.to_be_bytes());
    answer.extend_from_slice(&acknowledgement.to_be_bytes());
    answer.extend_from_slice(&[(TCP_HEADER / 4) << 4, flags, 0, 0, 0, 0, 0, 0]);
    put_checksum(&mut answer, start + 16, pseudo, start);
    Some(answer)
}

const V4_HEADER: u8 = 20;
const TCP_HEADER: u8 = 20;
const HOPS: u8 = 64;
const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::packet::samples::{ip, udp};

    fn segment(version: u8, flags: u8, data: usize) -> Vec<u8> {
        let mut segment = vec![0x9c, 0x40, 0, 53, 0, 0, 1, 0, 0, 0, 2, 0, 0x50, flags];
        segment.resize(20 + data, 0);
        ip(version, TCP, segment)
    }

    #[test]
    fn a_segment_is_refused_as_the_standard_says() {
        let cases = [
            (SYN, 0, [0, 0x101, u32::from(RST | ACK)]),
            (FIN, 7, [0, 0x108, u32::from(RST | ACK)]),
            (ACK, 7, [0x200, 0, u32::from(RST)]),
        ];
        for version in [4, 6] {
            for (flags, data, expected) in cases {
                let packet = segment(version, flags, data);
                let view = PacketView::parse(&packet).unwrap();
                let answer = reset(&view).unwrap();
                let read = PacketView::parse(&answer).unwrap();
                assert_eq!(read.source(), view.destination());
                assert_eq!(read.destination(), view.source());
                assert_eq!(read.ports(), Some((53, 40_000)));
                let tcp = read.transport();
                let word = |at: usize| u32::from_be_bytes(tcp[at..at + 4].try_into().unwrap());
                assert_eq!([word(4), word(8), tcp[13].into()], expected);
                // The sum over what is summed, its checksum included, is zero.
                let addresses = if version == 4 { 12 } else { 8 };
                let sum = Sum::default()
                    .add_bytes(&answer[addresses..])
                    .add_word(20)
                    .add_word(TCP.into());
                assert_eq!(sum.finish(), 0);
                if version == 4 {
                    assert_eq!(Sum::default().add_bytes(&answer[..20]).finish(), 0);
                }
                assert_eq!(reset(&read), None, "no reset for a reset");
            }
        }
    }

    #[test]
    fn what_is_no_whole_segment_is_not_refused() {
        let mut later = segment(4, SYN, 0);
        later[7] = 1;
        let mut long = segment(4, SYN, 0);
        long[32] = 0xf0;
        for packet in [later, long, udp(4, (1, 53), 40), ip(4, TCP, vec![0; 13])] {
            let view = PacketView::parse(&packet).unwrap();
            assert_eq!(reset(&view), None);
        }
    }

    proptest! {
        #[test]
        fn no_segment_makes_it_panic(
            version in prop_oneof![Just(4), Just(6)],
            segment in proptest::collection::vec(any::<u8>(), 0..60),
        ) {
            let packet = ip(version, TCP, segment);
            if let Some(answer) = reset(&PacketView::parse(&packet).unwrap()) {
                prop_assert!(PacketView::parse(&answer).is_ok());
            }
        }
    }
}
