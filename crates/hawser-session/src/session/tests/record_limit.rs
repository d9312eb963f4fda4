//! No record is larger than what a peer takes, whatever waits to be sent.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hawser_path::KernelSample;
use hawser_types::{ChannelId, Instant, SegmentNumber, StreamId, StreamOffset};
use hawser_wire::{
    ChannelRole, ChunkFlags, ChunkHeader, Command, Hello, MAX_DATAGRAM, MAX_OPEN_METADATA,
    MAX_RECORD_BODY, put_record_number,
};
use proptest::prelude::*;

use super::raw::{HELLO, commands_at, spec};
use crate::channel::Notice;
use crate::outgoing::MAX_BODY;
use crate::{ChannelSpec, ChunkSize, Outgoing, Session, SessionConfig, Side, StreamError};

const NOW: Instant = Instant::from_nanos(1_000_000_000);
const CHANNELS: u32 = 60;
/// Number of the association's channel; those below are TCP.
const ASSOCIATION: u32 = CHANNELS;

/// Anything that makes something wait to be sent.
#[derive(Clone, Debug)]
enum Op {
    Datagrams {
        size: usize,
        count: u16,
    },
    Open {
        metadata: usize,
    },
    Write {
        stream: prop::sample::Index,
        length: usize,
    },
    Accept {
        metadata: usize,
    },
    Notices {
        on: u32,
    },
    Heartbeats,
    Credit {
        streams: u16,
    },
    Resets {
        count: u16,
    },
    Transmit {
        channel: u32,
        most: usize,
    },
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let size = prop_oneof![0usize..40, 0usize..20_000, Just(MAX_DATAGRAM)];
    let op = prop_oneof![
        3 => (size, 1u16..1500).prop_map(|(size, count)| Op::Datagrams { size, count }),
        2 => (0..=MAX_OPEN_METADATA).prop_map(|metadata| Op::Open { metadata }),
        3 => (any::<prop::sample::Index>(), 0usize..300_000)
            .prop_map(|(stream, length)| Op::Write { stream, length }),
        1 => (0..=2 * MAX_OPEN_METADATA).prop_map(|metadata| Op::Accept { metadata }),
        3 => (0..=CHANNELS).prop_map(|on| Op::Notices { on }),
        1 => Just(Op::Heartbeats),
        1 => (1u16..200).prop_map(|streams| Op::Credit { streams }),
        1 => (1u16..200).prop_map(|count| Op::Resets { count }),
        4 => (0..=CHANNELS, 1usize..5).prop_map(|(channel, most)| Op::Transmit { channel, most }),
    ];
    proptest::collection::vec(op, 1..40)
}

struct World {
    session: Session,
    streams: Vec<StreamId>,
    /// Number of the next stream of the peer.
    next_of_peer: u64,
}

impl World {
    fn new() -> Self {
        let config = SessionConfig {
            chunk_size: ChunkSize::Fixed(hawser_types::ByteCount::from_kib(64)),
            ..SessionConfig::default()
        };
        let mut session = Session::new(NOW, Side::Client, config);
        for number in 0..CHANNELS {
            let role = match number % 2 {
                0 => ChannelRole::Express,
                _ => ChannelRole::Bulk,
            };
            session.add_channel(NOW, spec(number, role, 1 + number / 2));
            let sample = KernelSample {
                rtt: Duration::from_millis(10),
                ..KernelSample::default()
            };
            session.handle_sample(NOW, ChannelId::new(number), sample);
        }
        session.add_channel(NOW, ChannelSpec::association(ChannelId::new(ASSOCIATION)));
        let Command::Hello(hello) = HELLO else {
            panic!("not a hello");
        };
        let mut bytes = BytesMut::new();
        Command::Hello(Hello {
            takes_datagrams: true,
            ends_halves: true,
            follows_scheduler: false,
            knows_signals: false,
            max_streams: 10_000,
            ..hello
        })
        .encode(&mut bytes);
        let hello = commands_at(0, &bytes);
        session
            .handle_record(NOW, ChannelId::new(0), hello)
            .unwrap();
        let mut world = Self {
            session,
            streams: Vec::new(),
            next_of_peer: 1,
        };
        world.open(0);
        world
    }

    fn open(&mut self, metadata: usize) {
        let metadata = Bytes::from(vec![7; metadata]);
        self.streams.extend(self.session.open_stream(NOW, metadata));
    }

    /// The peer opens streams.
    fn come(&mut self, count: u16) -> Vec<StreamId> {
        (0..count)
            .map(|_| {
                let id = StreamId::new(self.next_of_peer);
                self.next_of_peer += 2;
                let mut body = BytesMut::new();
                ChunkHeader {
                    stream: id,
                    segment: SegmentNumber::new(id.value()),
                    offset: StreamOffset::new(0),
                    flags: ChunkFlags {
                        open: true,
                        fin: false,
                    },
                    metadata: Bytes::new(),
                }
                .encode(&mut body);
                let taken = self
                    .session
                    .handle_record(NOW, ChannelId::new(1), body.freeze());
                taken.unwrap();
                id
            })
            .collect()
    }

    fn play(&mut self, op: Op) {
        match op {
            Op::Datagrams { size, count } => {
                let payload = Bytes::from(vec![1; size]);
                for at in 0..usize::from(count) {
                    let id = self.streams[at % self.streams.len()];
                    let _ = self.session.send_datagram(NOW, id, payload.clone());
                }
            }
            Op::Open { metadata } => self.open(metadata),
            Op::Write { stream, length } => {
                let id = *stream.get(&self.streams);
                self.session.streams.on_credit(NOW, id, 1 << 40);
                let mut bytes = Bytes::from(vec![2; length]);
                let _ = self.session.write(NOW, id, &mut bytes);
            }
            Op::Accept { metadata } => {
                let id = self.come(1)[0];
                let bytes = Bytes::from(vec![3; metadata]);
                let accepted = self.session.accept_stream(NOW, id, bytes);
                let too_long = StreamError::MetadataTooLong(metadata);
                let is_too_long = metadata > MAX_OPEN_METADATA;
                assert_eq!(accepted.is_err_and(|it| it == too_long), is_too_long);
            }
            Op::Notices { on } => {
                for about in (0..CHANNELS).map(ChannelId::new) {
                    self.session.notify(ChannelId::new(on), Notice::Ack(about));
                    self.session
                        .notify(ChannelId::new(on), Notice::Report(about));
                }
            }
            Op::Heartbeats => {
                for channel in self.session.channels.iter_mut() {
                    channel.liveness_mut().beat(NOW);
                }
            }
            Op::Credit { streams } => {
                for id in self.come(streams) {
                    self.session.owe_credit(id);
                }
            }
            Op::Resets { count } => {
                for id in self.come(count) {
                    self.session.reset(NOW, id, 5);
                }
            }
            Op::Transmit { channel, most } => {
                self.transmit(ChannelId::new(channel), most);
            }
        }
    }

    /// Sends records, and checks the size of each of them.
    fn transmit(&mut self, channel: ChannelId, most: usize) -> usize {
        let mut out = Outgoing::default();
        for made in 0..most {
            self.session.handle_writable(NOW, channel);
            if !self.session.poll_transmit(NOW, channel, &mut out) {
                return made;
            }
            assert!(out.length() <= MAX_BODY, "{} bytes", out.length());
        }
        most
    }
}

#[test]
fn a_full_chunk_leaves_notices_to_the_next_record() {
    let mut world = World::new();
    world.transmit(ChannelId::new(1), 100);
    world.open(MAX_OPEN_METADATA);
    let id = world.streams[1];
    world.play(Op::Notices { on: 1 });
    world.play(Op::Credit { streams: 64 });
    world.session.streams.on_credit(NOW, id, 1 << 40);
    let mut bytes = Bytes::from(vec![2; 65_536]);
    world.session.write(NOW, id, &mut bytes).unwrap();
    // Nothing of all that is lost.
    assert!(world.transmit(ChannelId::new(1), 100) > 1);
    let channel = world.session.channels.get(ChannelId::new(1)).unwrap();
    assert!(!channel.notices().is_due());
    assert!(!world.session.is_closed());
}

#[test]
fn the_frames_of_small_datagrams_count_and_not_their_payloads_alone() {
    let mut world = World::new();
    world.transmit(ChannelId::new(ASSOCIATION), 100);
    for channel in [0, ASSOCIATION].map(ChannelId::new) {
        world.session.handle_writable(NOW, channel);
        let channel = world.session.channels.get_mut(channel).unwrap();
        let (count, packet) = (5000, channel.packet_size());
        for _ in 0..count {
            let id = StreamId::new(1 << 40);
            channel.datagrams_mut().push(id, Bytes::new());
        }
        let id = channel.id();
        let most = if channel.is_association() {
            packet + 1
        } else {
            16 * 1024 + 100
        };
        let mut out = Outgoing::default();
        assert!(world.session.poll_transmit(NOW, id, &mut out));
        assert!(out.length() <= most, "{} of {most} bytes", out.length());
    }
}

#[test]
fn a_record_beyond_the_limit_is_not_sent_and_ends_the_session() {
    let mut world = World::new();
    let id = world.streams[0];
    // Past every check, as a fault in this crate might be.
    let channel = world.session.channels.get_mut(ChannelId::new(0)).unwrap();
    let metadata = Bytes::from(vec![0; MAX_RECORD_BODY]);
    let header = ChunkHeader {
        stream: id,
        segment: SegmentNumber::new(0),
        offset: StreamOffset::new(0),
        flags: ChunkFlags {
            open: true,
            fin: false,
        },
        metadata,
    };
    let role = ChannelRole::Express;
    let chunks = &mut world.session.unacknowledged;
    let key = chunks.insert(header, crate::Payload::new(), 0, role);
    channel.outbound_mut().take_outbox().count();
    channel.outbound_mut().assign(key, 0, false);
    let mut out = Outgoing::default();
    let id = ChannelId::new(0);
    assert!(!world.session.poll_transmit(NOW, id, &mut out));
    assert_eq!(out.length(), 0);
    assert!(world.session.is_closed());
}

#[test]
fn a_record_number_fits_beside_the_largest_chunk() {
    let mut head = BytesMut::new();
    put_record_number(
        Some(hawser_types::RecordNumber::new((1 << 62) - 2)),
        &mut head,
    );
    let largest = 65_536 + MAX_OPEN_METADATA + 1 + 3 * 8 + 2;
    assert!(head.len() + largest + crate::outgoing::MAX_STATE_FRAME < MAX_BODY);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 48,
        ..ProptestConfig::default()
    })]
    #[test]
    fn no_record_is_larger_than_a_peer_takes(ops in ops()) {
        let mut world = World::new();
        for op in ops {
            world.play(op);
        }
        for channel in (0..=CHANNELS).map(ChannelId::new) {
            world.transmit(channel, 50);
        }
        prop_assert!(!world.session.is_closed());
    }
}
