//! Messages that the peer places.

use hawser_types::PathId;

use super::*;

fn placing() -> Inbound {
    let config = AssociationConfig {
        placed_stream: Some(StreamNumber::new(1)),
        ..AssociationConfig::default()
    };
    Inbound::new(&config, Tsn::new(INITIAL), 10, true, true)
}

fn placed(count: u32) -> Data {
    interleaved(unordered(whole(count, 0, b"packet")), 0, 0)
}

fn path(number: u32) -> Option<PathId> {
    Some(PathId::new(number))
}

fn forward(count: u32) -> ForwardTsn {
    ForwardTsn {
        cumulative: tsn(count),
        interleaved: true,
        skipped: vec![SkippedStream {
            stream: StreamNumber::new(1),
            unordered: true,
            last: 0,
        }],
    }
}

#[test]
fn they_come_apart_from_others_with_their_path_and_place() {
    let mut inbound = placing();
    let other = Data {
        stream: StreamNumber::new(2),
        ..placed(0)
    };
    inbound.on_data(at(0), other, path(4)).unwrap();
    inbound.on_data(at(0), placed(1), path(5)).unwrap();
    let received = inbound.receive_placed().unwrap();
    assert_eq!(
        (received.carrier.path, received.carrier.number),
        (path(5), 2)
    );
    assert_eq!(inbound.receive().unwrap().stream.value(), 2);
    assert!(inbound.receive_placed().is_none() && inbound.receive().is_none());
    assert_eq!(inbound.held(), 0);
}

#[test]
fn one_that_comes_after_it_was_given_up_is_handed_on_once() {
    let mut inbound = placing();
    inbound.on_data(at(0), placed(2), path(0)).unwrap();
    inbound.on_forward_tsn(at(0), &forward(4)).unwrap();
    assert_eq!(inbound.cumulative(), tsn(4));
    while inbound.receive_placed().is_some() {}
    for (count, is_new) in [
        (3, true),
        (3, false),
        (0, true),
        (2, false),
        (4, true),
        (4, false),
    ] {
        inbound.on_data(at(1), placed(count), path(1)).unwrap();
        assert_eq!(inbound.receive_placed().is_some(), is_new, "{count}");
    }
    // A second copy of a message that was not given up is not handed on either.
    inbound.on_data(at(1), placed(5), path(0)).unwrap();
    assert!(inbound.receive_placed().is_some());
    inbound.on_data(at(1), placed(5), path(1)).unwrap();
    assert!(inbound.receive_placed().is_none());
}

#[test]
fn memory_of_what_was_passed_over_is_bounded() {
    let mut inbound = placing();
    for step in 0..2000 {
        // Every other one is missing.
        inbound
            .on_data(at(0), placed(2 * step + 1), path(0))
            .unwrap();
        inbound.on_forward_tsn(at(0), &forward(2 * step)).unwrap();
        while inbound.receive_placed().is_some() {}
    }
    let mut late = |count| {
        inbound.on_data(at(1), placed(count), path(0)).unwrap();
        inbound.receive_placed().is_some()
    };
    assert!(late(3998) && !late(0));
}
