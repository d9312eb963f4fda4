use std::ops::Range;
use std::time::Duration;

use super::pair::{MAX_UNANSWERED, REMEMBERED};
use super::*;

const FIRST: &str = "192.0.2.1";
const SECOND: &str = "198.51.100.1";
const CLIENT: &str = "203.0.113.7";
const OTHER: &str = "203.0.113.8";
/// An address of this machine that none of the listed links has.
const OWN: &str = "203.0.113.99";

fn link(index: u32, address: &str) -> Link {
    Link {
        addresses: vec![address.parse().unwrap()],
        enabled: true,
        up: true,
        ..Link::new(LinkIndex::new(index), "link")
    }
}

fn links() -> [Link; 2] {
    [link(1, FIRST), link(2, SECOND)]
}

fn ends(id: u32, local: &str, remote: &str) -> ChannelEnds {
    ChannelEnds {
        id: ChannelId::new(id),
        begun_by: Side::Client,
        local: local.parse().unwrap(),
        remote: remote.parse().unwrap(),
    }
}

/// A channel that the gateway opened.
fn begun(id: u32, local: &str) -> ChannelEnds {
    ChannelEnds {
        begun_by: Side::Gateway,
        ..ends(id, local, CLIENT)
    }
}

/// Updates the plan with these links and channels, without an association.
fn update(plan: &mut FurtherChannels, now: Instant, links: &[Link], channels: &[ChannelEnds]) {
    let around = Surroundings {
        links,
        channels,
        associated: &BTreeSet::new(),
    };
    plan.update(now, &around, is_own);
}

fn is_own(address: IpAddr) -> bool {
    [FIRST, SECOND, OWN].contains(&address.to_string().as_str())
}

fn at(seconds: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(seconds)
}

fn pair(link: u32, remote: &str) -> Pair {
    Pair {
        link: LinkIndex::new(link),
        remote: remote.parse().unwrap(),
    }
}

/// Returns all actions that are due now.
fn actions(plan: &mut FurtherChannels, now: Instant) -> Vec<FurtherAction> {
    std::iter::from_fn(|| plan.poll_action(now)).collect()
}

fn to(remote: &str) -> FurtherAction {
    FurtherAction::Attempt {
        pair: pair(2, remote),
        max_segment: None,
    }
}

#[test]
fn a_link_that_no_channel_came_to_connects_to_where_one_came_from() {
    let mut plan = FurtherChannels::default();
    assert_eq!(plan.poll_timeout(), None);
    let channels = [ends(0, FIRST, CLIENT), ends(1, FIRST, CLIENT)];
    update(&mut plan, at(1), &links(), &channels);
    assert_eq!(plan.poll_timeout(), Some(at(1)));
    assert_eq!(actions(&mut plan, at(1)), [to(CLIENT)]);
    // One at a time.
    assert_eq!(actions(&mut plan, at(9)), []);
    assert!(plan.handle_joined(at(9), pair(2, CLIENT), ChannelId::new(2)));
    update(&mut plan, at(9), &links(), &[channels[0], begun(2, SECOND)]);
    assert_eq!(plan.poll_timeout(), None);
    // The client lost the channel, so it is replaced.
    update(&mut plan, at(99), &links(), &channels);
    assert_eq!(actions(&mut plan, at(99)), [to(CLIENT)]);
}

#[test]
fn where_the_client_comes_by_itself_nothing_is_begun() {
    let mut plan = FurtherChannels::default();
    let channels = [ends(0, FIRST, CLIENT), ends(1, SECOND, CLIENT)];
    update(&mut plan, at(1), &links(), &channels);
    assert_eq!(actions(&mut plan, at(1)), []);
    // Nor without any link to connect from.
    update(&mut plan, at(1), &[], &channels[..1]);
    assert_eq!(actions(&mut plan, at(1)), []);
}

#[test]
fn addresses_that_lead_to_no_other_host_are_left_alone() {
    for remote in [
        "127.0.0.1",
        "169.254.7.7",
        "224.0.0.1",
        "0.0.0.0",
        SECOND,
        OWN,
        "::1",
        "fe80::7",
        // A family of which the link has no address.
        "2001:db8::7",
    ] {
        let mut plan = FurtherChannels::default();
        update(&mut plan, at(1), &links(), &[ends(0, FIRST, remote)]);
        assert_eq!(actions(&mut plan, at(1)), [], "{remote}");
    }
}

/// Fails every attempt in these seconds; returns their pairs.
fn failing(
    plan: &mut FurtherChannels,
    seconds: Range<u64>,
    channels: &[ChannelEnds],
    why: NoJoin,
) -> Vec<Pair> {
    let mut tried = Vec::new();
    for second in seconds {
        update(plan, at(second), &links(), channels);
        for action in actions(plan, at(second)) {
            let FurtherAction::Attempt { pair, .. } = action else {
                panic!("{action:?}");
            };
            plan.handle_failed(at(second), pair, why);
            tried.push(pair);
        }
    }
    tried
}

/// Answers no attempt for an hour; returns the number of attempts.
fn attempts_that_fail(plan: &mut FurtherChannels, channels: &[ChannelEnds]) -> usize {
    failing(plan, 0..3600, channels, NoJoin::NoAnswer).len()
}

#[test]
fn an_address_where_no_join_ever_follows_is_given_up() {
    let mut plan = FurtherChannels::default();
    let channels = [ends(0, FIRST, CLIENT)];
    let count = attempts_that_fail(&mut plan, &channels);
    assert_eq!(count, MAX_UNANSWERED as usize);
    // Leaving and returning does not help.
    update(&mut plan, at(4000), &links(), &[]);
    update(&mut plan, at(4001), &[], &channels);
    assert_eq!(actions(&mut plan, at(4001)), []);
    assert_eq!(attempts_that_fail(&mut plan, &channels), 0);
}

#[test]
fn an_address_where_the_client_has_joined_is_tried_for_as_long_as_channels_come_from_it() {
    let mut plan = FurtherChannels::default();
    let channels = [ends(0, FIRST, CLIENT)];
    update(&mut plan, at(0), &links(), &channels);
    assert_eq!(actions(&mut plan, at(0)), [to(CLIENT)]);
    assert!(plan.handle_joined(at(0), pair(2, CLIENT), ChannelId::new(1)));
    let count = attempts_that_fail(&mut plan, &channels);
    assert!((100..3600 / 3 + 9).contains(&count), "{count}");
    update(&mut plan, at(4000), &links(), &[]);
    assert_eq!(plan.poll_timeout(), None);
}

#[test]
fn a_client_that_changes_its_addresses_has_few_of_them_tried() {
    let mut plan = FurtherChannels::default();
    let from = |last: u64| [ends(0, FIRST, &format!("203.0.113.{last}"))];
    let mut count = 0;
    for last in 0..64 {
        let while_there = last * 50..(last + 1) * 50;
        count += failing(&mut plan, while_there, &from(last), NoJoin::NoAnswer).len();
    }
    assert_eq!(count, MAX_PAIRS * MAX_UNANSWERED as usize);
    // Old pairs are finally forgotten, so that a new address gets its attempts.
    update(&mut plan, at(64 * 50) + REMEMBERED, &links(), &from(77));
    let now = at(64 * 50 + 1) + REMEMBERED;
    update(&mut plan, now, &links(), &from(77));
    assert_eq!(actions(&mut plan, now), [to("203.0.113.77")]);
}

#[test]
fn attempts_have_an_allowance_for_the_session() {
    let mut plan = FurtherChannels::default();
    let remotes = 0..MAX_PAIRS as u32;
    let channels: Vec<_> = remotes
        .map(|last| ends(last, FIRST, &format!("203.0.113.{last}")))
        .collect();
    update(&mut plan, at(1), &links(), &channels);
    assert_eq!(actions(&mut plan, at(1)).len(), 8);
    let next = plan.poll_timeout().unwrap();
    assert!(next > at(1));
    assert_eq!(actions(&mut plan, next).len(), 1);
}

#[test]
fn channels_of_a_link_that_goes_are_closed() {
    let mut plan = FurtherChannels::default();
    let channels = [ends(0, FIRST, CLIENT)];
    update(&mut plan, at(1), &links(), &channels);
    assert_eq!(actions(&mut plan, at(1)), [to(CLIENT)]);
    assert!(plan.handle_joined(at(1), pair(2, CLIENT), ChannelId::new(1)));
    let channels = [channels[0], begun(1, SECOND)];
    update(&mut plan, at(2), &links()[..1], &channels);
    let closed = FurtherAction::Drop(ChannelId::new(1));
    assert_eq!(actions(&mut plan, at(2)), [closed]);
    // The result of an attempt from that time is no longer wanted.
    assert!(!plan.handle_joined(at(2), pair(2, CLIENT), ChannelId::new(2)));
    // The link is back.
    update(&mut plan, at(3), &links(), &channels[..1]);
    assert_eq!(actions(&mut plan, at(3)), [to(CLIENT)]);
}

#[test]
fn pairs_that_fail_take_no_turn_of_one_that_works() {
    let mut plan = FurtherChannels::default();
    let failing_ones = ["203.0.113.1", "203.0.113.2"].map(|remote| ends(0, FIRST, remote));
    // They use the allowance up.
    failing(&mut plan, 0..8, &failing_ones, NoJoin::NoAnswer);
    let channels = [
        failing_ones[0],
        failing_ones[1],
        ends(2, FIRST, "203.0.113.3"),
    ];
    let tried = failing(&mut plan, 8..30, &channels, NoJoin::NoAnswer);
    let of_each: BTreeMap<Pair, usize> = tried.iter().fold(BTreeMap::new(), |mut counts, pair| {
        *counts.entry(*pair).or_default() += 1;
        counts
    });
    assert_eq!(of_each.len(), 3, "{of_each:?}");
    let evenly = of_each.values().all(|count| (2..=3).contains(count));
    assert!(evenly, "{of_each:?}");
}

#[test]
fn attempts_that_send_nothing_do_not_count_and_become_rare() {
    let mut plan = FurtherChannels::default();
    let channels = [ends(0, FIRST, CLIENT)];
    let tried = failing(&mut plan, 0..3600, &channels, NoJoin::NotSent);
    assert!((40..80).contains(&tried.len()), "{}", tried.len());
    // A route has appeared.
    update(&mut plan, at(3700), &links(), &channels);
    assert_eq!(actions(&mut plan, at(3700)), [to(CLIENT)]);
    let failures = plan.handle_failed(at(3700), pair(2, CLIENT), NoJoin::NoAnswer);
    assert!(!failures.is_given_up && failures.count > 1, "{failures:?}");
}

#[test]
fn a_channel_from_an_address_that_its_link_has_lost_is_closed_and_replaced() {
    let mut plan = FurtherChannels::default();
    let client = ends(0, FIRST, CLIENT);
    update(&mut plan, at(1), &links(), &[client]);
    assert_eq!(actions(&mut plan, at(1)), [to(CLIENT)]);
    assert!(plan.handle_joined(at(1), pair(2, CLIENT), ChannelId::new(1)));
    let moved = [link(1, FIRST), link(2, "198.51.100.2")];
    update(&mut plan, at(2), &moved, &[client, begun(1, SECOND)]);
    let closed = FurtherAction::Drop(ChannelId::new(1));
    assert_eq!(actions(&mut plan, at(2)), [closed]);
    update(&mut plan, at(3), &moved, &[client]);
    assert_eq!(actions(&mut plan, at(3)), [to(CLIENT)]);
}

#[test]
fn channels_that_the_gateway_began_tell_neither_where_the_client_is_nor_where_it_comes_to() {
    let mut plan = FurtherChannels::default();
    let client = ends(0, FIRST, CLIENT);
    update(&mut plan, at(1), &links(), &[client]);
    assert_eq!(actions(&mut plan, at(1)), [to(CLIENT)]);
    // The channel exists before its attempt has ended.
    let fresh = ChannelEnds {
        remote: OTHER.parse().unwrap(),
        ..begun(1, SECOND)
    };
    update(&mut plan, at(2), &links(), &[client, fresh]);
    assert_eq!(actions(&mut plan, at(2)), []);
    assert!(plan.handle_joined(at(2), pair(2, CLIENT), ChannelId::new(1)));
    // The client has left.
    update(&mut plan, at(99), &links(), &[fresh]);
    update(&mut plan, at(100), &links(), &[]);
    assert_eq!(actions(&mut plan, at(100)), []);
}

#[test]
fn a_link_that_an_association_comes_to_is_not_begun_on() {
    let mut plan = FurtherChannels::default();
    let around = Surroundings {
        links: &links(),
        channels: &[ends(0, FIRST, CLIENT)],
        associated: &BTreeSet::from([SECOND.parse().unwrap()]),
    };
    plan.update(at(1), &around, is_own);
    assert_eq!(actions(&mut plan, at(1)), []);
}

/// Creates a plan whose channel 1 joined in the first second.
fn joined(client: &ChannelEnds) -> FurtherChannels {
    let mut plan = FurtherChannels::default();
    update(&mut plan, at(1), &links(), &[*client]);
    assert_eq!(actions(&mut plan, at(1)), [to(CLIENT)]);
    assert!(plan.handle_joined(at(1), pair(2, CLIENT), ChannelId::new(1)));
    update(&mut plan, at(1), &links(), &[*client, begun(1, SECOND)]);
    assert_eq!(actions(&mut plan, at(1)), []);
    plan
}

#[test]
fn where_large_segments_are_lost_the_next_connection_announces_smaller_ones() {
    let client = ends(0, FIRST, CLIENT);
    let mut plan = joined(&client);
    let lost = LostSegment {
        size: 1448,
        at: at(5),
    };
    plan.handle_lost_segment(at(5), ChannelId::new(1), lost);
    update(&mut plan, at(5), &links(), &[client]);
    let smaller = FurtherAction::Attempt {
        pair: pair(2, CLIENT),
        max_segment: Some(1220),
    };
    assert_eq!(actions(&mut plan, at(5)), [smaller]);
    assert!(plan.handle_joined(at(5), pair(2, CLIENT), ChannelId::new(2)));
    // Other channels are unknown to this plan.
    plan.handle_lost_segment(
        at(6),
        ChannelId::new(0),
        LostSegment {
            size: 900,
            at: at(6),
        },
    );
    update(&mut plan, at(6), &links(), &[client, begun(2, SECOND)]);
    assert_eq!(actions(&mut plan, at(6)), []);
}

#[test]
fn channels_that_do_not_last_are_replaced_ever_later() {
    let client = ends(0, FIRST, CLIENT);
    let mut plan = joined(&client);
    let mut pauses = Vec::new();
    let mut now = at(2);
    for id in 2..6 {
        update(&mut plan, now, &links(), &[client]);
        assert_eq!(actions(&mut plan, now), []);
        let next = plan.poll_timeout().unwrap();
        pauses.push(next.since(now).as_secs());
        now = next;
        assert_eq!(actions(&mut plan, now), [to(CLIENT)]);
        assert!(plan.handle_joined(now, pair(2, CLIENT), ChannelId::new(id)));
    }
    assert_eq!(pauses, [3, 6, 12, 24]);
    // A long-lived channel is replaced at once.
    update(
        &mut plan,
        now + Duration::from_secs(60),
        &links(),
        &[client],
    );
    assert_eq!(plan.poll_timeout(), Some(now));
}
