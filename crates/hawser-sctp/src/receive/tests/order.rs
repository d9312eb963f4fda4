//! Order of delivery.

use super::*;
use crate::receive::message::PART_OVERHEAD;

#[test]
fn ordered_messages_wait_for_their_turn_and_those_of_other_streams_do_not() {
    let mut inbound = inbound(65536, false);
    let other = Data {
        stream: StreamNumber::new(2),
        ..whole(2, 0, b"other")
    };
    packet(&mut inbound, at(0), [whole(1, 1, b"b"), other]);
    assert_eq!(texts(&mut inbound), ["other"]);
    packet(&mut inbound, at(0), [whole(3, 2, b"c"), whole(0, 0, b"a")]);
    assert_eq!(texts(&mut inbound), ["a", "b", "c"]);
    assert_eq!(inbound.cumulative(), tsn(3));
}

#[test]
fn an_unordered_message_overtakes_and_leaves_the_order_of_the_others_alone() {
    let mut inbound = inbound(65536, false);
    // Its number in the stream is ignored.
    let quick = unordered(whole(1, 7, b"quick"));
    packet(&mut inbound, at(0), [quick, whole(2, 1, b"b")]);
    assert_eq!(texts(&mut inbound), ["quick"]);
    packet(&mut inbound, at(0), [whole(0, 0, b"a")]);
    assert_eq!(texts(&mut inbound), ["a", "b"]);
}

#[test]
fn a_message_is_whole_whatever_order_its_parts_came_in() {
    let places = ["first", "middle", "middle", "last"];
    let payloads: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2], [2, 0, 3, 1]] {
        for is_unordered in [false, true] {
            let mut inbound = inbound(65536, false);
            for index in order {
                assert!(!inbound.is_readable());
                let mut data = part(index as u32, 0, places[index], payloads[index]);
                data.unordered = is_unordered;
                packet(&mut inbound, at(0), [data]);
            }
            let received = inbound.receive().unwrap();
            assert_eq!(received.payload(), "abcd");
            assert_eq!((received.length(), received.parts().len()), (4, 4));
            assert_eq!((received.end, received.protocol), (End::Whole, 51));
        }
    }
}

#[test]
fn parts_of_messages_may_come_in_turns() {
    let mut inbound = inbound(65536, true);
    let other = |data: Data| Data {
        stream: StreamNumber::new(2),
        ..data
    };
    let parts = [
        interleaved(part(0, 0, "first", b"a"), 0, 0),
        other(interleaved(part(1, 0, "first", b"c"), 0, 0)),
        unordered(interleaved(part(2, 0, "first", b"e"), 0, 0)),
        interleaved(part(3, 0, "last", b"b"), 0, 1),
        unordered(interleaved(part(4, 0, "last", b"f"), 0, 1)),
        other(interleaved(part(5, 0, "last", b"d"), 0, 1)),
    ];
    packet(&mut inbound, at(0), parts);
    assert_eq!(texts(&mut inbound), ["ab", "ef", "cd"]);
}

#[test]
fn numbers_of_messages_wrap_around() {
    let mut inbound = inbound(1 << 20, false);
    for round in 0..70 {
        // In reverse, so that the last to arrive releases the others.
        let numbers = (1000 * round..1000 * (round + 1)).rev();
        let parts = numbers.map(|count| whole(count, count as u16, b"?"));
        packet(&mut inbound, at(0), parts);
        assert_eq!(texts(&mut inbound).len(), 1000, "{round}");
    }
}

#[test]
fn what_a_sender_gives_up_no_longer_holds_up_the_stream() {
    let mut inbound = inbound(65536, false);
    let parts = [
        part(1, 1, "middle", b"lost"),
        whole(3, 2, b"c"),
        whole(5, 4, b"e"),
    ];
    packet(&mut inbound, at(0), parts);
    assert!(!inbound.is_readable());
    let mut forward = forward(2, false, 1);
    inbound.on_forward_tsn(at(0), &forward).unwrap();
    assert_eq!(texts(&mut inbound), ["c"]);
    assert_eq!(inbound.cumulative(), tsn(3));
    // Repeated, and about messages that have arrived meanwhile.
    inbound.on_forward_tsn(at(0), &forward).unwrap();
    forward.cumulative = tsn(4);
    forward.skipped[0].last = 2;
    inbound.on_forward_tsn(at(0), &forward).unwrap();
    assert_eq!(inbound.cumulative(), tsn(5));
    assert!(!inbound.is_readable());
    packet(&mut inbound, at(0), [whole(6, 3, b"d")]);
    assert_eq!(texts(&mut inbound), ["d", "e"]);
    assert_eq!(inbound.assembly.held(), 0);
}

#[test]
fn the_end_of_what_was_given_up_is_not_kept_though_it_has_arrived() {
    let mut inbound = inbound(65536, false);
    packet(&mut inbound, at(0), [part(2, 0, "last", b"end")]);
    inbound
        .on_forward_tsn(at(0), &forward(1, false, 0))
        .unwrap();
    assert_eq!(inbound.cumulative(), tsn(2));
    assert_eq!(inbound.assembly.held(), 0);
}

#[test]
fn giving_up_with_interleaving_drops_only_what_is_named() {
    let mut inbound = inbound(65536, true);
    let parts = [
        interleaved(part(1, 0, "middle", b"lost"), 0, 1),
        interleaved(part(2, 0, "first", b"b"), 1, 0),
        unordered(interleaved(part(3, 0, "last", b"lost"), 5, 1)),
        unordered(interleaved(part(4, 0, "last", b"d"), 6, 1)),
    ];
    packet(&mut inbound, at(0), parts);
    let mut forward = forward(0, true, 0);
    forward.skipped.push(SkippedStream {
        unordered: true,
        last: 5,
        ..forward.skipped[0]
    });
    inbound.on_forward_tsn(at(0), &forward).unwrap();
    assert_eq!(inbound.assembly.held(), 2 * (1 + PART_OVERHEAD));
    let rest = [
        interleaved(part(5, 0, "last", b"c"), 1, 1),
        unordered(interleaved(part(6, 0, "first", b"c"), 6, 0)),
    ];
    packet(&mut inbound, at(0), rest);
    assert_eq!(texts(&mut inbound), ["bc", "cd"]);
}

#[test]
fn a_message_longer_than_the_buffer_is_delivered_in_pieces() {
    let mut inbound = inbound(65536, false);
    let mut pieces: Vec<Received> = Vec::new();
    for count in 0..200 {
        let place = ["first", "middle"][usize::from(count > 0)];
        if count < 199 {
            packet(&mut inbound, at(0), [part(count, 0, place, &[7; 1000])]);
        } else {
            packet(&mut inbound, at(0), [whole(200, 1, b"next")]);
            assert!(!inbound.is_readable());
            packet(&mut inbound, at(0), [part(199, 0, "last", &[7; 1000])]);
        }
        pieces.extend(std::iter::from_fn(|| inbound.receive()));
    }
    assert_eq!(pieces.pop().unwrap().payload(), "next");
    assert!(pieces.len() > 1);
    let (last, others) = pieces.split_last().unwrap();
    assert_eq!(last.end, End::Whole);
    assert!(others.iter().all(|piece| piece.end == End::More));
    let same = |piece: &Received| (piece.message, piece.protocol) == (0, 51);
    assert!(pieces.iter().all(same));
    let length: usize = pieces.iter().map(Received::length).sum();
    assert_eq!((length, inbound.assembly.held()), (200_000, 0));
}

#[test]
fn a_reader_of_pieces_is_told_when_the_rest_is_given_up() {
    for is_interleaved in [false, true] {
        let mut inbound = inbound(65536, is_interleaved);
        for count in 0..60 {
            let place = ["first", "middle"][usize::from(count > 0)];
            let mut data = part(count, 0, place, &[7; 1000]);
            if is_interleaved {
                data = interleaved(data, 0, count);
            }
            packet(&mut inbound, at(0), [data]);
        }
        while inbound.is_readable() {
            assert_eq!(inbound.receive().unwrap().end, End::More);
        }
        let forward = forward(70, is_interleaved, 0);
        inbound.on_forward_tsn(at(0), &forward).unwrap();
        let end = inbound.receive().unwrap();
        assert_eq!((end.end, end.length(), end.message), (End::GivenUp, 0, 0));
        assert_eq!(inbound.assembly.held(), 0);
    }
}
