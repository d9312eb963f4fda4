//! SACKs that are false, and SACKs that look false and are not.

use std::net::SocketAddr;

use super::*;

/// Creates a bench with ten full chunks in flight on one path with a round-trip time of 20 ms.
fn ten_in_flight() -> Bench {
    let mut bench = Bench::with_rtts(&[20], &config());
    open(&mut bench, 0);
    (0..10).for_each(|_| bench.write(0, FULL));
    assert_eq!(bench.pump().len(), 10);
    bench.wait(20);
    bench
}

/// Grows the path's window to more than ten packets, by acknowledging twenty chunks.
pub(super) fn open(bench: &mut Bench, path: u32) {
    let id = PathId::new(path);
    let (now, size) = (bench.now, ByteCount::new(1200));
    let path = bench.paths.path_mut(id).unwrap();
    while path.congestion.window() < ByteCount::new(15 * 1200) {
        path.congestion
            .on_acknowledged(&crate::congestion::Acknowledged {
                now,
                bytes: size,
                flight_before: path.congestion.window(),
                flight: path.congestion.window(),
                rtt: None,
                smoothed_rtt: ms(20),
                newest_sent: now,
                may_grow: true,
                sample: None,
            });
    }
}

#[test]
fn acknowledging_what_was_never_sent_is_misbehaviour_and_changes_nothing() {
    let mut bench = ten_in_flight();
    let before = (bench.in_flight(0), bench.window(0), bench.outbound.held());
    let unsent = Err(Misbehaviour::AcknowledgedUnsent);
    assert_eq!(bench.sack(11, &[]), unsent);
    assert_eq!(bench.sack(1 << 30, &[]), unsent);
    assert_eq!(bench.sack(0, &[(2, 10)]), unsent);
    assert_eq!(bench.sack(3, &[(4, 4), (8, 60_000)]), unsent);
    let after = (bench.in_flight(0), bench.window(0), bench.outbound.held());
    assert_eq!(before, after);
    assert_eq!(bench.status(4), Some(Status::Wait));
    assert!(bench.sack(10, &[]).is_ok());
    assert!(bench.outbound.is_settled());
}

#[test]
fn gap_blocks_that_overlap_or_come_in_any_order_count_each_chunk_once() {
    let mut bench = ten_in_flight();
    let acknowledged = bench
        .sack(1, &[(6, 8), (3, 4), (3, 7), (4, 4), (3, 4)])
        .unwrap();
    assert_eq!(acknowledged, ByteCount::from(7 * FULL));
    assert_eq!(bench.in_flight(0), 1200, "only the last");
    assert_eq!(bench.status(2), Some(Status::Fail));
    assert_eq!(bench.status(9), Some(Status::Wait));
}

#[test]
fn gap_blocks_that_make_no_sense_are_passed_over() {
    let mut bench = ten_in_flight();
    let mut sack = bench.sack_of(0, &[(5, 5)]);
    sack.gaps.push(GapBlock { first: 0, last: 3 });
    sack.gaps.push(GapBlock { first: 1, last: 1 });
    sack.gaps.push(GapBlock { first: 9, last: 8 });
    let acknowledged = bench.read(&sack).unwrap();
    assert_eq!(acknowledged, ByteCount::from(FULL));
    assert_eq!(bench.status(5), Some(Status::Ack));
    assert_ne!(bench.status(0), Some(Status::Ack));
}

#[test]
fn sacks_that_were_overtaken_neither_shrink_nor_move_anything() {
    let mut bench = ten_in_flight();
    bench.sack(6, &[(8, 8)]).unwrap();
    let in_flight = bench.in_flight(0);
    let acknowledged = bench.sack(2, &[(4, 9)]).unwrap();
    assert_eq!(acknowledged, ByteCount::ZERO);
    assert_eq!(bench.in_flight(0), in_flight);
    // The same cumulative TSN with fewer gap blocks: an older SACK, not a sign that 8 was dropped.
    bench.sack(6, &[]).unwrap();
    assert_eq!(bench.status(8), Some(Status::Ack));
    assert_eq!(bench.outbound.window.to_retransmit().count(), 0);
}

#[test]
fn what_the_peer_dropped_after_acknowledging_it_is_sent_again() {
    let mut bench = ten_in_flight();
    bench.sack(0, &[(2, 3), (5, 9)]).unwrap();
    // 2 follows the cumulative TSN: a peer that still had it would have included it.
    bench.sack(2, &[(7, 8)]).unwrap();
    let again: Vec<_> = bench.outbound.window.to_retransmit().collect();
    assert_eq!(again, [2, 3, 4, 5, 6, 9]);
    assert_eq!(bench.status(7), Some(Status::Ack));
    let sent = numbers(&bench.pump());
    assert_eq!(sent, [2, 3, 4, 5, 6, 9]);
    bench.wait(20);
    bench.sack(10, &[]).unwrap();
    assert!(bench.outbound.is_settled());
}

#[test]
fn a_peer_that_drops_and_takes_back_over_and_over_gains_no_window() {
    let mut bench = ten_in_flight();
    let window = bench.window(0);
    for _ in 0..50 {
        bench.sack(0, &[(2, 9)]).unwrap();
        bench.sack(1, &[]).ok();
        bench.pump();
        bench.wait(20);
    }
    assert!(bench.window(0) <= window + ByteCount::new(1200));
    bench.sack(10, &[]).unwrap();
    assert!(bench.outbound.is_settled());
}

#[test]
fn thousands_of_duplicates_do_no_harm() {
    let mut bench = ten_in_flight();
    let mut sack = bench.sack_of(4, &[]);
    sack.duplicates = (0..16_000).map(tsn).collect();
    let window = bench.window(0);
    let acknowledged = bench.read(&sack).unwrap();
    assert_eq!(acknowledged, ByteCount::from(4 * FULL));
    assert!(bench.window(0) <= window + ByteCount::new(4 * 1200));
    assert_eq!(bench.status(4), Some(Status::Wait));
}

#[test]
fn a_window_that_shrinks_to_zero_stops_all_but_one_probe() {
    let mut bench = ten_in_flight();
    (0..20).for_each(|_| bench.write(0, FULL));
    let mut closed = bench.sack_of(5, &[]);
    closed.window = 0;
    bench.read(&closed).unwrap();
    assert!(bench.pump().is_empty(), "five are in flight still");
    closed.cumulative = tsn(9);
    bench.read(&closed).unwrap();
    let probe = bench.pump();
    assert_eq!(numbers(&probe), [10], "one, to learn when there is room");
    // The peer answers that its window is still closed: this counts against no path.
    for _ in 0..8 {
        bench.wait(5);
        bench.read(&closed).unwrap();
        bench.wait_for_timer();
        bench.read(&closed).unwrap();
        bench.pump();
    }
    assert!(
        bench.window(0) > ByteCount::new(3 * 1200),
        "but for its age"
    );
    let path = bench.paths.path(PathId::new(0)).unwrap();
    assert_eq!(path.state, crate::path::PathState::Active);
    let mut opened = bench.sack_of(11, &[]);
    opened.window = 3 * FULL as u32;
    bench.read(&opened).unwrap();
    assert_eq!(numbers(&bench.pump()), [11, 12, 13]);
}

#[test]
fn acknowledgements_sooner_than_the_path_can_bring_them_open_no_window() {
    let mut bench = Bench::with_rtts(&[100], &config());
    let window = bench.window(0);
    let mut next = 0;
    for _ in 0..50 {
        (0..4).for_each(|_| bench.write(0, FULL));
        next += numbers(&bench.pump()).len() as u64;
        bench.wait(2);
        bench.sack(next, &[]).unwrap();
    }
    assert_eq!(bench.window(0), window);
    let path = bench.paths.path(PathId::new(0)).unwrap();
    assert_eq!(
        path.rtt.min(),
        Some(ms(100)),
        "nor do they measure anything"
    );
    assert!(bench.in_flight(0) == 0 && bench.outbound.is_settled());
}

/// The forward delay is a tenth of the round trip, and the answer returns over the fast path.
#[test]
fn acknowledgements_that_come_over_a_quicker_path_open_the_window() {
    for (over, is_believed) in [(0, true), (1, false)] {
        let mut bench = Bench::with_rtts(&[20, 300], &config());
        let window = bench.window(1);
        let mut next = 0;
        for _ in 0..10 {
            (0..40).for_each(|_| bench.write(0, FULL));
            next += numbers(&bench.pump()).len() as u64;
            bench.wait(30);
            bench.read_over(&bench.sack_of(next, &[]), over).unwrap();
        }
        let path = bench.paths.path(PathId::new(1)).unwrap();
        let shortest = if is_believed { 30 } else { 300 };
        assert_eq!(path.rtt.min(), Some(ms(shortest)));
        assert_eq!(bench.window(1) > window, is_believed);
    }
}

#[test]
fn a_path_that_has_become_quicker_is_believed_once_a_heartbeat_has_shown_it() {
    let mut bench = Bench::with_rtts(&[100], &config());
    let (id, from) = (PathId::new(0), SocketAddr::from(([192, 0, 2, 1], 9899)));
    while bench.paths.poll_heartbeat(bench.now).is_some() {}
    (0..4).for_each(|_| bench.write(0, FULL));
    bench.pump();
    bench.wait(20);
    bench.sack(4, &[]).unwrap();
    assert_eq!(bench.paths.path(id).unwrap().rtt.min(), Some(ms(100)));
    bench.paths.handle_timeout(bench.now + ms(5000));
    let heartbeat = bench.paths.poll_heartbeat(bench.now).unwrap();
    bench.wait(20);
    bench
        .paths
        .on_heartbeat_ack(bench.now, from, &heartbeat.info);
    let window = bench.window(0);
    for next in [8, 12, 16] {
        (0..4).for_each(|_| bench.write(0, FULL));
        bench.pump();
        bench.wait(20);
        bench.sack(next, &[]).unwrap();
    }
    assert!(bench.window(0) > window);
    assert_eq!(bench.paths.path(id).unwrap().rtt.min(), Some(ms(20)));
}

#[test]
fn an_acknowledgement_for_each_byte_opens_no_more_than_one_for_all() {
    let mut bench = ten_in_flight();
    let before = bench.window(0);
    for chunk in 1..=10 {
        for _ in 0..20 {
            bench.sack(chunk, &[]).unwrap();
        }
    }
    let gained = bench.window(0) - before;
    assert!(gained <= ByteCount::new(10 * 1200), "{gained}");
}

proptest::proptest! {
    #[test]
    fn no_sack_at_all_makes_the_sender_panic_or_forget_what_is_missing(
        sacks in proptest::collection::vec(
            (
                0_u32..14,
                proptest::collection::vec((0_u16..14, 0_u16..14), 0..6),
                0_u32..5000,
                0_u64..40,
            ),
            0..60,
        ),
    ) {
        let mut bench = ten_in_flight();
        for (cumulative, gaps, window, wait) in sacks {
            let sack = Sack {
                cumulative: tsn(0).advance(cumulative.wrapping_sub(1)),
                window,
                gaps: gaps.into_iter().map(|(first, last)| GapBlock { first, last }).collect(),
                duplicates: vec![tsn(u64::from(cumulative))],
            };
            let _ = bench.read(&sack);
            bench.wait(wait);
            bench.pump();
        }
        let mut steps = 0;
        while !bench.outbound.is_settled() {
            let end = bench.outbound.window.end();
            bench.sack(end, &[]).unwrap();
            bench.pump();
            steps += 1;
            proptest::prop_assert!(steps < 100);
        }
        proptest::prop_assert_eq!(bench.in_flight(0), 0);
    }
}
