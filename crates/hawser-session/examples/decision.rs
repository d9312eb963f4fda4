//! Measures what a decision costs, and what recording it adds: nanoseconds for each policy, over
//! eight paths.
//!
//! `cargo run --release -p hawser-session --example decision`
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
    println!("policy                    ns/decision, recorded (best of {RUNS})");
    for policy in ChunkPolicy::ALL {
        let best = |recorded| {
            (0..RUNS)
                .map(|_| run(policy, recorded))
                .fold(f64::MAX, f64::min)
        };
        println!(
            "{:<25} {:>11.0} {:>9.0}",
            policy.name(),
            best(false),
            best(true)
        );
    }
}

/// Nanoseconds for each of many decisions.
fn run(policy: ChunkPolicy, recorded: bool) -> f64 {
    let mut scheduler = policy.scheduler();
    let mut paths: Vec<PathView> = (0..PATHS).map(path).collect();
    let mut now = Instant::from_nanos(1_000_000_000);
    let mut recorder = recorded.then(|| recorder(now, &paths));
    let unit = ChunkUnit {
        size: ByteCount::from_mib(1),
        more: true,
        room: Some(ByteCount::from_mib(32)),
        again: false,
    };
    let began = Clock::now();
    for n in 0..DECISIONS {
        now += Duration::from_micros(100);
        // Views change from one decision to the next, as they do in a session.
        let path = &mut paths[n % PATHS as usize];
        path.ready = n % 3 != 0;
        path.in_flight = ByteCount::new((n as u64 * 7919) % 500_000);
        let decision = scheduler.select(now, black_box(unit), black_box(&paths));
        if let Some(recorder) = &mut recorder {
            let asked = (ChannelRole::Bulk, StreamId::new(2));
            recorder.on_decision(now, asked, unit, &paths, decision);
        }
        black_box(decision);
    }
    began.elapsed().as_nanos() as f64 / DECISIONS as f64
}

/// A recorder of the usual size, which knows the channels.
fn recorder(now: Instant, paths: &[PathView]) -> Recorder {
    let mut recorder = Recorder::new(now, ByteCount::from_mib(1));
    for path in paths {
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
    recorder
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
