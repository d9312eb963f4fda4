use std::time::Duration;

use hawser_types::{ByteCount, ChannelId, Instant, LinkIndex, Rate};

use super::*;
use crate::PathView;

fn path(channel: u32, rtt: u64, mbit: u64) -> PathView {
    PathView {
        channel: ChannelId::new(channel),
        link: LinkIndex::new(channel),
        ready: true,
        rtt: Duration::from_millis(rtt),
        rate: Rate::from_bits_per_second(mbit * 1_000_000),
        ..PathView::default()
    }
}

fn unit() -> ChunkUnit {
    ChunkUnit {
        size: ByteCount::new(1448),
        ..ChunkUnit::default()
    }
}

/// The channels that `count` chunks go to; 0 where the policy waits.
fn placed(policy: ChunkPolicy, paths: &[PathView], count: usize) -> Vec<u32> {
    let mut scheduler = policy.scheduler();
    (0..count)
        .map(|_| match scheduler.select(Instant::ZERO, unit(), paths) {
            Decision::Channel(channel, _) | Decision::Duplicate([channel, _], _) => channel.value(),
            Decision::Wait(..) => 0,
        })
        .collect()
}

#[test]
fn backlog_gives_every_ready_channel_its_chunk_and_skips_busy_ones() {
    let mut paths = [path(1, 10, 50), path(2, 10, 5), path(3, 10, 5)];
    assert_eq!(placed(ChunkPolicy::Backlog, &paths, 4), [1, 2, 3, 1]);
    paths[1].ready = false;
    assert_eq!(placed(ChunkPolicy::Backlog, &paths, 3), [1, 3, 1]);
}

#[test]
fn round_robin_waits_for_the_channel_whose_turn_it_is() {
    let mut paths = [path(1, 10, 50), path(2, 10, 5)];
    assert_eq!(placed(ChunkPolicy::RoundRobin, &paths, 4), [1, 2, 1, 2]);
    paths[1].ready = false;
    assert_eq!(placed(ChunkPolicy::RoundRobin, &paths, 3), [1, 0, 0]);
}

#[test]
fn weighted_round_robin_follows_the_rates() {
    let paths = [path(1, 10, 40), path(2, 10, 10)];
    let chosen = placed(ChunkPolicy::WeightedRoundRobin, &paths, 100);
    assert_eq!(chosen.iter().filter(|channel| **channel == 1).count(), 80);
}

#[test]
fn weighted_round_robin_follows_the_weights() {
    let mut paths = [path(1, 10, 10), path(2, 10, 10)];
    paths[0].weight = 3.0;
    let chosen = placed(ChunkPolicy::WeightedRoundRobin, &paths, 100);
    assert_eq!(chosen.iter().filter(|channel| **channel == 1).count(), 75);
}

#[test]
fn least_rtt_takes_the_quickest_that_is_ready() {
    let mut paths = [path(1, 30, 50), path(2, 10, 5)];
    assert_eq!(placed(ChunkPolicy::LeastRtt, &paths, 2), [2, 2]);
    paths[1].ready = false;
    assert_eq!(placed(ChunkPolicy::LeastRtt, &paths, 2), [1, 1]);
}

#[test]
fn no_policy_uses_a_suspect_while_another_channel_lives() {
    for policy in ChunkPolicy::ALL {
        let mut paths = [path(1, 10, 50), path(2, 10, 50)];
        paths[0].suspect = true;
        assert_eq!(placed(policy, &paths, 3), [2, 2, 2], "{policy}");
        paths[1].suspect = true;
        assert!(
            placed(policy, &paths, 3)
                .iter()
                .all(|channel| *channel != 0),
            "{policy}"
        );
    }
}

#[test]
fn every_policy_waits_without_paths_and_has_a_name_that_reads_back() {
    for policy in ChunkPolicy::ALL {
        assert_eq!(placed(policy, &[], 1), [0]);
        assert_eq!(policy.name().parse(), Ok(policy));
        assert_eq!(policy.scheduler().policy(), policy);
    }
    assert!("fastest".parse::<ChunkPolicy>().is_err());
}
