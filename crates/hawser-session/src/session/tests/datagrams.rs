//! Datagrams beside streams.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hawser_types::{ByteCount, ChannelId, Instant, StreamId};
use hawser_wire::{ChannelRole, MAX_DATAGRAM, put_datagram};

use super::pair::{CLIENT, GATEWAY, Pair, link, pattern};
use super::raw::{HELLO, commands_at, spec};
use crate::{DatagramError, Event, Session, SessionConfig, Side, StreamError};

/// Two links with an express and a bulk channel each, and a stream that the gateway knows.
fn pair(mbit: [u64; 2], delay: [u64; 2]) -> (Pair, StreamId) {
    let mut pair = Pair::new(SessionConfig::default());
    for number in 0..2 {
        let link = link(number + 1, mbit[number as usize], delay[number as usize]);
        pair.add_channel(2 * number, ChannelRole::Express, &link);
        pair.add_channel(2 * number + 1, ChannelRole::Bulk, &link);
    }
    let id = open(&mut pair);
    (pair, id)
}

fn open(pair: &mut Pair) -> StreamId {
    let metadata = Bytes::from_static(b"flow");
    let id = pair.sides[CLIENT].open_stream(pair.now, metadata).unwrap();
    pair.run_for(300);
    let accepted = pair.sides[GATEWAY].accept_stream(pair.now, id, Bytes::new());
    accepted.unwrap();
    pair.run_for(300);
    id
}

fn send(pair: &mut Pair, from: usize, id: StreamId, number: u32, size: usize) {
    let now = pair.now;
    let sent = pair.sides[from].send_datagram(now, id, numbered(number, size));
    sent.unwrap();
}

fn numbered(number: u32, size: usize) -> Bytes {
    let mut payload = BytesMut::zeroed(size);
    payload[..4].copy_from_slice(&number.to_be_bytes());
    payload.freeze()
}

/// The numbers of what has come, in the order of coming.
fn take(pair: &mut Pair, side: usize, id: StreamId) -> Vec<u32> {
    let mut got = Vec::new();
    while let Some(payload) = pair.sides[side].receive_datagram(id).unwrap() {
        got.push(u32::from_be_bytes(payload[..4].try_into().unwrap()));
    }
    got
}

fn written(pair: &Pair, channels: [u32; 2]) -> u64 {
    let channels = channels.map(ChannelId::new);
    let channel = |id| pair.sides[CLIENT].channels.get(id).unwrap();
    let of = |id| channel(id).outbound().written();
    channels.into_iter().map(of).sum()
}

#[test]
fn each_comes_once_both_ways_and_is_told_of() {
    let (mut pair, id) = pair([20, 20], [5, 5]);
    for from in [CLIENT, GATEWAY] {
        for number in 0..100 {
            send(&mut pair, from, id, number, 200);
            pair.run_for(2);
        }
        pair.run_for(100);
        let mut got = take(&mut pair, 1 - from, id);
        got.sort_unstable();
        assert_eq!(got, (0..100).collect::<Vec<u32>>());
        assert!(pair.events[1 - from].contains(&Event::Datagram(id)));
    }
}

#[test]
fn links_take_turns_in_proportion_to_their_rates() {
    let (mut pair, id) = pair([30, 10], [10, 10]);
    // So that their rates are known.
    pair.transfer(CLIENT, &pattern(4 << 20));
    pair.run_for(300);
    let before = [written(&pair, [0, 1]), written(&pair, [2, 3])];
    let mut got = 0;
    for number in 0..1000 {
        send(&mut pair, CLIENT, id, number, 1000);
        pair.run_for(2);
        got += take(&mut pair, GATEWAY, id).len();
    }
    pair.run_for(100);
    assert_eq!(got + take(&mut pair, GATEWAY, id).len(), 1000);
    let fast = written(&pair, [0, 1]) - before[0];
    let slow = written(&pair, [2, 3]) - before[1];
    let share = fast as f64 / (fast + slow) as f64;
    assert!((0.6..0.9).contains(&share), "{share}: {fast} and {slow}");
}

/// Sends `count` datagrams in order, a short one behind each long one, as hosts begin with QUIC.
fn send_in_order(pair: &mut Pair, id: StreamId, from: u32, count: u32) {
    for number in from..from + count {
        let now = pair.now;
        let payload = numbered(number, if number % 2 == 0 { 1200 } else { 140 });
        let sent = pair.sides[CLIENT].send_datagram_in_order(now, id, payload);
        sent.unwrap();
    }
}

#[test]
fn those_that_are_to_keep_their_order_overtake_none() {
    for delay in [[10, 10], [40, 10]] {
        // A few at a time, and more at once than a channel takes.
        for at_once in [2, 60] {
            let (mut pair, id) = pair([20, 20], delay);
            let mut got = Vec::new();
            for turn in 0..6 {
                send_in_order(&mut pair, id, turn * at_once, at_once);
                pair.run_for(35);
                got.extend(take(&mut pair, GATEWAY, id));
            }
            pair.run_for(300);
            got.extend(take(&mut pair, GATEWAY, id));
            let expected = (0..6 * at_once).collect::<Vec<u32>>();
            assert_eq!(got, expected, "{delay:?}, {at_once} at once");
        }
    }
}

#[test]
fn those_in_order_leave_a_link_that_falls_silent() {
    let (mut pair, id) = pair([20, 20], [10, 10]);
    send_in_order(&mut pair, id, 0, 2);
    pair.run_for(100);
    assert_eq!(take(&mut pair, GATEWAY, id), [0, 1]);
    pair.hole(0);
    pair.hole(1);
    let mut got = Vec::new();
    for turn in 1..200 {
        send_in_order(&mut pair, id, 2 * turn, 2);
        pair.run_for(20);
        got.extend(take(&mut pair, GATEWAY, id));
    }
    assert!(got.len() > 300, "{}", got.len());
    assert!(got.is_sorted());
}

#[test]
fn the_largest_arrives_and_one_more_byte_is_refused() {
    let (mut pair, id) = pair([20, 20], [5, 5]);
    send(&mut pair, CLIENT, id, 7, MAX_DATAGRAM);
    pair.run_for(200);
    assert_eq!(take(&mut pair, GATEWAY, id), [7]);
    let now = pair.now;
    let payload = Bytes::from(vec![0; MAX_DATAGRAM + 1]);
    assert_eq!(
        pair.sides[CLIENT].send_datagram(now, id, payload),
        Err(DatagramError::TooLarge {
            size: MAX_DATAGRAM + 1,
            max: MAX_DATAGRAM,
        })
    );
    let unknown = StreamId::new(88);
    assert_eq!(
        pair.sides[CLIENT].send_datagram(now, unknown, Bytes::new()),
        Err(DatagramError::Stream(StreamError::Unknown(unknown)))
    );
}

#[test]
fn a_flood_takes_little_from_a_stream_and_its_newest_arrive() {
    let data = pattern(4 << 20);
    let alone = {
        let (mut pair, _) = pair([20, 20], [10, 10]);
        pair.transfer(CLIENT, &data).1
    };
    let (mut pair, id) = pair([20, 20], [10, 10]);
    let began = pair.now;
    let stream = pair.sides[CLIENT]
        .open_stream(pair.now, Bytes::new())
        .unwrap();
    let (mut rest, mut got) = (Bytes::from(data.clone()), Vec::new());
    let mut number = 0;
    let mut ended = false;
    while !ended {
        if !rest.is_empty() {
            pair.sides[CLIENT]
                .write(pair.now, stream, &mut rest)
                .unwrap();
            if rest.is_empty() {
                pair.sides[CLIENT].finish(pair.now, stream).unwrap();
            }
        }
        // 80 Mbit/s, twice what the links carry.
        for _ in 0..10 {
            send(&mut pair, CLIENT, id, number, 1000);
            number += 1;
        }
        pair.run_for(1);
        ended = pair.read_into(GATEWAY, stream, &mut got);
        assert!(pair.now.since(began) < Duration::from_secs(60), "a stand");
    }
    assert_eq!(got, data);
    let beside = pair.now.since(began);
    assert!(beside < alone * 5 / 2, "{beside:?} beside, {alone:?} alone");
    pair.run_for(1000);
    let arrived = take(&mut pair, GATEWAY, id);
    assert_eq!(arrived.iter().max(), Some(&(number - 1)));
    assert!(pair.sides[CLIENT].counters.datagrams_dropped > 0);
    assert!(pair.sides[CLIENT].datagrams.waiting() == 0);
}

#[test]
fn the_oldest_of_too_many_go_and_nothing_is_duplicated() {
    let (mut pair, id) = pair([1, 1], [10, 10]);
    for number in 0..2000 {
        send(&mut pair, CLIENT, id, number, 1000);
    }
    let waiting = pair.sides[CLIENT].datagrams.waiting();
    assert!(waiting <= 256 * 1024, "{waiting}");
    let mut got = Vec::new();
    for _ in 0..100 {
        pair.run_for(100);
        got.extend(take(&mut pair, GATEWAY, id));
    }
    let distinct: BTreeSet<u32> = got.iter().copied().collect();
    assert_eq!(distinct.len(), got.len());
    assert!((1770..2000).all(|number| distinct.contains(&number)));
    assert!(got.len() < 400, "{}", got.len());
}

#[test]
fn a_silent_link_loses_only_what_was_on_it() {
    let (mut pair, id) = pair([20, 20], [10, 10]);
    let mut got = BTreeSet::new();
    for number in 0..3000 {
        if number == 1000 {
            pair.hole(0);
            pair.hole(1);
        }
        send(&mut pair, CLIENT, id, number, 500);
        pair.run_for(2);
        got.extend(take(&mut pair, GATEWAY, id));
    }
    pair.run_for(100);
    got.extend(take(&mut pair, GATEWAY, id));
    assert!((0..990).all(|number| got.contains(&number)));
    assert!((2000..3000).all(|number| got.contains(&number)));
}

#[test]
fn untaken_datagrams_are_bounded_and_go_with_their_stream() {
    let (mut pair, id) = pair([100, 100], [5, 5]);
    for number in 0..500 {
        send(&mut pair, CLIENT, id, number, 1200);
        pair.run_for(1);
    }
    pair.run_for(50);
    let held = pair.sides[GATEWAY].datagrams.held().as_u64();
    assert!((200_000..=256 * 1024).contains(&held), "{held}");
    pair.sides[CLIENT].reset(pair.now, id, 0);
    pair.run_for(50);
    assert_eq!(pair.sides[GATEWAY].datagrams.held(), ByteCount::ZERO);
    let gone = pair.sides[GATEWAY].receive_datagram(id);
    assert_eq!(gone, Err(StreamError::Unknown(id)));
}

#[test]
fn untaken_datagrams_of_many_streams_are_within_the_sessions_memory() {
    let (mut pair, first) = pair([100, 100], [5, 5]);
    let mib = ByteCount::from_mib(1);
    pair.sides[GATEWAY].set_memory(pair.now, mib, mib);
    let streams = [first, open(&mut pair), open(&mut pair), open(&mut pair)];
    for number in 0..1600 {
        send(&mut pair, CLIENT, streams[number % 4], number as u32, 1200);
        pair.run_for(1);
    }
    pair.run_for(50);
    let held = pair.sides[GATEWAY].datagrams.held();
    let most = ByteCount::from_kib(256);
    assert!(held <= most && held > ByteCount::from_kib(200), "{held}");
    assert!(pair.sides[GATEWAY].memory() >= held);
}

#[test]
fn empty_ones_arrive_and_do_not_pile_up() {
    let (mut pair, id) = pair([20, 20], [5, 5]);
    let now = pair.now;
    for _ in 0..100_000 {
        let sent = pair.sides[CLIENT].send_datagram(now, id, Bytes::new());
        assert_eq!(sent, Ok(()));
    }
    assert!(pair.sides[CLIENT].counters.datagrams_dropped > 90_000);
    pair.run_for(500);
    let first = pair.sides[GATEWAY].receive_datagram(id);
    assert_eq!(first, Ok(Some(Bytes::new())));
}

#[test]
fn a_peer_of_an_older_version_gets_none() {
    let now = Instant::from_nanos(1_000_000_000);
    let mut session = Session::new(now, Side::Client, SessionConfig::default());
    let channel = spec(0, ChannelRole::Express, 1);
    session.add_channel(now, channel);
    let id = session.open_stream(now, Bytes::new()).unwrap();
    let refused = Err(DatagramError::NotTaken);
    assert_eq!(session.send_datagram(now, id, Bytes::new()), refused);
    assert_eq!(session.takes_datagrams(), None);
    let mut hello = BytesMut::new();
    HELLO.encode(&mut hello);
    session
        .handle_record(now, channel.id, commands_at(0, &hello))
        .unwrap();
    assert_eq!(session.send_datagram(now, id, Bytes::new()), refused);
    assert_eq!(session.takes_datagrams(), Some(false));
}

#[test]
fn one_for_a_stream_that_is_not_there_is_no_fault() {
    let (mut pair, id) = pair([20, 20], [5, 5]);
    let mut body = BytesMut::new();
    for stream in [0, 1, 6, 1 << 40] {
        put_datagram(StreamId::new(stream), b"lost", &mut body);
    }
    let now = pair.now;
    let gateway = &mut pair.sides[GATEWAY];
    gateway
        .handle_record(now, ChannelId::new(0), body.freeze())
        .unwrap();
    assert_eq!(gateway.counters.datagrams_dropped, 4);
    assert_eq!(gateway.receive_datagram(id), Ok(None));
    assert_eq!(gateway.streams.len(), 1);
}
