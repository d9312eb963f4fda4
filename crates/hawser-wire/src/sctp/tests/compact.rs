//! Packets without header, under a seal.

use bytes::BytesMut;
use proptest::collection::vec;
use proptest::prelude::*;

use super::round_trip::{any_data, chunk};
use super::*;

const NAMES: CommonHeader = CommonHeader {
    source_port: 9,
    destination_port: 10,
    tag: VerificationTag::new(7),
};

fn writer(capacity: usize) -> PacketWriter {
    PacketWriter::compact(BytesMut::new(), capacity)
}

fn written(chunks: &[Chunk], capacity: usize) -> Bytes {
    let mut writer = writer(capacity);
    chunks.iter().for_each(|chunk| assert!(writer.put(chunk)));
    writer.finish(ChecksumRule::Zero)
}

fn read(packet: &[u8]) -> Result<Vec<Chunk>, Malformed> {
    let packet = Packet::decode_sealed(Bytes::copy_from_slice(packet), Some(NAMES))?;
    packet.chunks().collect()
}

fn part(payload: &'static [u8]) -> Data {
    Data {
        order: DataOrder::Interleaved {
            message: 100,
            fragment: 0,
        },
        ..data(payload)
    }
}

#[test]
fn a_compact_packet_has_these_golden_bytes() {
    let sack = Chunk::Sack(Sack {
        cumulative: Tsn::new(8),
        window: 9,
        ..Sack::default()
    });
    let later = Data {
        first: false,
        unordered: true,
        protocol: 0,
        order: DataOrder::Interleaved {
            message: 3,
            fragment: 2,
        },
        ..part(b"abc")
    };
    let chunks = [sack, Chunk::Data(part(b"x")), Chunk::Data(later)];
    let bytes = b"\x03\0\0\x10\0\0\0\x08\0\0\0\x09\0\0\0\0\
        \x53\0\x01\x01\x02\x03\x04\x05\x40\x64\x33x\
        \x45\x01\x02\x03\x04\x05\x03\x02abc";
    assert_eq!(written(&chunks, bytes.len())[..], *bytes);
    assert_eq!(read(bytes), Ok(chunks.to_vec()));
}

#[test]
fn a_whole_packet_is_marked() {
    let mut writer = PacketWriter::sealed(BytesMut::new(), NAMES, 100);
    assert!(writer.is_empty());
    assert!(writer.put(&Chunk::CookieAck));
    let packet = writer.finish(ChecksumRule::Crc32c);
    assert_eq!(packet[..12], *b"\xff\0\0\0\0\x09\0\x0a\0\0\0\x07");
    let whole = Packet::decode_sealed(packet.clone(), None).unwrap();
    let plain = Packet::decode(packet.slice(4..), ChecksumRule::Crc32c).unwrap();
    assert_eq!(whole, plain);
}

#[test]
fn a_compact_packet_has_the_names_of_its_association() {
    let bytes = written(&[Chunk::Data(part(b"x"))], 100);
    let packet = Packet::decode_sealed(bytes.clone(), Some(NAMES)).unwrap();
    assert_eq!((packet.source_port, packet.destination_port), (9, 10));
    assert_eq!((packet.tag, packet.size()), (NAMES.tag, bytes.len()));
    let error = Packet::decode_sealed(bytes, None).unwrap_err();
    assert_eq!(error.reason, MalformedReason::BadValue);
}

#[test]
fn what_begins_or_ends_an_association_is_refused() {
    for kind in [1, 2, 6, 7, 8, 10, 11, 14, 255] {
        let error = read(&[kind, 1, 0, 8, 0, 0, 0, 0]).unwrap_err();
        assert_eq!(error.reason, MalformedReason::BadValue, "{kind}");
    }
    assert!(!writer(100).put(&Chunk::CookieAck));
    assert!(!writer(100).put(&Chunk::ShutdownComplete { reflected: true }));
}

#[test]
fn nonsense_is_refused() {
    for (bytes, reason) in [
        (&b"\x63\0\0\0\0\x01\x01\x01x"[..], MalformedReason::BadValue),
        (b"\x43\0\0\0\0\x01\x01", MalformedReason::Truncated),
        (b"\x43\0\0\0", MalformedReason::Truncated),
        (
            b"\x53\0\x02\0\0\0\0\x01\x01\x01x",
            MalformedReason::Truncated,
        ),
        (
            b"\x43\0\0\0\0\x80\x01\0\0\x01\x01x",
            MalformedReason::TooLarge,
        ),
        (b"", MalformedReason::Truncated),
    ] {
        assert_eq!(read(bytes).unwrap_err().reason, reason, "{bytes:?}");
    }
    // An unknown type is skipped or not, as in whole packets.
    assert!(matches!(
        read(&[0x9f, 0, 0, 4]).unwrap()[..],
        [Chunk::Unknown { .. }]
    ));
}

#[test]
fn a_chunk_that_fills_its_packet_has_no_length() {
    let header = Framing::Compact.data_header(StreamNumber::new(5), &part(b"").order, Some(51));
    assert_eq!(header, 9);
    let payload = Bytes::from(vec![7; 1000]);
    let data = Data {
        payload,
        ..part(b"")
    };
    for spare in 0..20 {
        let mut writer = writer(header + 1000 + spare);
        assert_eq!(Framing::Compact.chunk_length(&data), header + 1000);
        assert!(writer.put_data(&data));
        // With a length, the next chunk would begin at 1012.
        assert_eq!(writer.room() > 0, spare >= 7, "{spare}");
        let packet = writer.finish(ChecksumRule::Zero);
        let said = if spare >= 7 { 2 } else { 0 };
        assert_eq!(packet.len(), header + said + 1000);
        assert_eq!(read(&packet), Ok(vec![Chunk::Data(data.clone())]));
    }
    assert!(!writer(header + 999).put_data(&data));
}

proptest! {
    #[test]
    fn compact_packets_round_trip_as_far_as_their_chunks_fit(
        list in vec(prop_oneof![chunk(), any_data().prop_map(Chunk::Data)], 1..20),
        capacity in 0..1500usize,
    ) {
        let mut writer = writer(capacity);
        let fit: Vec<_> = list.into_iter().filter(|chunk| writer.put(chunk)).collect();
        prop_assert_eq!(writer.is_empty(), fit.is_empty());
        if !fit.is_empty() {
            let packet = writer.finish(ChecksumRule::Zero);
            prop_assert!(packet.len() <= capacity);
            prop_assert_eq!(read(&packet), Ok(fit));
        }
    }

    #[test]
    fn what_is_in_front_of_a_payload_belongs_to_it(data in any_data(), cut in any::<usize>()) {
        let mut rest = data.clone();
        let front = rest.payload.split_to(cut % (data.payload.len() + 1));
        for framing in [Framing::Whole, Framing::Compact] {
            let length = framing.chunk_length(&data);
            prop_assert_eq!(framing.chunk_length_behind(front.len(), &rest), length);
            for spare in [0, 40] {
                let size = framing.packet_header() + length + spare;
                let packet = |front: &[u8], data: &Data| {
                    let whole = || PacketWriter::within(BytesMut::new(), NAMES, size);
                    let mut writer = match framing {
                        Framing::Whole => whole(),
                        Framing::Compact => writer(size),
                    };
                    let is_put = writer.put_data_behind(front, data);
                    (is_put, writer.finish(ChecksumRule::Crc32c))
                };
                let expected = packet(&[], &data);
                prop_assert!(expected.0);
                prop_assert_eq!(packet(&front, &rest), expected);
            }
            let mut short = writer(Framing::Compact.chunk_length(&data) - 1);
            prop_assert!(!short.put_data_behind(&front, &rest));
        }
    }

    #[test]
    fn a_chunk_is_as_long_as_is_said_beforehand(data in any_data()) {
        for framing in [Framing::Whole, Framing::Compact] {
            let length = framing.chunk_length(&data);
            let size = framing.packet_header() + length;
            let whole = || PacketWriter::within(BytesMut::new(), NAMES, size);
            let mut writer = if framing == Framing::Whole { whole() } else { writer(size) };
            prop_assert!(writer.put_data(&data));
            prop_assert_eq!(writer.room(), 0);
            prop_assert_eq!(writer.finish(ChecksumRule::Zero).len(), size);
            let protocol = data.first.then_some(data.protocol);
            let header = framing.data_header(data.stream, &data.order, protocol);
            let most = framing.payload_within(length, header, &data.order);
            prop_assert!((data.payload.len()..data.payload.len() + 4).contains(&most));
        }
    }
}
