//! Allocations of the data path for each chunk, in steady state.
#![allow(missing_docs, reason = "tests")]

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hawser_path::KernelSample;
use hawser_session::{ChannelSpec, Outgoing, ReadOutcome, Session, SessionConfig, Side};
use hawser_types::{ByteCount, ChannelId, Instant, LinkIndex, Rate};
use hawser_wire::ChannelRole;

/// Allocations of each step of the data path.
#[derive(Debug, Default)]
struct Spent {
    write: u64,
    place: u64,
    transmit: u64,
    ingest: u64,
    read: u64,
    acknowledge: u64,
}

#[test]
fn a_chunk_costs_its_payload_and_no_other_allocation() {
    // Over two links chunks come before their turn, some of them long before it.
    for (channels, late) in [(2, 0), (4, 0), (4, 20)] {
        let (spent, chunks) = steady(channels, late);
        let all = spent.write + spent.place + spent.transmit;
        let all = all + spent.ingest + spent.read + spent.acknowledge;
        // Queues may still grow now and then.
        assert!(all * 100 <= chunks, "{spent:?} for {chunks} chunks");
    }
}

#[test]
fn a_datagram_costs_no_allocation_to_be_placed() {
    let mut now = Instant::from_nanos(1_000_000_000);
    let mut sides = sides(now, 4);
    let stream = sides[0].open_stream(now, Bytes::new()).unwrap();
    let payload = Bytes::from(vec![7; 200]);
    let (mut buffer, mut out) = (BytesMut::new(), Outgoing::default());
    let (mut spent, mut sent) = (0, 0);
    for round in 0..ROUNDS {
        now += Duration::from_millis(1);
        if sides[0].takes_datagrams() == Some(true) {
            let payload = payload.clone();
            let cost = counted(|| sides[0].send_datagram(now, stream, payload).unwrap());
            if round >= WARM {
                (spent, sent) = (spent + cost, sent + 1);
            }
        }
        for (n, from) in (0..4).flat_map(|n| [(n, 0), (n, 1)]) {
            let id = ChannelId::new(n);
            sides[from].handle_sample(now, id, sample(round));
            sides[from].handle_writable(now, id);
            while sides[from].poll_transmit(now, id, &mut out) {
                let record = body(&mut buffer, &out);
                sides[1 - from].handle_record(now, id, record).unwrap();
            }
        }
        while let Ok(Some(_)) = sides[1].receive_datagram(stream) {}
        sides.iter_mut().for_each(|side| settle(side, now));
    }
    assert!(sent > 1000, "{sent}");
    // Queues may still grow now and then.
    assert!(spent * 100 <= sent, "{spent} for {sent} datagrams");
}

/// Returns the allocations of a warm stream over so many channels, and its number of chunks. The
/// last channel's chunks arrive so many rounds late.
fn steady(channels: u32, late: u64) -> (Spent, u64) {
    let mut now = Instant::from_nanos(1_000_000_000);
    let mut sides = sides(now, channels);
    let stream = sides[0].open_stream(now, Bytes::new()).unwrap();
    // Data that the application has written already; each write takes a piece of it.
    let data = Bytes::from(vec![7; 1 << 20]);
    let mut buffer = BytesMut::new();
    let (mut out, mut spent, mut chunks) = (Outgoing::default(), Spent::default(), 0);
    let mut on_the_way: BTreeMap<_, VecDeque<Record>> = BTreeMap::new();
    for round in 0..ROUNDS {
        if round == WARM {
            (spent, chunks) = (Spent::default(), 0);
        }
        now += Duration::from_millis(1);
        let mut rest = data.slice(..64 * 1024);
        spent.write += counted(|| {
            sides[0].write(now, stream, &mut rest).unwrap();
        });
        for n in 0..channels {
            for (from, to) in [(0, 1), (1, 0)] {
                let id = ChannelId::new(n);
                sides[from].handle_sample(now, id, sample(round));
                spent.place += counted(|| sides[from].handle_writable(now, id));
                loop {
                    let mut any = false;
                    spent.transmit +=
                        counted(|| any = sides[from].poll_transmit(now, id, &mut out));
                    if !any {
                        break;
                    }
                    chunks += u64::from(!out.payload.is_empty());
                    let wait = if n + 1 == channels { late } else { 0 };
                    let record = Record {
                        due: round + wait,
                        payload: out.payload.iter().map(Bytes::len).sum(),
                        body: body(&mut buffer, &out),
                    };
                    on_the_way.entry((id, to)).or_default().push_back(record);
                }
                let waiting = on_the_way.entry((id, to)).or_default();
                while waiting.front().is_some_and(|record| record.due <= round) {
                    let record = waiting.pop_front().unwrap();
                    arrive(&mut sides[to], now, id, record, &mut spent);
                }
            }
        }
        spent.read +=
            counted(
                || while let Ok(ReadOutcome::Data(..)) = sides[1].read(now, stream, 1 << 16) {},
            );
        sides.iter_mut().for_each(|side| settle(side, now));
    }
    assert!(chunks > 1000, "{chunks}");
    (spent, chunks)
}

/// Two ends with so many channels between them.
fn sides(now: Instant, channels: u32) -> [Session; 2] {
    let mut sides =
        [Side::Client, Side::Gateway].map(|side| Session::new(now, side, SessionConfig::default()));
    for n in 0..channels {
        for side in &mut sides {
            side.add_channel(now, spec(n));
        }
    }
    sides
}

/// A record on its way, and the round in which it arrives.
struct Record {
    due: u64,
    payload: usize,
    body: Bytes,
}

fn settle(side: &mut Session, now: Instant) {
    side.handle_timeout(now);
    while side.poll_wake().is_some() {}
    while side.poll_event().is_some() {}
}

fn arrive(side: &mut Session, now: Instant, id: ChannelId, record: Record, spent: &mut Spent) {
    let cost = counted(|| side.handle_record(now, id, record.body).unwrap());
    match record.payload {
        0 => spent.acknowledge += cost,
        // It is copied out of the buffer: the payload's own allocation.
        1..SMALL => spent.ingest += cost.saturating_sub(1),
        _ => spent.ingest += cost,
    }
}

/// How often `act` allocates.
fn counted(act: impl FnOnce()) -> u64 {
    allocation_counter::measure(act).count_total
}

/// A record as it comes out of decryption at the other end, part of a large buffer: the payload's
/// own allocation.
fn body(buffer: &mut BytesMut, out: &Outgoing) -> Bytes {
    if buffer.capacity() < 1 << 17 {
        *buffer = BytesMut::with_capacity(1 << 20);
        // Splitting the first off turns the buffer into a shared one.
        drop(buffer.split_off(1 << 20));
    }
    buffer.extend_from_slice(&out.head);
    for piece in &out.payload {
        buffer.extend_from_slice(piece);
    }
    buffer.split().freeze()
}

fn sample(round: u64) -> KernelSample {
    KernelSample {
        rtt: Duration::from_millis(10),
        min_rtt: Some(Duration::from_millis(10)),
        delivery_rate: Rate::from_bits_per_second(100_000_000),
        congestion_window: ByteCount::new(1 << 20),
        delivered: Some(round * 10),
        ..KernelSample::default()
    }
}

fn spec(number: u32) -> ChannelSpec {
    ChannelSpec {
        begun_by: Side::Client,
        id: ChannelId::new(number),
        role: match number % 2 {
            0 => ChannelRole::Express,
            _ => ChannelRole::Bulk,
        },
        link: LinkIndex::new(number / 2),
        records: u64::from(number > 0),
        segment_size: None,
    }
}

const WARM: u64 = 4000;
const ROUNDS: u64 = 8000;
/// Payloads below this are copied out of the buffer that they came in.
const SMALL: usize = 16 * 1024;
