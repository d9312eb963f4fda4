//! Links whose packets queue in the same place.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hawser_path::KernelSample;
use hawser_types::{ByteCount, ChannelId, Instant, Rate};
use hawser_wire::{ChannelRole, StateFrame};

use super::raw::spec;
use crate::{Outgoing, Session, SessionConfig, Side};

const BEGAN: Instant = Instant::from_nanos(1_000_000_000);

/// A full queue that wanders, in microseconds.
struct Queue {
    seed: u64,
    load: i64,
    length: i64,
}

impl Queue {
    const fn new(seed: u64) -> Self {
        let (load, length) = (0, 20_000);
        Self { seed, load, length }
    }

    /// Its delay ten milliseconds later.
    fn step(&mut self) -> Duration {
        let mut random = || {
            self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005);
            self.seed = self.seed.wrapping_add(1_442_695_040_888_963_407);
            (self.seed >> 44) as i64 % 4000
        };
        self.load = self.load * 98 / 100 + random() - 2000;
        self.length = (self.length + self.load / 5 + random() - 1000).clamp(0, 60_000);
        Duration::from_micros(self.length as u64)
    }
}

/// Bulk on links 0, 1 and 2 for `seconds`; the queues are what `queues` says of each 10 ms. Which
/// bottleneck each link is said to be behind at the end.
fn run(seconds: u64, mut queues: impl FnMut() -> [Duration; 3]) -> Vec<Option<u8>> {
    let mut s = Session::new(BEGAN, Side::Client, SessionConfig::default());
    let mut out = Outgoing::default();
    for n in 0..3 {
        s.add_channel(BEGAN, spec(n, ChannelRole::Bulk, n));
        s.handle_writable(BEGAN, ChannelId::new(n));
    }
    let stream = s.open_stream(BEGAN, Bytes::new()).unwrap();
    let limit = 1 << 30;
    s.handle_record(
        BEGAN,
        ChannelId::new(0),
        frame(&StateFrame::Credit { stream, limit }),
    )
    .unwrap();
    let mut now = BEGAN;
    let mut records = [0, 1, 1];
    for n in 0..seconds * 100 {
        now += Duration::from_millis(10);
        s.write_slice(now, stream, &[0; 9000]).unwrap();
        for (place, queue) in queues().into_iter().enumerate() {
            let id = ChannelId::new(place as u32);
            let length = Duration::from_millis(20 + 10 * place as u64);
            let sample = KernelSample {
                rtt: length + queue,
                min_rtt: Some(length),
                delivery_rate: Rate::from_bits_per_second(10_000_000),
                congestion_window: ByteCount::new(1 << 20),
                unacknowledged: ByteCount::new(200_000),
                delivered: Some(n * 8),
                ..KernelSample::default()
            };
            s.handle_sample(now, id, sample);
            let heard = StateFrame::Ack {
                channel: id,
                records: records[place],
            };
            s.handle_record(now, id, frame(&heard)).unwrap();
            s.handle_writable(now, id);
            while s.poll_transmit(now, id, &mut out) {
                records[place] += 1;
                s.handle_writable(now, id);
            }
        }
        s.handle_timeout(now);
    }
    let links = s.snapshot(now, 0).links;
    links.iter().map(|link| link.bottleneck).collect()
}

fn frame(frame: &StateFrame) -> Bytes {
    let mut body = BytesMut::new();
    frame.encode(&mut body);
    body.freeze()
}

#[test]
fn links_that_share_a_bottleneck_are_known_after_a_while_and_others_never_among_them() {
    let mut found = 0;
    for seed in 0..10 {
        let (mut shared, mut own) = (Queue::new(seed), Queue::new(seed + 50));
        let groups = run(25, || {
            let common = shared.step();
            [common, own.step(), common]
        });
        assert_eq!(groups[1], None, "seed {seed}");
        assert_eq!(groups[0], groups[2], "seed {seed}");
        found += u32::from(groups[0] == Some(0));
    }
    assert!(found >= 8, "{found} of 10");
}

#[test]
fn links_that_share_nothing_are_not_grouped() {
    for seed in 0..10 {
        let mut queues = [0, 50, 100].map(|n| Queue::new(seed + n));
        let groups = run(25, || queues.each_mut().map(Queue::step));
        assert_eq!(groups, [None; 3], "seed {seed}");
    }
}
