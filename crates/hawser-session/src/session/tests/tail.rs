//! Chunks that are late, and the links that repeat them.

use bytes::Bytes;
use hawser_sched::chunk::ChunkPolicy;
use hawser_wire::ChannelRole;

use super::pair::{CLIENT, GATEWAY, Pair, link};
use crate::SessionConfig;

/// A connection that the peer never took up, or in which TCP waits for a time-out, on a link that
/// lives: it is not suspect. What it holds is sent again long before it is given up, which takes six
/// seconds.
#[test]
fn what_a_stalled_channel_of_a_living_link_holds_back_is_sent_again() {
    let mut pair = Pair::over(&[link(1, 20, 10), link(2, 20, 10)]);
    pair.add_channel(2, ChannelRole::Bulk, &link(1, 20, 10));
    pair.add_channel(3, ChannelRole::Bulk, &link(2, 20, 10));
    let id = pair.sides[CLIENT]
        .open_stream(pair.now, Bytes::new())
        .unwrap();
    let data: Vec<u8> = (0..8_000_000_u32).map(|n| (n / 7) as u8).collect();
    let mut rest = Bytes::from(data.clone());
    let mut got = Vec::new();
    let (mut last, mut gap) = (pair.now, 0);
    for millis in 0..20_000 {
        if millis == 300 {
            pair.hole(3);
        }
        pair.sides[CLIENT].write(pair.now, id, &mut rest).unwrap();
        pair.run_for(1);
        let before = got.len();
        pair.read_into(GATEWAY, id, &mut got);
        if got.len() > before {
            gap = gap.max(pair.now.since(last).as_millis());
            last = pair.now;
        }
        if got.len() == data.len() {
            break;
        }
    }
    assert!(got == data);
    assert!(gap <= 400, "gap of {gap} ms");
    let counters = pair.sides[CLIENT].snapshot(pair.now, 0).counters;
    assert!(counters.chunks_again > 0, "{counters:?}");
}

/// Of two links of which one is ten times as slow, the quick one repeats the ends of all transfers
/// as far as the budget goes: two bytes in a hundred and 256 KiB.
#[test]
fn repeats_ahead_of_need_stay_within_the_budget() {
    let mut pair = Pair::new(SessionConfig {
        scheduler: ChunkPolicy::Backlog,
        ..SessionConfig::default()
    });
    pair.add_channel(0, ChannelRole::Express, &link(1, 50, 5));
    pair.add_channel(1, ChannelRole::Bulk, &link(2, 2, 80));
    pair.add_channel(2, ChannelRole::Bulk, &link(1, 50, 5));
    let data: Vec<u8> = (0..600_000_u32).map(|n| (n / 3) as u8).collect();
    for _ in 0..60 {
        let (got, _) = pair.transfer(CLIENT, &data);
        assert!(got == data);
    }
    let snapshot = pair.sides[CLIENT].snapshot(pair.now, 0);
    let sent: u64 = snapshot.channels.iter().map(|c| c.sent.as_u64()).sum();
    let twice = snapshot.counters.bytes_duplicated;
    assert!(twice > 256 * 1024, "{twice}");
    assert!(twice <= sent / 50 + 256 * 1024, "{twice} of {sent}");
}
