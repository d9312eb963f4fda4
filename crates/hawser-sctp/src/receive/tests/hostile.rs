//! Misbehaviour of a peer.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Data(Data),
    Forward(ForwardTsn),
    Receive,
}

/// Numbers that are often close together, and sometimes close to the wrap.
fn number() -> impl Strategy<Value = u32> {
    prop_oneof![8 => 0..6u32, 1 => u32::MAX - 3..=u32::MAX, 1 => any::<u32>()]
}

fn anything() -> impl Strategy<Value = Step> {
    let tsn = || prop_oneof![9 => 0..300u32, 1 => any::<u32>()].prop_map(tsn);
    let flags = any::<(bool, bool, bool)>();
    let data = (tsn(), 0..11u16, number(), number(), flags, 0..1500usize);
    let data = data.prop_map(|(tsn, stream, message, fragment, flags, length)| {
        let (unordered, first, last) = flags;
        Step::Data(Data {
            tsn,
            stream: StreamNumber::new(stream),
            // Decoding ensures that the first part has the number 0.
            order: DataOrder::Interleaved {
                message,
                fragment: if first { 0 } else { fragment },
            },
            unordered,
            first,
            last,
            payload: vec![7; length].into(),
            ..whole(0, 0, b"")
        })
    });
    let skipped = (0..11u16, any::<bool>(), number());
    let skipped = skipped.prop_map(|(stream, unordered, last)| SkippedStream {
        stream: StreamNumber::new(stream),
        unordered,
        last,
    });
    let forward = (tsn(), vec(skipped, 0..5)).prop_map(|(cumulative, skipped)| {
        Step::Forward(ForwardTsn {
            cumulative,
            interleaved: true,
            skipped,
        })
    });
    prop_oneof![20 => data, 1 => forward, 3 => Just(Step::Receive)]
}

proptest! {
    #[test]
    fn whatever_comes_nothing_panics_and_what_is_kept_is_bounded(
        steps in vec(anything(), 0..400),
        is_interleaved in any::<bool>(),
    ) {
        let mut inbound = inbound(16384, is_interleaved);
        for step in steps {
            // Misbehaviour ends an association; this test continues.
            let _ = match step {
                Step::Data(mut data) => {
                    let order = (data.order, is_interleaved);
                    if let (DataOrder::Interleaved { message, .. }, false) = order {
                        data.order = DataOrder::Sequence(message as u16);
                    }
                    inbound.on_data(at(0), data, None)
                }
                Step::Forward(mut forward) => {
                    forward.interleaved = is_interleaved;
                    inbound.on_forward_tsn(at(0), &forward)
                }
                Step::Receive => {
                    inbound.receive();
                    Ok(())
                }
            };
            inbound.on_packet_end(at(0));
            prop_assert!(inbound.assembly.held() <= 4 * 16384);
            prop_assert!(inbound.poll_sack(at(0), true).is_none_or(|sack| sack.gaps.len() <= 256));
        }
    }
}

#[test]
fn data_of_the_wrong_kind_or_without_payload_is_misbehaviour() {
    let mut plain = inbound(65536, false);
    let data = interleaved(whole(0, 0, b"?"), 0, 0);
    let result = plain.on_data(at(0), data, None);
    assert_eq!(result, Err(Misbehaviour::WrongDataKind));
    let result = plain.on_data(at(0), whole(0, 0, b""), None);
    assert_eq!(result, Err(Misbehaviour::EmptyData));
    let mut interleaving = inbound(65536, true);
    let result = interleaving.on_data(at(0), whole(0, 0, b"?"), None);
    assert_eq!(result, Err(Misbehaviour::WrongDataKind));
}

#[test]
fn giving_up_where_that_was_not_agreed_on_is_misbehaviour() {
    let config = AssociationConfig::default();
    let mut reliable = Inbound::new(&config, tsn(0), 10, false, false);
    let result = reliable.on_forward_tsn(at(0), &forward(4, false, 0));
    assert_eq!(result, Err(Misbehaviour::ForwardedUnasked));
    let result = inbound(65536, false).on_forward_tsn(at(0), &forward(4, true, 0));
    assert_eq!(result, Err(Misbehaviour::WrongDataKind));
}

#[test]
fn a_stream_that_does_not_exist_is_acknowledged_and_reported_and_nothing_is_kept() {
    let mut inbound = inbound(65536, false);
    let data = Data {
        stream: StreamNumber::new(10),
        ..whole(0, 0, b"?")
    };
    packet(&mut inbound, at(0), [data]);
    assert_eq!(inbound.poll_unknown_stream(), Some(StreamNumber::new(10)));
    assert_eq!(inbound.poll_unknown_stream(), None);
    assert_eq!(inbound.cumulative(), tsn(0));
    assert_eq!((inbound.assembly.held(), inbound.is_readable()), (0, false));
}

#[test]
fn parts_that_do_not_fit_together_are_misbehaviour() {
    let broken = |one: &Data, two: &Data| {
        let interleaving = matches!(one.order, DataOrder::Interleaved { .. });
        let mut inbound = inbound(65536, interleaving);
        inbound.on_data(at(0), one.clone(), None).unwrap();
        let result = inbound.on_data(at(0), two.clone(), None);
        assert_eq!(result, Err(Misbehaviour::BrokenMessage), "{one:?} {two:?}");
    };
    let first = part(0, 0, "first", b"?");
    let middle = part(1, 0, "middle", b"?");
    let second = part(2, 0, "first", b"?");
    broken(&middle, &part(0, 1, "first", b"?"));
    broken(&middle, &second);
    broken(&second, &middle);
    broken(&part(0, 0, "last", b"?"), &middle);
    broken(&first, &unordered(middle.clone()));
    let other = Data {
        stream: StreamNumber::new(2),
        ..middle.clone()
    };
    broken(&first, &other);
    // The same part under two TSNs, and two messages with one number.
    let [one, two] = [0, 1].map(|count| interleaved(part(count, 0, "first", b"?"), 0, 0));
    broken(&one, &two);
    broken(&one, &interleaved(middle, 0, 0));
    let [one, two] = [1, 2].map(|count| interleaved(whole(count, 0, b"?"), 1, 0));
    broken(&one, &two);
}

#[test]
fn what_lies_too_far_ahead_is_not_acknowledged() {
    let mut inbound = inbound(65536, false);
    let far = [65535, 1 << 30].map(|count| whole(count, 0, b"?"));
    packet(&mut inbound, at(0), far);
    let sack = inbound.poll_sack(at(0), false).unwrap();
    assert!(sack.gaps.is_empty() && sack.duplicates.is_empty());
    assert_eq!(inbound.assembly.held(), 0);
}

#[test]
fn a_peer_that_ignores_the_window_fills_the_buffer_and_no_more() {
    let mut inbound = inbound(65536, false);
    for count in 0..1000 {
        packet(
            &mut inbound,
            at(0),
            [whole(count, count as u16, &[7; 1000])],
        );
    }
    assert!(inbound.assembly.held() <= 65536);
    let sack = inbound.poll_sack(at(0), true).unwrap();
    let taken = texts(&mut inbound).len() as u32;
    assert_eq!(sack.cumulative, tsn(taken - 1));
    // A dropped part may arrive again.
    packet(&mut inbound, at(0), [whole(taken, taken as u16, b"?")]);
    assert!(inbound.is_readable());
}

#[test]
fn tiny_parts_of_messages_that_never_end_are_bounded_by_what_keeping_them_takes() {
    for is_interleaved in [false, true] {
        let mut inbound = inbound(65536, is_interleaved);
        let tiny = |count: u32, fragment| {
            let data = part(count, 0, "middle", b"?");
            if is_interleaved {
                interleaved(data, count % 7, fragment)
            } else {
                data
            }
        };
        // Parts in every second position: runs that never join.
        for count in 0..30_000 {
            let count = 2 * count + 1;
            packet(&mut inbound, at(0), [tiny(count, count)]);
        }
        assert!(inbound.assembly.held() <= 65536);
        // The parts that fill the holes, and those that follow, start no message either.
        for count in 0..60_000 {
            packet(&mut inbound, at(0), [tiny(count, 1_000_000 + count)]);
        }
        assert!((2 * 65536..=4 * 65536).contains(&inbound.assembly.held()));
        assert!(!inbound.is_readable());
    }
}

#[test]
fn messages_that_begin_and_never_go_on_are_bounded_though_their_beginnings_are_read() {
    let mut inbound = inbound(65536, true);
    let mut count = 0;
    // The unfinished charge is so high that beginnings are delivered at once.
    while inbound.assembly.held() <= 50_000 {
        let middle = interleaved(part(count, 0, "middle", b"?"), 0, 2 * count + 1);
        packet(&mut inbound, at(0), [middle]);
        count += 1;
    }
    let mut begun = 0;
    for count in count..10_000 {
        let first = interleaved(part(count, 0, "first", b"?"), count, 0);
        packet(&mut inbound, at(0), [unordered(first)]);
        begun += texts(&mut inbound).len();
    }
    assert!((50..2000).contains(&begun), "{begun}");
    assert!(inbound.assembly.held() <= 4 * 65536);
}

#[test]
fn small_parts_do_not_keep_the_datagram_that_brought_them() {
    let mut inbound = inbound(65536, false);
    let datagram = Bytes::from(vec![7; 65000]);
    let small = Data {
        payload: datagram.slice(..500),
        ..whole(0, 0, b"")
    };
    packet(&mut inbound, at(0), [small]);
    assert!(datagram.is_unique());
}

#[test]
fn leaps_over_billions_leave_nothing() {
    let mut inbound = inbound(65536, false);
    for round in 0..1000 {
        let before = inbound.cumulative();
        let data = Data {
            tsn: before.advance(60_000),
            ..part(0, 0, "middle", b"?")
        };
        packet(&mut inbound, at(0), [data]);
        let skipped = SkippedStream {
            stream: StreamNumber::new(round % 20),
            unordered: false,
            last: 77,
        };
        let forward = ForwardTsn {
            cumulative: before.advance((1 << 31) - 1),
            interleaved: false,
            skipped: vec![skipped; 300],
        };
        inbound.on_forward_tsn(at(0), &forward).unwrap();
        assert_eq!(inbound.cumulative(), forward.cumulative);
        assert_eq!(inbound.assembly.held(), 0);
    }
}
