//! A decision allocates nothing once a policy knows its channels.
#![allow(missing_docs, reason = "tests")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::time::Duration;

use hawser_sched::PathView;
use hawser_sched::chunk::{ChunkPolicy, ChunkUnit, express_scheduler};
use hawser_types::{ByteCount, ChannelId, Instant, LinkIndex, Rate};

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: everything is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps the contract of `alloc`, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: likewise; the pointer came from `alloc` above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

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
        let before = ALLOCATIONS.with(Cell::get);
        for n in 20..2000 {
            decide(n);
        }
        let after = ALLOCATIONS.with(Cell::get);
        assert_eq!(after - before, 0, "{scheduler:?}");
    }
}
