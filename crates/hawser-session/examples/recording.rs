//! What recording adds to a decision: nanoseconds for each, and bytes, over eight paths.
//!
//! `cargo run --release -p hawser-session --example recording`
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros,
    reason = "it measures the code from outside"
)]

use std::hint::black_box;
use std::time::{Duration, Instant as Clock};

use hawser_sched::PathView;
use hawser_sched::chunk::{ChunkPolicy, ChunkUnit};
use hawser_session::recorder::{Note, Recorder};
use hawser_types::{ByteCount, ChannelId, Instant, LinkIndex, Rate, StreamId};
use hawser_wire::ChannelRole;

fn main() {
    let best = |memory| (0..RUNS).map(|_| run(memory)).fold(f64::MAX, f64::min);
    let (without, with) = (best(ByteCount::ZERO), best(ByteCount::from_mib(1)));
    println!("ns/decision of auto (best of {RUNS}): {without:.0}, recorded {with:.0}");
}

/// Nanoseconds for each of many decisions.
fn run(memory: ByteCount) -> f64 {
    let mut scheduler = ChunkPolicy::Auto.scheduler();
    let mut paths: Vec<PathView> = (0..PATHS).map(path).collect();
    let mut now = Instant::from_nanos(1_000_000_000);
    let mut recorder = Recorder::new(now, memory);
    for path in &paths {
        let (channel, link, role) = (path.channel, path.link, ChannelRole::Bulk);
        recorder.note(
            now,
            Note::Added {
                channel,
                link,
                role,
            },
        );
    }
    let unit = ChunkUnit {
        size: ByteCount::from_mib(1),
        more: true,
        room: Some(ByteCount::from_mib(32)),
        again: false,
    };
    let asked = (ChannelRole::Bulk, StreamId::new(2));
    let began = Clock::now();
    for n in 0..DECISIONS {
        now += Duration::from_micros(100);
        // Views change from one decision to the next, as they do in a session.
        let path = &mut paths[n % PATHS as usize];
        path.ready = n % 3 != 0;
        path.in_flight = ByteCount::new((n as u64 * 7919) % 500_000);
        let decision = scheduler.select(now, black_box(unit), black_box(&paths));
        recorder.on_decision(now, asked, unit, &paths, black_box(decision));
    }
    began.elapsed().as_nanos() as f64 / DECISIONS as f64
}

fn path(number: u32) -> PathView {
    let rtt = Duration::from_millis(u64::from(number) * 15 + 10);
    PathView {
        channel: ChannelId::new(number),
        link: LinkIndex::new(number),
        ready: true,
        rtt: rtt + Duration::from_millis(u64::from(number % 3) * 20),
        min_rtt: rtt,
        standing_queue: Duration::from_millis(u64::from(number % 3) * 20),
        rate: Rate::from_bits_per_second(u64::from(number + 1) * 10_000_000),
        congestion_window: ByteCount::new(200_000),
        chunk: ByteCount::new(14_480),
        bottleneck: (number >= 6).then_some(0),
        ..PathView::default()
    }
}

const PATHS: u32 = 8;
const DECISIONS: usize = 1_000_000;
const RUNS: usize = 5;
