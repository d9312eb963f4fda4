//! One direction of a stream ends before its end.

use bytes::{Bytes, BytesMut};
use hawser_types::{ChannelId, Instant, StreamId};
use hawser_wire::{ChannelRole, Command};

use super::pair::{CLIENT, GATEWAY, Pair, link, pattern};
use super::raw::{HELLO, commands, commands_at, drain, spec};
use crate::{Event, Session, SessionConfig, Side, StreamError};

const CODE: u32 = 77;

/// Two sessions with a stream of the client's, on which both have written a megabyte.
fn busy_pair() -> (Pair, StreamId) {
    let mut pair = Pair::over(&[link(1, 20, 5), link(2, 20, 50)]);
    let id = open(&mut pair);
    pair.run_for(200);
    for side in [CLIENT, GATEWAY] {
        let now = pair.now;
        let written = pair.sides[side].write_slice(now, id, &pattern(1 << 20));
        assert_eq!(written, Ok(1 << 20));
    }
    pair.run_for(100);
    (pair, id)
}

fn open(pair: &mut Pair) -> StreamId {
    let opened = pair.sides[CLIENT].open_stream(pair.now, Bytes::new());
    opened.unwrap()
}

fn heard(pair: &Pair, side: usize, event: &Event) -> bool {
    pair.events[side].contains(event)
}

/// Reads the direction that goes on to its end, and expects every trace of the stream to go.
fn finish_the_other(pair: &mut Pair, writer: usize, id: StreamId) {
    pair.sides[writer].finish(pair.now, id).unwrap();
    let mut got = Vec::new();
    assert!(pair.read_for(10_000, 1 - writer, id, &mut got));
    assert!(got == pattern(1 << 20));
    pair.run_for(1000);
    for side in [CLIENT, GATEWAY] {
        let session = pair.sides[side].snapshot(pair.now, 0);
        assert_eq!(session.stream_count, 0, "side {side}");
        assert_eq!(session.unacknowledged.as_u64(), 0, "side {side}");
        assert_eq!(session.unsent.as_u64(), 0, "side {side}");
    }
}

#[test]
fn a_writer_resets_its_direction_and_the_other_goes_on() {
    for side in [CLIENT, GATEWAY] {
        let (mut pair, id) = busy_pair();
        pair.sides[side].reset_sending(pair.now, id, CODE);
        assert_eq!(
            pair.sides[side].write_slice(pair.now, id, b"more"),
            Err(StreamError::Finished)
        );
        pair.run_for(1000);
        let peer = 1 - side;
        assert!(heard(&pair, peer, &Event::SendingReset(id, CODE)));
        let read = pair.sides[peer].read(pair.now, id, 100);
        assert_eq!(read, Err(StreamError::Reset(CODE)));
        finish_the_other(&mut pair, peer, id);
    }
}

#[test]
fn a_reader_stops_the_writer_and_the_other_direction_goes_on() {
    for side in [CLIENT, GATEWAY] {
        let (mut pair, id) = busy_pair();
        pair.sides[side].stop_reading(pair.now, id, CODE);
        pair.run_for(1000);
        let writer = 1 - side;
        assert!(heard(&pair, writer, &Event::Stopped(id, CODE)));
        assert_eq!(
            pair.sides[writer].write_slice(pair.now, id, b"more"),
            Err(StreamError::Finished)
        );
        finish_the_other(&mut pair, side, id);
    }
}

/// The writer has dropped its handle, so that nothing of what the peer wrote is read any more. The
/// peer does not read either, and says so.
#[test]
fn a_stop_of_a_stream_without_an_owner_ends_it_both_ways() {
    for side in [CLIENT, GATEWAY] {
        let (mut pair, id) = busy_pair();
        let peer = 1 - side;
        pair.sides[side].abandon(pair.now, id);
        pair.run_for(1000);
        pair.sides[peer].stop_reading(pair.now, id, CODE);
        pair.run_for(1000);
        assert!(heard(&pair, peer, &Event::Reset(id, 0)), "the writer hangs");
        for side in [CLIENT, GATEWAY] {
            let session = pair.sides[side].snapshot(pair.now, 0);
            assert_eq!(session.stream_count, 0, "side {side}");
            assert_eq!(session.unacknowledged.as_u64(), 0, "side {side}");
            assert_eq!(session.unsent.as_u64(), 0, "side {side}");
        }
    }
}

/// As above, while the peer has written nothing: it may end its direction in order.
#[test]
fn a_stop_of_a_stream_without_an_owner_leaves_nothing_when_the_peer_ends_in_order() {
    for side in [CLIENT, GATEWAY] {
        let mut pair = Pair::over(&[link(1, 20, 5), link(2, 20, 50)]);
        let id = open(&mut pair);
        pair.run_for(200);
        let (now, peer) = (pair.now, 1 - side);
        pair.sides[side]
            .write_slice(now, id, &pattern(1 << 20))
            .unwrap();
        pair.sides[side].abandon(now, id);
        pair.run_for(300);
        pair.sides[peer].stop_reading(pair.now, id, CODE);
        pair.sides[peer].finish(pair.now, id).unwrap();
        pair.run_for(1000);
        for side in [CLIENT, GATEWAY] {
            let session = pair.sides[side].snapshot(pair.now, 0);
            assert_eq!(session.stream_count, 0, "side {side}");
            assert_eq!(session.unacknowledged.as_u64(), 0, "side {side}");
        }
    }
}

/// One link has all chunks, so that none can be late.
#[test]
fn chunks_that_are_dropped_are_no_fault_of_their_link() {
    type End = fn(&mut Pair, StreamId);
    let ends: [(&str, End); 3] = [
        ("stop", |pair, id| {
            pair.sides[GATEWAY].stop_reading(pair.now, id, CODE);
        }),
        ("reset sending", |pair, id| {
            pair.sides[CLIENT].reset_sending(pair.now, id, CODE);
        }),
        ("reset", |pair, id| {
            pair.sides[CLIENT].reset(pair.now, id, CODE);
        }),
    ];
    for (name, end) in ends {
        let mut pair = Pair::over(&[link(1, 20, 50)]);
        let id = open(&mut pair);
        pair.run_for(200);
        let written = pair.sides[CLIENT].write_slice(pair.now, id, &pattern(1 << 20));
        assert_eq!(written, Ok(1 << 20));
        pair.run_for(80);
        let link = |pair: &Pair| pair.sides[CLIENT].snapshot(pair.now, 0).links[0];
        let before = link(&pair).delivered;
        end(&mut pair, id);
        pair.run_for(1000);
        let after = link(&pair);
        assert_eq!(after.late.as_u64(), 0, "{name}");
        assert!(
            after.delivered > before,
            "{name}: it was carried all the same"
        );
    }
}

#[test]
fn both_directions_end_early_at_once_and_leave_nothing() {
    let (mut pair, id) = busy_pair();
    let now = pair.now;
    pair.sides[CLIENT].stop_reading(now, id, 1);
    pair.sides[CLIENT].reset_sending(now, id, 2);
    pair.sides[GATEWAY].stop_reading(now, id, 3);
    pair.sides[GATEWAY].reset_sending(now, id, 4);
    pair.run_for(2000);
    for side in [CLIENT, GATEWAY] {
        let session = pair.sides[side].snapshot(pair.now, 0);
        assert_eq!(session.stream_count, 0, "side {side}");
        assert_eq!(session.unacknowledged.as_u64(), 0, "side {side}");
    }
}

#[test]
fn a_stream_whose_halves_end_before_its_opening_arrives_is_told_all_the_same() {
    let mut pair = Pair::over(&[link(1, 20, 5), link(2, 20, 50)]);
    pair.run_for(500);
    let id = open(&mut pair);
    let now = pair.now;
    pair.sides[CLIENT]
        .write_slice(now, id, &pattern(300_000))
        .unwrap();
    pair.sides[CLIENT].reset_sending(now, id, CODE);
    pair.sides[CLIENT].stop_reading(now, id, CODE + 1);
    pair.run_for(1000);
    let events = &pair.events[GATEWAY];
    let at = |event: &Event| events.iter().position(|seen| seen == event);
    let opened = at(&Event::StreamOpened(id)).expect("it opens");
    assert!(at(&Event::SendingReset(id, CODE)).unwrap() > opened);
    assert!(heard(&pair, GATEWAY, &Event::Stopped(id, CODE + 1)));
}

#[test]
fn a_channel_lost_meanwhile_changes_nothing() {
    let (mut pair, id) = busy_pair();
    pair.sides[GATEWAY].reset_sending(pair.now, id, CODE);
    pair.cut(1);
    pair.run_for(3000);
    assert!(heard(&pair, CLIENT, &Event::SendingReset(id, CODE)));
    finish_the_other(&mut pair, CLIENT, id);
}

#[test]
fn what_the_peer_holds_completely_is_read_though_it_is_reset_later() {
    let mut pair = Pair::over(&[link(1, 20, 5)]);
    let id = open(&mut pair);
    pair.sides[CLIENT]
        .write_slice(pair.now, id, b"all")
        .unwrap();
    pair.sides[CLIENT].finish(pair.now, id).unwrap();
    pair.run_for(8);
    pair.sides[CLIENT].reset_sending(pair.now, id, CODE);
    pair.run_for(500);
    let mut got = Vec::new();
    assert!(pair.read_into(GATEWAY, id, &mut got));
    assert_eq!(got, b"all");
}

#[test]
fn a_close_tells_the_code_and_the_text_ahead_of_the_end() {
    let (mut pair, id) = busy_pair();
    pair.sides[GATEWAY].reset_sending(pair.now, id, CODE);
    pair.sides[GATEWAY].close_because(pair.now, CODE, "going down");
    pair.run_for(3000);
    let reason = Event::CloseReason(CODE, "going down".to_owned());
    let events = &pair.events[CLIENT];
    let at = events.iter().position(|event| *event == reason).unwrap();
    let closed = |event: &Event| matches!(event, Event::Closed(_));
    assert!(events.iter().position(closed).unwrap() > at);
}

/// A client with an open stream, and what it sends once a peer of an older version said hello.
fn before_an_older_peer(end: impl FnOnce(&mut Session, Instant, StreamId)) -> Vec<Command> {
    let now = Instant::from_nanos(1_000_000_000);
    let mut session = Session::new(now, Side::Client, SessionConfig::default());
    session.add_channel(now, spec(0, ChannelRole::Express, 1));
    session.handle_writable(now, ChannelId::new(0));
    let id = session.open_stream(now, Bytes::new()).unwrap();
    drain(&mut session, now);
    end(&mut session, now, id);
    let told = drain(&mut session, now);
    assert_eq!(commands(&told), []);
    let mut hello = BytesMut::new();
    HELLO.encode(&mut hello);
    let record = commands_at(0, &hello);
    session
        .handle_record(now, ChannelId::new(0), record)
        .unwrap();
    session.handle_writable(now, ChannelId::new(0));
    commands(&drain(&mut session, now))
}

#[test]
fn a_peer_of_an_older_version_hears_a_reset_of_the_whole_stream() {
    let told = before_an_older_peer(|session, now, id| session.reset_sending(now, id, CODE));
    let stream = StreamId::new(2);
    assert_eq!(told, [Command::Reset { stream, code: CODE }]);
}

#[test]
fn a_peer_of_an_older_version_is_not_told_to_stop() {
    let told = before_an_older_peer(|session, now, id| session.stop_reading(now, id, CODE));
    assert_eq!(told, []);
}

#[test]
fn unread_data_is_credited_to_a_peer_that_can_not_be_stopped() {
    let mut pair = Pair::over(&[link(1, 50, 5)]);
    pair.run_for(200);
    let id = open(&mut pair);
    pair.run_for(100);
    pair.sides[CLIENT].commands.forget_halves();
    pair.sides[CLIENT].stop_reading(pair.now, id, CODE);
    let (now, mut rest) = (pair.now, Bytes::from(pattern(1 << 20)));
    pair.sides[GATEWAY].write(now, id, &mut rest).unwrap();
    pair.sides[GATEWAY].finish(now, id).unwrap();
    pair.run_for(3000);
    assert!(heard(&pair, GATEWAY, &Event::Acknowledged(id)));
}
