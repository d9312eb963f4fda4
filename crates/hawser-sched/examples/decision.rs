//! What a decision costs: nanoseconds for each policy, over eight paths.
//!
//! `cargo run --release -p hawser-sched --example decision`
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
use hawser_types::{ByteCount, ChannelId, Instant, LinkIndex, Rate};

fn main() {
    println!("policy                    ns/decision (best of {RUNS})");
    for policy in ChunkPolicy::ALL {
        let best = (0..RUNS).map(|_| run(policy)).fold(f64::MAX, f64::min);
        println!("{:<25} {best:.0}", policy.name());
    }
}

/// Nanoseconds for each of many decisions.
fn run(policy: ChunkPolicy) -> f64 {
    let mut scheduler = policy.scheduler();
    let mut paths: Vec<PathView> = (0..PATHS).map(path).collect();
    let mut now = Instant::from_nanos(1_000_000_000);
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
        black_box(scheduler.select(now, black_box(unit), black_box(&paths)));
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
