//! Losses, timers and removed paths.

use super::hostile::open;
use super::*;

#[test]
fn reordering_between_paths_makes_nothing_look_lost() {
    let mut bench = Bench::with_rtts(&[10, 100], &config());
    (0..8).for_each(|_| bench.write(0, FULL));
    let sent = bench.pump();
    let slow: Vec<_> = sent.iter().filter(|it| it.path == PathId::new(1)).collect();
    assert_eq!(numbers(&sent)[4..], [4, 5, 6, 7]);
    assert_eq!(slow.len(), 4);
    for _ in 0..5 {
        (0..4).for_each(|_| bench.write(0, FULL));
        bench.pump();
        bench.wait(10);
        let end = bench.outbound.window.end();
        bench.sack(4, &[(8, end - 1)]).unwrap();
    }
    assert_eq!(bench.outbound.window.to_retransmit().count(), 0);
}

#[test]
fn one_that_a_later_one_has_overtaken_is_lost_after_an_eighth_of_a_round_trip() {
    let mut bench = Bench::with_rtts(&[80], &config());
    open(&mut bench, 0);
    let window = bench.window(0);
    (0..2).for_each(|_| bench.write(0, FULL));
    bench.pump();
    bench.wait(80);
    bench.sack(0, &[(1, 1)]).unwrap();
    assert_eq!(bench.status(0), Some(Status::Wait));
    assert_eq!(bench.wait_for_timer(), ms(10));
    assert_eq!(bench.status(0), Some(Status::Fail));
    assert!(bench.window(0) < window);
}

#[test]
fn a_loss_at_the_end_is_found_by_a_probe_before_t3() {
    let mut bench = Bench::with_rtts(&[50], &config());
    (0..3).for_each(|_| bench.write(0, FULL));
    bench.pump();
    let waited = bench.wait_for_timer();
    assert_eq!(waited, ms(100), "two round trips, against an RTO of 200 ms");
    let probe = bench.pump();
    assert_eq!(numbers(&probe), [2]);
    assert!(probe[0].chunks[0].immediate, "to be answered at once");
    assert!(bench.pump().is_empty());
    bench.wait(50);
    bench.sack(0, &[(2, 2)]).unwrap();
    assert_eq!(numbers(&bench.pump()), [0, 1]);
}

#[test]
fn a_probe_carries_something_new_where_that_waits() {
    let mut bench = Bench::with_rtts(&[50], &config());
    (0..20).for_each(|_| bench.write(0, FULL));
    let sent = bench.pump().len() as u64;
    bench.wait_for_timer();
    assert_eq!(numbers(&bench.pump()), [sent]);
}

#[test]
fn t3_takes_all_for_lost_doubles_and_leaves_one_packet_at_a_time() {
    let mut bench = Bench::with_rtts(&[50], &config());
    (0..4).for_each(|_| bench.write(0, FULL));
    bench.pump();
    bench.wait_for_timer();
    bench.pump();
    bench.wait_for_timer();
    assert_eq!(bench.window(0), ByteCount::new(1200));
    assert_eq!(numbers(&bench.pump()), [0]);
    assert_eq!(bench.wait_for_timer(), ms(400));
    assert_eq!(numbers(&bench.pump()), [0]);
}

#[test]
fn a_path_that_answers_nothing_is_given_up_and_the_others_carry_all() {
    let mut bench = Bench::with_rtts(&[10, 20], &config());
    (0..60).for_each(|_| bench.write(0, FULL));
    let mut received = std::collections::BTreeSet::new();
    for _ in 0..400 {
        let sent = bench.pump();
        let arrives = sent.iter().filter(|packet| packet.path == PathId::new(1));
        received.extend(arrives.flat_map(Sent::numbers));
        bench.wait(20);
        let next = (0..).find(|chunk| !received.contains(chunk)).unwrap();
        let beyond: Vec<_> = received
            .range(next..)
            .map(|chunk| (*chunk, *chunk))
            .collect();
        bench.sack(next, &beyond).unwrap();
        if bench.outbound.is_settled() {
            return;
        }
    }
    panic!("it is stuck: {:?}", bench.outbound.window.chunks());
}

#[test]
fn what_was_in_flight_on_a_path_that_is_gone_goes_over_the_others() {
    let mut bench = Bench::with_rtts(&[10, 20], &config());
    (0..8).for_each(|_| bench.write(0, FULL));
    bench.pump();
    open(&mut bench, 1);
    bench.paths.remove_local(route(0).local);
    bench
        .outbound
        .on_path_gone(bench.now, &mut bench.paths, PathId::new(0));
    let again = bench.pump();
    assert_eq!(numbers(&again), [0, 1, 2, 3]);
    assert!(again.iter().all(|packet| packet.path == PathId::new(1)));
    bench.wait(20);
    bench.sack(8, &[]).unwrap();
    assert!(bench.outbound.is_settled());
}

#[test]
fn what_arrives_right_after_it_was_taken_for_lost_undoes_the_reduction() {
    let mut bench = Bench::with_rtts(&[40], &config());
    open(&mut bench, 0);
    (0..10).for_each(|_| bench.write(0, FULL));
    bench.pump();
    let window = bench.window(0);
    bench.wait(40);
    bench.sack(0, &[(1, 5)]).unwrap();
    assert!(bench.window(0) < window);
    assert_eq!(numbers(&bench.pump())[0], 0);
    bench.wait(5);
    // Sooner than the second copy can have been acknowledged: the first was late.
    bench.sack(6, &[]).unwrap();
    assert!(bench.window(0) >= window);
    bench.wait(40);
    // From now on reordering is tolerated longer.
    (0..10).for_each(|_| bench.write(0, FULL));
    bench.sack(10, &[]).unwrap();
    bench.pump();
    bench.wait(30);
    bench.sack(10, &[(11, 14)]).unwrap();
    assert_eq!(bench.status(10), Some(Status::Wait));
}

#[test]
fn answers_that_were_late_undo_a_timeout() {
    let mut bench = Bench::with_rtts(&[50], &config());
    open(&mut bench, 0);
    (0..10).for_each(|_| bench.write(0, FULL));
    bench.pump();
    let window = bench.window(0);
    bench.wait(1000);
    assert_eq!(bench.window(0), ByteCount::new(1200));
    assert_eq!(numbers(&bench.pump()), [0]);
    bench.wait(1);
    bench.sack(3, &[]).unwrap();
    assert!(bench.window(0) >= window);
}

/// A link is silent through two time-outs, and then delivers what waited for it.
#[test]
fn what_a_silent_link_delivers_late_is_not_sent_again() {
    let mut bench = Bench::with_rtts(&[50], &config());
    open(&mut bench, 0);
    (0..10).for_each(|_| bench.write(0, FULL));
    assert_eq!(bench.pump().len(), 10);
    let in_flight = bench.outbound.window.bytes_in_flight();
    for _ in 0..2 {
        while bench.window(0) > ByteCount::new(1200) || bench.pump().is_empty() {
            bench.wait_for_timer();
        }
    }
    bench.wait(100);
    // The answer may be to what was sent again.
    bench.sack(1, &[]).unwrap();
    bench.pump();
    bench.wait(1);
    bench.sack(3, &[]).unwrap();
    assert_eq!(bench.outbound.window.to_retransmit().count(), 0);
    let payload = bench.outbound.window.bytes_in_flight();
    assert_eq!(payload, in_flight / 10 * 7, "the rest is in flight");
    let repeated = bench.outbound.window.repeated();
    for next in 4..=10 {
        bench.wait(1);
        bench.sack(next, &[]).unwrap();
        assert!(bench.pump().is_empty());
    }
    assert_eq!(bench.outbound.window.repeated(), repeated);
    assert!(bench.paths.path(PathId::new(0)).unwrap().flight.is_empty());
}

/// As above, but the link has lost one of the packets.
#[test]
fn a_packet_missing_among_late_ones_is_sent_again() {
    let mut bench = Bench::with_rtts(&[50], &config());
    open(&mut bench, 0);
    (0..10).for_each(|_| bench.write(0, FULL));
    bench.pump();
    bench.wait(1000);
    assert_eq!(numbers(&bench.pump()), [0]);
    bench.wait(1);
    bench.sack(4, &[]).unwrap();
    bench.sack(4, &[(5, 9)]).unwrap();
    assert_eq!(numbers(&bench.pump()), [4]);
}

#[test]
fn nothing_waits_on_a_timer_when_nothing_is_to_be_done() {
    let mut bench = Bench::with_rtts(&[50, 20], &config());
    assert_eq!(bench.outbound.poll_timeout(&bench.paths), None);
    (0..4).for_each(|_| bench.write(0, FULL));
    bench.pump();
    bench.wait(20);
    bench.sack(4, &[]).unwrap();
    bench.pump();
    assert_eq!(bench.outbound.poll_timeout(&bench.paths), None);
}

#[test]
fn a_duplicate_shows_that_what_counted_as_lost_was_late() {
    let mut bench = Bench::with_rtts(&[40], &config());
    open(&mut bench, 0);
    (0..10).for_each(|_| bench.write(0, FULL));
    bench.pump();
    let window = bench.window(0);
    bench.wait(40);
    bench.sack(0, &[(1, 9)]).unwrap();
    bench.pump();
    bench.wait(40);
    // The acknowledgement may belong to either copy.
    bench.sack(10, &[]).unwrap();
    assert!(bench.window(0) < window);
    let mut second = bench.sack_of(10, &[]);
    second.duplicates = vec![tsn(9), tsn(0), tsn(0)];
    bench.read(&second).unwrap();
    assert!(bench.window(0) >= window);
}

#[test]
fn what_is_in_flight_on_a_path_that_falls_silent_goes_over_another_before_t3() {
    let mut bench = Bench::with_rtts(&[20, 40], &config());
    (0..4).for_each(|_| bench.write(0, FULL));
    let sent = bench.pump();
    assert!(sent.iter().all(|packet| packet.path == PathId::new(0)));
    let mut copied = Vec::new();
    let mut waited = Duration::ZERO;
    while copied.is_empty() {
        waited += bench.wait_for_timer();
        let sent = bench.pump();
        let others = sent.iter().filter(|it| it.path == PathId::new(1));
        copied.extend(others.flat_map(Sent::numbers));
    }
    assert_eq!(copied, [0, 1, 2, 3]);
    assert!(waited < ms(200), "{waited:?}");
    assert_eq!(bench.status(0), Some(Status::Wait));
    bench.wait(40);
    bench.sack(4, &[]).unwrap();
    assert!(bench.outbound.is_settled());
    assert_eq!((bench.in_flight(0), bench.in_flight(1)), (0, 0));
}

#[test]
fn what_failed_waits_for_a_busy_path_for_a_round_trip_and_no_longer() {
    let mut bench = Bench::with_rtts(&[10, 60], &config());
    (0..80).for_each(|_| bench.write(0, FULL));
    bench.pump();
    bench.wait(10);
    // 1 is not the first of the window; the second path is full.
    bench.sack(1, &[(3, 3)]).unwrap();
    bench.wait(1);
    bench.sack(1, &[(2, 3)]).unwrap();
    let mut waited = Duration::ZERO;
    loop {
        let sent = bench.pump();
        if let Some(packet) = sent.iter().find(|it| it.numbers().contains(&1)) {
            assert_eq!(
                packet.path,
                PathId::new(1),
                "as the first, beyond the window"
            );
            break;
        }
        waited += bench.wait_for_timer();
        assert!(waited < ms(200));
    }
    let mut bench = Bench::with_rtts(&[10, 60], &config());
    (0..80).for_each(|_| bench.write(0, FULL));
    bench.pump();
    bench.wait(15);
    // 0 and 1 failed; 0 goes over the full second path, 1 waits for it.
    bench.sack(0, &[(2, 3)]).unwrap();
    bench.wait(2);
    assert!(
        bench
            .outbound
            .window
            .to_retransmit()
            .any(|chunk| chunk == 1)
    );
    let mut waited = ms(2);
    loop {
        let sent = bench.pump();
        if let Some(packet) = sent.iter().find(|it| it.numbers().contains(&1)) {
            assert_eq!(packet.path, PathId::new(0));
            break;
        }
        let end = bench.outbound.window.end();
        waited += ms(10);
        bench.wait(10);
        // The first path continues, the second one's SACKs are lost.
        let beyond: Vec<_> = (2..end)
            .filter(|chunk| {
                let record = bench.outbound.window.get(*chunk).unwrap();
                record
                    .in_flight
                    .iter()
                    .all(|place| place.path == PathId::new(0))
            })
            .map(|chunk| (chunk, chunk))
            .collect();
        bench.sack(0, &beyond).unwrap();
        assert!(waited < ms(200));
    }
    assert!(waited >= ms(50), "{waited:?}");
}
