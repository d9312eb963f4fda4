use super::*;

const START: Instant = Instant::from_nanos(1_000_000_000);
const BULK: KeeperAction = attempt(ChannelRole::Bulk, false);
const EXPRESS: KeeperAction = attempt(ChannelRole::Express, false);
const SEARCH: KeeperAction = attempt(ChannelRole::Bulk, true);

const fn attempt(role: ChannelRole, search: bool) -> KeeperAction {
    KeeperAction::Attempt {
        role,
        search,
        max_segment: None,
    }
}

fn id(number: u32) -> ChannelId {
    ChannelId::new(number)
}

fn after(millis: u64) -> Instant {
    START + Duration::from_millis(millis)
}

fn drain(keeper: &mut ChannelKeeper, now: Instant) -> Vec<KeeperAction> {
    std::iter::from_fn(|| keeper.poll_action(now)).collect()
}

/// A keeper whose link has its two channels.
fn complete() -> ChannelKeeper {
    let mut keeper = ChannelKeeper::new(START, true, Some(id(0)));
    assert_eq!(drain(&mut keeper, START), [BULK]);
    assert!(keeper.handle_joined(START, ChannelRole::Bulk, id(1)));
    assert_eq!(drain(&mut keeper, START), []);
    keeper
}

#[test]
fn a_link_without_an_address_searches_with_one_attempt_and_then_tries_for_all_at_once() {
    let mut keeper = ChannelKeeper::new(START, true, None);
    assert_eq!(drain(&mut keeper, START), [SEARCH]);
    assert_eq!(keeper.poll_timeout(), Some(after(300)));
    assert!(keeper.handle_joined(after(50), ChannelRole::Bulk, id(3)));
    assert_eq!(drain(&mut keeper, after(50)), [EXPRESS]);
    assert!(keeper.handle_joined(after(100), ChannelRole::Express, id(4)));
    assert_eq!(drain(&mut keeper, after(100)), []);
    assert_eq!(keeper.poll_timeout(), None);
    assert_eq!(keeper.channels().collect::<Vec<_>>(), [id(3), id(4)]);
}

#[test]
fn without_express_channels_the_first_one_is_bulk_and_nothing_is_missing() {
    let mut keeper = ChannelKeeper::new(START, false, Some(id(0)));
    assert!(keeper.is_complete());
    assert_eq!(drain(&mut keeper, START), []);
}

#[test]
fn when_the_gateway_is_elsewhere_each_channel_goes_when_one_to_there_stands() {
    let mut keeper = complete();
    let now = after(5000);
    keeper.handle_address_gone(now);
    keeper.update(|_| true, 1);
    // Any address may be the right one; meanwhile, the old channels carry what they can.
    assert_eq!(drain(&mut keeper, now), [SEARCH]);
    assert_eq!(keeper.channels().collect::<Vec<_>>(), [id(1), id(0)]);
    assert!(keeper.handle_joined(now, ChannelRole::Bulk, id(2)));
    let found = [KeeperAction::Drop(id(1)), EXPRESS];
    let mut actions = drain(&mut keeper, now);
    actions.extend(drain(&mut keeper, now));
    assert_eq!(actions, found);
    assert!(keeper.handle_joined(now, ChannelRole::Express, id(3)));
    assert_eq!(drain(&mut keeper, now), [KeeperAction::Drop(id(0))]);
    assert!(keeper.is_complete());
}

#[test]
fn where_full_segments_are_lost_each_channel_goes_when_one_with_small_segments_stands() {
    let mut keeper = complete();
    let now = after(5000);
    let lost = Some(LostSegment {
        size: 1448,
        at: now,
    });
    let small = |role| KeeperAction::Attempt {
        role,
        search: false,
        max_segment: Some(1220),
    };
    keeper.handle_lost_segment(now, lost);
    keeper.update(|_| true, 1);
    let attempts = [small(ChannelRole::Bulk), small(ChannelRole::Express)];
    assert_eq!(drain(&mut keeper, now), attempts);
    assert_eq!(keeper.channels().collect::<Vec<_>>(), [id(1), id(0)]);
    assert!(keeper.handle_joined(now, ChannelRole::Bulk, id(2)));
    assert_eq!(drain(&mut keeper, now), [KeeperAction::Drop(id(1))]);
    assert!(keeper.handle_joined(now, ChannelRole::Express, id(3)));
    assert_eq!(drain(&mut keeper, now), [KeeperAction::Drop(id(0))]);
    // The same finding again replaces nothing.
    keeper.handle_lost_segment(now, lost);
    assert_eq!(drain(&mut keeper, now), []);
}

#[test]
fn a_lost_channel_is_tried_for_at_once() {
    let mut keeper = complete();
    keeper.handle_change(after(5000));
    keeper.update(|channel| channel != id(1), 1);
    assert_eq!(drain(&mut keeper, after(5000)), [BULK]);
}

#[test]
fn a_link_that_fails_for_long_is_tried_less_often() {
    let mut keeper = ChannelKeeper::new(START, true, Some(id(0)));
    let mut now = START;
    for (failures, pause) in [(40, 300), (160, 1500), (10, 6000)] {
        for _ in 0..failures {
            let attempts = drain(&mut keeper, now).len();
            assert_eq!(attempts, 1);
            let next = keeper.poll_timeout().unwrap();
            assert_eq!(next.since(now), Duration::from_millis(pause));
            keeper.handle_failed(AttemptFailure::NoChannel, false);
            now = next;
        }
    }
}

#[test]
fn attempts_that_do_not_end_are_bounded_and_go_to_all_addresses_now_and_then() {
    let mut keeper = complete();
    keeper.handle_change(START);
    keeper.update(|_| false, 1);
    let (mut now, mut begun) = (START, Vec::new());
    while keeper.poll_timeout().is_some() {
        begun.extend(drain(&mut keeper, now));
        now += RETRY;
    }
    assert_eq!(
        begun[..7],
        [BULK, EXPRESS, BULK, EXPRESS, BULK, EXPRESS, SEARCH]
    );
    assert!((12..14).contains(&begun.len()), "{begun:?}");
    keeper.handle_failed(AttemptFailure::NoChannel, true);
    keeper.handle_failed(AttemptFailure::NoChannel, true);
    assert!(keeper.poll_timeout().is_some());
}

#[test]
fn what_is_not_needed_any_more_is_dropped_and_given_up() {
    let mut keeper = complete();
    keeper.update(|_| true, 2);
    assert_eq!(drain(&mut keeper, after(300)), [BULK]);
    assert!(keeper.handle_joined(after(300), ChannelRole::Bulk, id(2)));
    keeper.update(|_| true, 3);
    assert_eq!(drain(&mut keeper, after(300)), [BULK]);
    keeper.update(|_| true, 1);
    let drop = KeeperAction::Drop(id(2));
    assert_eq!(
        drain(&mut keeper, after(300)),
        [drop, KeeperAction::AbandonAttempts]
    );
    assert!(!keeper.handle_joined(after(300), ChannelRole::Bulk, id(9)));
}

#[test]
fn an_attempt_that_lacked_a_number_is_repeated_when_one_may_have_come() {
    let mut keeper = ChannelKeeper::new(START, true, Some(id(0)));
    assert_eq!(drain(&mut keeper, START), [BULK]);
    keeper.handle_failed(AttemptFailure::NoGrant, false);
    assert_eq!(drain(&mut keeper, after(20)), []);
    keeper.handle_change(after(20));
    assert_eq!(drain(&mut keeper, after(20)), [BULK]);
    // An attempt that failed for another reason waits for its time.
    keeper.handle_failed(AttemptFailure::NoChannel, false);
    keeper.handle_change(after(40));
    assert_eq!(drain(&mut keeper, after(40)), []);
}

#[test]
fn a_session_without_channels_and_numbers_ends() {
    let mut keeper = ChannelKeeper::new(START, true, Some(id(0)));
    for _ in 1..MAX_WITHOUT_GRANT {
        keeper.handle_failed(AttemptFailure::NoGrant, true);
    }
    assert_eq!(keeper.actions, []);
    keeper.handle_failed(AttemptFailure::NoGrant, false);
    assert_eq!(keeper.actions, []);
    keeper.handle_failed(AttemptFailure::NoGrant, true);
    assert_eq!(keeper.actions, [KeeperAction::EndSession]);
}

/// The same applies while there are channels: on a silent link they seem to be alive.
#[test]
fn joins_that_are_broken_off_make_the_keeper_ask_the_gateway() {
    let mut keeper = ChannelKeeper::new(START, true, Some(id(0)));
    for is_cut_off in [true, false] {
        for _ in 1..MAX_TURNED_AWAY {
            keeper.handle_failed(AttemptFailure::Broken, is_cut_off);
            keeper.handle_failed(AttemptFailure::NoChannel, is_cut_off);
            assert_eq!(keeper.actions, []);
        }
        keeper.handle_failed(AttemptFailure::Broken, is_cut_off);
        assert_eq!(keeper.actions.pop_front(), Some(KeeperAction::AskGateway));
    }
    keeper.handle_failed(AttemptFailure::Broken, false);
    assert!(keeper.handle_joined(START, ChannelRole::Bulk, id(1)));
    for _ in 1..MAX_TURNED_AWAY {
        keeper.handle_failed(AttemptFailure::Broken, false);
    }
    assert_eq!(keeper.actions, [], "what was before a join does not count");
}
