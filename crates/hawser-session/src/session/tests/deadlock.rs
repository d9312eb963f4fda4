//! The ways in which shared credit could come to a stand, and does not.

use bytes::Bytes;
use hawser_types::{ByteCount, StreamId};
use hawser_wire::ChannelRole;

use super::pair::{CLIENT, GATEWAY, Pair, link, pattern};
use crate::SessionConfig;

/// A session whose streams share next to nothing.
fn scarce() -> Pair {
    let receive_memory = ByteCount::from_kib(256);
    let mut pair = Pair::new(SessionConfig {
        receive_memory,
        ..SessionConfig::default()
    });
    pair.add_channel(0, ChannelRole::Express, &link(1, 20, 5));
    pair.add_channel(1, ChannelRole::Bulk, &link(1, 20, 5));
    pair.add_channel(2, ChannelRole::Bulk, &link(2, 20, 50));
    pair
}

fn stalled_stream(pair: &mut Pair, from: usize) -> StreamId {
    let id = pair.sides[from]
        .open_stream(pair.now, Bytes::new())
        .unwrap();
    pair.sides[from]
        .write_slice(pair.now, id, &pattern(1 << 20))
        .unwrap();
    id
}

#[test]
fn a_stalled_reader_stops_no_other() {
    let mut pair = scarce();
    let stalled: Vec<_> = (0..8).map(|_| stalled_stream(&mut pair, CLIENT)).collect();
    pair.run_for(3000);
    let data = pattern(500_000);
    assert!(pair.transfer(CLIENT, &data).0 == data);
    for id in stalled {
        let mut got = Vec::new();
        pair.read_for(5000, GATEWAY, id, &mut got);
        assert!(got == pattern(1 << 20));
    }
}

#[test]
fn a_stalled_reader_with_a_hole_behind_it_goes_on_when_it_reads() {
    let mut pair = scarce();
    let id = stalled_stream(&mut pair, CLIENT);
    // Some chunks are on the second link when it goes silent: the rest is held behind the hole.
    pair.run_for(40);
    pair.hole(2);
    pair.run_for(5000);
    let mut got = Vec::new();
    pair.read_for(5000, GATEWAY, id, &mut got);
    assert!(got == pattern(1 << 20));
}

#[test]
fn a_full_pool_leaves_room_for_a_new_stream() {
    let mut pair = scarce();
    for _ in 0..6 {
        stalled_stream(&mut pair, CLIENT);
    }
    pair.run_for(3000);
    let lent = pair.sides[GATEWAY].snapshot(pair.now, 0).credit_lent;
    assert!(
        lent > ByteCount::from_kib(128),
        "the pool is not under pressure: {lent}"
    );
    let data = pattern(300_000);
    let (got, _) = pair.transfer(CLIENT, &data);
    assert!(got == data);
}

#[test]
fn both_directions_full_at_once_drain_when_read() {
    let mut pair = scarce();
    let up: Vec<_> = (0..4).map(|_| stalled_stream(&mut pair, CLIENT)).collect();
    let down: Vec<_> = (0..4).map(|_| stalled_stream(&mut pair, GATEWAY)).collect();
    pair.run_for(3000);
    let mut got = vec![Vec::new(); 8];
    for _ in 0..8000 {
        pair.run_for(1);
        for (n, id) in up.iter().enumerate() {
            pair.read_into(GATEWAY, *id, &mut got[n]);
        }
        for (n, id) in down.iter().enumerate() {
            pair.read_into(CLIENT, *id, &mut got[4 + n]);
        }
    }
    assert!(got.iter().all(|got| *got == pattern(1 << 20)));
}
