//! A decision allocates nothing once a policy knows its channels.
#![allow(missing_docs, reason = "tests")]

use std::time::Duration;

use hawser_sched::PathView;
use hawser_sched::chunk::{ChunkPolicy, ChunkUnit, express_scheduler};
use hawser_types::{ByteCount, ChannelId, Instant, LinkIndex, Rate};

fn path(number: u32) -> PathView {
    PathView {
        channel: ChannelId::new(number),
        link: LinkIndex::new(number),
        ready: number.is_multiple_of(2),
        rtt: Duration::from_millis(u64::from(number) * 20 + 10),
        min_rtt: Duration::from_millis(u64::from(number) * 15 + 10),
        standing_queue: Duration::from_millis(u64::from(number) * 5),
        rate: Rate::from_bits_per_second(10_000_000),
        in_flight: ByteCount::new(u64::from(number) * 50_000),
        ..PathView::default()
    }
}

#[test]
fn decisions_do_not_allocate() {
    let mut schedulers: Vec<_> = ChunkPolicy::ALL.iter().map(|p| p.scheduler()).collect();
    schedulers.push(express_scheduler());
    for mut scheduler in schedulers {
        let mut paths: Vec<PathView> = (0..8).map(path).collect();
        let mut decide = |n: u64| {
            paths.iter_mut().for_each(|path| path.ready = !path.ready);
            let unit = ChunkUnit {
                size: ByteCount::new(n * 1000),
                room: Some(ByteCount::new(1_000_000)),
                more: n.is_multiple_of(2),
                again: n.is_multiple_of(5),
            };
            scheduler.select(Instant::from_nanos(n * 1_000_000), unit, &paths)
        };
        // The first decisions make the policy's books.
        for n in 0..20 {
            decide(n);
        }
        let made = allocation_counter::measure(|| {
            for n in 20..2000 {
                decide(n);
            }
        });
        assert_eq!(made.count_total, 0, "{scheduler:?}");
    }
}
