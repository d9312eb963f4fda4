//! Chunks that are late, and the links that repeat them.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hawser_path::KernelSample;
use hawser_sched::chunk::ChunkPolicy;
use hawser_types::{ByteCount, ChannelId, Instant, Rate};
use hawser_wire::{ChannelRole, StateFrame};

use super::pair::{CLIENT, GATEWAY, Pair, link};
use super::raw::spec;
use crate::{Outgoing, Session, SessionConfig, Side};

/// A connection that the peer never took up, or in which TCP waits for a time-out, on a link that
/// lives: it is not suspect. What it holds is sent again long before it is given up, which takes
/// six seconds.
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

/// Slow links carry little in a moment, and repeat no more of a stalled channel at once: TCP may be
/// about to mend it.
#[test]
fn slow_links_repeat_little_of_a_stalled_channel_at_once() {
    let links = [link(1, 1, 10), link(2, 1, 400)];
    let mut pair = Pair::over(&links);
    pair.add_channel(2, ChannelRole::Bulk, &links[0]);
    pair.add_channel(3, ChannelRole::Bulk, &links[1]);
    // One that is heard, so that the link is not suspect.
    pair.add_channel(4, ChannelRole::Bulk, &links[1]);
    let id = pair.sides[CLIENT]
        .open_stream(pair.now, Bytes::new())
        .unwrap();
    let mut rest = Bytes::from(vec![7; 4_000_000]);
    let mut got = Vec::new();
    let mut most = 0;
    for millis in 0..3_500 {
        if millis == 1_600 {
            pair.hole(3);
        }
        pair.sides[CLIENT].write(pair.now, id, &mut rest).unwrap();
        pair.run_for(1);
        pair.read_into(GATEWAY, id, &mut got);
        let session = &pair.sides[CLIENT];
        let again = session.unacknowledged.bytes_again(ChannelRole::Bulk);
        most = most.max(again);
    }
    // Four bulk channels of 1 Mbit/s carry 50 kB in 100 ms; the last chunk begins within them.
    assert!(most > 0 && most < 60_000, "{most}");
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

/// The end of a transfer waits for the quick link, which takes nothing more, and nothing is under
/// way that would be looked after: the session asks to be woken all the same.
#[test]
fn waiting_for_a_channel_has_an_end() {
    let began = Instant::from_nanos(1_000_000_000);
    let mut s = Session::new(began, Side::Client, SessionConfig::default());
    let [quick, slow] = [0, 1].map(ChannelId::new);
    let idle = |kbit: u64, rtt| KernelSample {
        rtt: Duration::from_millis(rtt),
        min_rtt: Some(Duration::from_millis(rtt)),
        delivery_rate: Rate::from_bits_per_second(kbit * 1000),
        congestion_window: ByteCount::new(1 << 16),
        ..KernelSample::default()
    };
    for (id, sample) in [(quick, idle(800, 10)), (slow, idle(80, 3000))] {
        s.add_channel(began, spec(id.value(), ChannelRole::Bulk, id.value()));
        s.handle_sample(began, id, sample);
    }
    let (mut out, mut records) = (Outgoing::default(), 0);
    let stream = s.open_stream(began, Bytes::new()).unwrap();
    s.write_slice(began, stream, &[0; 60_000]).unwrap();
    s.finish(began, stream).unwrap();
    // The beginning goes ahead as what is small does.
    while s.snapshot(began, 1).streams[0].sent < ByteCount::new(20_000) {
        s.handle_writable(began, quick);
        assert!(s.poll_transmit(began, quick, &mut out));
        records += 1;
    }
    let mut heard = BytesMut::new();
    let channel = quick;
    StateFrame::Ack { channel, records }.encode(&mut heard);
    s.handle_record(began, quick, heard.freeze()).unwrap();
    s.handle_writable(began, slow);
    while s.poll_transmit(began, slow, &mut out) {
        assert!(out.payload.is_empty());
    }
    let mut now = began;
    for _ in 0..10 {
        now += Duration::from_millis(50);
        s.handle_sample(now, quick, idle(800, 10));
        s.handle_sample(now, slow, idle(80, 3000));
        s.handle_timeout(now);
        assert!(s.poll_timeout() <= Some(now + Duration::from_millis(100)));
        assert!(s.poll_timeout() > Some(now));
    }
    assert_eq!(s.busy_channels().count(), 0);
    s.handle_writable(now, quick);
    assert!(s.poll_transmit(now, quick, &mut out));
    assert!(!out.payload.is_empty());
}
