use bytes::Bytes;
use hawser_sched::chunk::ChunkPolicy;
use hawser_types::{ByteCount, ChannelId, LinkIndex, StreamId};
use hawser_wire::{ChannelRole, Enrolment};

use super::pair::{CLIENT, GATEWAY, Pair, link, pattern};
use crate::{
    ChunkSize, CloseReason, Event, Misbehaviour, PeerFault, RELAY_LINK, ReadOutcome, SessionConfig,
    StreamError,
};

const MB: usize = 1_000_000;

#[test]
fn a_transfer_uses_both_links_in_both_directions() {
    for from in [CLIENT, GATEWAY] {
        let mut pair = Pair::over(&[link(1, 20, 5), link(2, 20, 100)]);
        let data = pattern(10 * MB);
        let (got, took) = pair.transfer(from, &data);
        assert!(got == data);
        // 40 Mbit/s carry 10 MB in 2 s; one link would take 4.
        assert!(took.as_millis() < 2400, "{took:?}");
    }
}

#[test]
fn every_policy_and_chunk_size_delivers_every_byte() {
    let sizes = [
        ChunkSize::Auto,
        ChunkSize::Mtu,
        ChunkSize::Fixed(ByteCount::new(5000)),
    ];
    for scheduler in ChunkPolicy::ALL {
        for chunk_size in sizes {
            let config = SessionConfig {
                scheduler,
                chunk_size,
                ..SessionConfig::default()
            };
            let mut pair = Pair::new(config);
            pair.add_channel(0, ChannelRole::Express, &link(1, 50, 5));
            pair.add_channel(1, ChannelRole::Bulk, &link(1, 50, 5));
            pair.add_channel(2, ChannelRole::Bulk, &link(2, 10, 30));
            let data = pattern(MB);
            assert!(
                pair.transfer(GATEWAY, &data).0 == data,
                "{scheduler} {chunk_size:?}"
            );
        }
    }
}

#[test]
fn the_first_connection_may_die_like_any_other() {
    let mut pair = Pair::over(&[link(1, 20, 5), link(2, 20, 20)]);
    let data = pattern(2 * MB);
    let id = pair.sides[CLIENT]
        .open_stream(pair.now, Bytes::new())
        .unwrap();
    let mut rest = Bytes::from(data.clone());
    pair.sides[CLIENT].write(pair.now, id, &mut rest).unwrap();
    pair.run_for(50);
    pair.cut(0);
    let mut got = Vec::new();
    while !rest.is_empty() {
        pair.sides[CLIENT].write(pair.now, id, &mut rest).unwrap();
        pair.run_for(5);
        pair.read_into(GATEWAY, id, &mut got);
    }
    pair.sides[CLIENT].finish(pair.now, id).unwrap();
    assert!(pair.read_for(3000, GATEWAY, id, &mut got));
    assert!(got == data);
}

#[test]
fn a_silent_hole_loses_nothing_and_holds_the_reader_up_less_than_half_a_second() {
    for from in [CLIENT, GATEWAY] {
        let mut pair = Pair::over(&[link(1, 20, 10), link(2, 20, 10)]);
        let id = pair.sides[from]
            .open_stream(pair.now, Bytes::new())
            .unwrap();
        let data = pattern(8 * MB);
        let mut rest = Bytes::from(data.clone());
        let (mut got, mut last, mut gap) = (Vec::new(), pair.now, 0);
        for millis in 0..10_000 {
            pair.sides[from].write(pair.now, id, &mut rest).unwrap();
            if millis == 500 {
                pair.hole(1);
            }
            pair.run_for(1);
            let before = got.len();
            pair.read_into(1 - from, id, &mut got);
            if got.len() > before {
                gap = gap.max(pair.now.since(last).as_millis());
                last = pair.now;
            }
            if got.len() == data.len() {
                break;
            }
        }
        assert!(got == data);
        assert!(gap <= 500, "gap of {gap} ms");
        assert!(pair.events[from].contains(&Event::Suspect(ChannelId::new(1))));
        assert!(pair.events[from].contains(&Event::Dead(ChannelId::new(1))));
    }
}

/// The link that lived is lost while the other is silent: no channel is left that is not suspect.
#[test]
fn a_session_whose_last_channels_are_suspect_lives_on_until_a_sound_one_comes() {
    let mut pair = Pair::over(&[link(1, 20, 10), link(2, 20, 10)]);
    let id = pair.sides[CLIENT]
        .open_stream(pair.now, Bytes::new())
        .unwrap();
    let mut rest = Bytes::from(pattern(8 * MB));
    let mut got = Vec::new();
    let suspect = Event::Suspect(ChannelId::new(1));
    for millis in 0..2_000 {
        if millis == 300 {
            pair.hole(1);
        }
        pair.sides[CLIENT].write(pair.now, id, &mut rest).unwrap();
        pair.run_for(1);
        pair.read_into(GATEWAY, id, &mut got);
        if pair.events[CLIENT].contains(&suspect) {
            break;
        }
    }
    assert!(pair.events[CLIENT].contains(&suspect));
    pair.cut(0);
    pair.run_for(100);
    pair.add_channel(5, ChannelRole::Bulk, &link(1, 20, 10));
    for _ in 0..4_000 {
        pair.sides[CLIENT].write(pair.now, id, &mut rest).unwrap();
        pair.run_for(1);
        pair.read_into(GATEWAY, id, &mut got);
    }
    assert!(got == pattern(8 * MB));
}

#[test]
fn a_session_without_channels_lives_on_until_one_returns() {
    let mut pair = Pair::over(&[link(1, 20, 10)]);
    let id = pair.sides[CLIENT]
        .open_stream(pair.now, Bytes::new())
        .unwrap();
    pair.sides[CLIENT]
        .write_slice(pair.now, id, &pattern(MB))
        .unwrap();
    pair.run_for(60);
    pair.cut(0);
    pair.run_for(59_000);
    pair.add_channel(5, ChannelRole::Bulk, &link(9, 20, 10));
    let mut got = Vec::new();
    pair.read_for(3000, GATEWAY, id, &mut got);
    assert!(got == pattern(MB));
}

#[test]
fn a_session_without_channels_ends_when_its_time_is_up() {
    let mut pair = Pair::over(&[link(1, 20, 10)]);
    pair.run_for(100);
    pair.cut(0);
    pair.run_for(61_000);
    for side in [CLIENT, GATEWAY] {
        assert!(pair.events[side].contains(&Event::Closed(CloseReason::Abandoned)));
    }
}

#[test]
fn half_close_travels_each_way_on_its_own() {
    let mut pair = Pair::over(&[link(1, 20, 10)]);
    let id = pair.sides[CLIENT]
        .open_stream(pair.now, Bytes::from_static(b"to"))
        .unwrap();
    pair.sides[CLIENT]
        .write_slice(pair.now, id, b"question")
        .unwrap();
    pair.sides[CLIENT].finish(pair.now, id).unwrap();
    pair.run_for(100);
    assert_eq!(pair.sides[GATEWAY].peer_metadata(id).unwrap(), "to");
    let mut question = Vec::new();
    assert!(pair.read_into(GATEWAY, id, &mut question));
    assert_eq!(question, b"question");
    pair.sides[GATEWAY]
        .accept_stream(pair.now, id, Bytes::from_static(b"yes"))
        .unwrap();
    pair.sides[GATEWAY]
        .write_slice(pair.now, id, b"answer")
        .unwrap();
    pair.sides[GATEWAY].finish(pair.now, id).unwrap();
    pair.run_for(100);
    assert!(pair.events[CLIENT].contains(&Event::StreamAccepted(id)));
    let mut answer = Vec::new();
    assert!(pair.read_into(CLIENT, id, &mut answer));
    assert_eq!(answer, b"answer");
    pair.run_for(100);
    for side in [CLIENT, GATEWAY] {
        assert_eq!(pair.sides[side].snapshot(pair.now, 10).stream_count, 0);
        assert!(pair.events[side].contains(&Event::Acknowledged(id)));
    }
}

#[test]
fn a_reset_ends_both_directions_at_once() {
    let mut pair = Pair::over(&[link(1, 20, 10)]);
    let id = pair.sides[CLIENT]
        .open_stream(pair.now, Bytes::new())
        .unwrap();
    pair.sides[CLIENT]
        .write_slice(pair.now, id, &pattern(50_000))
        .unwrap();
    pair.run_for(100);
    pair.sides[GATEWAY].reset(pair.now, id, 7);
    pair.run_for(100);
    assert!(pair.events[CLIENT].contains(&Event::Reset(id, 7)));
    assert_eq!(
        pair.sides[CLIENT].write_slice(pair.now, id, b"more"),
        Err(StreamError::Unknown(id))
    );
    let snapshot = pair.sides[CLIENT].snapshot(pair.now, 10);
    assert_eq!(
        (snapshot.unacknowledged, snapshot.stream_count),
        (ByteCount::ZERO, 0)
    );
}

#[test]
fn an_orderly_close_loses_nothing() {
    let mut pair = Pair::over(&[link(1, 8, 10), link(2, 1, 50)]);
    let id = pair.sides[CLIENT]
        .open_stream(pair.now, Bytes::new())
        .unwrap();
    let data = pattern(900_000);
    pair.sides[CLIENT].write_slice(pair.now, id, &data).unwrap();
    pair.sides[CLIENT].finish(pair.now, id).unwrap();
    pair.sides[CLIENT].close(pair.now, 0);
    let mut got = Vec::new();
    pair.read_for(3000, GATEWAY, id, &mut got);
    assert!(got == data);
    pair.run_for(1000);
    assert!(pair.events[CLIENT].contains(&Event::Closed(CloseReason::Local)));
    assert!(pair.events[GATEWAY].contains(&Event::Closed(CloseReason::Peer(0))));
}

#[test]
fn unordered_reading_gives_each_byte_once_at_its_place() {
    let mut pair = Pair::over(&[link(1, 20, 5), link(2, 20, 100)]);
    let id = pair.sides[CLIENT]
        .open_stream(pair.now, Bytes::new())
        .unwrap();
    let data = pattern(MB);
    pair.sides[CLIENT].write_slice(pair.now, id, &data).unwrap();
    pair.sides[CLIENT].finish(pair.now, id).unwrap();
    pair.run_for(20);
    pair.sides[GATEWAY].set_unordered(id).unwrap();
    let (mut out, mut count, mut in_order) = (vec![0; MB], 0, true);
    loop {
        match pair.sides[GATEWAY].read(pair.now, id, usize::MAX).unwrap() {
            ReadOutcome::Data(offset, bytes) => {
                in_order &= offset as usize == count;
                let at = offset as usize;
                out[at..at + bytes.len()].copy_from_slice(&bytes);
                count += bytes.len();
            }
            ReadOutcome::Blocked => pair.run_for(1),
            ReadOutcome::End => break,
        }
    }
    assert!(count == MB && out == data && !in_order);
}

#[test]
fn an_idle_session_has_nothing_to_do() {
    let mut pair = Pair::over(&[link(1, 20, 10), link(2, 20, 10)]);
    pair.transfer(CLIENT, &pattern(100_000));
    pair.run_for(2000);
    assert!(
        pair.sides
            .iter()
            .all(|session| session.poll_timeout().is_none())
    );
}

#[test]
fn what_a_correct_peer_would_not_do_is_named() {
    let mut pair = Pair::over(&[link(1, 20, 10)]);
    let channel = ChannelId::new(0);
    // An acknowledgement of a thousand records, then data on a stream that was never opened.
    for (body, fault) in [
        (&b"\x01\x03\x00\x43\xe8"[..], Misbehaviour::AckOfUnsent),
        (
            b"\x80\x01\x00\x00data",
            Misbehaviour::NotOpened(StreamId::new(1)),
        ),
    ] {
        let body = Bytes::from_static(body);
        let result = pair.sides[GATEWAY].handle_record(pair.now, channel, body);
        assert_eq!(result, Err(PeerFault::Misbehaved(fault)));
    }
}

#[test]
fn an_abandoned_stream_still_delivers_what_was_written() {
    let mut pair = Pair::over(&[link(1, 20, 10)]);
    let id = pair.sides[CLIENT]
        .open_stream(pair.now, Bytes::new())
        .unwrap();
    pair.sides[CLIENT]
        .write_slice(pair.now, id, &pattern(100_000))
        .unwrap();
    pair.sides[CLIENT].abandon(pair.now, id);
    let mut got = Vec::new();
    assert!(pair.read_for(500, GATEWAY, id, &mut got));
    assert!(got == pattern(100_000));
    // Data that the peer sends now has no reader.
    pair.sides[GATEWAY]
        .write_slice(pair.now, id, b"too late")
        .unwrap();
    pair.run_for(200);
    assert!(pair.events[GATEWAY].contains(&Event::Reset(id, 0)));
    assert!(
        pair.sides
            .iter()
            .all(|side| side.snapshot(pair.now, 9).stream_count == 0)
    );
}

#[test]
fn hello_comes_first_even_when_a_client_enrols_at_once() {
    let enrolment = Enrolment {
        key: [1; 32],
        signature: [2; 64],
        name: "laptop".to_owned(),
    };
    let mut pair = Pair::new(SessionConfig::default());
    pair.sides[CLIENT].enrol(pair.now, enrolment.clone());
    pair.add_channel(0, ChannelRole::Express, &link(7, 20, 10));
    pair.run_for(100);
    assert!(pair.events[GATEWAY].contains(&Event::EnrolRequested(enrolment)));
    let snapshot = pair.sides[GATEWAY].snapshot(pair.now, 0);
    assert_eq!(snapshot.channels[0].link, LinkIndex::new(7));
}

#[test]
fn a_channel_that_swallows_what_its_kernel_acknowledges_is_given_up() {
    let mut pair = Pair::over(&[link(1, 20, 10), link(2, 20, 10)]);
    let id = pair.sides[CLIENT]
        .open_stream(pair.now, Bytes::new())
        .unwrap();
    let data = pattern(900_000);
    pair.sides[CLIENT].write_slice(pair.now, id, &data).unwrap();
    pair.sides[CLIENT].finish(pair.now, id).unwrap();
    pair.run_for(60);
    pair.swallow(1);
    let mut got = Vec::new();
    assert!(pair.read_for(12_000, GATEWAY, id, &mut got));
    assert!(got == data);
    assert!(pair.events[CLIENT].contains(&Event::Dead(ChannelId::new(1))));
}

#[test]
fn a_relayed_channel_is_judged_by_what_the_peer_acknowledges() {
    let mut pair = Pair::over(&[link(2, 20, 10), link(RELAY_LINK.value(), 20, 10)]);
    let id = pair.sides[CLIENT]
        .open_stream(pair.now, Bytes::new())
        .unwrap();
    let data = pattern(900_000);
    pair.sides[CLIENT].write_slice(pair.now, id, &data).unwrap();
    pair.sides[CLIENT].finish(pair.now, id).unwrap();
    pair.run_for(60);
    let is_given_up = |pair: &Pair| pair.events[CLIENT].contains(&Event::Dead(ChannelId::new(1)));
    // The kernel acknowledges as before.
    pair.swallow(1);
    let mut got = Vec::new();
    assert!(pair.read_for(12_000, GATEWAY, id, &mut got));
    assert!(got == data, "other channels carry what it holds up");
    pair.run_for(30_000);
    assert!(
        !is_given_up(&pair),
        "the session below may stand still for so long"
    );
    pair.run_for(30_000);
    assert!(is_given_up(&pair));
}

#[test]
fn a_later_stream_begins_with_what_earlier_ones_came_to_need() {
    let mut pair = Pair::over(&[link(1, 50, 10), link(2, 50, 10)]);
    let data = pattern(8 << 20);
    for side in [CLIENT, GATEWAY] {
        pair.transfer(side, &data);
        let id = pair.sides[side]
            .open_stream(pair.now, Bytes::new())
            .unwrap();
        let written = pair.sides[side].write_slice(pair.now, id, &data).unwrap();
        pair.pump();
        let limit = pair.sides[side].streams.get(id).unwrap().send().limit();
        assert!(limit > 1 << 20, "{limit}");
        assert!(written as u64 > crate::BASE_CREDIT);
    }
}
