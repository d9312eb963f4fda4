use bytes::Bytes;
use hawser_wire::sctp::{ChecksumRule, DataOrder, StreamNumber, Tsn, VerificationTag};

use super::*;
use crate::AssociationConfig;
use crate::testing::{Sent, accepted, packet, route, seconds};

/// An association, and the tag of packets to it.
struct Bench {
    association: Box<Association>,
    tag: u32,
}

impl Bench {
    fn new() -> Self {
        let (association, tag) = accepted(AssociationConfig::default(), way(), Vec::new());
        Self { association, tag }
    }

    /// Returns the chunks that leave after these have arrived in one packet.
    fn answers(&mut self, chunks: &[Chunk]) -> Vec<Chunk> {
        self.answers_to(packet(self.tag, chunks))
    }

    fn answers_to(&mut self, datagram: Bytes) -> Vec<Chunk> {
        let packet = Packet::decode(datagram, ChecksumRule::Crc32c).unwrap();
        self.association.handle_packet(seconds(1), way(), &packet);
        let sent = std::iter::from_fn(|| self.association.poll_transmit(seconds(2)));
        sent.flat_map(|transmit| Sent::of(&transmit).chunks)
            .collect()
    }
}

fn way() -> Route {
    route("192.0.2.1", "198.51.100.1")
}

/// Returns the `count`th message, from 0.
fn data(count: u16, stream: u16) -> Data {
    Data {
        // The peer's INIT has the initial TSN 7.
        tsn: Tsn::new(7).advance(count.into()),
        stream: StreamNumber::new(stream),
        order: DataOrder::Sequence(count),
        unordered: false,
        first: true,
        last: true,
        immediate: true,
        protocol: 0,
        payload: Bytes::from_static(b"payload"),
    }
}

fn acknowledged(chunks: &[Chunk]) -> Option<Tsn> {
    chunks.iter().rev().find_map(|chunk| match chunk {
        Chunk::Sack(sack) => Some(sack.cumulative),
        _ => None,
    })
}

#[test]
fn data_on_a_stream_that_does_not_exist_is_acknowledged_and_its_sender_told() {
    let mut bench = Bench::new();
    let answers = bench.answers(&[Chunk::Data(data(0, 10))]);
    assert_eq!(acknowledged(&answers), Some(Tsn::new(7)));
    assert!(answers.contains(&Chunk::Error(vec![Cause::InvalidStream(10)])));
    assert_eq!(bench.association.receive(), None);
}

#[test]
fn data_without_payload_ends_the_association_with_its_number() {
    let mut bench = Bench::new();
    let empty = Data {
        payload: Bytes::new(),
        ..data(1, 1)
    };
    let answers = bench.answers(&[Chunk::Data(empty)]);
    let abort = Chunk::Abort {
        reflected: false,
        causes: vec![Cause::NoUserData(Tsn::new(8))],
    };
    assert_eq!(answers, [abort]);
}

#[test]
fn data_of_the_kind_that_was_not_agreed_on_ends_the_association() {
    let mut bench = Bench::new();
    let interleaved = Data {
        order: DataOrder::Interleaved {
            message: 0,
            fragment: 0,
        },
        ..data(0, 1)
    };
    let answers = bench.answers(&[Chunk::Data(interleaved)]);
    assert!(matches!(&answers[..], [Chunk::Abort { .. }]), "{answers:?}");
}

#[test]
fn what_comes_before_a_chunk_that_can_not_be_read_counts() {
    let mut bench = Bench::new();
    let good = packet(bench.tag, &[Chunk::Data(data(0, 1))]);
    let bad = [&good[12..], b"\x03\0\0\x03"].concat();
    // An unknown chunk is written unchanged.
    let chunk = Chunk::Unknown {
        kind: 0,
        action: UnknownAction::Stop,
        chunk: bad.into(),
    };
    let answers = bench.answers(&[chunk]);
    assert_eq!(acknowledged(&answers), Some(Tsn::new(7)));
    assert_eq!(bench.association.receive().unwrap().payload(), "payload");
}

#[test]
fn an_unknown_chunk_stops_the_reading_or_not_as_its_type_says_and_is_reported() {
    for (kind, is_reported, is_read_on) in [
        (0x3e, false, false),
        (0x7e, true, false),
        (0xbe, false, true),
        (0xfe, true, true),
    ] {
        let mut bench = Bench::new();
        let whole = Bytes::copy_from_slice(&[kind, 0, 0, 4]);
        let unknown = Chunk::Unknown {
            kind,
            action: UnknownAction::Stop,
            chunk: whole.clone(),
        };
        let answers = bench.answers(&[unknown, Chunk::Data(data(0, 1))]);
        let report = Chunk::Error(vec![Cause::UnrecognizedChunk(whole)]);
        assert_eq!(answers.contains(&report), is_reported, "{kind:x}");
        assert_eq!(acknowledged(&answers).is_some(), is_read_on, "{kind:x}");
    }
}

#[test]
fn a_forged_tag_changes_nothing() {
    let mut bench = Bench::new();
    let forged = VerificationTag::new(bench.tag ^ 1).value();
    let abort = Chunk::Abort {
        reflected: false,
        causes: Vec::new(),
    };
    for chunk in [Chunk::Data(data(0, 1)), abort, Chunk::ShutdownAck] {
        assert_eq!(bench.answers_to(packet(forged, &[chunk])), []);
    }
    let answers = bench.answers(&[Chunk::Data(data(0, 1))]);
    assert_eq!(acknowledged(&answers), Some(Tsn::new(7)));
}
