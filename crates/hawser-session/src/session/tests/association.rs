//! Associations as channels of a session, beside TCP channels.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hawser_types::{
    ByteCount, ChannelId, Instant, LinkIndex, RecordNumber, SegmentNumber, StreamId, StreamOffset,
};
use hawser_wire::{ChannelRole, ChunkFlags, ChunkHeader, Command, StateFrame, put_record_number};

use proptest::prelude::*;

use super::pair::{CLIENT, GATEWAY, Pair, link, pattern};
use super::pipe::Weather;
use super::raw::{HELLO, commands_at, spec};
use crate::channel::MAX_NUMBERS_AHEAD;
use crate::{
    AssociationSample, ChannelSpec, Event, Misbehaviour, Outgoing, PeerFault, Session,
    SessionConfig, Side, Transport, TransportChoice, TransportReason,
};

const FAIR: Weather = Weather {
    mbit: 40,
    delay: 10,
    jitter: 0,
    lost: 0,
};
const ROUGH: Weather = Weather {
    mbit: 40,
    delay: 10,
    jitter: 60,
    lost: 50,
};

/// Two links with an express and a bulk channel each, and an association, channel 9, that chunks
/// are to go over.
fn pair(weather: Weather) -> Pair {
    let mut pair = over_tcp();
    pair.sides[CLIENT].set_transport(pair.now, TransportChoice::Sctp);
    begin(&mut pair, 9, weather);
    pair
}

fn over_tcp() -> Pair {
    let mut pair = Pair::new(SessionConfig::default());
    for number in 0..2 {
        let link = link(number + 1, 10, 10);
        pair.add_channel(2 * number, ChannelRole::Express, &link);
        pair.add_channel(2 * number + 1, ChannelRole::Bulk, &link);
    }
    pair.run_for(200);
    pair
}

/// An association comes about as drivers see to it.
fn begin(pair: &mut Pair, id: u32, weather: Weather) {
    let channel = ChannelId::new(id);
    pair.sides[CLIENT].begin_association(pair.now, channel);
    pair.run_for(100);
    assert!(pair.events[GATEWAY].contains(&Event::AssociationExpected(channel)));
    pair.add_association(id, weather, u64::from(id));
    pair.run_for(100);
}

fn sent(pair: &Pair, side: usize, id: u32) -> u64 {
    let channel = pair.sides[side].channels.get(ChannelId::new(id));
    channel.map_or(0, |channel| channel.outbound().payload())
}

fn in_use(pair: &Pair, side: usize) -> Transport {
    pair.sides[side].snapshot(pair.now, 0).transport.in_use
}

#[test]
fn streams_arrive_whole_and_in_order_though_messages_overtake_each_other() {
    for weather in [FAIR, ROUGH] {
        let mut pair = pair(weather);
        for from in [CLIENT, GATEWAY] {
            let data = pattern(3_000_000);
            let (got, took) = pair.transfer(from, &data);
            assert!(got == data, "{} of {} bytes", got.len(), data.len());
            assert!(took.as_millis() < 1500, "{took:?}");
            let over_tcp: u64 = (0..4).map(|id| sent(&pair, from, id)).sum();
            assert!(sent(&pair, from, 9) >= 3_000_000, "{over_tcp}");
            assert!(over_tcp < 5_000, "{over_tcp}");
            let pipe = &pair.pipes[&(ChannelId::new(9), from)];
            assert_eq!(weather.jitter > 0, pipe.overtaken > 0);
            assert_eq!(weather.lost > 0, pipe.lost > 0);
            assert_eq!(in_use(&pair, from), Transport::Association);
        }
        assert_eq!(pair.sides[CLIENT].counters.bytes_again, 0);
    }
}

/// TCP channels with nothing in flight look sound on links that carry nothing.
#[test]
fn an_association_is_kept_while_all_links_are_silent() {
    let mut pair = pair(FAIR);
    let id = pair.sides[CLIENT]
        .open_stream(pair.now, Bytes::new())
        .unwrap();
    let mut data = Bytes::from(pattern(200_000));
    pair.sides[CLIENT].write(pair.now, id, &mut data).unwrap();
    pair.run_for(15);
    (0..4).for_each(|channel| pair.hole(channel));
    pair.set_dead(9, true);
    pair.run_for(3000);
    assert!(pair.sides[CLIENT].channels.contains(ChannelId::new(9)));
    let suspects = pair.sides[CLIENT].counters.suspects;
    assert!(suspects > 0, "it was in flight");
}

#[test]
fn everything_in_flight_is_acknowledged_and_forgotten() {
    let mut pair = pair(ROUGH);
    pair.transfer(CLIENT, &pattern(1_000_000));
    pair.run_for(1000);
    for session in &pair.sides {
        let channel = session.channels.get(ChannelId::new(9)).unwrap();
        let outbound = channel.outbound();
        assert!(outbound.sent().len() == 0 && outbound.in_flight() == 0);
        assert!(session.unacknowledged.is_empty());
        assert_eq!(session.poll_timeout().filter(|at| *at <= pair.now), None);
    }
}

/// Data in flight on a pipe that dies goes over TCP; a new association takes over again.
#[test]
fn a_pipe_that_dies_in_the_middle_costs_no_byte() {
    let mut pair = pair(ROUGH);
    let data = pattern(9_000_000);
    let id = pair.sides[CLIENT]
        .open_stream(pair.now, Bytes::new())
        .unwrap();
    let mut rest = Bytes::from(data.clone());
    let mut got = Vec::new();
    let (mut finished, mut ended) = (false, false);
    for step in 0..20_000 {
        if !finished {
            pair.sides[CLIENT].write(pair.now, id, &mut rest).unwrap();
            finished = rest.is_empty();
            if finished {
                pair.sides[CLIENT].finish(pair.now, id).unwrap();
            }
        }
        match step {
            200 => pair.set_dead(9, true),
            2500 => {
                assert!(pair.events[CLIENT].contains(&Event::Suspect(ChannelId::new(9))));
                assert_eq!(in_use(&pair, CLIENT), Transport::Tcp);
                assert!(pair.pipes.is_empty(), "given up");
                begin(&mut pair, 10, FAIR);
            }
            _ => {}
        }
        pair.run_for(1);
        ended = pair.read_into(GATEWAY, id, &mut got);
        if ended {
            break;
        }
    }
    assert!(ended && got == data, "{} of {}", got.len(), data.len());
    let over_tcp = sent(&pair, CLIENT, 1) + sent(&pair, CLIENT, 3);
    assert!(over_tcp > 1_000_000, "{over_tcp}");
    assert!(sent(&pair, CLIENT, 10) > 1_000_000);
    assert_eq!(in_use(&pair, CLIENT), Transport::Association);
}

/// It carries nothing new while it is silent, and all of it once it speaks again.
#[test]
fn a_pipe_that_comes_back_by_itself_is_used_again() {
    let mut pair = pair(FAIR);
    let id = pair.sides[GATEWAY]
        .open_stream(pair.now, Bytes::new())
        .unwrap();
    let mut written = 0;
    let mut got = Vec::new();
    let mut over_tcp = [0; 2];
    for step in 0..4000 {
        let rest = pattern(20_000);
        let sent_now = pair.sides[GATEWAY].write_slice(pair.now, id, &rest);
        written += sent_now.unwrap();
        match step {
            1000 => pair.set_dead(9, true),
            1700 => {
                over_tcp[0] = sent(&pair, GATEWAY, 1) + sent(&pair, GATEWAY, 3);
                pair.set_dead(9, false);
            }
            2500 => over_tcp[1] = sent(&pair, GATEWAY, 1) + sent(&pair, GATEWAY, 3),
            _ => {}
        }
        pair.run_for(1);
        pair.read_into(CLIENT, id, &mut got);
    }
    assert!(pair.events[GATEWAY].contains(&Event::Recovered(ChannelId::new(9))));
    assert!(over_tcp[0] > 200_000, "{over_tcp:?}");
    let after = sent(&pair, GATEWAY, 1) + sent(&pair, GATEWAY, 3);
    assert!(after - over_tcp[1] < 100_000, "{after} {over_tcp:?}");
    pair.run_for(5000);
    pair.read_into(CLIENT, id, &mut got);
    assert!(got.len() > written - 5_000_000);
}

#[test]
fn a_transport_of_tcp_leaves_an_association_alone() {
    let mut pair = over_tcp();
    begin(&mut pair, 9, FAIR);
    assert_eq!(pair.sides[GATEWAY].transport(), TransportChoice::Tcp);
    pair.transfer(CLIENT, &pattern(500_000));
    pair.transfer(GATEWAY, &pattern(500_000));
    assert_eq!([sent(&pair, CLIENT, 9), sent(&pair, GATEWAY, 9)], [0, 0]);
    // Another wish holds at once, at both ends.
    pair.sides[CLIENT].set_transport(pair.now, TransportChoice::Sctp);
    pair.run_for(100);
    assert_eq!(pair.sides[GATEWAY].transport(), TransportChoice::Sctp);
    pair.transfer(GATEWAY, &pattern(500_000));
    assert!(sent(&pair, GATEWAY, 9) >= 500_000);
}

/// 20 Mbit/s by TCP, and more or less by the association.
#[test]
fn auto_keeps_what_delivers_more() {
    for (mbit, better) in [(40, Transport::Association), (12, Transport::Tcp)] {
        let mut pair = over_tcp();
        pair.sides[CLIENT].set_transport(pair.now, TransportChoice::Auto);
        begin(&mut pair, 9, Weather { mbit, ..ROUGH });
        for from in [GATEWAY, CLIENT] {
            let over_tcp = |pair: &Pair| sent(pair, from, 1) + sent(pair, from, 3);
            let unused = over_tcp(&pair);
            // A short one goes over the association, whatever that delivers.
            pair.transfer(from, &pattern(500_000));
            assert_eq!(over_tcp(&pair), unused);
            // Trials are worth their cost only where much is sent.
            let data = pattern(2_800_000 * mbit as usize);
            assert!(pair.transfer(from, &data).0 == data);
            let over = over_tcp(&pair) - unused;
            assert!(over > 300_000, "tried: {over}");
            let transport = pair.sides[from].snapshot(pair.now, 0).transport;
            assert_eq!((transport.in_use, transport.trying), (better, false));
            assert_eq!(transport.reason, TransportReason::Faster);
            assert!(transport.tcp.is_some() && transport.sctp.is_some());
            let before = sent(&pair, from, 9);
            pair.transfer(from, &pattern(500_000));
            let more = sent(&pair, from, 9) - before;
            assert_eq!(more >= 500_000, better == Transport::Association, "{more}");
        }
    }
}

#[test]
fn a_session_goes_on_over_its_association_alone() {
    let mut pair = pair(ROUGH);
    (0..4).for_each(|id| pair.cut(id));
    let data = pattern(1_000_000);
    let (got, _) = pair.transfer(CLIENT, &data);
    assert!(got == data);
    assert!(!pair.sides[CLIENT].is_closed());
}

#[test]
fn what_it_carries_is_booked_on_the_links_of_its_paths() {
    let mut pair = pair(FAIR);
    pair.transfer(CLIENT, &pattern(2_000_000));
    pair.run_for(500);
    let snapshot = pair.sides[CLIENT].snapshot(pair.now, 0);
    let link = |number: u32| {
        let mut links = snapshot.links.iter();
        *links.find(|it| it.link == LinkIndex::new(number)).unwrap()
    };
    let [first, second] = [link(1), link(2)];
    let all = first.sent.as_u64() + second.sent.as_u64();
    assert!((2_000_000..2_200_000).contains(&all), "{all}");
    assert!(first.sent.as_u64() > second.sent.as_u64() * 2);
    let delivered = first.delivered.as_u64() + second.delivered.as_u64();
    assert!((1_990_000..=2_000_100).contains(&delivered), "{delivered}");
    assert!(snapshot.links.iter().all(|it| it.link != LinkIndex::ALL));
    let paths = snapshot.channels.iter();
    let paths = paths.filter(|channel| channel.transport == Transport::Association);
    let paths: Vec<_> = paths.map(|channel| (channel.id, channel.link)).collect();
    let id = ChannelId::new(9);
    assert_eq!(paths, [1, 2].map(|number| (id, LinkIndex::new(number))));
    assert_eq!(snapshot.transport.association, Some(id));
}

#[test]
fn datagrams_go_over_it_alone_and_may_get_lost() {
    let mut pair = pair(Weather { lost: 100, ..FAIR });
    let id = pair.sides[CLIENT]
        .open_stream(pair.now, Bytes::new())
        .unwrap();
    pair.run_for(100);
    for number in 0..200u32 {
        let mut payload = BytesMut::zeroed(900);
        payload[..4].copy_from_slice(&number.to_be_bytes());
        let now = pair.now;
        pair.sides[CLIENT]
            .send_datagram(now, id, payload.freeze())
            .unwrap();
        pair.run_for(2);
    }
    pair.run_for(300);
    let mut got = BTreeSet::new();
    while let Some(payload) = pair.sides[GATEWAY].receive_datagram(id).unwrap() {
        got.insert(u32::from_be_bytes(payload[..4].try_into().unwrap()));
    }
    assert!((150..200).contains(&got.len()), "{}", got.len());
    let channel = |id| pair.sides[CLIENT].channels.get(ChannelId::new(id));
    let written = |id| channel(id).unwrap().outbound().written();
    assert!((0..4).map(written).sum::<u64>() < 10_000);
    // Streams go on, and nothing is missing there.
    let data = pattern(300_000);
    assert!(pair.transfer(CLIENT, &data).0 == data);
}

/// A gateway with a first channel and an association that the client began.
#[test]
fn what_a_user_waits_for_is_worth_two_messages() {
    let mut pair = pair(FAIR);
    let twice = |pair: &Pair| pair.pipes[&(ChannelId::new(9), CLIENT)].twice;
    // Of bulk no more than what opens and ends it.
    pair.transfer(CLIENT, &pattern(1_000_000));
    let before = twice(&pair);
    assert!(before < 10, "{before}");
    let now = pair.now;
    let id = pair.sides[CLIENT].open_stream(now, Bytes::new()).unwrap();
    pair.run_for(50);
    let before = twice(&pair);
    for _ in 0..10 {
        let mut line = Bytes::from_static(b"what a person types");
        let now = pair.now;
        pair.sides[CLIENT].write(now, id, &mut line).unwrap();
        pair.run_for(50);
    }
    assert_eq!(twice(&pair), before + 10);
    let datagram = |pair: &mut Pair| {
        let (now, payload) = (pair.now, Bytes::from_static(b"a syllable"));
        pair.sides[CLIENT].send_datagram(now, id, payload).unwrap();
        pair.run_for(50);
        twice(pair) - before - 10
    };
    assert_eq!(datagram(&mut pair), 0);
    pair.sides[CLIENT].set_call(id);
    assert_eq!(datagram(&mut pair), 1);
}

/// Messages that the association sends twice and the session's repeats have one budget.
#[test]
fn no_more_is_worth_two_messages_than_a_fiftieth_of_all_in_the_end() {
    let mut pair = pair(FAIR);
    let twice = |pair: &Pair| pair.pipes[&(ChannelId::new(9), CLIENT)].twice;
    let now = pair.now;
    let id = pair.sides[CLIENT].open_stream(now, Bytes::new()).unwrap();
    pair.run_for(50);
    let line = |pair: &mut Pair| {
        let (now, before) = (pair.now, twice(pair));
        let mut line = Bytes::from_static(b"what a person types");
        pair.sides[CLIENT].write(now, id, &mut line).unwrap();
        pair.run_for(50);
        twice(pair) - before
    };
    assert_eq!(line(&mut pair), 1);
    let pipe = pair.pipes.get_mut(&(ChannelId::new(9), CLIENT)).unwrap();
    pipe.duplicated = 260 * 1024;
    // It is told with a sample, of which a quiet session takes few.
    line(&mut pair);
    assert_eq!(line(&mut pair), 0);
    assert!(!pair.sides[CLIENT].duplicates.try_spend(1));
    pair.transfer(CLIENT, &pattern(1_000_000));
    assert!(line(&mut pair) >= 1);
    assert!(pair.sides[CLIENT].duplicates.try_spend(1));
}

#[test]
fn what_an_association_sends_twice_is_counted_with_what_the_session_duplicates() {
    let mut pair = pair(FAIR);
    let now = pair.now;
    let id = pair.sides[CLIENT].open_stream(now, Bytes::new()).unwrap();
    pair.run_for(50);
    let duplicated = |pair: &Pair| {
        let snapshot = pair.sides[CLIENT].snapshot(pair.now, 0);
        snapshot.counters.bytes_duplicated
    };
    let before = duplicated(&pair);
    for total in [5_000, 5_000, 7_000] {
        let pipe = pair.pipes.get_mut(&(ChannelId::new(9), CLIENT)).unwrap();
        pipe.duplicated = total;
        // Each line brings a sample.
        for _ in 0..2 {
            let now = pair.now;
            let mut line = Bytes::from_static(b"what a person types");
            pair.sides[CLIENT].write(now, id, &mut line).unwrap();
            pair.run_for(50);
        }
        assert_eq!(duplicated(&pair) - before, total);
    }
}

#[test]
fn an_association_that_no_link_carries_any_more_is_given_up_while_there_is_tcp() {
    let stuck = AssociationSample {
        paths: &[],
        placed: &[],
        unacknowledged: ByteCount::new(3000),
        queued: ByteCount::ZERO,
        since_ack: Duration::ZERO,
        duplicated: ByteCount::ZERO,
        copied: ByteCount::ZERO,
        is_stuck: true,
    };
    let moves = AssociationSample {
        is_stuck: false,
        ..stuck
    };
    let association = ChannelId::new(5);
    let is_given_up = |session: &mut Session, now, sample: &AssociationSample<'_>| {
        session.handle_association_sample(now, association, sample);
        let mut events = std::iter::from_fn(|| session.poll_event());
        events.any(|event| event == Event::Dead(association))
    };
    let (mut session, now) = gateway();
    assert!(!is_given_up(&mut session, now, &moves));
    assert!(is_given_up(&mut session, now, &stuck));
    let (mut session, now) = gateway();
    session.handle_channel_lost(now, ChannelId::new(0));
    assert!(
        !is_given_up(&mut session, now, &stuck),
        "nothing else is there"
    );
}

fn gateway() -> (Session, Instant) {
    let now = Instant::from_nanos(1_000_000_000);
    let mut session = Session::new(now, Side::Gateway, SessionConfig::default());
    session.add_channel(now, spec(0, ChannelRole::Express, 7));
    let mut bytes = BytesMut::new();
    HELLO.encode(&mut bytes);
    associate(5).encode(&mut bytes);
    let first = ChannelId::new(0);
    session
        .handle_record(now, first, commands_at(0, &bytes))
        .unwrap();
    session.add_channel(now, ChannelSpec::association(ChannelId::new(5)));
    (session, now)
}

fn associate(channel: u32) -> Command {
    Command::Associate {
        channel: ChannelId::new(channel),
        transport: TransportChoice::Sctp,
    }
}

/// A message with a byte of stream 2.
fn message(number: Option<u64>, offset: u64) -> Bytes {
    let mut out = BytesMut::new();
    put_record_number(number.map(RecordNumber::new), &mut out);
    ChunkHeader {
        stream: StreamId::new(2),
        segment: SegmentNumber::new(offset),
        offset: StreamOffset::new(offset),
        flags: ChunkFlags {
            open: offset == 0,
            fin: false,
        },
        metadata: Bytes::new(),
    }
    .encode(&mut out);
    out.extend_from_slice(b"x");
    out.freeze()
}

#[test]
fn numbers_that_are_misused_are_faults() {
    let id = ChannelId::new(5);
    let number = RecordNumber::new;
    for (script, fault) in [
        (
            &[Some(0), Some(2), Some(1), Some(2)][..],
            Misbehaviour::NumberRepeated(id, number(2)),
        ),
        (
            &[Some(0), Some(0)],
            Misbehaviour::NumberRepeated(id, number(0)),
        ),
        (
            &[Some(3), Some(MAX_NUMBERS_AHEAD)],
            Misbehaviour::NumberTooFar(id, number(MAX_NUMBERS_AHEAD)),
        ),
        (
            &[Some(0), Some((1 << 62) - 2)],
            Misbehaviour::NumberTooFar(id, number((1 << 62) - 2)),
        ),
        (&[Some(0), None], Misbehaviour::ChunkWithoutNumber(id)),
    ] {
        let (mut session, now) = gateway();
        let (last, before) = script.split_last().unwrap();
        for (offset, value) in before.iter().enumerate() {
            let message = message(*value, offset as u64);
            session.handle_record(now, id, message).unwrap();
        }
        let message = message(*last, before.len() as u64);
        let result = session.handle_record(now, id, message);
        assert_eq!(result, Err(PeerFault::Misbehaved(fault)), "{script:?}");
    }
}

#[test]
fn holes_without_end_are_a_fault_before_they_take_much() {
    let (mut session, now) = gateway();
    let id = ChannelId::new(5);
    let beat = |number: u64| {
        let mut out = BytesMut::new();
        put_record_number(Some(RecordNumber::new(number)), &mut out);
        StateFrame::Heartbeat.encode(&mut out);
        out.freeze()
    };
    let refused = (0..).map(|n| 2 * n + 1).find(|number| {
        let result = session.handle_record(now, id, beat(*number));
        result.is_err()
    });
    assert_eq!(refused, Some(MAX_NUMBERS_AHEAD + 1));
}

#[test]
fn a_number_for_an_association_is_granted_once_and_used_once() {
    for (channel, fault) in [
        (0, Misbehaviour::NumberUsed(ChannelId::new(0))),
        (6, Misbehaviour::NumberUsed(ChannelId::new(6))),
        (5000, Misbehaviour::NumberNotGranted(ChannelId::new(5000))),
    ] {
        let now = Instant::from_nanos(1_000_000_000);
        let mut session = Session::new(now, Side::Gateway, SessionConfig::default());
        session.add_channel(now, spec(0, ChannelRole::Express, 7));
        session.reserve_join(ChannelId::new(6)).unwrap();
        let mut bytes = BytesMut::new();
        HELLO.encode(&mut bytes);
        associate(5).encode(&mut bytes);
        // The wish alone may be told again.
        associate(5).encode(&mut bytes);
        associate(channel).encode(&mut bytes);
        let result = session.handle_record(now, ChannelId::new(0), commands_at(0, &bytes));
        assert_eq!(result, Err(PeerFault::Misbehaved(fault)));
        let expected = Event::AssociationExpected(ChannelId::new(5));
        let events = std::iter::from_fn(|| session.poll_event());
        assert_eq!(events.filter(|event| *event == expected).count(), 1);
        // No channel can join under the number that it has taken.
        assert!(session.check_join(ChannelId::new(5)).is_err());
    }
}

#[test]
fn an_association_that_does_not_come_about_is_called_off() {
    let mut pair = over_tcp();
    pair.sides[GATEWAY].announce_datagram_port(pair.now, 7443);
    pair.run_for(100);
    assert!(pair.events[CLIENT].contains(&Event::DatagramPort(7443)));
    let id = ChannelId::new(9);
    pair.sides[CLIENT].begin_association(pair.now, id);
    pair.run_for(100);
    pair.sides[CLIENT].give_up_grant(pair.now, id);
    pair.run_for(100);
    assert!(pair.events[GATEWAY].contains(&Event::Dead(id)));
}

/// The peer takes no number that is too far ahead, whatever it is that keeps it from acknowledging.
#[test]
fn no_more_numbers_are_given_out_than_a_receiver_must_take() {
    let now = Instant::from_nanos(1_000_000_000);
    let mut session = Session::new(now, Side::Client, SessionConfig::default());
    let id = ChannelId::new(5);
    session.add_channel(now, ChannelSpec::association(id));
    let mut takes = |records| {
        let channel = session.channels.get_mut(id).unwrap();
        channel.outbound_mut().set_ready(true);
        channel.outbound_mut().set_records(records);
        channel.view(now, crate::ChunkSize::Auto).ready
    };
    assert!(takes(MAX_NUMBERS_AHEAD / 2 - 1));
    assert!(!takes(MAX_NUMBERS_AHEAD / 2));
}

#[test]
fn commands_have_the_first_sctp_stream_tunnels_the_second_and_others_share_the_rest() {
    let stream = |id: u64, count: u16| {
        let out = Outgoing {
            stream: StreamId::new(id),
            ..Outgoing::default()
        };
        out.sctp_stream(count)
    };
    assert_eq!([stream(0, 1024), stream(1, 1024)], [0, 2]);
    assert_eq!([stream(1021, 1024), stream(1022, 1024)], [1022, 2]);
    assert_eq!([0, 1, 2].map(|count| stream(77, count)), [0, 0, 0]);
    let used: BTreeSet<u16> = (1..5000).map(|id| stream(2 * id, 1024)).collect();
    assert_eq!((used.len(), used.first()), (1021, Some(&2)));
}

proptest! {
    /// Whatever a peer puts into messages: the session goes on, or the peer is at fault.
    #[test]
    fn arbitrary_messages_never_panic(
        messages in proptest::collection::vec(
            (0u64..20, proptest::collection::vec(any::<u8>(), 0..60)),
            0..30,
        ),
    ) {
        let (mut session, now) = gateway();
        for (number, frames) in messages {
            let mut message = BytesMut::new();
            put_record_number(number.checked_sub(1).map(RecordNumber::new), &mut message);
            message.extend_from_slice(&frames);
            if session.handle_record(now, ChannelId::new(5), message.freeze()).is_err() {
                break;
            }
            let mut out = Outgoing::default();
            while let Some(id) = session.poll_wake() {
                while session.poll_transmit(now, id, &mut out) {}
            }
        }
    }
}
