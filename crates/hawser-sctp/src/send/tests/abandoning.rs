//! Abandoned messages.

use hawser_wire::sctp::SkippedStream;

use super::*;
use crate::Event;

fn expired(bench: &mut Bench) -> Vec<u16> {
    let mut streams = Vec::new();
    while let Some(event) = bench.outbound.poll_event() {
        if let Event::Abandoned(stream) = event {
            streams.push(stream.value());
        }
    }
    streams
}

#[test]
fn a_message_whose_time_is_over_before_it_was_sent_leaves_no_trace() {
    let mut bench = Bench::with_rtts(&[50], &config());
    (0..10).for_each(|_| bench.write(0, FULL));
    bench.write_limited(1, 500, Reliability::Lifetime(ms(30)));
    bench.write_limited(1, 500, Reliability::Lifetime(ms(300)));
    let held = bench.outbound.held();
    let sent = bench.pump();
    assert!(sent.iter().all(
        |packet| packet.chunks[0].stream.value() == 0 || packet.chunks[0].payload.len() == 500
    ));
    bench.wait(30);
    let gone = expired(&mut bench);
    assert!(gone == [1] || bench.outbound.held() < held, "{gone:?}");
}

#[test]
fn what_was_sent_and_outlived_its_time_is_passed_over_by_the_peer() {
    let mut bench = Bench::with_rtts(&[50], &config());
    bench.write_limited(1, 2 * FULL, Reliability::Lifetime(ms(40)));
    bench.write(2, FULL);
    assert_eq!(bench.pump().len(), 3);
    bench.wait(40);
    assert_eq!(expired(&mut bench), [1]);
    // Streams take turns: chunks 0 and 2 are the message's.
    let forward = bench.outbound.poll_forward_tsn(bench.now).unwrap();
    assert_eq!(forward.cumulative, tsn(0));
    let skipped = SkippedStream {
        stream: StreamNumber::new(1),
        unordered: false,
        last: 0,
    };
    assert_eq!(forward.skipped, [skipped]);
    assert_eq!(bench.outbound.poll_forward_tsn(bench.now), None, "once");
    bench.wait(20);
    bench.sack(2, &[]).unwrap();
    let rest = bench.outbound.poll_forward_tsn(bench.now).unwrap();
    assert_eq!(rest.cumulative, tsn(2));
    assert!(!bench.outbound.is_settled());
    bench.sack(3, &[]).unwrap();
    assert!(bench.outbound.is_settled());
    assert_eq!(bench.in_flight(0), 0);
}

#[test]
fn a_message_given_up_half_sent_is_ended_by_a_number_though_all_that_was_sent_has_arrived() {
    let mut bench = Bench::with_rtts(&[50], &config());
    bench.write_limited(1, 100 * FULL, Reliability::Lifetime(ms(60)));
    let sent = numbers(&bench.pump()).len() as u64;
    assert!(sent < 100);
    bench.wait(50);
    bench.sack(sent, &[]).unwrap();
    bench.wait(10);
    assert_eq!(expired(&mut bench), [1]);
    let forward = bench.outbound.poll_forward_tsn(bench.now).unwrap();
    assert_eq!(forward.cumulative, tsn(sent));
    assert_eq!((forward.skipped.len(), forward.skipped[0].last), (1, 0));
    bench.write(1, 100);
    assert_eq!(numbers(&bench.pump()), [sent + 1]);
    bench.sack(sent + 2, &[]).unwrap();
    assert!(bench.outbound.is_settled());
}

#[test]
fn the_peer_is_told_again_until_it_has_heard() {
    let mut bench = Bench::with_rtts(&[50], &config());
    bench.write_limited(1, FULL, Reliability::Lifetime(ms(40)));
    bench.pump();
    bench.wait(40);
    assert!(bench.outbound.poll_forward_tsn(bench.now).is_some());
    for _ in 0..3 {
        bench.wait_for_timer();
        assert!(bench.outbound.poll_forward_tsn(bench.now).is_some());
    }
    bench.sack(1, &[]).unwrap();
    assert_eq!(bench.outbound.poll_timeout(&bench.paths), None);
}

#[test]
fn a_message_is_given_up_when_it_was_sent_again_often_enough() {
    for retransmissions in [0, 1] {
        let mut bench = Bench::with_rtts(&[50], &config());
        bench.write_limited(1, 100, Reliability::Retransmissions(retransmissions));
        for _ in 0..=retransmissions {
            assert_eq!(numbers(&bench.pump()), [0]);
            bench.wait(5000);
        }
        assert_eq!(expired(&mut bench), [1]);
        assert!(bench.pump().is_empty());
        assert!(bench.outbound.poll_forward_tsn(bench.now).is_some());
    }
}

#[test]
fn what_has_arrived_is_not_given_up_however_late_the_cumulative_tsn_moves() {
    let mut bench = Bench::with_rtts(&[50], &config());
    bench.write(0, FULL);
    bench.write_limited(1, FULL, Reliability::Lifetime(ms(60)));
    bench.pump();
    bench.wait(50);
    bench.sack(0, &[(1, 1)]).unwrap();
    bench.wait(20);
    assert!(expired(&mut bench).is_empty());
    assert_eq!(bench.outbound.poll_forward_tsn(bench.now), None);
}

#[test]
fn with_a_peer_that_does_not_know_it_only_what_was_not_sent_is_given_up() {
    let plain = AssociationConfig {
        partial_reliability: false,
        ..config()
    };
    let mut bench = Bench::with_rtts(&[50], &plain);
    bench.write_limited(1, 4 * FULL, Reliability::Lifetime(ms(40)));
    bench.write_limited(2, 20 * FULL, Reliability::Lifetime(ms(40)));
    bench.write_limited(3, FULL, Reliability::Lifetime(ms(40)));
    assert_eq!(bench.pump().len(), 4);
    bench.wait(40);
    assert!(expired(&mut bench).is_empty(), "all three had begun");
    assert_eq!(bench.outbound.poll_forward_tsn(bench.now), None);
    let mut acknowledged = 4;
    while !bench.outbound.is_settled() {
        bench.sack(acknowledged, &[]).unwrap();
        acknowledged += numbers(&bench.pump()).len() as u64;
        bench.wait(50);
    }
}

#[test]
fn many_streams_are_told_of_in_several_chunks() {
    let mut negotiated = negotiated(&config());
    negotiated.outbound_streams = 1000;
    let mut bench = Bench::with_negotiated(1, &config(), &negotiated);
    super::hostile::open(&mut bench, 0);
    for stream in 0..300 {
        bench.write_limited(stream, 8, Reliability::Lifetime(ms(40)));
    }
    assert_eq!(numbers(&bench.pump()).len(), 300);
    bench.wait(40);
    let (mut told, mut skipped) = (0, 0);
    while let Some(forward) = bench.outbound.poll_forward_tsn(bench.now) {
        skipped += forward.skipped.len();
        assert!(forward.skipped.len() <= 128);
        let next = u64::from(forward.cumulative.since(tsn(0))) + 1;
        bench.sack(next, &[]).unwrap();
        told += 1;
    }
    assert_eq!((told, skipped), (3, 300));
    assert!(bench.outbound.is_settled());
}
