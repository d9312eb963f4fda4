//! Whatever is encoded can be decoded.

use std::net::IpAddr;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::fuzzing::fuzz_sctp;

fn bytes() -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..60).prop_map(Bytes::from)
}

fn tsn() -> impl Strategy<Value = Tsn> {
    any::<u32>().prop_map(Tsn::new)
}

fn stream() -> impl Strategy<Value = StreamNumber> {
    any::<u16>().prop_map(StreamNumber::new)
}

fn cause() -> impl Strategy<Value = Cause> {
    prop_oneof![
        any::<u16>().prop_map(Cause::InvalidStream),
        vec(any::<u16>(), 0..5).prop_map(Cause::MissingParameters),
        any::<u32>().prop_map(Cause::StaleCookie),
        Just(Cause::OutOfResource),
        bytes().prop_map(Cause::UnresolvableAddress),
        bytes().prop_map(Cause::UnrecognizedChunk),
        Just(Cause::InvalidParameter),
        bytes().prop_map(Cause::UnrecognizedParameters),
        tsn().prop_map(Cause::NoUserData),
        Just(Cause::CookieWhileShuttingDown),
        bytes().prop_map(Cause::RestartWithNewAddresses),
        bytes().prop_map(Cause::UserAbort),
        bytes().prop_map(Cause::ProtocolViolation),
        (14..=u16::MAX, bytes()).prop_map(|(code, value)| Cause::Other { code, value }),
    ]
}

fn request() -> impl Strategy<Value = Parameter> {
    (any::<u32>(), any::<IpAddr>(), 0..3).prop_map(|(correlation, address, kind)| match kind {
        0 => Parameter::AddAddress {
            correlation,
            address,
        },
        1 => Parameter::DeleteAddress {
            correlation,
            address,
        },
        _ => Parameter::SetPrimary {
            correlation,
            address,
        },
    })
}

fn parameter() -> impl Strategy<Value = Parameter> {
    prop_oneof![
        any::<IpAddr>().prop_map(Parameter::Address),
        bytes().prop_map(Parameter::Cookie),
        bytes().prop_map(Parameter::Unrecognized),
        any::<u32>().prop_map(Parameter::CookiePreservative),
        vec(any::<u16>(), 0..5).prop_map(Parameter::SupportedAddressTypes),
        Just(Parameter::ForwardTsnSupported),
        vec(any::<u8>(), 0..9).prop_map(Parameter::SupportedExtensions),
        any::<u32>().prop_map(Parameter::ZeroChecksumAcceptable),
        request(),
        any::<u32>().prop_map(|correlation| Parameter::Success { correlation }),
        (any::<u32>(), vec(cause(), 0..4)).prop_map(|(correlation, causes)| Parameter::Refused {
            correlation,
            causes,
        }),
    ]
}

fn init() -> impl Strategy<Value = Init> {
    let numbers = (any::<u32>(), any::<u32>(), any::<u16>(), any::<u16>());
    (numbers, tsn(), vec(parameter(), 0..8)).prop_map(|(numbers, initial_tsn, parameters)| {
        let (tag, window, outbound_streams, inbound_streams) = numbers;
        Init {
            tag: VerificationTag::new(tag),
            window,
            outbound_streams,
            inbound_streams,
            initial_tsn,
            parameters,
        }
    })
}

fn order() -> impl Strategy<Value = DataOrder> {
    let interleaved = (any::<u32>(), any::<u32>())
        .prop_map(|(message, fragment)| DataOrder::Interleaved { message, fragment });
    prop_oneof![any::<u16>().prop_map(DataOrder::Sequence), interleaved]
}

pub(super) fn any_data() -> impl Strategy<Value = Data> {
    let flags = any::<(bool, bool, bool, bool)>();
    (tsn(), stream(), order(), flags, any::<u32>(), bytes()).prop_map(
        |(tsn, stream, mut order, (unordered, first, last, immediate), mut protocol, payload)| {
            if let DataOrder::Interleaved { fragment, .. } = &mut order {
                if first {
                    *fragment = 0;
                } else {
                    protocol = 0;
                }
            }
            Data {
                tsn,
                stream,
                order,
                unordered,
                first,
                last,
                immediate,
                protocol,
                payload,
            }
        },
    )
}

fn sack() -> impl Strategy<Value = Sack> {
    let gaps = vec((1..200u16, 0..100u16), 0..50).prop_map(|steps| {
        let mut before = 1;
        let mut next = |(hole, more)| {
            let first = before + hole;
            before = first + more;
            let last = before;
            GapBlock { first, last }
        };
        steps.into_iter().map(&mut next).collect()
    });
    (tsn(), any::<u32>(), gaps, vec(tsn(), 0..9)).prop_map(
        |(cumulative, window, gaps, duplicates)| Sack {
            cumulative,
            window,
            gaps,
            duplicates,
        },
    )
}

fn forward_tsn() -> impl Strategy<Value = ForwardTsn> {
    let streams = vec((stream(), any::<bool>(), any::<u32>()), 0..9);
    (tsn(), any::<bool>(), streams).prop_map(|(cumulative, interleaved, streams)| {
        let skipped = streams.into_iter().map(|(stream, unordered, last)| {
            let last = if interleaved { last } else { last & 0xffff };
            SkippedStream {
                stream,
                unordered: unordered && interleaved,
                last,
            }
        });
        ForwardTsn {
            cumulative,
            interleaved,
            skipped: skipped.collect(),
        }
    })
}

pub(super) fn chunk() -> impl Strategy<Value = Chunk> {
    let asconf = (any::<u32>(), vec(parameter(), 0..6), any::<bool>());
    prop_oneof![
        any_data().prop_map(Chunk::Data),
        init().prop_map(Chunk::Init),
        init().prop_map(Chunk::InitAck),
        sack().prop_map(Chunk::Sack),
        bytes().prop_map(Chunk::Heartbeat),
        bytes().prop_map(Chunk::HeartbeatAck),
        (any::<bool>(), vec(cause(), 0..6))
            .prop_map(|(reflected, causes)| Chunk::Abort { reflected, causes }),
        tsn().prop_map(Chunk::Shutdown),
        Just(Chunk::ShutdownAck),
        any::<bool>().prop_map(|reflected| Chunk::ShutdownComplete { reflected }),
        vec(cause(), 0..6).prop_map(Chunk::Error),
        bytes().prop_map(Chunk::CookieEcho),
        Just(Chunk::CookieAck),
        forward_tsn().prop_map(Chunk::ForwardTsn),
        asconf.prop_map(|(serial, parameters, is_ack)| if is_ack {
            Chunk::AsconfAck { serial, parameters }
        } else {
            Chunk::Asconf { serial, parameters }
        }),
        (0..2000u16).prop_map(Chunk::Pad),
    ]
}

proptest! {
    #[test]
    fn every_chunk_round_trips(chunk in chunk()) {
        let encoded = encode(&chunk);
        prop_assert_eq!(encoded.len() % 4, 0);
        prop_assert_eq!(decode(&encoded), Ok(vec![chunk]));
    }

    #[test]
    fn bundles_round_trip_as_far_as_they_fit(
        list in vec(any_data(), 0..20),
        capacity in 0..1500usize,
    ) {
        let mut writer = PacketWriter::new(1, 2, VerificationTag::new(3), capacity);
        let fit: Vec<_> = list.into_iter().filter(|data| writer.put_data(data)).collect();
        prop_assert_eq!(writer.is_empty(), fit.is_empty());
        if !fit.is_empty() {
            let packet = writer.finish(ChecksumRule::Crc32c);
            prop_assert!(packet.len() <= capacity);
            let packet = Packet::decode(packet, ChecksumRule::Crc32c).unwrap();
            let chunks = packet.chunks().collect::<Result<Vec<_>, _>>();
            let fit = fit.into_iter().map(Chunk::Data).collect();
            prop_assert_eq!(chunks, Ok(fit));
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(data in vec(any::<u8>(), 0..300)) {
        fuzz_sctp(&data);
    }

    #[test]
    fn a_damaged_chunk_never_panics(
        chunk in chunk(),
        at in any::<prop::sample::Index>(),
        to in any::<u8>(),
    ) {
        let mut bytes = encode(&chunk).to_vec();
        let at = at.index(bytes.len());
        bytes[at] = to;
        fuzz_sctp(&bytes);
    }
}
