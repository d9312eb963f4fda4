use bytes::{Bytes, BytesMut};
use proptest::prelude::*;

use super::split::pseudo_header;
use super::*;
use crate::checksum::{Sum, put_checksum};
use crate::packet::samples::{ip, udp};
use crate::packet::{PacketView, TCP};

/// A TCP segment with time stamps and its checksum.
fn tcp(version: u8, port: u16, sequence: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut segment = Vec::new();
    segment.extend_from_slice(&port.to_be_bytes());
    segment.extend_from_slice(&[0, 80]);
    segment.extend_from_slice(&sequence.to_be_bytes());
    segment.extend_from_slice(&[0, 0, 0, 9, 0x80, flags, 1, 0, 0, 0, 0, 0]);
    segment.extend_from_slice(&[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
    segment.extend_from_slice(payload);
    sealed(ip(version, TCP, segment), TCP_CHECKSUM)
}

fn sealed(mut packet: Vec<u8>, place: usize) -> Vec<u8> {
    let view = PacketView::parse(&packet).unwrap();
    let start = view.header_length();
    let pseudo = pseudo_header(&view, view.transport().len());
    assert!(put_checksum(&mut packet, start + place, pseudo, start));
    packet
}

/// A frame that is to be cut, with its checksum open.
fn frame(segmentation: Segmentation, size: u16, packet: &[u8]) -> Vec<u8> {
    let view = PacketView::parse(packet).unwrap();
    let header = VirtioHeader {
        needs_checksum: true,
        segmentation,
        header_length: 0,
        segment_size: size,
        checksum_start: view.header_length() as u16,
        checksum_offset: match segmentation {
            Segmentation::Udp => UDP_CHECKSUM as u16,
            _ => TCP_CHECKSUM as u16,
        },
    };
    [&header.encode(), packet].concat()
}

fn split(frame: &[u8]) -> Result<Vec<Bytes>, OffloadFault> {
    let mut split = Split::new(frame)?;
    let mut packets = Vec::new();
    let mut out = BytesMut::new();
    while let Some(length) = split.write_next(&mut out) {
        assert_eq!(out.len(), length);
        packets.push(out.split().freeze());
    }
    Ok(packets)
}

fn assert_right(packet: &[u8]) {
    let view = PacketView::parse(packet).unwrap();
    assert_eq!(view.trailing(), 0);
    let transport = view.transport();
    let sum = pseudo_header(&view, transport.len()).add_bytes(transport);
    assert_eq!(sum.finish(), 0);
    if packet[0] >> 4 == 4 {
        assert_eq!(
            Sum::default()
                .add_bytes(&packet[..view.header_length()])
                .finish(),
            0
        );
    }
}

fn whole(frame: &Frame) -> Vec<u8> {
    let parts = frame.parts.iter().flat_map(|part| part.iter());
    frame.head.iter().chain(parts).copied().collect()
}

fn coalesce(packets: &[Bytes]) -> Vec<Frame> {
    let mut coalescer = Coalescer::new(true);
    packets.iter().for_each(|it| coalescer.push(it.clone()));
    coalescer.finish();
    std::iter::from_fn(|| coalescer.pop()).collect()
}

#[test]
fn the_header_has_these_golden_bytes() {
    let header = VirtioHeader {
        needs_checksum: true,
        segmentation: Segmentation::Tcp6,
        header_length: 72,
        segment_size: 1400,
        checksum_start: 40,
        checksum_offset: 16,
    };
    let golden = [1, 4, 72, 0, 0x78, 5, 40, 0, 16, 0];
    assert_eq!(header.encode(), golden);
    assert_eq!(VirtioHeader::decode(&golden), Ok((header, &[][..])));
    assert_eq!(
        VirtioHeader::decode(&[0, 3, 0, 0, 0, 0, 0, 0, 0, 0]),
        Err(OffloadFault::Segmentation(3))
    );
}

#[test]
fn segments_go_on_in_sequence_and_the_last_one_has_the_flags_of_the_end() {
    for (version, segmentation) in [(4, Segmentation::Tcp4), (6, Segmentation::Tcp6)] {
        let payload: Vec<u8> = (0..2500u32).map(|n| n as u8).collect();
        let packet = tcp(version, 7, u32::MAX - 500, CWR | ACK | PSH | FIN, &payload);
        let packets = split(&frame(segmentation, 1000, &packet)).unwrap();
        assert_eq!(packets.len(), 3);
        let flags = [CWR | ACK, ACK, ACK | PSH | FIN];
        let mut bytes = Vec::new();
        for (n, packet) in packets.iter().enumerate() {
            assert_right(packet);
            let view = PacketView::parse(packet).unwrap();
            assert_eq!(view.tcp_flags(), Some(flags[n]));
            let sequence = u32::from_be_bytes(*view.transport()[4..].first_chunk().unwrap());
            assert_eq!(sequence, (u32::MAX - 500).wrapping_add(1000 * n as u32));
            if version == 4 {
                assert_eq!(packet[4..6], (n as u16 + 1).to_be_bytes());
            }
            bytes.extend_from_slice(&view.transport()[32..]);
        }
        assert_eq!(bytes, payload);
    }
}

#[test]
fn datagrams_get_their_own_length_and_never_a_checksum_of_zero() {
    for version in [4, 6] {
        let packet = udp(version, (1, 2), 250);
        let packets = split(&frame(Segmentation::Udp, 100, &packet)).unwrap();
        let lengths: Vec<_> = packets.iter().map(|it| it.len() % 20).collect();
        assert_eq!(lengths, [8, 8, 18]);
        packets.iter().for_each(|packet| assert_right(packet));
    }
}

#[test]
fn an_open_checksum_of_a_single_packet_is_completed() {
    let whole = tcp(4, 7, 1, ACK, b"hello");
    let view = PacketView::parse(&whole).unwrap();
    let sum = pseudo_header(&view, view.transport().len()).fold();
    let mut open = whole.clone();
    open[36..38].copy_from_slice(&sum.to_be_bytes());
    let frame = frame(Segmentation::None, 0, &open);
    assert_eq!(split(&frame).unwrap(), [Bytes::from(whole)]);
}

#[test]
fn frames_that_contradict_themselves_are_refused() {
    let packet = tcp(4, 7, 1, ACK, &[0; 3000]);
    for (segmentation, size, fault) in [
        (Segmentation::Tcp6, 1000, OffloadFault::Mismatch),
        (Segmentation::Udp, 1000, OffloadFault::Mismatch),
        (Segmentation::Tcp4, 0, OffloadFault::SegmentSize(0)),
        (Segmentation::Tcp4, 1, OffloadFault::SegmentSize(1)),
    ] {
        assert_eq!(split(&frame(segmentation, size, &packet)), Err(fault));
    }
    let mut broken = packet.clone();
    broken[32] = 0x40;
    let frame = frame(Segmentation::Tcp4, 1000, &broken);
    assert_eq!(split(&frame), Err(OffloadFault::Mismatch));
    assert_eq!(split(&[0; 9]), Err(OffloadFault::Truncated));
}

#[test]
fn consecutive_segments_become_one_frame_without_a_copy() {
    for version in [4, 6] {
        let packets: Vec<Bytes> = (0..5)
            .map(|n| {
                let flags = if n == 4 { ACK | PSH } else { ACK };
                tcp(version, 7, n * 1000, flags, &vec![n as u8; 1000]).into()
            })
            .collect();
        let frames = coalesce(&packets);
        assert_eq!(frames.len(), 1);
        assert_eq!(frames[0].parts.len(), 5);
        let head = packets[0].len() - 1000;
        assert_eq!(frames[0].parts[0].as_ptr(), packets[0][head..].as_ptr());
        assert_eq!(frames[0].length(), 10 + head + 5000);
        let mut again = split(&whole(&frames[0])).unwrap();
        // Identifications count up, as the samples' do not.
        for (packet, original) in again.iter_mut().zip(&packets) {
            assert_right(packet);
            let start = head - 32;
            assert_eq!(packet[start..], original[start..]);
        }
    }
}

#[test]
fn what_differs_is_not_joined_and_keeps_its_order() {
    let first = tcp(4, 7, 0, ACK, &[1; 100]);
    let next = tcp(4, 7, 100, ACK, &[2; 100]);
    let mut marked = next.clone();
    crate::packet::mark_congestion(&mut marked);
    marked[1] = 3;
    let hole = tcp(4, 7, 200, ACK, &[2; 100]);
    let longer = tcp(4, 7, 100, ACK, &[2; 101]);
    let mut corrupt = next.clone();
    corrupt[60] ^= 1;
    let end = tcp(4, 7, 100, ACK | FIN, &[2; 100]);
    let bare = tcp(4, 7, 100, ACK, &[]);
    for other in [marked, hole, longer, corrupt, end, bare] {
        let packets = [Bytes::from(first.clone()), Bytes::from(other)];
        let frames = coalesce(&packets);
        let parts: Vec<_> = frames.iter().flat_map(|it| it.parts.clone()).collect();
        assert_eq!(parts, packets);
    }
}

#[test]
fn flows_that_alternate_are_joined_each() {
    let packets: Vec<Bytes> = (0..20)
        .map(|n| match n % 2 {
            0 => tcp(4, 7, n / 2 * 100, ACK, &[1; 100]).into(),
            _ => sealed(udp(6, (5, 6), 100), UDP_CHECKSUM).into(),
        })
        .collect();
    let frames = coalesce(&packets);
    let parts: Vec<_> = frames.iter().map(|it| it.parts.len()).collect();
    assert_eq!(parts, [10, 10]);
    let datagrams = split(&whole(&frames[1])).unwrap();
    assert!(datagrams.iter().all(|it| *it == packets[1]));
}

proptest! {
    #[test]
    fn a_frame_that_is_split_and_joined_again_has_the_same_payload(
        payload in proptest::collection::vec(any::<u8>(), 1..6000),
        size in 64u16..1500,
        version in prop_oneof![Just(4u8), Just(6)],
        is_udp in any::<bool>(),
    ) {
        let (segmentation, packet) = match (is_udp, version) {
            (true, _) => {
                let mut transport = vec![0, 1, 0, 2];
                transport.extend_from_slice(&(8 + payload.len() as u16).to_be_bytes());
                transport.extend_from_slice(&[0, 0]);
                transport.extend_from_slice(&payload);
                (Segmentation::Udp, ip(version, 17, transport))
            }
            (false, 4) => (Segmentation::Tcp4, tcp(4, 1, 5, ACK, &payload)),
            _ => (Segmentation::Tcp6, tcp(6, 1, 5, ACK, &payload)),
        };
        let packets = split(&frame(segmentation, size, &packet)).unwrap();
        packets.iter().for_each(|it| assert_right(it));
        let frames = coalesce(&packets);
        let mut again = Vec::new();
        for frame in &frames {
            again.extend(split(&whole(frame)).unwrap());
        }
        prop_assert_eq!(again.len(), packets.len());
        let head = packet.len() - payload.len();
        let joined: Vec<u8> = again.iter().flat_map(|it| it[head..].to_vec()).collect();
        prop_assert_eq!(joined, payload);
    }

    #[test]
    fn no_frame_makes_it_panic(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..200),
        kind in 0usize..4,
        version in prop_oneof![Just(0x45u8), Just(0x60)],
        protocol in prop_oneof![Just(6u8), Just(17)],
    ) {
        if bytes.len() > 40 {
            bytes[1] = [0, 1, 4, 5][kind];
            bytes[10] = version;
            (bytes[14], bytes[15]) = (0, 100);
            bytes[19] = protocol;
            bytes[16] &= 0x40;
            bytes[17] = 0;
        }
        if let Ok(packets) = split(&bytes) {
            coalesce(&packets);
        }
        coalesce(&[Bytes::from(bytes)]);
    }
}
