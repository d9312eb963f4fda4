use std::time::Duration;

use hawser_types::{ByteCount, LinkIndex, Rate};

use super::*;

fn link(index: u32, mbit: u64, latency: u64) -> LinkView {
    LinkView {
        link: LinkIndex::new(index),
        up: Rate::from_bits_per_second(mbit * 1_000_000),
        down: Rate::from_bits_per_second(mbit * 1_000_000),
        latency: Duration::from_millis(latency),
        load: Load::default(),
    }
}

fn down(class: Class, bytes: u64) -> Demand {
    Demand {
        class,
        up: ByteCount::ZERO,
        down: ByteCount::new(bytes),
    }
}

fn choices(policy: ConnectionPolicy, links: &[LinkView], count: usize) -> Vec<u32> {
    let mut scheduler = policy.scheduler();
    assert_eq!(scheduler.policy(), policy);
    let demand = down(Class::Bulk, 1_000_000);
    let choose = |_| scheduler.select(&demand, links).unwrap().link.value();
    (0..count).map(choose).collect()
}

#[test]
fn without_a_link_there_is_no_choice() {
    for policy in ConnectionPolicy::ALL {
        assert_eq!(policy.scheduler().select(&Demand::default(), &[]), None);
        assert_eq!(policy.name().parse(), Ok(policy));
    }
    assert!("fastest".parse::<ConnectionPolicy>().is_err());
}

#[test]
fn only_one_keeps_to_the_fastest_and_of_equals_to_the_first() {
    let links = [link(1, 2, 10), link(2, 8, 10), link(3, 8, 10)];
    assert_eq!(choices(ConnectionPolicy::OnlyOne, &links, 3), [2, 2, 2]);
}

#[test]
fn round_robin_goes_round_and_survives_a_link_that_goes() {
    let links = [link(1, 2, 10), link(4, 8, 10), link(7, 8, 10)];
    let policy = ConnectionPolicy::RoundRobin;
    assert_eq!(choices(policy, &links, 5), [1, 4, 7, 1, 4]);
    let mut scheduler = policy.scheduler();
    let demand = Demand::default();
    let mut next = |links: &[LinkView]| scheduler.select(&demand, links).unwrap().link.value();
    assert_eq!(next(&links), 1);
    assert_eq!(next(&links[..1]), 1);
    assert_eq!(next(&links), 4);
    assert_eq!(next(&links[..2]), 1);
}

#[test]
fn weighted_round_robin_follows_the_rates_and_spreads_the_turns() {
    let links = [link(1, 2, 10), link(2, 6, 10)];
    let turns = choices(ConnectionPolicy::WeightedRoundRobin, &links, 8);
    assert_eq!(turns, [2, 1, 2, 2, 2, 1, 2, 2]);
}

#[test]
fn maximum_throughput_counts_what_the_links_carry_already() {
    let mut links = [link(1, 2, 10), link(2, 8, 50)];
    let policy = ConnectionPolicy::MaxThroughput;
    assert_eq!(choices(policy, &links, 1), [2]);
    // 8 MB at 8 Mbit/s are 8 s, and 9 with the new one; the slow link needs 4 s for it.
    links[1].load.down = ByteCount::new(8_000_000);
    assert_eq!(choices(policy, &links, 1), [1]);
    // Upload does not count against download, unless it takes longer.
    links[0].load.up = ByteCount::new(9_000_000);
    assert_eq!(choices(policy, &links, 1), [2]);
}

#[test]
fn of_links_that_finish_alike_the_quicker_is_taken() {
    let links = [link(1, 8, 50), link(2, 8, 10), link(3, 8, 10)];
    assert_eq!(choices(ConnectionPolicy::MaxThroughput, &links, 1), [2]);
}

#[test]
fn auto_sends_short_things_where_they_are_answered_first() {
    let mut scheduler = ConnectionPolicy::Auto.scheduler();
    let mut links = [link(1, 2, 10), link(2, 20, 100)];
    let mut choose = |links: &[LinkView], demand| scheduler.select(&demand, links).unwrap();
    let short = down(Class::Interactive, 10_000);
    let first = choose(&links, short);
    assert_eq!(first.link.value(), 1);
    assert_eq!(first.reason, Reason::AnswersFirst);
    let long = choose(&links, down(Class::Interactive, 10_000_000));
    assert_eq!(long.link.value(), 2);
    assert_eq!(long.reason, Reason::FinishesFirst);
    // Five others share the slow link: 20 ms and 240 ms against 200 ms and 4 ms.
    links[0].load.connections = 5;
    assert_eq!(choose(&links, short).link.value(), 2);
    let call = Demand {
        class: Class::RealTime,
        ..short
    };
    links[0].load.connections = 0;
    assert_eq!(choose(&links, call).link.value(), 1);
}

#[test]
fn what_has_run_for_long_goes_on_for_long() {
    let left = |demand, moved| remaining(ByteCount::new(demand), ByteCount::new(moved)).as_u64();
    assert_eq!(left(1000, 0), 1000);
    assert_eq!(left(1000, 999), 1);
    assert_eq!(left(1000, 1000), 1000);
    assert_eq!(left(1000, 70_000), 70_000);
    assert_eq!(left(0, 0), 0);
}

#[test]
fn of_links_that_answer_about_as_soon_auto_takes_the_one_that_finishes_first() {
    let mut scheduler = ConnectionPolicy::Auto.scheduler();
    let short = down(Class::Interactive, 10_000);
    let mut choose = |links: &[LinkView]| scheduler.select(&short, links).unwrap().link.value();
    // 210 ms and 8 ms, and 200 ms and 8 ms, with much and with little to do.
    let mut links = [link(1, 10, 105), link(2, 10, 100)];
    links[1].load.down = ByteCount::new(1_000_000);
    assert_eq!(choose(&links), 1);
    // 300 ms are too many.
    links[0].latency = Duration::from_millis(150);
    assert_eq!(choose(&links), 2);
}

#[test]
fn a_link_of_which_nothing_is_known_counts_as_an_ordinary_one() {
    let unknown = LinkView {
        link: LinkIndex::new(2),
        ..LinkView::default()
    };
    assert_eq!(
        choices(
            ConnectionPolicy::MaxThroughput,
            &[link(1, 2, 10), unknown],
            1
        ),
        [2]
    );
    assert_eq!(
        choices(
            ConnectionPolicy::MaxThroughput,
            &[link(1, 50, 10), unknown],
            1
        ),
        [1]
    );
}

#[test]
fn absurd_sizes_do_not_overflow() {
    let mut links = [link(1, 0, 0), link(2, 1, u64::MAX / 1_000_000)];
    for view in &mut links {
        view.load = Load {
            connections: u32::MAX,
            up: ByteCount::MAX,
            down: ByteCount::MAX,
        };
        view.latency = Duration::MAX;
    }
    let demand = down(Class::RealTime, u64::MAX);
    for policy in ConnectionPolicy::ALL {
        assert!(policy.scheduler().select(&demand, &links).is_some());
    }
}
