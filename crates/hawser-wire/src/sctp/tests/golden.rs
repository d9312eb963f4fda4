//! Bytes made by hand from the figures of the RFCs.

use std::net::IpAddr;

use super::*;

fn assert_golden(chunk: &Chunk, bytes: &[u8]) {
    assert_eq!(encode(chunk)[..], *bytes, "{chunk:?}");
    assert_eq!(decode(bytes), Ok(vec![chunk.clone()]));
}

fn bytes(value: &'static [u8]) -> Bytes {
    Bytes::from_static(value)
}

fn ip(address: &str) -> IpAddr {
    address.parse().unwrap()
}

#[test]
fn the_header_has_these_golden_bytes() {
    let mut writer = PacketWriter::new(5000, 9, VerificationTag::new(0x0102_0304), 100);
    assert!(writer.put(&Chunk::CookieAck));
    let packet = writer.finish(ChecksumRule::Zero);
    assert_eq!(
        packet[..],
        *b"\x13\x88\0\x09\x01\x02\x03\x04\0\0\0\0\x0b\0\0\x04"
    );
    let packet = Packet::decode(packet, ChecksumRule::Zero).unwrap();
    assert_eq!((packet.source_port, packet.destination_port), (5000, 9));
    assert_eq!(packet.tag, VerificationTag::new(0x0102_0304));
}

#[test]
fn the_checksum_is_crc_32c_with_its_lowest_byte_first() {
    /// A bit at a time, as the polynomial is defined. Source: RFC 9260 appendix A.
    fn by_bits(bytes: &[u8]) -> u32 {
        let step = |sum: u32| (sum >> 1) ^ if sum & 1 == 1 { 0x82f6_3b78 } else { 0 };
        let byte = |sum: u32, byte: &u8| (0..8).fold(sum ^ u32::from(*byte), |sum, _| step(sum));
        !bytes.iter().fold(!0, byte)
    }
    // Source: RFC 3720 appendix B.4, of the same polynomial.
    assert_eq!(by_bits(&[0; 32]).to_le_bytes(), [0xaa, 0x36, 0x91, 0x8a]);

    let mut writer = PacketWriter::new(5000, 9, VerificationTag::new(7), 100);
    assert!(writer.put_data(&data(b"payload")));
    let packet = writer.finish(ChecksumRule::Crc32c);
    let mut blank = packet.to_vec();
    blank[8..12].fill(0);
    assert_eq!(packet[8..12], by_bits(&blank).to_le_bytes());
}

#[test]
fn data_has_these_golden_bytes() {
    let whole = b"\0\x03\0\x13\x01\x02\x03\x04\0\x05\0\x06\0\0\0\x33abc\0";
    assert_golden(&Chunk::Data(data(b"abc")), whole);
    let middle = Data {
        unordered: true,
        first: false,
        last: false,
        immediate: true,
        ..data(b"abcd")
    };
    let bytes = b"\0\x0c\0\x14\x01\x02\x03\x04\0\x05\0\x06\0\0\0\x33abcd";
    assert_golden(&Chunk::Data(middle), bytes);
}

#[test]
fn i_data_has_the_protocol_or_the_number_of_the_part_in_the_same_place() {
    let order = |fragment| DataOrder::Interleaved {
        message: 0x0a0b_0c0d,
        fragment,
    };
    let first = Data {
        order: order(0),
        last: false,
        ..data(b"abcd")
    };
    let bytes = b"\x40\x02\0\x18\x01\x02\x03\x04\0\x05\0\0\x0a\x0b\x0c\x0d\0\0\0\x33abcd";
    assert_golden(&Chunk::Data(first.clone()), bytes);
    let last = Data {
        order: order(7),
        first: false,
        last: true,
        protocol: 0,
        ..first
    };
    let bytes = b"\x40\x01\0\x18\x01\x02\x03\x04\0\x05\0\0\x0a\x0b\x0c\x0d\0\0\0\x07abcd";
    assert_golden(&Chunk::Data(last), bytes);
}

#[test]
fn init_has_these_golden_bytes() {
    let init = Init {
        tag: VerificationTag::new(0x0102_0304),
        window: 0x0002_0000,
        outbound_streams: 10,
        inbound_streams: 1024,
        initial_tsn: Tsn::new(9),
        parameters: vec![
            Parameter::Address(ip("192.0.2.1")),
            Parameter::Address(ip("2001:db8::1")),
            Parameter::SupportedAddressTypes(vec![5, 6]),
            Parameter::CookiePreservative(1000),
            Parameter::ForwardTsnSupported,
            Parameter::SupportedExtensions(vec![0xc1, 0xc0, 0xc2]),
            Parameter::ZeroChecksumAcceptable(1),
        ],
    };
    let bytes = b"\x01\0\0\x54\x01\x02\x03\x04\0\x02\0\0\0\x0a\x04\0\0\0\0\x09\
        \0\x05\0\x08\xc0\0\x02\x01\
        \0\x06\0\x14\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\
        \0\x0c\0\x08\0\x05\0\x06\
        \0\x09\0\x08\0\0\x03\xe8\
        \xc0\0\0\x04\
        \x80\x08\0\x07\xc1\xc0\xc2\0\
        \x80\x01\0\x08\0\0\0\x01";
    assert_golden(&Chunk::Init(init), bytes);
}

#[test]
fn the_length_of_a_chunk_leaves_out_the_padding_of_its_last_parameter() {
    let init = Init {
        tag: VerificationTag::new(1),
        window: 2,
        outbound_streams: 3,
        inbound_streams: 4,
        initial_tsn: Tsn::new(5),
        parameters: vec![
            Parameter::Unrecognized(bytes(b"\xc0\x06\0\x05\xff")),
            Parameter::Cookie(bytes(b"?")),
        ],
    };
    let bytes = b"\x02\0\0\x25\0\0\0\x01\0\0\0\x02\0\x03\0\x04\0\0\0\x05\
        \0\x08\0\x09\xc0\x06\0\x05\xff\0\0\0\
        \0\x07\0\x05?\0\0\0";
    assert_golden(&Chunk::InitAck(init.clone()), bytes);
    // Other implementations count the padding.
    let mut counted = bytes.to_vec();
    counted[3] = 0x28;
    assert_eq!(decode(&counted), Ok(vec![Chunk::InitAck(init)]));
}

#[test]
fn sack_has_these_golden_bytes() {
    let sack = Sack {
        cumulative: Tsn::new(7),
        window: 0x0001_0000,
        gaps: vec![
            GapBlock { first: 2, last: 3 },
            GapBlock { first: 5, last: 5 },
        ],
        duplicates: vec![Tsn::new(6)],
    };
    let bytes = b"\x03\0\0\x1c\0\0\0\x07\0\x01\0\0\0\x02\0\x01\
        \0\x02\0\x03\0\x05\0\x05\0\0\0\x06";
    assert_golden(&Chunk::Sack(sack), bytes);
}

#[test]
fn heartbeats_have_these_golden_bytes() {
    let nonce = bytes(b"nonce");
    let heartbeat = b"\x04\0\0\x0d\0\x01\0\x09nonce\0\0\0";
    assert_golden(&Chunk::Heartbeat(nonce.clone()), heartbeat);
    let ack = b"\x05\0\0\x0d\0\x01\0\x09nonce\0\0\0";
    assert_golden(&Chunk::HeartbeatAck(nonce), ack);
}

#[test]
fn the_end_of_an_association_has_these_golden_bytes() {
    let shutdown = Chunk::Shutdown(Tsn::new(5));
    assert_golden(&shutdown, b"\x07\0\0\x08\0\0\0\x05");
    assert_golden(&Chunk::ShutdownAck, b"\x08\0\0\x04");
    let complete = |reflected| Chunk::ShutdownComplete { reflected };
    assert_golden(&complete(false), b"\x0e\0\0\x04");
    assert_golden(&complete(true), b"\x0e\x01\0\x04");
    let abort = Chunk::Abort {
        reflected: true,
        causes: vec![Cause::UserAbort(bytes(b"by"))],
    };
    assert_golden(&abort, b"\x06\x01\0\x0a\0\x0c\0\x06by\0\0");
}

#[test]
fn cookies_have_these_golden_bytes() {
    let echo = Chunk::CookieEcho(bytes(b"cookie"));
    assert_golden(&echo, b"\x0a\0\0\x0acookie\0\0");
    assert_golden(&Chunk::CookieAck, b"\x0b\0\0\x04");
}

#[test]
fn every_cause_has_these_golden_bytes() {
    let causes = vec![
        Cause::InvalidStream(7),
        Cause::MissingParameters(vec![7]),
        Cause::StaleCookie(5),
        Cause::OutOfResource,
        Cause::UnresolvableAddress(bytes(b"\0\x0b\0\x04")),
        Cause::UnrecognizedChunk(bytes(b"\x45\0\0\x04")),
        Cause::InvalidParameter,
        Cause::UnrecognizedParameters(bytes(b"\xc0\x06\0\x04")),
        Cause::NoUserData(Tsn::new(3)),
        Cause::CookieWhileShuttingDown,
        Cause::RestartWithNewAddresses(bytes(b"\0\x05\0\x08\xc0\0\x02\x01")),
        Cause::ProtocolViolation(bytes(b"why?")),
        Cause::Other {
            code: 0xa0,
            value: bytes(b"rest"),
        },
    ];
    let bytes = b"\x09\0\0\x68\
        \0\x01\0\x08\0\x07\0\0\
        \0\x02\0\x0a\0\0\0\x01\0\x07\0\0\
        \0\x03\0\x08\0\0\0\x05\
        \0\x04\0\x04\
        \0\x05\0\x08\0\x0b\0\x04\
        \0\x06\0\x08\x45\0\0\x04\
        \0\x07\0\x04\
        \0\x08\0\x08\xc0\x06\0\x04\
        \0\x09\0\x08\0\0\0\x03\
        \0\x0a\0\x04\
        \0\x0b\0\x0c\0\x05\0\x08\xc0\0\x02\x01\
        \0\x0d\0\x08why?\
        \0\xa0\0\x08rest";
    assert_golden(&Chunk::Error(causes), bytes);
}

#[test]
fn forward_tsn_has_these_golden_bytes() {
    let skipped = SkippedStream {
        stream: StreamNumber::new(1),
        unordered: false,
        last: 2,
    };
    let forward = ForwardTsn {
        cumulative: Tsn::new(5),
        interleaved: false,
        skipped: vec![skipped],
    };
    let bytes = b"\xc0\0\0\x0c\0\0\0\x05\0\x01\0\x02";
    assert_golden(&Chunk::ForwardTsn(forward.clone()), bytes);
    let unordered = SkippedStream {
        unordered: true,
        last: 0x0001_0002,
        ..skipped
    };
    let forward = ForwardTsn {
        interleaved: true,
        skipped: vec![skipped, unordered],
        ..forward
    };
    let bytes = b"\xc2\0\0\x18\0\0\0\x05\0\x01\0\0\0\0\0\x02\0\x01\0\x01\0\x01\0\x02";
    assert_golden(&Chunk::ForwardTsn(forward), bytes);
}

#[test]
fn asconf_has_these_golden_bytes() {
    let asconf = Chunk::Asconf {
        serial: 0x0102_0304,
        parameters: vec![
            Parameter::Address(ip("192.0.2.1")),
            Parameter::AddAddress {
                correlation: 1,
                address: ip("192.0.2.2"),
            },
            Parameter::DeleteAddress {
                correlation: 2,
                address: ip("0.0.0.0"),
            },
            Parameter::SetPrimary {
                correlation: 3,
                address: ip("192.0.2.2"),
            },
        ],
    };
    let bytes = b"\xc1\0\0\x40\x01\x02\x03\x04\
        \0\x05\0\x08\xc0\0\x02\x01\
        \xc0\x01\0\x10\0\0\0\x01\0\x05\0\x08\xc0\0\x02\x02\
        \xc0\x02\0\x10\0\0\0\x02\0\x05\0\x08\0\0\0\0\
        \xc0\x04\0\x10\0\0\0\x03\0\x05\0\x08\xc0\0\x02\x02";
    assert_golden(&asconf, bytes);
    let ack = Chunk::AsconfAck {
        serial: 0x0102_0304,
        parameters: vec![
            Parameter::Success { correlation: 1 },
            Parameter::Refused {
                correlation: 2,
                causes: vec![Cause::Other {
                    code: 0xa0,
                    value: Bytes::new(),
                }],
            },
        ],
    };
    let bytes = b"\x80\0\0\x1c\x01\x02\x03\x04\xc0\x05\0\x08\0\0\0\x01\
        \xc0\x03\0\x0c\0\0\0\x02\0\xa0\0\x04";
    assert_golden(&ack, bytes);
}

#[test]
fn pad_has_these_golden_bytes() {
    assert_golden(&Chunk::Pad(6), b"\x84\0\0\x0a\0\0\0\0\0\0\0\0");
}
