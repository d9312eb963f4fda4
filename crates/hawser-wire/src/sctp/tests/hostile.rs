//! Malformed packets.

use super::*;

fn reason(chunks: &[u8]) -> MalformedReason {
    decode(chunks).unwrap_err().reason
}

#[test]
fn a_packet_without_a_chunk_or_without_a_header_is_refused() {
    for length in [0, 11, 12] {
        let error = Packet::decode(vec![0; length].into(), ChecksumRule::Zero).unwrap_err();
        assert_eq!(error.reason, MalformedReason::Truncated, "{length}");
    }
}

#[test]
fn a_flipped_bit_anywhere_breaks_the_checksum() {
    let mut writer = PacketWriter::new(1, 2, VerificationTag::new(3), 100);
    assert!(writer.put_data(&data(b"payload")));
    let packet = writer.finish(ChecksumRule::Crc32c);
    assert!(Packet::decode(packet.clone(), ChecksumRule::Crc32c).is_ok());
    for bit in 0..packet.len() * 8 {
        let mut flipped = packet.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        for rule in [ChecksumRule::Crc32c, ChecksumRule::Zero] {
            let error = Packet::decode(flipped.clone().into(), rule).unwrap_err();
            assert_eq!(error.what, "SCTP checksum");
        }
    }
}

#[test]
fn a_zero_checksum_is_taken_only_where_that_is_agreed_and_never_sent_before() {
    let written = |chunk: &Chunk| {
        let mut writer = PacketWriter::new(1, 2, VerificationTag::new(3), 100);
        assert!(writer.put(chunk));
        writer.finish(ChecksumRule::Zero)
    };
    let zero = written(&Chunk::CookieAck);
    assert_eq!(zero[8..12], [0; 4]);
    assert!(Packet::decode(zero.clone(), ChecksumRule::Zero).is_ok());
    assert!(Packet::decode(zero, ChecksumRule::Crc32c).is_err());
    let echo = written(&Chunk::CookieEcho(Bytes::new()));
    for rule in [ChecksumRule::Crc32c, ChecksumRule::Zero] {
        assert!(Packet::decode(echo.clone(), rule).is_ok());
    }
}

#[test]
fn a_chunk_of_zero_length_ends_the_reading_instead_of_going_round() {
    for length in 0..4 {
        assert_eq!(reason(&[11, 0, 0, length]), MalformedReason::BadValue);
    }
    let mut chunks = packet(b"\x0b\0\0\x04\x0b\0\0\0\x0b\0\0\x04").chunks();
    assert_eq!(chunks.next(), Some(Ok(Chunk::CookieAck)));
    assert!(matches!(chunks.next(), Some(Err(_))));
    assert_eq!(chunks.next(), None);
}

#[test]
fn a_chunk_longer_than_the_packet_is_refused() {
    assert_eq!(reason(b"\x0b\0\0\x05"), MalformedReason::Truncated);
    assert_eq!(reason(b"\0\x03\xff\xff"), MalformedReason::Truncated);
    assert_eq!(reason(b"\x0b\0\0\x04\x0b\0"), MalformedReason::Truncated);
}

#[test]
fn padding_is_passed_over_whatever_is_in_it_and_may_be_missing_at_the_end() {
    let echo = Chunk::CookieEcho(Bytes::from_static(b"?"));
    let expected = Ok(vec![echo.clone(), Chunk::CookieAck]);
    assert_eq!(decode(b"\x0a\0\0\x05?\xff\xff\xff\x0b\0\0\x04"), expected);
    for end in 5..8 {
        let chunk = &b"\x0a\0\0\x05?\0\0\0"[..end];
        assert_eq!(decode(chunk), Ok(vec![echo.clone()]));
    }
}

#[test]
fn a_chunk_after_init_or_before_it_is_refused() {
    let init = encode(&Chunk::Init(Init {
        tag: VerificationTag::new(1),
        window: 65536,
        outbound_streams: 1,
        inbound_streams: 1,
        initial_tsn: Tsn::new(1),
        parameters: Vec::new(),
    }));
    assert_eq!(decode(&init).unwrap().len(), 1);
    let ack = b"\x0b\0\0\x04";
    for bundle in [[&init, &ack[..]], [&ack[..], &init]] {
        let error = decode(&bundle.concat()).unwrap_err();
        assert_eq!(error.reason, MalformedReason::TrailingBytes);
    }
    assert_eq!(
        reason(b"\x0e\0\0\x04\x0b\0\0\x04"),
        MalformedReason::TrailingBytes
    );
}

#[test]
fn numbers_of_init_that_must_not_be_zero_can_be_seen() {
    let chunks = decode(&[&b"\x01\0\0\x14"[..], &[0; 16]].concat()).unwrap();
    let [Chunk::Init(init)] = &chunks[..] else {
        panic!("{chunks:?}");
    };
    assert_eq!(
        (init.tag, init.outbound_streams),
        (VerificationTag::NONE, 0)
    );
}

#[test]
fn data_without_payload_shows_its_number() {
    let chunks = decode(b"\0\x03\0\x10\0\0\0\x09\0\x05\0\x06\0\0\0\x33").unwrap();
    let [Chunk::Data(data)] = &chunks[..] else {
        panic!("{chunks:?}");
    };
    assert_eq!((data.tsn, data.payload.len()), (Tsn::new(9), 0));
}

#[test]
fn data_shorter_than_its_header_is_refused() {
    assert_eq!(reason(&[0, 3, 0, 4]), MalformedReason::Truncated);
    let short = [&[64, 3, 0, 16], &[0; 12][..]].concat();
    assert_eq!(reason(&short), MalformedReason::Truncated);
}

#[test]
fn gap_blocks_out_of_order_or_over_each_other_are_refused() {
    let sack = |gaps: &[[u16; 2]]| {
        let mut chunk = vec![3, 0, 0, 16 + 4 * gaps.len() as u8];
        chunk.extend([0; 9]);
        chunk.extend([gaps.len() as u8, 0, 0]);
        let numbers = gaps.iter().flatten();
        chunk.extend(numbers.flat_map(|number| number.to_be_bytes()));
        decode(&chunk).map_err(|error| error.reason)
    };
    assert!(sack(&[[2, 2], [3, 9], [11, 65535]]).is_ok());
    for wrong in [
        &[[5, 6], [2, 3]][..],
        &[[2, 5], [5, 6]],
        &[[2, 5], [3, 4]],
        &[[4, 3]],
        &[[0, 0]],
        &[[1, 2]],
    ] {
        assert_eq!(sack(wrong), Err(MalformedReason::BadValue), "{wrong:?}");
    }
}

#[test]
fn a_sack_that_says_more_than_it_brings_is_refused() {
    let most = b"\x03\0\0\x10\0\0\0\0\0\0\0\0\xff\xff\xff\xff";
    assert_eq!(reason(most), MalformedReason::Truncated);
    let more = b"\x03\0\0\x14\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
    assert_eq!(reason(more), MalformedReason::TrailingBytes);
}

#[test]
fn a_truncated_parameter_is_refused() {
    let init = |parameters: &[u8]| {
        let head = [1, 0, 0, 20 + parameters.len() as u8];
        reason(&[&head[..], &[0; 16], parameters].concat())
    };
    assert_eq!(init(b"\0\x07"), MalformedReason::Truncated);
    assert_eq!(init(b"\0\x07\0\x05"), MalformedReason::Truncated);
    assert_eq!(init(b"\0\x07\0\0"), MalformedReason::BadValue);
    assert_eq!(init(b"\0\x05\0\x06\xc0\0"), MalformedReason::BadValue);
    assert_eq!(init(b"\0\x09\0\x06\0\0"), MalformedReason::Truncated);
    assert_eq!(
        init(b"\xc0\x01\0\x08\0\0\0\x01"),
        MalformedReason::Truncated
    );
}

#[test]
fn parameters_and_causes_by_the_hundred_are_refused() {
    let many = [0xc0, 0x06, 0, 4].repeat(300);
    let length = (4 + many.len()) as u16;
    let [high, low] = length.to_be_bytes();
    assert_eq!(
        reason(&[&[9, 0, high, low], &many[..]].concat()),
        MalformedReason::TooLarge
    );
    let [high, low] = (length + 4).to_be_bytes();
    let asconf = [&[193, 0, high, low, 0, 0, 0, 1], &many[..]].concat();
    assert_eq!(reason(&asconf), MalformedReason::TooLarge);
}

#[test]
fn a_cause_that_says_more_than_it_brings_is_refused() {
    let missing = b"\x09\0\0\x0e\0\x02\0\x0a\xff\xff\xff\xff\0\x07\0\0";
    assert_eq!(reason(missing), MalformedReason::Truncated);
}

#[test]
fn a_heartbeat_without_information_is_refused() {
    assert_eq!(reason(b"\x04\0\0\x04"), MalformedReason::Truncated);
    assert_eq!(
        reason(b"\x04\0\0\x08\0\x02\0\x04"),
        MalformedReason::BadValue
    );
}

#[test]
fn the_highest_bits_of_an_unknown_type_say_what_to_do() {
    let expected = [
        (0x3e, UnknownAction::Stop),
        (0x7e, UnknownAction::StopAndReport),
        (0xbe, UnknownAction::Skip),
        (0xfe, UnknownAction::SkipAndReport),
    ];
    for (kind, action) in expected {
        let bytes = [kind, 0, 0, 5, 9, 0, 0, 0];
        let unknown = Chunk::Unknown {
            kind,
            action,
            chunk: Bytes::copy_from_slice(&bytes[..5]),
        };
        assert_eq!(decode(&bytes), Ok(vec![unknown.clone()]));
        assert_eq!(encode(&unknown)[..], bytes);

        let asconf = [193, 0, 0, 13, 0, 0, 0, 1, kind, 9, 0, 5, 1];
        let parameter = Parameter::Unknown {
            kind: u16::from_be_bytes([kind, 9]),
            action,
            parameter: Bytes::copy_from_slice(&asconf[8..]),
        };
        let chunk = Chunk::Asconf {
            serial: 1,
            parameters: vec![parameter],
        };
        assert_eq!(decode(&asconf), Ok(vec![chunk]));
    }
}

#[test]
fn a_writer_never_goes_beyond_its_capacity() {
    let mut writer = PacketWriter::new(1, 2, VerificationTag::new(3), 51);
    assert_eq!(writer.room(), 36);
    assert!(!writer.put_data(&data(&[1; 21])));
    assert!(!writer.put(&Chunk::Pad(33)));
    assert!(writer.is_empty());
    assert!(writer.put_data(&data(b"abc")));
    assert_eq!(writer.room(), 16);
    assert!(!writer.put(&Chunk::CookieEcho(Bytes::from_static(&[1; 13]))));
    assert!(!writer.put(&Chunk::CookieEcho(vec![1; 100_000].into())));
    assert!(writer.put(&Chunk::CookieEcho(Bytes::from_static(&[1; 12]))));
    assert_eq!(writer.room(), 0);
    let packet = Packet::decode(writer.finish(ChecksumRule::Crc32c), ChecksumRule::Crc32c);
    let chunks = packet.unwrap().chunks().collect::<Result<Vec<_>, _>>();
    assert_eq!(chunks.unwrap().len(), 2);
}
