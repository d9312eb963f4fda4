use hawser_types::{ByteCount, LinkIndex, Rate};

use super::*;
use crate::governor::{Exclusion, Harm};

const NOW: Instant = Instant::from_nanos(1_000_000_000);

/// A ready channel with nothing in flight, on a link of its own.
fn path(channel: u32, mbit: u64, rtt: u64) -> PathView {
    PathView {
        channel: ChannelId::new(channel),
        link: LinkIndex::new(channel),
        ready: true,
        rtt: Duration::from_millis(rtt),
        min_rtt: Duration::from_millis(rtt),
        rate: Rate::from_bits_per_second(mbit * 1_000_000),
        chunk: ByteCount::new(14_480),
        ..PathView::default()
    }
}

/// The same, full: a window is in flight and the kernel takes no more.
fn busy(mut path: PathView) -> PathView {
    path.ready = false;
    path.in_flight = path.rate * (path.rtt + Duration::from_millis(10));
    path
}

fn finite(size: u64) -> ChunkUnit {
    ChunkUnit {
        size: ByteCount::new(size),
        ..ChunkUnit::default()
    }
}

fn endless() -> ChunkUnit {
    ChunkUnit {
        more: true,
        ..finite(1 << 20)
    }
}

fn select(unit: ChunkUnit, paths: &[PathView]) -> Decision {
    Auto::default().select(NOW, unit, paths)
}

fn reason(decision: Decision) -> Reason {
    match decision {
        Decision::Channel(_, reason)
        | Decision::Wait(_, reason)
        | Decision::Duplicate(_, reason) => reason,
    }
}

const fn to(channel: u32, reason: Reason) -> Decision {
    Decision::Channel(ChannelId::new(channel), reason)
}

#[test]
fn the_chunk_goes_where_it_arrives_first() {
    // 10 ms + 14480 B at 10 Mbit/s = 21.6 ms, against 20 ms + 1.2 ms.
    let paths = [path(1, 10, 20), path(2, 100, 40)];
    assert_eq!(select(endless(), &paths), to(2, Reason::Earliest));
    // A small one: 10.8 ms against 20.1 ms.
    assert_eq!(select(finite(1000), &paths), to(1, Reason::Earliest));
}

#[test]
fn what_is_in_flight_delays_what_comes_behind() {
    let mut paths = [path(1, 50, 20), path(2, 50, 40)];
    assert_eq!(select(endless(), &paths), to(1, Reason::Earliest));
    // 100 kB drain in 16 ms less what has arrived.
    paths[0].in_flight = ByteCount::new(300_000);
    assert_eq!(select(endless(), &paths), to(2, Reason::Earliest));
}

/// The link's other channels fill the same queue.
#[test]
fn what_is_in_flight_beside_a_channel_delays_it_too() {
    let mut paths = [path(1, 50, 20), path(2, 50, 40)];
    paths[0].beside = ByteCount::new(300_000);
    assert_eq!(select(endless(), &paths), to(2, Reason::Earliest));
}

/// Arrival in figures: 100 kB ahead at 8 Mbit/s with 20 ms round trip. In 10 + 5 ms 15 kB have
/// arrived; 85 kB and the chunk of 14480 B take 99.48 ms.
#[test]
fn the_arrival_is_what_arithmetic_says() {
    let mut one = path(1, 8, 20);
    one.in_flight = ByteCount::new(100_000);
    let seconds = arrival(&one, std::slice::from_ref(&one), 14_480.0);
    assert!((seconds - 0.099_48).abs() < 1e-9, "{seconds}");
    one.in_flight = ByteCount::ZERO;
    let seconds = arrival(&one, std::slice::from_ref(&one), 14_480.0);
    assert!((seconds - 0.024_48).abs() < 1e-9, "{seconds}");
}

#[test]
fn the_end_of_a_transfer_waits_for_the_quick_channel_and_the_middle_does_not() {
    let paths = [busy(path(1, 100, 10)), path(2, 10, 200)];
    assert_eq!(reason(select(finite(50_000), &paths)), Reason::QuickerSoon);
    assert_eq!(select(endless(), &paths), to(2, Reason::Writable));
    // 2 MB take the quick one longer than the slow one needs for its chunk.
    assert_eq!(select(finite(2_000_000), &paths), to(2, Reason::Writable));
}

#[test]
fn a_wait_ends_when_the_quick_channel_has_sent_its_backlog() {
    let mut paths = [busy(path(1, 100, 10)), path(2, 10, 200)];
    paths[0].kernel_backlog = ByteCount::new(25_000);
    let at = NOW + Duration::from_millis(2);
    let wait = Decision::Wait(Some(at), Reason::QuickerSoon);
    assert_eq!(select(finite(50_000), &paths), wait);
}

#[test]
fn once_it_waits_the_other_channel_has_to_be_better_by_a_quarter() {
    let mut auto = Auto::default();
    let paths = [busy(path(1, 100, 10)), path(2, 10, 200)];
    // The quick one is there with everything after about 15 ms + 8 µs for each further 100 B; the
    // slow one's chunk after 111.6 ms.
    let boundary = (100_000..2_000_000_u64)
        .step_by(10_000)
        .find(|size| reason(select(finite(*size), &paths)) != Reason::QuickerSoon)
        .unwrap();
    let above = finite(boundary + 50_000);
    assert_eq!(select(above, &paths), to(2, Reason::Writable));
    auto.select(NOW, finite(50_000), &paths);
    assert_eq!(reason(auto.select(NOW, above, &paths)), Reason::QuickerSoon);
    let far_above = finite(boundary * 2);
    assert_eq!(auto.select(NOW, far_above, &paths), to(2, Reason::Writable));
    assert_eq!(auto.select(NOW, above, &paths), to(2, Reason::Writable));
}

#[test]
fn channels_with_a_bottleneck_in_common_drain_together() {
    let mut paths = [path(1, 50, 20), path(2, 50, 20), path(3, 50, 40)];
    paths[0].in_flight = ByteCount::new(400_000);
    assert_eq!(select(endless(), &paths), to(2, Reason::Earliest));
    paths[0].bottleneck = Some(0);
    paths[1].bottleneck = Some(0);
    assert_eq!(select(endless(), &paths), to(3, Reason::Earliest));
}

const fn at(millis: u64) -> Instant {
    Instant::from_nanos(NOW.as_nanos() + millis * 1_000_000)
}

#[test]
fn a_demoted_link_gets_a_copy_now_and_then_and_an_excluded_one_nothing() {
    let mut auto = Auto::default();
    let mut paths = [path(1, 10, 20), path(2, 100, 10), path(3, 100, 10)];
    paths[1].standing = Standing::Probing(Harm::LowersGoodput);
    paths[2].standing = Standing::Excluded(Exclusion::Never);
    let mut probes = Vec::new();
    for n in 0..20 {
        match auto.select(at(n * 50), endless(), &paths) {
            Decision::Duplicate(both, Reason::Probe) => {
                assert_eq!(both, [ChannelId::new(1), ChannelId::new(2)]);
                probes.push(n * 50);
            }
            decision => assert_eq!(decision, to(1, Reason::Earliest)),
        }
    }
    assert_eq!(probes, [0, 250, 500, 750]);
    // A probe in progress is enough.
    paths[1].in_flight = ByteCount::new(1448);
    assert_eq!(
        auto.select(at(5000), endless(), &paths),
        to(1, Reason::Earliest)
    );
}

#[test]
fn a_demoted_link_is_used_when_there_is_no_other_and_an_excluded_one_never() {
    let mut paths = [path(1, 10, 20), path(2, 100, 10)];
    paths[0].standing = Standing::Probing(Harm::RaisesDelay);
    paths[1].standing = Standing::Excluded(Exclusion::Allowance);
    assert_eq!(select(endless(), &paths), to(1, Reason::Earliest));
    let wait = Decision::Wait(None, Reason::NotAllowed);
    assert_eq!(select(endless(), &paths[1..]), wait);
}

#[test]
fn preferred_links_come_first_and_the_others_get_the_rest() {
    let mut paths = [path(1, 100, 10), path(2, 10, 50)];
    paths[1].preferred = true;
    assert_eq!(select(finite(1000), &paths), to(2, Reason::Earliest));
    paths[1].ready = false;
    assert_eq!(select(finite(1000), &paths), to(1, Reason::Writable));
}

#[test]
fn what_was_never_measured_is_tried() {
    let unknown = PathView {
        channel: ChannelId::new(2),
        ready: true,
        ..PathView::default()
    };
    let mut known = path(1, 10, 20);
    known.ready = false;
    assert_eq!(
        select(endless(), &[known, unknown]),
        to(2, Reason::Writable)
    );
}
