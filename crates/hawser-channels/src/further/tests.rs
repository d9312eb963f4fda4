use std::time::Duration;

use super::*;

const FIRST: &str = "192.0.2.1";
const SECOND: &str = "198.51.100.1";
const CLIENT: &str = "203.0.113.7";

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
        local: local.parse().unwrap(),
        remote: remote.parse().unwrap(),
    }
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

/// What is to be done now, all at once.
fn actions(plan: &mut FurtherChannels, now: Instant) -> Vec<FurtherAction> {
    std::iter::from_fn(|| plan.poll_action(now)).collect()
}

const TO_CLIENT: fn() -> FurtherAction = || FurtherAction::Attempt(pair(2, CLIENT));

#[test]
fn a_link_that_no_channel_came_to_connects_to_where_one_came_from() {
    let mut plan = FurtherChannels::default();
    assert_eq!(plan.poll_timeout(), None);
    let channels = [ends(0, FIRST, CLIENT), ends(1, FIRST, CLIENT)];
    plan.update(at(1), &links(), &channels);
    assert_eq!(plan.poll_timeout(), Some(at(1)));
    assert_eq!(actions(&mut plan, at(1)), [TO_CLIENT()]);
    // One at a time.
    assert_eq!(actions(&mut plan, at(9)), []);
    assert!(plan.handle_joined(at(9), pair(2, CLIENT), ChannelId::new(2)));
    let joined = ends(2, SECOND, CLIENT);
    plan.update(at(9), &links(), &[channels[0], joined]);
    assert_eq!(plan.poll_timeout(), None);
    assert_eq!(plan.channels().collect::<Vec<_>>(), [ChannelId::new(2)]);
    // The client has lost it, so it is replaced.
    plan.update(at(20), &links(), &channels);
    assert_eq!(actions(&mut plan, at(20)), [TO_CLIENT()]);
}

#[test]
fn where_the_client_comes_by_itself_nothing_is_begun() {
    let mut plan = FurtherChannels::default();
    let channels = [ends(0, FIRST, CLIENT), ends(1, SECOND, CLIENT)];
    plan.update(at(1), &links(), &channels);
    assert_eq!(actions(&mut plan, at(1)), []);
    // Without any link to begin on neither.
    plan.update(at(1), &[], &channels[..1]);
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
        "::1",
        "fe80::7",
        // Of a family that the link has no address of.
        "2001:db8::7",
    ] {
        let mut plan = FurtherChannels::default();
        plan.update(at(1), &links(), &[ends(0, FIRST, remote)]);
        assert_eq!(actions(&mut plan, at(1)), [], "{remote}");
    }
}

/// Fails every attempt for an hour; gives how many there were.
fn attempts_that_fail(plan: &mut FurtherChannels, channels: &[ChannelEnds]) -> usize {
    let mut count = 0;
    for second in 0..3600 {
        plan.update(at(second), &links(), channels);
        for action in actions(plan, at(second)) {
            let FurtherAction::Attempt(pair) = action else {
                panic!("{action:?}");
            };
            plan.handle_failed(pair);
            count += 1;
        }
    }
    count
}

#[test]
fn an_address_where_no_join_ever_follows_is_given_up() {
    let mut plan = FurtherChannels::default();
    let channels = [ends(0, FIRST, CLIENT)];
    let count = attempts_that_fail(&mut plan, &channels);
    assert_eq!(count, MAX_UNPROVED as usize);
    // It does not help to leave and to come back.
    plan.update(at(4000), &links(), &[]);
    plan.update(at(4001), &[], &channels);
    assert_eq!(actions(&mut plan, at(4001)), []);
    assert_eq!(attempts_that_fail(&mut plan, &channels), 0);
}

#[test]
fn an_address_where_the_client_has_joined_is_tried_for_as_long_as_channels_come_from_it() {
    let mut plan = FurtherChannels::default();
    let channels = [ends(0, FIRST, CLIENT)];
    plan.update(at(0), &links(), &channels);
    assert_eq!(actions(&mut plan, at(0)), [TO_CLIENT()]);
    assert!(plan.handle_joined(at(0), pair(2, CLIENT), ChannelId::new(1)));
    let count = attempts_that_fail(&mut plan, &channels);
    assert!((100..3600 / 3 + 9).contains(&count), "{count}");
    plan.update(at(4000), &links(), &[]);
    assert_eq!(plan.poll_timeout(), None);
}

#[test]
fn a_client_that_changes_its_addresses_has_few_of_them_tried() {
    let mut plan = FurtherChannels::default();
    let count = (0..100).map(|last| {
        let channels = [ends(0, FIRST, &format!("203.0.113.{last}"))];
        attempts_that_fail(&mut plan, &channels)
    });
    assert_eq!(count.sum::<usize>(), MAX_PAIRS * MAX_UNPROVED as usize);
}

#[test]
fn attempts_have_an_allowance_for_the_session() {
    let mut plan = FurtherChannels::default();
    let remotes = 0..MAX_PAIRS as u32;
    let channels: Vec<_> = remotes
        .map(|last| ends(last, FIRST, &format!("203.0.113.{last}")))
        .collect();
    plan.update(at(1), &links(), &channels);
    assert_eq!(actions(&mut plan, at(1)).len(), 8);
    let next = plan.poll_timeout().unwrap();
    assert!(next > at(1));
    assert_eq!(actions(&mut plan, next).len(), 1);
}

#[test]
fn channels_of_a_link_that_goes_are_closed() {
    let mut plan = FurtherChannels::default();
    let channels = [ends(0, FIRST, CLIENT)];
    plan.update(at(1), &links(), &channels);
    assert_eq!(actions(&mut plan, at(1)), [TO_CLIENT()]);
    assert!(plan.handle_joined(at(1), pair(2, CLIENT), ChannelId::new(1)));
    let channels = [channels[0], ends(1, SECOND, CLIENT)];
    plan.update(at(2), &links()[..1], &channels);
    let closed = FurtherAction::Drop(ChannelId::new(1));
    assert_eq!(actions(&mut plan, at(2)), [closed]);
    // What an attempt of that time brings has no place any more.
    assert!(!plan.handle_joined(at(2), pair(2, CLIENT), ChannelId::new(2)));
    // The link is back.
    plan.update(at(3), &links(), &channels[..1]);
    assert_eq!(actions(&mut plan, at(3)), [TO_CLIENT()]);
}
