//! A gateway that asks its client to go on in another session.

use bytes::{Bytes, BytesMut};
use hawser_types::ChannelId;
use hawser_wire::{ChannelRole, Command};

use super::pair::{CLIENT, GATEWAY, Pair, link, pattern};
use super::raw;
use crate::{Event, Misbehaviour, PeerFault, SessionConfig};

fn count(pair: &Pair, side: usize) -> usize {
    let mut events = pair.events[side].clone();
    events.retain(|event| *event == Event::GoingAway);
    events.len()
}

#[test]
fn a_client_hears_once_that_its_gateway_goes_away() {
    let mut pair = Pair::over(&[link(1, 20, 10)]);
    pair.run_for(100);
    assert!(!pair.sides[CLIENT].is_going_away());
    for _ in 0..3 {
        pair.sides[GATEWAY].go_away(pair.now);
        pair.run_for(100);
    }
    assert_eq!([count(&pair, CLIENT), count(&pair, GATEWAY)], [1, 0]);
    assert!(pair.sides[CLIENT].is_going_away());
}

#[test]
fn a_gateway_that_goes_away_before_anything_was_said_greets_first() {
    let mut pair = Pair::new(SessionConfig::default());
    pair.sides[GATEWAY].go_away(pair.now);
    pair.add_channel(0, ChannelRole::Express, &link(1, 20, 20));
    pair.run_for(200);
    assert_eq!(count(&pair, CLIENT), 1);
}

#[test]
fn a_client_does_not_tell_its_gateway_to_go_away() {
    let mut pair = Pair::over(&[link(1, 20, 10)]);
    pair.sides[CLIENT].go_away(pair.now);
    pair.run_for(200);
    assert!(!pair.sides.iter().any(|side| side.is_going_away()));
}

#[test]
fn a_gateway_that_goes_away_serves_streams_that_are_open_and_later_ones() {
    let mut pair = Pair::over(&[link(1, 20, 10), link(2, 8, 50)]);
    let data = pattern(600_000);
    let open = |pair: &mut Pair| {
        let opened = pair.sides[CLIENT].open_stream(pair.now, Bytes::new());
        let id = opened.unwrap();
        let written = pair.sides[CLIENT].write_slice(pair.now, id, &data);
        assert_eq!(written, Ok(data.len()));
        pair.sides[CLIENT].finish(pair.now, id).unwrap();
        id
    };
    let before = open(&mut pair);
    pair.sides[GATEWAY].go_away(pair.now);
    pair.run_for(100);
    let after = open(&mut pair);
    for id in [before, after] {
        let mut got = Vec::new();
        assert!(pair.read_for(10_000, GATEWAY, id, &mut got));
        assert!(got == data);
    }
}

#[test]
fn only_a_gateway_goes_away() {
    let mut pair = Pair::new(SessionConfig::default());
    pair.sides[GATEWAY].add_channel(pair.now, raw::spec(0, ChannelRole::Express, 1));
    let mut bytes = BytesMut::new();
    raw::HELLO.encode(&mut bytes);
    Command::GoingAway.encode(&mut bytes);
    let record = raw::commands_at(0, &bytes);
    let result = pair.sides[GATEWAY].handle_record(pair.now, ChannelId::new(0), record);
    let fault = PeerFault::Misbehaved(Misbehaviour::WrongSide);
    assert_eq!(result, Err(fault));
}
