//! Scripts of anything that can happen, with links that come and go.

use std::collections::BTreeMap;

use bytes::Bytes;
use hawser_types::StreamId;
use hawser_wire::ChannelRole;
use proptest::prelude::*;

use super::pair::{CLIENT, GATEWAY, Pair, link};
use super::pipe::Weather;
use crate::{ReadOutcome, StreamError, TransportChoice};

#[derive(Clone, Debug)]
enum TestOp {
    Open(bool),
    Write {
        stream: prop::sample::Index,
        length: u32,
    },
    Finish(prop::sample::Index),
    Run(u16),
    AddChannel {
        express: bool,
        link: u8,
    },
    AddAssociation {
        jitter: u64,
        lost: u64,
        seed: u64,
    },
    Wish(TransportChoice),
    Cut(prop::sample::Index),
    Hole(prop::sample::Index),
    /// An association that fell silent speaks again, if it is still there.
    Heal,
}

fn ops() -> impl Strategy<Value = Vec<TestOp>> {
    let op = prop_oneof![
        2 => any::<bool>().prop_map(TestOp::Open),
        6 => (any::<prop::sample::Index>(), 0u32..200_000)
            .prop_map(|(stream, length)| TestOp::Write { stream, length }),
        2 => any::<prop::sample::Index>().prop_map(TestOp::Finish),
        4 => (1u16..300).prop_map(TestOp::Run),
        2 => (any::<bool>(), 0u8..3)
            .prop_map(|(express, link)| TestOp::AddChannel { express, link }),
        2 => (0u64..80, 0u64..200, any::<u64>())
            .prop_map(|(jitter, lost, seed)| {
                let seed = seed >> 8;
                TestOp::AddAssociation { jitter, lost, seed }
            }),
        2 => prop::sample::select(TransportChoice::ALL.to_vec())
            .prop_map(TestOp::Wish),
        1 => Just(TestOp::Heal),
        1 => any::<prop::sample::Index>().prop_map(TestOp::Cut),
        1 => any::<prop::sample::Index>().prop_map(TestOp::Hole),
    ];
    proptest::collection::vec(op, 1..40)
}

/// Bytes written to a stream, bytes that came out, and whether its end did.
type Content = (Vec<u8>, Vec<u8>, bool);

#[derive(Default)]
struct Traffic {
    streams: BTreeMap<(usize, StreamId), Content>,
}

impl Traffic {
    fn read(&mut self, pair: &mut Pair) {
        for ((from, id), (_, got, ended)) in &mut self.streams {
            loop {
                match pair.sides[1 - from].read(pair.now, *id, 50_000) {
                    Ok(ReadOutcome::Data(_, bytes)) => got.extend_from_slice(&bytes),
                    Ok(ReadOutcome::End) => {
                        *ended = true;
                        break;
                    }
                    Ok(ReadOutcome::Blocked) | Err(StreamError::Unknown(_)) => break,
                    Err(error) => panic!("{error}"),
                }
            }
        }
        pair.pump();
    }
}

fn play(ops: Vec<TestOp>) {
    let mut pair = Pair::over(&[link(1, 20, 5), link(2, 5, 40)]);
    // A session whose first connection dies before the greeting is over never began.
    pair.run_for(200);
    let mut live = vec![0, 1];
    let mut next_channel = 2;
    let mut traffic = Traffic::default();
    let add = |pair: &mut Pair, live: &mut Vec<u32>, next: &mut u32, express, number: u8| {
        let role = if express {
            ChannelRole::Express
        } else {
            ChannelRole::Bulk
        };
        pair.add_channel(*next, role, &link(u32::from(number), 10, 10));
        live.push(*next);
        *next += 1;
    };
    for op in ops {
        match op {
            TestOp::Open(by_client) => {
                let from = if by_client { CLIENT } else { GATEWAY };
                let id = pair.sides[from]
                    .open_stream(pair.now, Bytes::from_static(b"m"))
                    .unwrap();
                traffic.streams.insert((from, id), Default::default());
            }
            TestOp::Write { stream, length } if !traffic.streams.is_empty() => {
                let keys: Vec<_> = traffic.streams.keys().copied().collect();
                let (from, id) = *stream.get(&keys);
                let data: Vec<u8> = (0..length).map(|n| (n ^ length) as u8).collect();
                if let Ok(n) = pair.sides[from].write_slice(pair.now, id, &data) {
                    let (written, ..) = traffic.streams.get_mut(&(from, id)).unwrap();
                    written.extend_from_slice(&data[..n]);
                }
            }
            TestOp::Finish(stream) if !traffic.streams.is_empty() => {
                let keys: Vec<_> = traffic.streams.keys().copied().collect();
                let (from, id) = *stream.get(&keys);
                let _ = pair.sides[from].finish(pair.now, id);
            }
            TestOp::Run(millis) => pair.run_for(u64::from(millis)),
            TestOp::AddChannel { express, link } if live.len() < 8 => {
                add(&mut pair, &mut live, &mut next_channel, express, link);
            }
            TestOp::AddAssociation { jitter, lost, seed } if live.len() < 8 => {
                let weather = Weather {
                    mbit: 10,
                    delay: 10,
                    jitter,
                    lost,
                };
                pair.add_association(next_channel, weather, seed);
                live.push(next_channel);
                next_channel += 1;
            }
            TestOp::Wish(transport) => {
                for side in [CLIENT, GATEWAY] {
                    pair.sides[side].set_transport(pair.now, transport);
                }
            }
            TestOp::Heal => (0..next_channel).for_each(|id| pair.set_dead(id, false)),
            TestOp::Cut(channel) if !live.is_empty() => {
                let id = live.remove(channel.index(live.len()));
                pair.cut(id);
            }
            TestOp::Hole(channel) if !live.is_empty() => {
                let id = live.remove(channel.index(live.len()));
                pair.hole(id);
            }
            _ => {}
        }
        traffic.read(&mut pair);
    }
    // Whatever happened: with a link back, and every stream ended, all of it arrives.
    add(&mut pair, &mut live, &mut next_channel, false, 7);
    for (from, id) in traffic.streams.keys().copied().collect::<Vec<_>>() {
        let _ = pair.sides[from].finish(pair.now, id);
    }
    for _ in 0..400 {
        pair.run_for(50);
        traffic.read(&mut pair);
    }
    for ((from, id), (written, got, ended)) in &traffic.streams {
        assert!(
            written == got,
            "side {from} {id}: {} of {}",
            got.len(),
            written.len()
        );
        assert!(ended, "side {from} {id} has no end");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 96,
        max_shrink_iters: 300,
        ..ProptestConfig::default()
    })]
    #[test]
    fn whatever_happens_every_byte_arrives_in_order(ops in ops()) {
        play(ops);
    }
}
