//! What the data path allocates for each chunk, in steady state.
#![allow(missing_docs, reason = "tests")]

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hawser_path::KernelSample;
use hawser_session::{ChannelSpec, Outgoing, ReadOutcome, Session, SessionConfig, Side};
use hawser_types::{ByteCount, ChannelId, Instant, LinkIndex, Rate};
use hawser_wire::ChannelRole;

/// What each step of the data path has allocated.
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
    // Queues may still grow now and then.
    let (spent, chunks) = steady(2);
    let all = spent.write + spent.place + spent.transmit;
    let all = all + spent.ingest + spent.read + spent.acknowledge;
    assert!(all * 100 <= chunks, "{spent:?} for {chunks} chunks");
}

/// What came before its turn is held in a tree, which takes a node each time that it fills.
#[test]
fn chunks_out_of_order_cost_a_node_of_a_tree_now_and_then() {
    let (spent, chunks) = steady(4);
    assert!(spent.ingest * 3 <= chunks, "{spent:?} for {chunks} chunks");
    let rest = spent.write + spent.place + spent.transmit + spent.read + spent.acknowledge;
    assert!(rest * 100 <= chunks, "{spent:?} for {chunks} chunks");
}

/// What a stream over so many channels spends on how many chunks, once it is warm.
fn steady(channels: u32) -> (Spent, u64) {
    let mut now = Instant::from_nanos(1_000_000_000);
    let mut sides =
        [Side::Client, Side::Gateway].map(|side| Session::new(now, side, SessionConfig::default()));
    for n in 0..channels {
        for side in &mut sides {
            side.add_channel(now, spec(n));
        }
    }
    let stream = sides[0].open_stream(now, Bytes::new()).unwrap();
    // What the application has written already, of which each write takes a piece.
    let data = Bytes::from(vec![7; 1 << 20]);
    let mut buffer = BytesMut::new();
    let (mut out, mut spent, mut chunks) = (Outgoing::default(), Spent::default(), 0);
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
                    let is_chunk = !out.payload.is_empty();
                    chunks += u64::from(is_chunk);
                    let body = body(&mut buffer, &out);
                    let cost = counted(|| sides[to].handle_record(now, id, body).unwrap());
                    match is_chunk {
                        true => spent.ingest += cost,
                        false => spent.acknowledge += cost,
                    }
                }
            }
        }
        spent.read +=
            counted(
                || while let Ok(ReadOutcome::Data(..)) = sides[1].read(now, stream, 1 << 16) {},
            );
        for side in &mut sides {
            side.handle_timeout(now);
            while side.poll_wake().is_some() {}
            while side.poll_event().is_some() {}
        }
    }
    assert!(chunks > 1000, "{chunks}");
    (spent, chunks)
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
