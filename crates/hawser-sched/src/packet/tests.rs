//! Vectors worked out by hand from each policy's source.

use std::time::Duration;

use hawser_types::{ByteCount, ChannelId, Instant, LinkIndex, Rate};

use super::*;
use crate::PathView;
use crate::governor::{Exclusion, Standing};

/// A ready path of so many Mbit/s, with a round trip of so many ms.
fn path(number: u32, megabits: u64, rtt: u64) -> PathView {
    PathView {
        channel: ChannelId::new(number),
        link: LinkIndex::new(number),
        ready: true,
        rtt: Duration::from_millis(rtt),
        min_rtt: Duration::from_millis(rtt),
        rate: Rate::from_bits_per_second(megabits * 1_000_000),
        ..PathView::default()
    }
}

fn unit() -> PacketUnit {
    PacketUnit {
        size: ByteCount::new(1000),
        flow: PacketFlow::default(),
        waited: Duration::ZERO,
        backlog: ByteCount::from_mib(1),
    }
}

fn at_home(number: u32) -> PacketUnit {
    PacketUnit {
        flow: PacketFlow {
            home: Some(ChannelId::new(number)),
            ..PacketFlow::default()
        },
        ..unit()
    }
}

fn chosen(decision: PacketDecision) -> u32 {
    match decision {
        PacketDecision::Path(channel, _) => channel.value(),
        other => panic!("{other:?}"),
    }
}

fn ask(policy: PacketPolicy, unit: &PacketUnit, paths: &[PathView]) -> PacketDecision {
    policy.scheduler().select(Instant::ZERO, unit, paths)
}

#[test]
fn turns_follow_the_rates_and_wait_for_a_busy_path() {
    let mut paths = [path(1, 40, 20), path(2, 10, 20)];
    let mut policy = PacketPolicy::WeightedRoundRobin.scheduler();
    let turns = (0..10).map(|_| chosen(policy.select(Instant::ZERO, &unit(), &paths)));
    assert_eq!(turns.filter(|path| *path == 2).count(), 2);
    paths[1].ready = false;
    let mut waits = false;
    for _ in 0..6 {
        let decision = policy.select(Instant::ZERO, &unit(), &paths);
        waits |= decision == PacketDecision::Wait(None, PacketReason::NotItsTurn);
    }
    assert!(waits);
}

#[test]
fn the_slow_link_carries_the_packet_that_is_needed_last() {
    // The paper's example: 4:1, so that a burst has five packets and the fifth takes the slow link.
    let paths = [path(1, 10, 20), path(2, 40, 20)];
    let mut policy = PacketPolicy::InOrder.scheduler();
    assert_eq!(policy.burst(&paths), Some(5));
    let mut order = Vec::new();
    policy.arrange(&[ByteCount::new(1000); 5], &paths, &mut order);
    let slow: Vec<_> = order.iter().filter(|it| it.path.value() == 1).collect();
    assert_eq!(slow.len(), 1);
    assert_eq!(slow[0].packet, 4);
    // It leaves with the first of the others, which are paced: 1000 bytes at twice 40 Mbit/s.
    assert_eq!(slow[0].after, Duration::ZERO);
    let fast = order.iter().filter(|it| it.path.value() == 2);
    let fast: Vec<_> = fast.map(|it| (it.packet, it.after.as_micros())).collect();
    assert_eq!(fast, [(0, 0), (1, 100), (2, 200), (3, 300)]);
}

#[test]
fn with_one_path_there_is_no_burst() {
    let policy = PacketPolicy::InOrder.scheduler();
    assert_eq!(policy.burst(&[path(1, 10, 20)]), None);
    let mut order = Vec::new();
    let mut policy = PacketPolicy::InOrder.scheduler();
    policy.arrange(&[ByteCount::new(1000)], &[], &mut order);
    assert!(order.is_empty());
}

#[test]
fn auto_stays_at_home_until_its_queue_grows() {
    let mut paths = [path(1, 50, 20), path(2, 50, 20)];
    let auto = PacketPolicy::Auto;
    assert_eq!(chosen(ask(auto, &at_home(2), &paths)), 2);
    // The path holds 125 kB; 4 ms of queue are not yet one that has grown, 6 ms are.
    paths[1].in_flight = ByteCount::new(125_000 + 25_000);
    assert_eq!(chosen(ask(auto, &at_home(2), &paths)), 2);
    paths[1].in_flight = ByteCount::new(125_000 + 37_500);
    let spilled = ask(auto, &at_home(2), &paths);
    let first = ChannelId::new(1);
    assert_eq!(spilled, PacketDecision::Path(first, PacketReason::Earliest));
    // A window that is not full yet does not matter, and neither does one that is.
    paths[0].ready = false;
    let crowded = ask(auto, &at_home(2), &paths);
    let second = ChannelId::new(2);
    assert_eq!(
        crowded,
        PacketDecision::Path(second, PacketReason::AllGrown)
    );
    paths[1].ready = false;
    let nowhere = ask(auto, &at_home(2), &paths);
    assert_eq!(nowhere, PacketDecision::Wait(None, PacketReason::AllBusy));
}

#[test]
fn auto_takes_a_longer_path_once_as_much_waits_for_the_nearer_one() {
    let mut paths = [path(1, 50, 20), path(2, 50, 80)];
    paths[0].ready = false;
    // They are 30 ms apart, in which the nearer one carries 187,500 bytes.
    let with = |backlog| PacketUnit {
        backlog: ByteCount::new(backlog),
        ..unit()
    };
    let auto = PacketPolicy::Auto.scheduler();
    let wait = PacketDecision::Wait(None, PacketReason::AllBusy);
    assert_eq!(ask(PacketPolicy::Auto, &with(180_000), &paths), wait);
    assert!(!auto.has_path(ByteCount::new(180_000), &paths));
    assert_eq!(chosen(ask(PacketPolicy::Auto, &with(195_000), &paths)), 2);
    assert!(auto.has_path(ByteCount::new(195_000), &paths));
    // A call waits for no backlog, and no packet waits for a path that has fallen silent.
    let mut call = with(0);
    call.flow.real_time = true;
    call.waited = Duration::from_millis(10);
    assert_eq!(chosen(ask(PacketPolicy::Auto, &call, &paths)), 2);
    paths[0].stalled = Duration::from_millis(40);
    assert_eq!(chosen(ask(PacketPolicy::Auto, &with(1000), &paths)), 2);
}

#[test]
fn a_longer_path_that_the_user_prefers_comes_first() {
    let mut paths = [path(1, 50, 20), path(2, 50, 80)];
    paths[1].preferred = true;
    let little = PacketUnit {
        backlog: ByteCount::new(1000),
        ..unit()
    };
    for policy in [PacketPolicy::Auto, PacketPolicy::Redundant] {
        assert_eq!(chosen(ask(policy, &little, &paths)), 2);
        assert!(policy.scheduler().has_path(little.backlog, &paths));
    }
}

#[test]
fn auto_moves_to_a_path_that_is_much_earlier_and_real_time_packets_always_do() {
    let paths = [path(1, 50, 20), path(2, 50, 24), path(3, 50, 200)];
    let auto = PacketPolicy::Auto;
    assert_eq!(chosen(ask(auto, &at_home(2), &paths)), 2);
    assert_eq!(chosen(ask(auto, &at_home(3), &paths)), 1);
    let mut call = at_home(2);
    call.flow.real_time = true;
    assert_eq!(chosen(ask(auto, &call, &paths)), 1);
    // A queue of 10 ms on the near path is still earlier than the far one without.
    let mut paths = [path(1, 50, 20), path(2, 50, 80)];
    paths[0].in_flight = ByteCount::new(125_000 + 62_500);
    assert_eq!(chosen(ask(auto, &unit(), &paths)), 2);
    assert_eq!(chosen(ask(auto, &call, &paths)), 1);
    // Without room it is worth a short wait.
    paths[0].ready = false;
    let until = Instant::ZERO + Duration::from_millis(5);
    let wait = PacketDecision::Wait(Some(until), PacketReason::QuickerSoon);
    assert_eq!(ask(auto, &call, &paths), wait);
    call.waited = Duration::from_millis(5);
    assert_eq!(chosen(ask(auto, &call, &paths)), 2);
}

#[test]
fn short_bursts_have_the_right_shares_together() {
    let paths = [path(1, 10, 20), path(2, 40, 20)];
    let mut policy = PacketPolicy::InOrder.scheduler();
    let mut order = Vec::new();
    for _ in 0..50 {
        policy.arrange(&[ByteCount::new(1000); 2], &paths, &mut order);
    }
    let slow = order.iter().filter(|it| it.path.value() == 1);
    assert_eq!(slow.count(), 20);
}

#[test]
fn a_call_alone_stays_on_the_near_path_that_only_it_has_measured() {
    let mut near = path(1, 50, 20);
    near.rate = Rate::from_bytes_per_second(50 * 200);
    let mut far = path(2, 50, 50);
    far.rate = Rate::ZERO;
    let mut call = unit();
    call.size = ByteCount::new(200);
    call.flow.real_time = true;
    let auto = PacketPolicy::Auto;
    assert_eq!(chosen(ask(auto, &call, &[near.clone(), far.clone()])), 1);
    // With more of its window in flight the rate is the path's, and what is in flight a queue.
    near.in_flight = ByteCount::new(5_000);
    assert_eq!(chosen(ask(auto, &call, &[near, far])), 2);
}

#[test]
fn real_time_packets_are_copied_over_the_earliest_two_links() {
    let mut paths = [path(1, 50, 40), path(2, 50, 20), path(3, 50, 30)];
    let mut call = unit();
    call.flow.real_time = true;
    let both = [ChannelId::new(2), ChannelId::new(3)];
    let copies = PacketDecision::Copies(both, PacketReason::Redundant);
    assert_eq!(ask(PacketPolicy::Redundant, &call, &paths), copies);
    assert_eq!(chosen(ask(PacketPolicy::Redundant, &unit(), &paths)), 2);
    paths[2].link = paths[1].link;
    paths[0].ready = false;
    assert_eq!(chosen(ask(PacketPolicy::Redundant, &call, &paths)), 2);
}

#[test]
fn what_is_excluded_or_silent_carries_nothing_while_another_path_lives() {
    let mut paths = [path(1, 50, 10), path(2, 50, 20), path(3, 50, 30)];
    paths[0].standing = Standing::Excluded(Exclusion::Never);
    paths[1].suspect = true;
    for policy in PacketPolicy::ALL {
        assert_eq!(chosen(ask(policy, &unit(), &paths)), 3, "{policy}");
    }
    paths[2].suspect = true;
    assert_eq!(chosen(ask(PacketPolicy::LeastRtt, &unit(), &paths)), 2);
    for policy in PacketPolicy::ALL {
        let decision = ask(policy, &unit(), &paths[..1]);
        assert!(matches!(decision, PacketDecision::Wait(..)), "{policy}");
    }
}

#[test]
fn names_are_read_back() {
    for policy in PacketPolicy::ALL {
        assert_eq!(policy.name().parse(), Ok(policy));
    }
    let error = "fastest".parse::<PacketPolicy>().unwrap_err();
    assert!(error.to_string().contains("ikr"));
}
