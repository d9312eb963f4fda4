use proptest::prelude::*;

use super::*;

fn decode_all(body: &[u8]) -> Result<Vec<Frame>, Malformed> {
    FrameIterator::new(Bytes::copy_from_slice(body)).collect()
}

#[test]
fn a_chunk_has_these_golden_bytes() {
    let header = ChunkHeader {
        stream: StreamId::new(2),
        segment: SegmentNumber::new(70),
        offset: StreamOffset::new(0),
        flags: ChunkFlags {
            open: true,
            fin: false,
        },
        metadata: Bytes::from_static(b"meta"),
    };
    let mut body = Vec::new();
    StateFrame::Ack {
        channel: ChannelId::new(1),
        records: 5,
    }
    .encode(&mut body);
    header.encode(&mut body);
    body.extend_from_slice(b"payload");
    assert_eq!(body, b"\x01\x02\x01\x05\x81\x02\x40\x46\x00\x04metapayload");
    let frames = decode_all(&body).unwrap();
    assert_eq!(
        frames[0],
        Frame::State(StateFrame::Ack {
            channel: ChannelId::new(1),
            records: 5
        })
    );
    assert_eq!(
        frames[1],
        Frame::Chunk(header, Bytes::from_static(b"payload"))
    );
}

#[test]
fn segments_that_are_lost_have_these_golden_bytes() {
    let lost = StateFrame::SegmentsLost {
        link: 3,
        size: 1448,
    };
    let mut body = Vec::new();
    lost.encode(&mut body);
    assert_eq!(body, b"\x10\x03\x03\x45\xa8");
    assert_eq!(decode_all(&body), Ok(vec![Frame::State(lost)]));
}

#[test]
fn a_group_has_these_golden_bytes_and_stands_before_the_chunk_that_opens_its_stream() {
    let group = StateFrame::Group {
        stream: StreamId::new(70),
        group: StreamGroup::new(1448),
    };
    let mut body = Vec::new();
    group.encode(&mut body);
    assert_eq!(body, b"\x07\x04\x40\x46\x45\xa8");
    body.extend(b"\x81\x40\x46\x01\x00\x00");
    let frames = decode_all(&body).unwrap();
    assert_eq!(frames[0], Frame::State(group));
    assert!(matches!(&frames[1], Frame::Chunk(header, _) if header.flags.open));
    // A group is a number of 32 bits.
    let error = decode_all(b"\x07\x09\x02\xc0\x00\x00\x01\x00\x00\x00\x00").unwrap_err();
    assert_eq!(error.reason, MalformedReason::TooLarge);
}

#[test]
fn a_path_report_has_these_golden_bytes() {
    let report = PathReport {
        channel: ChannelId::new(3),
        stamp: 1_000_000,
        silent: true,
        queue: Some(24_999),
        rate: 2_500_000,
    };
    let mut body = Vec::new();
    StateFrame::Path(report).encode(&mut body);
    let golden = b"\x05\x0e\x03\x80\x0f\x42\x40\x01\x80\x00\x61\xa8\x80\x26\x25\xa0";
    assert_eq!(body, golden);
    let frames = decode_all(&body);
    assert_eq!(frames, Ok(vec![Frame::State(StateFrame::Path(report))]));
    body[7] = 2;
    assert_eq!(
        decode_all(&body).unwrap_err().reason,
        MalformedReason::BadValue
    );
}

#[test]
fn a_datagram_has_these_golden_bytes_and_may_stand_before_a_chunk() {
    let mut body = Vec::new();
    put_datagram(StreamId::new(70), b"query", &mut body);
    assert_eq!(body, b"\x06\x07\x40\x46query");
    put_datagram(StreamId::new(2), b"", &mut body);
    body.extend(b"\x80\x02\x40\x46\x00payload");
    let frames = decode_all(&body).unwrap();
    let query = Bytes::from_static(b"query");
    assert_eq!(frames[0], Frame::Datagram(StreamId::new(70), query));
    assert_eq!(frames[1], Frame::Datagram(StreamId::new(2), Bytes::new()));
    assert!(matches!(&frames[2], Frame::Chunk(_, payload) if payload == "payload"));
}

#[test]
fn a_datagram_larger_than_udp_carries_is_refused() {
    let mut body = Vec::new();
    put_datagram(StreamId::new(2), &vec![0; MAX_DATAGRAM + 1], &mut body);
    assert_eq!(
        decode_all(&body).unwrap_err().reason,
        MalformedReason::TooLarge
    );
}

#[test]
fn unknown_frames_are_passed_over_unless_critical() {
    assert_eq!(
        decode_all(&[0x3f, 1, 9, FrameKind::Heartbeat.number(), 0]),
        Ok(vec![Frame::State(StateFrame::Heartbeat)])
    );
    let error = decode_all(&[0x7f, 1, 9]).unwrap_err();
    assert_eq!(error.reason, MalformedReason::UnknownCritical);
}

#[test]
fn metadata_beyond_its_limit_is_refused() {
    let mut body = vec![FrameKind::Chunk.number() | FLAG_OPEN, 2, 0, 0];
    put_varint(&mut body, MAX_OPEN_METADATA as u64 + 1);
    body.extend_from_slice(&[0; MAX_OPEN_METADATA + 1]);
    assert_eq!(
        decode_all(&body).unwrap_err().reason,
        MalformedReason::TooLarge
    );
}

#[test]
fn bytes_behind_a_state_frame_are_refused() {
    assert_eq!(
        decode_all(&[FrameKind::Ack.number(), 3, 1, 1, 1])
            .unwrap_err()
            .reason,
        MalformedReason::TrailingBytes
    );
}

proptest! {
    #[test]
    fn datagrams_round_trip(
        list in proptest::collection::vec(
            (0..=crate::MAX_VARINT, proptest::collection::vec(any::<u8>(), 0..2000)),
            0..8,
        )
    ) {
        let mut body = Vec::new();
        let mut expected = Vec::new();
        for (stream, payload) in list {
            let before = body.len();
            put_datagram(StreamId::new(stream), &payload, &mut body);
            let length = datagram_length(StreamId::new(stream), payload.len());
            prop_assert_eq!(body.len() - before, length);
            expected.push(Frame::Datagram(StreamId::new(stream), payload.into()));
        }
        prop_assert_eq!(decode_all(&body).unwrap(), expected);
    }
}

fn path_report() -> impl Strategy<Value = PathReport> {
    let number = 0..=crate::MAX_VARINT;
    let queue = proptest::option::of(0..crate::MAX_VARINT);
    let numbers = (any::<u32>(), number.clone(), any::<bool>(), queue, number);
    numbers.prop_map(|(channel, stamp, silent, queue, rate)| PathReport {
        channel: ChannelId::new(channel),
        stamp,
        silent,
        queue,
        rate,
    })
}

fn state_frame() -> impl Strategy<Value = StateFrame> {
    let number = 0..=crate::MAX_VARINT;
    prop_oneof![
        (any::<u32>(), number.clone()).prop_map(|(id, records)| StateFrame::Ack {
            channel: ChannelId::new(id),
            records
        }),
        (number.clone(), number).prop_map(|(id, limit)| StateFrame::Credit {
            stream: StreamId::new(id),
            limit
        }),
        (any::<bool>(), any::<u32>()).prop_map(|(express, link)| {
            let role = if express {
                ChannelRole::Express
            } else {
                ChannelRole::Bulk
            };
            StateFrame::Join { role, link }
        }),
        Just(StateFrame::Heartbeat),
        path_report().prop_map(StateFrame::Path),
        (any::<u32>(), any::<u32>()).prop_map(|(link, size)| StateFrame::SegmentsLost {
            link: link >> 1,
            size,
        }),
    ]
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(body in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode_all(&body);
    }

    #[test]
    fn frames_survive_the_round_trip(
        states in proptest::collection::vec(state_frame(), 0..8),
        stream in 0..1u64 << 40, segment in 0..1u64 << 40, offset in 0..1u64 << 40,
        open: bool, fin: bool,
        metadata in proptest::collection::vec(any::<u8>(), 0..64),
        payload in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let header = ChunkHeader {
            stream: StreamId::new(stream),
            segment: SegmentNumber::new(segment),
            offset: StreamOffset::new(if open { 0 } else { offset }),
            flags: ChunkFlags { open, fin },
            metadata: if open { Bytes::from(metadata) } else { Bytes::new() },
        };
        let mut body = Vec::new();
        for state in &states {
            state.encode(&mut body);
        }
        let before = body.len();
        header.encode(&mut body);
        prop_assert_eq!(body.len() - before, header.length());
        body.extend_from_slice(&payload);
        let mut expected: Vec<_> = states.into_iter().map(Frame::State).collect();
        expected.push(Frame::Chunk(header, Bytes::from(payload)));
        prop_assert_eq!(decode_all(&body), Ok(expected));
    }
}
